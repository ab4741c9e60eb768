// Two ranks of NCCL on one GPU (each says another NCCL_HOSTID, so that NCCL does not refuse). Rank 1 comes late to every collective by a kernel that spins.
// usage: RANK=r WORLD_SIZE=n two_ranks ID_FILE
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

int main(int, char** argv) {
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
  CHECK(ncclCommInitRank(&comm, size, id, rank));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  float* data;
  const size_t count = 4 << 20;
  CHECK(cudaMalloc(&data, 4 * count * sizeof(float)));
  for (int step = 0; step < 20; ++step) {
    ddl_step_begin(static_cast<uint64_t>(step));
    ddl_layer_begin("alone");
    if (rank == 1) spin<<<1, 1, 0, stream>>>(2000000);
    CHECK(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream));
    ddl_layer_end();
    ddl_layer_begin("fused");
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(data, data, 1000, ncclFloat32, ncclSum, comm, stream));
    CHECK(ncclAllReduce(data + 10000, data + 10000, 3000, ncclFloat32, ncclSum, comm, stream));
    CHECK(ncclGroupEnd());
    ddl_layer_end();
    CHECK(cudaStreamSynchronize(stream));
    ddl_step_end();
  }
  CHECK(ncclCommDestroy(comm));
  std::printf("done\n");
  return 0;
}
