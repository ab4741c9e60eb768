// NCCL's profiler plugin, called as NCCL does: calls of captured graphs, whose graphs may be launched at any time
// later.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "collectors/nccl_profiler_abi.h"
#include "interpose/nccl.h"
#include "tests/interpose/recording.h"

extern "C" const ddl::NcclPlugin<ddl::NcclInit> ncclProfiler_v6;

namespace ddl {
namespace {

constexpr int kKept = 1 << 15;  // calls of graphs that are known for good
constexpr int kTooMany = 100, kCalls = 20'000, kCommunicators = 10'000;

class Nccl {
 public:
  Nccl() {
    int mask = 0;
    ncclProfiler_v6.init(&context_, 42, &mask, "all", 1, 8, 0, nullptr);
  }
  void* call(bool captured) {
    NcclDescriptor event = {};
    event.type = kNcclCollApi;
    event.details.coll_api = {"AllReduce", 1024, "ncclFloat32", 0, nullptr, captured, 0};
    void* handle = nullptr;
    ncclProfiler_v6.start_event(context_, &handle, &event);
    ncclProfiler_v6.stop_event(handle);
    return handle;
  }
  void collective(void* of) {
    NcclDescriptor event = {};
    event.type = kNcclColl;
    event.parent = of;
    event.details.coll = {1, "AllReduce", nullptr, nullptr, 1024, 0, "ncclFloat32", 1, 1, "RING", "LL"};
    void* handle = nullptr;
    ncclProfiler_v6.start_event(context_, &handle, &event);
    if (handle) ncclProfiler_v6.stop_event(handle);
  }

 private:
  void* context_ = nullptr;
};

/// How often the collectives were told of, by their numbers on the communicator.
std::map<uint32_t, int> collectives_of(const SpoolReader& reader) {
  std::map<uint32_t, int> times;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
    std::vector<Record> records;
    reader.read_records(chunk, records);
    for (const Record& record : records) {
      if (record_kind(record.word) == RecordKind::kNcclDetails) ++times[record.sequence];
    }
  }
  return times;
}

TEST(NcclProfiler, KnowsTheCallsOfGraphsAndCountsWhatItHasForgotten) {
  const Recording recording;
  Nccl nccl;
  std::vector<void*> captured;
  for (int i = 0; i < kKept + kTooMany; ++i) captured.push_back(nccl.call(true));
  for (int i = 0; i < kCalls; ++i) nccl.collective(nccl.call(false));
  for (void* handle : captured) nccl.collective(handle);

  // More communicators than the table has slots for, one at a time, whose handles come from all over the memory.
  for (uint64_t i = 1; i <= kCommunicators; ++i) {
    const auto handle = reinterpret_cast<ncclComm_t>(i * 0x9e3779b97f4a7c15ull >> 16 << 4);
    add_nccl_communicator(handle, i, 1, 0, {kOp_ncclCommInitRank, nullptr, 0, 0, 0});
    remove_nccl_communicator(handle);
  }

  const SpoolReader reader = recording.spool();
  EXPECT_EQ(reader.header().loss[kLossCommunicators], 0u);
  EXPECT_EQ(reader.header().loss[kLossNcclEvents], uint64_t{kTooMany});
  const std::map<uint32_t, int> times = collectives_of(reader);
  EXPECT_EQ(times.size(), size_t{kKept + kCalls});
  for (const auto& [number, count] : times) {
    EXPECT_EQ(count, 1) << number;
    EXPECT_TRUE(number <= kKept || number > kKept + kTooMany) << number;
  }
}

}  // namespace
}  // namespace ddl
