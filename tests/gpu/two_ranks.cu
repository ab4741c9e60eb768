// Two ranks of NCCL on one GPU (each says another NCCL_HOSTID, so that NCCL does not refuse). Rank 1 comes late to
// every collective by a kernel that spins.
// usage: RANK=r WORLD_SIZE=n two_ranks ID_FILE [nonblocking|graph|bcast]     graph: a third layer, captured once, replayed in every step; bcast: ten ncclBcast, no more
#include <ddl/annotate.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK(call)                                                                   \
  do {                                                                                \
    if (const auto code = call; code != 0) return std::printf("%s: %d\n", #call, static_cast<int>(code)), 1; \
  } while (0)

__global__ void spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

static ncclResult_t settle(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress) {
    ncclResult_t state;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) return asked;
    if (state != ncclInProgress) result = state;
  }
  return result;
}

int main(int argc, char** argv) {
  const std::string variant = argc > 2 ? argv[2] : "";
  const int rank = std::atoi(std::getenv("RANK")), size = std::atoi(std::getenv("WORLD_SIZE"));
  const std::string path = argv[1], draft = path + ".draft";
  ncclUniqueId id;
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    FILE* out = std::fopen(draft.c_str(), "wb");
    std::fwrite(&id, sizeof id, 1, out);
    std::fclose(out);
    std::rename(draft.c_str(), path.c_str());
  }
  FILE* in = nullptr;
  while (!(in = std::fopen(path.c_str(), "rb"))) usleep(1000);
  if (std::fread(&id, sizeof id, 1, in) != 1) return 1;
  CHECK(cudaSetDevice(0));
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = variant != "nonblocking";
  const ncclResult_t made = ncclCommInitRankConfig(&comm, size, id, rank, &config);
  CHECK(settle(comm, made));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  float* data;
  const size_t count = 4 << 20;
  CHECK(cudaMalloc(&data, 4 * count * sizeof(float)));
  if (variant == "bcast") {
    for (int i = 0; i < 10; ++i) CHECK(ncclBcast(data, count, ncclFloat32, 0, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(ncclCommDestroy(comm));
    return 0;
  }
  cudaGraph_t graph;
  cudaGraphExec_t executable = nullptr;
  if (variant == "graph") {
    ddl_layer_begin("captured");
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    ddl_layer_end();
  }
  for (int step = 0; step < 20; ++step) {
    ddl_step_begin(static_cast<uint64_t>(step));
    ddl_layer_begin("alone");
    // 20 ms: longer than the turns that two processes take on a GPU
    if (rank == 1) spin<<<1, 1, 0, stream>>>(40000000);
    CHECK(settle(comm, ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream)));
    ddl_layer_end();
    ddl_layer_begin("fused");
    CHECK(ncclGroupStart());
    const auto queued = [](ncclResult_t result) { return result == ncclInProgress ? ncclSuccess : result; };
    CHECK(queued(ncclAllReduce(data, data, 1000, ncclFloat32, ncclSum, comm, stream)));
    CHECK(queued(ncclAllReduce(data + 10000, data + 10000, 3000, ncclFloat32, ncclSum, comm, stream)));
    CHECK(settle(comm, ncclGroupEnd()));
    ddl_layer_end();
    if (executable) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    ddl_step_end();
  }
  if (executable) {  // a communicator waits at its end for the graphs that captured it
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
  }
  CHECK(ncclCommDestroy(comm));
  std::printf("done\n");
  return 0;
}
