// The collectives of windows_bench.cpp with MPI; that program reads the output.
//
//   mpirun -n P mpi_collectives REPETITIONS BYTES...
//
// Prints a line for each operation and size: name, bytes, and the slowest rank's median in
// microseconds.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* const names[] = {"all_reduce", "reduce_scatter", "all_gather"};
  int* const counts = malloc(sizeof(int) * (size_t)size);
  int* const begins = malloc(sizeof(int) * (size_t)size);
  for (int s = 2; s < argc; ++s) {
    const long bytes = atol(argv[s]);
    const int n = (int)(bytes / 4);
    const int most = atoi(argv[1]), times = bytes > (4 << 20) ? (most + 9) / 10 : most;
    float* const from = malloc((size_t)bytes);
    float* const to = malloc((size_t)bytes);
    double* const took = malloc(sizeof(double) * (size_t)times);
    for (int i = 0; i < n; ++i)
      from[i] = to[i] = (float)rank;
    for (int r = 0; r < size; ++r) {
      begins[r] = (int)((long)n * r / size);
      counts[r] = (int)((long)n * (r + 1) / size) - begins[r];
    }
    for (int op = 0; op < 3; ++op) {
      for (int i = -3; i < times; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        if (op == 0)
          MPI_Allreduce(from, to, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else if (op == 1)
          MPI_Reduce_scatter(from, to, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else
          MPI_Allgatherv(
              from, counts[rank], MPI_FLOAT, to, counts, begins, MPI_FLOAT, MPI_COMM_WORLD);
        const double mine = (MPI_Wtime() - begin) * 1e6;
        double slowest = 0;
        MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (i >= 0)
          took[i] = slowest;
      }
      qsort(took, (size_t)times, sizeof(double), ascending);
      if (rank == 0)
        printf("%s %ld %.3f\n", names[op], bytes, took[times / 2]);
    }
    free(took);
    free(to);
    free(from);
  }
  MPI_Finalize();
  return 0;
}
