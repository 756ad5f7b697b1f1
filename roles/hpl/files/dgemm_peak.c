/* Every rank multiplies matrices of its own at the same time: the rate that HPL's inner loop could reach on these nodes
 * if nothing else cost anything. Usage: dgemm_peak <n> <seconds>. Prints one line, for rank 0:
 *   DGEMM ranks=R n=N gflops_sum=S gflops_min=A gflops_max=B
 * Each rank also checks one entry in every row of the product against a dot product, and a wrong one is an error.
 */
#include <cblas.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double *matrix(int n, unsigned seed)
{
    double *m = malloc(sizeof *m * n * n);
    if (!m) { fprintf(stderr, "dgemm_peak: no memory for a %d x %d matrix\n", n, n); MPI_Abort(MPI_COMM_WORLD, 3); }
    for (size_t i = 0; i < (size_t)n * n; i++) { seed = seed * 1664525u + 1013904223u; m[i] = seed / 4294967296.0 - 0.5; }
    return m;
}

static void check(int n, const double *a, const double *b, const double *c)
{
    for (int i = 0; i < n; i++) {
        int j = (int)((i * 7919L + 13) % n);
        double want = 0;
        for (int k = 0; k < n; k++) want += a[(size_t)i * n + k] * b[(size_t)k * n + j];
        if (!(fabs(want - c[(size_t)i * n + j]) <= 1e-10 * n)) {
            fprintf(stderr, "dgemm_peak: C[%d][%d] is %.17g, a dot product gives %.17g: this BLAS computes wrong results here\n",
                    i, j, c[(size_t)i * n + j], want);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, ranks, runs = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int n = argc > 1 ? atoi(argv[1]) : 0;
    double limit = argc > 2 ? atof(argv[2]) : 0;
    if (n < 1 || !(limit > 0)) {
        if (rank == 0) fprintf(stderr, "usage: dgemm_peak <n> <seconds>\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double *a = matrix(n, 1u + rank), *b = matrix(n, 77u + rank), *c = matrix(n, 5u);
    /* the first product wakes the cores and the BLAS's threads, and is the one that is checked */
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
    check(n, a, b, c);

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), elapsed;
    do {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
        runs++;
        elapsed = MPI_Wtime() - start;
    } while (elapsed < limit);

    double rate = 2.0 * n * n * n * runs / elapsed / 1e9, sum, low, high;
    MPI_Reduce(&rate, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&rate, &low, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&rate, &high, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("DGEMM ranks=%d n=%d gflops_sum=%.3f gflops_min=%.3f gflops_max=%.3f\n", ranks, n, sum, low, high);
    MPI_Finalize();
    return 0;
}
