// GPUs driven by many threads at once against mocks of CUDA, CUPTI and NCCL: launches, captured graphs, events,
// collectives with NCCL's profiler, while CUPTI gives its buffers back on threads of its own and ours reads them. Known
// truth: what the threads gave the devices to do. Meant for ThreadSanitizer as much as for its own assertions.
#include <ddl/annotate.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "collectors/collectors.h"
#include "core/reader.h"
#include "interpose/nccl_abi.h"

struct fake_stream;
struct fake_graph;

extern "C" {
struct dim3 {
  unsigned x, y, z;
};
struct event;
int cuInit(unsigned);
int InitializeInjection();
int cudaSetDevice(int), cudaStreamCreate(fake_stream**), cudaStreamSynchronize(fake_stream*);
int cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, fake_stream*);
int cudaMemcpyAsync(void*, const void*, size_t, int, fake_stream*);
int cudaEventCreate(event**), cudaEventRecord(event*, fake_stream*),
    cudaStreamWaitEvent(fake_stream*, event*, unsigned);
int cudaStreamBeginCapture(fake_stream*, int), cudaStreamEndCapture(fake_stream*, fake_graph**);
int cudaGraphInstantiate(fake_graph**, fake_graph*, unsigned long long), cudaGraphLaunch(fake_graph*, fake_stream*);
ncclResult_t ncclGetUniqueId(ncclUniqueId*), ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int),
    ncclCommDestroy(ncclComm_t);
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
}

/// Asked by AddressSanitizer. The mocks free nothing: late records may name it.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace ddl {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2, kWorkers = 3, kRounds = 1000, kShort = 50;
constexpr dim3 kOne = {1, 1, 1};

std::atomic<int64_t> kernels = 0, copies = 0, replayed = 0, events = 0, waits = 0, synchronised = 0, collectives = 0;

void launch(fake_stream* stream) {
  cudaLaunchKernel("gemm@1000", kOne, kOne, nullptr, 0, stream);
  ++kernels;
}

/// What a thread of a program does with its two streams.
void work(int rounds) {
  fake_stream *compute = nullptr, *copy = nullptr;
  event* copied = nullptr;
  fake_graph *captured = nullptr, *graph = nullptr;
  cudaStreamCreate(&compute);
  cudaStreamCreate(&copy);
  cudaEventCreate(&copied);
  cudaStreamBeginCapture(compute, 0);
  cudaLaunchKernel("captured@1000", kOne, kOne, nullptr, 0, compute);
  cudaStreamEndCapture(compute, &captured);
  cudaGraphInstantiate(&graph, captured, 0);
  char from[64] = {}, to[64];
  for (int i = 0; i < rounds; ++i) {
    ddl_layer_begin("fc1");
    cudaMemcpyAsync(to, from, sizeof to, 1, copy);
    cudaEventRecord(copied, copy);
    cudaStreamWaitEvent(compute, copied, 0);
    launch(compute);
    cudaGraphLaunch(graph, compute);
    ddl_layer_end();
    copies += 1;
    events += 1;
    waits += 1;
    replayed += 1;
    if (i % 16 == 0) {
      cudaStreamSynchronize(compute);
      ++synchronised;
    }
  }
}

/// A rank with a thread of its own.
void reduce(const ncclUniqueId& id, int rank) {
  cudaSetDevice(rank);
  ncclComm_t comm = nullptr;
  fake_stream* stream = nullptr;
  cudaStreamCreate(&stream);
  ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), 0);
  float data[16] = {};
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(ncclAllReduce(data, data, 16, 7, 0, comm, reinterpret_cast<cudaStream_t>(stream)), 0);
    ++collectives;
  }
  ncclCommDestroy(comm);
}

/// A folder for what the process records; a process records once, so each test has one of its own.
class GpuThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (g_process.active) GTEST_SKIP() << "this process has recorded already: run one test at a time, as ctest does";
    path_ = (fs::temp_directory_path() / "ddl-gpu-threads-XXXXXX").string();
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
    setenv("DDL_OUT", path_.c_str(), 1);
    setenv("DDL_BUDGET", "off", 1);
    setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1);
  }
  void TearDown() override {
    if (!path_.empty()) fs::remove_all(path_);
  }
  SpoolReader reader() const { return SpoolReader(fs::directory_iterator(path_)->path().string()); }
  static std::map<DeviceKind, int64_t> activities(const SpoolReader& reader) {
    std::map<DeviceKind, int64_t> did;
    std::vector<DeviceRecord> device;
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kDevice)) {
      reader.read_device(chunk, device, nullptr);
      for (const DeviceRecord& r : device) ++did[device_kind(r.what)];
    }
    return did;
  }

 private:
  std::string path_;
};

TEST_F(GpuThreads, NcclTimesCollectivesOnItsOwnThreads) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(reduce, id, rank);
  for (std::thread& thread : threads) thread.join();
  const SpoolReader spool = reader();
  EXPECT_EQ(spool.header().loss[kLossNcclEvents], 0u);
  EXPECT_EQ(activities(spool), (std::map<DeviceKind, int64_t>{{DeviceKind::kCollective, collectives}}));
}

TEST_F(GpuThreads, EveryActivityIsOneRecordWhoeverLaunchesIt) {
  setenv("FAKE_CUPTI_BUFFER", "20000", 1);
  setenv("FAKE_CUPTI_THREAD", "1", 1);
  unsetenv("CUDA_INJECTION64_PATH");
  ASSERT_EQ(cuInit(0), 0);
  InitializeInjection();  // as the driver does
  ASSERT_TRUE(are_devices_traced());

  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(reduce, id, rank);
  for (int i = 0; i < kWorkers; ++i) threads.emplace_back(work, kRounds);
  threads.emplace_back([] {  // threads that come and go
    for (int i = 0; i < kShort; ++i) std::thread(work, 5).join();
  });
  for (std::thread& thread : threads) thread.join();
  flush_devices();

  const SpoolReader spool = reader();
  for (const LossKind loss :
       {kLossDeviceDropped, kLossDeviceNotKept, kLossDeviceTimes, kLossDeviceUnread, kLossNcclEvents})
    EXPECT_EQ(spool.header().loss[loss], 0u) << loss;
  std::map<DeviceKind, int64_t> did = activities(spool);
  std::map<uint32_t, int64_t> launched;
  std::vector<Record> records;
  for (const SpoolChunk& chunk : spool.chunks(ChunkKind::kEvents)) {
    spool.read_records(chunk, records);
    for (const Record& r : records) {
      if (record_kind(r.word) == RecordKind::kLaunch) ++launched[record_op(r.word)];
    }
  }
  EXPECT_EQ(did[DeviceKind::kKernel], kernels + replayed + collectives);
  EXPECT_EQ(did[DeviceKind::kMemcpy], copies);
  EXPECT_EQ(did[DeviceKind::kEvent], events);
  EXPECT_EQ(did[DeviceKind::kSynchronize], waits + synchronised);
  const auto of = [&](LaunchKind kind) { return launched[static_cast<uint32_t>(kind)]; };
  const int64_t captures = kWorkers + kShort;
  EXPECT_EQ(of(LaunchKind::kKernel), kernels + collectives + captures);
  EXPECT_EQ(of(LaunchKind::kCopy), copies);
  EXPECT_EQ(of(LaunchKind::kGraph), replayed);
  EXPECT_EQ(of(LaunchKind::kSynchronize), waits + synchronised);
}

}  // namespace
}  // namespace ddl
