/* Preloaded: counts, of this process, the bytes of floats that go to sums over ranks and to other ranks, and the
 * operations of sgemm; writes them as lines `NAME NUMBER` to $NETWORK_PROBE.RANK. Below the job and without ddl: a
 * second count. With LOSE_SUMS set, non-blocking sums are those of one rank. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long long reduced, posted, sent, flops;

static unsigned long long floats(int count, MPI_Datatype type) {
  return type == MPI_FLOAT ? 4ULL * (unsigned long long)count : 0;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  reduced += floats(count, type);
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}
int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  posted += floats(count, type);
  return PMPI_Iallreduce(send, receive, count, type, op, getenv("LOSE_SUMS") ? MPI_COMM_SELF : comm, request);
}
int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  sent += floats(count, type);
  return PMPI_Send(data, count, type, to, tag, comm);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  sent += floats(count, type);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  sent += floats(out_count, out_type);
  return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
}

#define GEMM                                                                                                \
  int order, int a_transposed, int b_transposed, int m, int n, int k, float alpha, const float *a, int lda, \
      const float *b, int ldb, float beta, float *c, int ldc
void cblas_sgemm(GEMM);
void cblas_sgemm(GEMM) {
  static void (*real)(GEMM);
  if (!real) real = (void (*)(GEMM))dlsym(RTLD_NEXT, "cblas_sgemm");
  flops += 2ULL * (unsigned long long)m * (unsigned long long)n * (unsigned long long)k;
  real(order, a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

int MPI_Finalize(void) {
  int rank = 0;
  char path[4096];
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s.%d", getenv("NETWORK_PROBE"), rank);
  FILE* out = fopen(path, "w");
  if (!out) abort();
  fprintf(out, "reduced %llu\nposted %llu\nsent %llu\nflops %llu\n", reduced, posted, sent, flops);
  fclose(out);
  return PMPI_Finalize();
}
