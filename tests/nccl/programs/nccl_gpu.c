/* Two layers a step on one stream against the mocks of CUDA and NCCL: a kernel that takes longer on higher ranks, then
 * an AllReduce; a kernel that takes longer on lower ranks, then three collectives in one group. The mock of NCCL logs
 * what it did. usage: nccl_gpu STEPS [graph] graph: a third layer, captured once, replayed in every step. */
#include <ddl/annotate.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_api.h"
#include "tests/mocks/fake_cuda.h"

struct dim3 {
  unsigned x, y, z;
};
extern int cudaStreamCreate(struct fake_stream**), cudaStreamSynchronize(struct fake_stream*);
extern int cudaLaunchKernel(const void*, struct dim3, struct dim3, void**, size_t, struct fake_stream*);
extern int cudaStreamBeginCapture(struct fake_stream*, int),
    cudaStreamEndCapture(struct fake_stream*, struct fake_graph**);
extern int cudaGraphInstantiate(struct fake_graph**, struct fake_graph*, unsigned long long),
    cudaGraphLaunch(struct fake_graph*, struct fake_stream*);

static void launch(const char* kernel, struct fake_stream* stream) {
  const struct dim3 one = {1, 1, 1};
  cudaLaunchKernel(kernel, one, one, NULL, 0, stream);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int steps = argc > 1 ? atoi(argv[1]) : 3, graph = argc > 2 && !strcmp(argv[2], "graph");
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static float send[4000], receive[8000];
  for (int i = 0; i < 4000; ++i) send[i] = (float)(rank + 1);
  struct fake_stream* stream;
  cudaStreamCreate(&stream);
  ncclUniqueId id;
  if (rank == 0) ncclGetUniqueId(&id);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm;
  ncclCommInitRank(&comm, size, id, rank);
  struct fake_graph *captured = NULL, *executable = NULL;
  if (graph) {
    ddl_layer_begin("captured");
    cudaStreamBeginCapture(stream, 0);
    ncclAllReduce(send, receive, 500, 7, 0, comm, stream);
    cudaStreamEndCapture(stream, &captured);
    cudaGraphInstantiate(&executable, captured, 0);
    ddl_layer_end();
  }
  for (int step = 0; step < steps; ++step) {
    ddl_step_begin((uint64_t)step);
    ddl_layer_begin("dense");
    launch(rank == 0 ? "gemm@200000" : "gemm@260000", stream);
    ncclAllReduce(send, receive, 4000, 7, 0, comm, stream);
    ddl_layer_end();
    ddl_layer_begin("embedding");
    launch(rank == 0 ? "scatter@150000" : "scatter@100000", stream);
    ncclGroupStart();
    ncclReduceScatter(send, receive, 1000, 7, 0, comm, stream);
    ncclAllGather(send, receive, 500, 7, comm, stream);
    ncclBroadcast(send, receive, 3000, 7, 0, comm, stream);
    ncclGroupEnd();
    ddl_layer_end();
    if (graph) cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    ddl_step_end();
  }
  printf("rank %d: %g\n", rank, (double)receive[0]);
  ncclCommDestroy(comm);
  MPI_Finalize();
  return 0;
}
