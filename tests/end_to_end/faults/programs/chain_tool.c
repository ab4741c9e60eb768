/* Another PMPI tool in the chain, built twice: it forwards to the next MPI_X (dlsym RTLD_NEXT), or with -DDIRECT to
 * PMPI_X as most tools do. Counts three operations and writes them to $CHAIN_COUNTS at MPI_Finalize. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long allreduce, isend, waitall;

#ifdef DIRECT
#define NEXT(name) PMPI_##name
#else
#define NEXT(name) ((__typeof__(&MPI_##name))dlsym(RTLD_NEXT, "MPI_" #name))
#endif

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  ++allreduce;
  return NEXT(Allreduce)(in, out, count, datatype, op, comm);
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype datatype, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++isend;
  return NEXT(Isend)(buffer, count, datatype, to, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  ++waitall;
  return NEXT(Waitall)(count, requests, statuses);
}

int MPI_Finalize(void) {
  const char* name = getenv("CHAIN_COUNTS");
  if (name) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", name, (int)getpid());
    FILE* out = fopen(path, "w");
    fprintf(out, "MPI_Allreduce %lu\nMPI_Isend %lu\nMPI_Waitall %lu\n", allreduce, isend, waitall);
    fclose(out);
  }
  return NEXT(Finalize)();
}
