// Messages between the stages of a pipeline, in one process group of all of them, as PyTorch 2.5 and later trace them:
// each a kernel of its own, with the other rank's number. The test writes the traces: who began when is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/import/imported.h"

namespace ddl::test {
namespace {

constexpr int kStages = 4, kTracedSteps = 4, kMicrobatches = 3;
constexpr int64_t kTracedStepNs = 10'000'000, kSlotNs = 200'000, kMessageNs = 40'007;

enum class Told {
  kByKernel,
  kAroundLaunch,  ///< record_param_comms has the metadata, the kernel none
  kNoPeer,        ///< PyTorch up to 2.4
  kNothing,       ///< batch_isend_irecv: kernels are launched behind the ranges that have metadata
};

/// When a rank begins its part of a message: each in another order.
int64_t lateness_ns(int rank, int step, int slot) { return ((rank * 5 + step * 3 + slot * 7) % 11) * 9'001; }

/// A step: activations go from stage to stage, each message in a slot of its own, then gradients come back.
struct Message {
  int slot = 0, from = 0, to = 0;
};
std::vector<Message> messages_of_step() {
  std::vector<Message> messages;
  for (int m = 0; m < kMicrobatches; ++m)
    for (int stage = 0; stage + 1 < kStages; ++stage)
      messages.push_back({static_cast<int>(messages.size()), stage, stage + 1});
  for (int m = 0; m < kMicrobatches; ++m)
    for (int stage = kStages - 1; stage > 0; --stage)
      messages.push_back({static_cast<int>(messages.size()), stage, stage - 1});
  return messages;
}

std::string stamp(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string stage_trace(int rank, Told told) {
  std::string events;
  const auto add = [&](const char* category, const std::string& name, int tid, int64_t start_ns, int64_t end_ns,
                       const std::string& args) {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 9, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
        events.empty() ? "" : ",\n", category, name, tid, stamp(start_ns), stamp(end_ns - start_ns), args);
  };
  int correlation = 0;
  for (int step = 1; step <= kTracedSteps; ++step) {
    const int64_t t = step * kTracedStepNs;
    add("user_annotation", fmt::format("ProfilerStep#{}", step), 9, t, t + kTracedStepNs, "");
    for (const Message& m : messages_of_step()) {
      if (m.from != rank && m.to != rank) continue;
      const bool sends = m.from == rank;
      const int peer = sends ? m.to : m.from;
      const int64_t slot_ns = t + 2'000'000 + m.slot * kSlotNs, host_ns = t + 10'000 + m.slot * 20'000;
      const int64_t begin_ns = slot_ns + lateness_ns(rank, step, m.slot),
                    end_ns = slot_ns + std::max(lateness_ns(rank, step, m.slot), lateness_ns(peer, step, m.slot)) +
                             kMessageNs;
      std::string said;
      if (told != Told::kNothing)
        said = fmt::format(
            R"(, "Collective name": "{}", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": {}, "dtype": "BFloat16",)"
            R"( "Process Group Name": "7", "Process Group Description": "PIPELINE_MODEL_PARALLEL_GROUP",)"
            R"( "Process Group Ranks": "[0, 1, 2, 3]", "Rank": {})",
            sends ? "send" : "recv", kStages, peer);
      if (told == Told::kByKernel || told == Told::kAroundLaunch)
        said += fmt::format(R"(, "{} Rank": {})", sends ? "Dst" : "Src", peer);
      const bool around = told == Told::kAroundLaunch;
      if (around) add("cpu_op", "record_param_comms", 9, host_ns, host_ns + 15'000, said.substr(2));
      add("cuda_runtime", "cudaLaunchKernelExC", 9, host_ns + 5'000, host_ns + 9'000,
          fmt::format(R"("correlation": {})", ++correlation));
      // Torch has a stream for each pair.
      const int stream = 20 + std::min(rank, peer);
      add("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", stream, begin_ns, end_ns,
          fmt::format(R"("device": {}, "context": 1, "stream": {}, "correlation": {}{})", rank, stream, correlation,
                      around ? "" : said));
    }
  }
  return fmt::format(
      R"({{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}}, "traceEvents": [{}]}})",
      rank, kStages, events);
}

Imported::Files stages(Told told, const std::set<int>& missing = {}) {
  Imported::Files files;
  for (int rank = 0; rank < kStages; ++rank)
    if (!missing.contains(rank)) files.emplace_back(fmt::format("rank{}.json", rank), stage_trace(rank, told));
  return files;
}

int64_t waited_ns(int rank, int step) {
  int64_t ns = 0;
  for (const Message& m : messages_of_step()) {
    if (m.from != rank && m.to != rank) continue;
    const int peer = m.from == rank ? m.to : m.from;
    ns += std::max<int64_t>(0, lateness_ns(peer, step, m.slot) - lateness_ns(rank, step, m.slot));
  }
  return ns;
}

class PipelineMessages : public ::testing::TestWithParam<Told> {};

TEST_P(PipelineMessages, AreMatchedByTheOtherRank) {
  Imported run("kineto", stages(GetParam()), true);
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0) << run.text("SELECT group_concat(note) FROM loss");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(label || ' ' || size, ', ') FROM (SELECT * FROM communicator WHERE size = 2 ORDER BY label)"),
      "PIPELINE_MODEL_PARALLEL_GROUP 0-1 2, PIPELINE_MODEL_PARALLEL_GROUP 1-2 2, PIPELINE_MODEL_PARALLEL_GROUP 2-3 2");
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT axis) FROM gpu_axis_part"), "pipeline");
  for (int rank = 0; rank < kStages; ++rank) {
    const int messages = kMicrobatches * (rank == 0 || rank == kStages - 1 ? 2 : 4);
    for (int step = 1; step <= kTracedSteps; ++step) {
      const auto ns = [&](const char* column) {
        return run.integer(fmt::format("SELECT {} FROM v_gpu_part WHERE rank = {} AND step = {}", column, rank, step));
      };
      SCOPED_TRACE(fmt::format("rank {}, step {}", rank, step));
      EXPECT_EQ(ns("wait_ns"), waited_ns(rank, step));
      EXPECT_EQ(ns("comm_ns"), waited_ns(rank, step) + messages * kMessageNs);
      EXPECT_EQ(ns("why IS NULL"), 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kineto, PipelineMessages, ::testing::Values(Told::kByKernel, Told::kAroundLaunch));

TEST(PipelineMessagesTest, WithoutTheOtherRankAreNotSplit) {
  constexpr int kKernels = kTracedSteps * kMicrobatches * 2 * (kStages - 1) * 2;
  for (const Told told : {Told::kNoPeer, Told::kNothing}) {
    Imported run("kineto", stages(told), true);
    EXPECT_EQ(
        run.integer("SELECT count(*) FROM v_gpu_part WHERE step IS NOT NULL AND wait_ns IS NULL AND why = 'NO_DATA'"),
        kStages * kTracedSteps)
        << "all ranks are there";
    EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'nccl_kernels'"), kKernels);
    EXPECT_EQ(run.integer("SELECT count(*) FROM loss WHERE note LIKE '%messages whose peers the trace does not tell%'"),
              told == Told::kNoPeer ? 1 : 0);
  }
}

TEST(PipelineMessagesTest, OfAMissingRankAreNotSplit) {
  Imported run("kineto", stages(Told::kByKernel, {3}), true);
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT why) FROM v_gpu_part WHERE rank = 2"), "PARTIAL_RANKS");
  for (const int rank : {0, 1})
    EXPECT_EQ(run.integer(fmt::format("SELECT wait_ns FROM v_gpu_part WHERE rank = {} AND step = 2", rank)),
              waited_ns(rank, 2));
}

}  // namespace
}  // namespace ddl::test
