/* A main for the HPL inside hpcc, where HPL is a function of a larger program. */
#include <hpcc.h>

/* hpcc falls back to built-in sizes when its input is missing or wrong. A benchmark must not: it stops and says so. */
int HPCC_Defaults(HPL_T_test *TEST, int *NS, int *N, int *NBS, int *NB, HPL_T_ORDER *PMAPPIN, int *NPQS, int *P, int *Q,
                  int *NPFS, HPL_T_FACT *PF, int *NBMS, int *NBM, int *NDVS, int *NDV, int *NRFS, HPL_T_FACT *RF,
                  int *NTPS, HPL_T_TOP *TP, int *NDHS, int *DH, HPL_T_SWAP *FSWAP, int *TSWAP, int *L1NOTRAN,
                  int *UNOTRAN, int *EQUIL, int *ALIGN, MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) fprintf(stderr, "HPL.dat is missing from the working folder or has an illegal value: nothing was run\n");
    MPI_Abort(comm, 2);
    return 2;
}

int main(int argc, char **argv)
{
    HPL_RuntimeData result;
    int failure = 0;
    MPI_Init(&argc, &argv);
    HPL_main(argc, argv, &result, &failure);
    MPI_Finalize();
    return failure;
}
