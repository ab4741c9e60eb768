/* Preloaded: counts which allreduce of Open MPI ran, by the functions that its component `tuned` calls in libmpi, and
 * appends a line `NAME CALLS LAST_SEGMENT` for each to $ALGORITHM_PROBE at exit. With SPOIL_SUMS set, every local
 * reduction is wrong by one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINEAR, NONOVERLAPPING, DOUBLING, RING, SEGMENTED, RABENSEIFNER, KINDS };
static const char* const names[KINDS] = {"basic_linear", "nonoverlapping", "recursive_doubling",
                                         "ring",         "segmented_ring", "rabenseifner"};
static unsigned long calls[KINDS];
static uint32_t last_segment;

#define ARGUMENTS const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, void *module
#define COUNTED(kind, function)                                               \
  int function(ARGUMENTS) {                                                   \
    int (*real)(ARGUMENTS) = (int (*)(ARGUMENTS))dlsym(RTLD_NEXT, #function); \
    ++calls[kind];                                                            \
    return real(send, receive, count, type, op, comm, module);                \
  }
COUNTED(LINEAR, ompi_coll_base_allreduce_intra_basic_linear)
COUNTED(NONOVERLAPPING, ompi_coll_base_allreduce_intra_nonoverlapping)
COUNTED(DOUBLING, ompi_coll_base_allreduce_intra_recursivedoubling)
COUNTED(RING, ompi_coll_base_allreduce_intra_ring)
COUNTED(RABENSEIFNER, ompi_coll_base_allreduce_intra_redscat_allgather)

int ompi_coll_base_allreduce_intra_ring_segmented(ARGUMENTS, uint32_t segment) {
  int (*real)(ARGUMENTS, uint32_t) =
      (int (*)(ARGUMENTS, uint32_t))dlsym(RTLD_NEXT, "ompi_coll_base_allreduce_intra_ring_segmented");
  ++calls[SEGMENTED];
  last_segment = segment;
  return real(send, receive, count, type, op, comm, module, segment);
}

int MPI_Reduce_local(const void* in, void* inout, int count, MPI_Datatype type, MPI_Op op) {
  int result = PMPI_Reduce_local(in, inout, count, type, op);
  if (getenv("SPOIL_SUMS") && type == MPI_FLOAT) *(float*)inout += 1;
  return result;
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("ALGORITHM_PROBE");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  for (int i = 0; i < KINDS; ++i) {
    if (calls[i] > 0) fprintf(file, "%s %lu %u\n", names[i], calls[i], i == SEGMENTED ? last_segment : 0);
  }
  fclose(file);
}
