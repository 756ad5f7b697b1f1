/* The HPL inside hpcc calls two MPI-1 functions that MPI-3 removed. Their successors take the same arguments. */
#include <mpi.h>
#undef MPI_Address
#undef MPI_Type_struct
#define MPI_Address MPI_Get_address
#define MPI_Type_struct MPI_Type_create_struct
