// What a running job's GPUs did: joined from records that come in any order, cut when all has come, and not known
// where it has not.
#include "tui/devices.h"

#include <gtest/gtest.h>

#include "tui/observer.h"
#include "tui/spool_devices.h"
#include "tui/steps.h"

namespace ddl::test {
namespace {

using tui::DeviceWork;
using tui::EndedStep;

constexpr uint64_t kStart = 1'000'000, kStepTicks = 1'000'000;  // ticks are ns
constexpr uint32_t kNcclOp = 2048, kComm = 7;

/// Two ranks of NCCL on one host, no records yet.
tui::Job job_of_two() {
  tui::Job job;
  job.world_size = 2;
  job.operations.push_back({describe_operation("ncclAllReduce", "all_to_all", true), {}});
  job.operations.push_back({describe_operation("ncclBroadcast", "root_to_all", true), {}});
  tui::JobCommunicator comm;
  comm.label = "ncclCommInitRank#1";
  comm.size = 2;
  comm.ranks = {0, 1};
  comm.comparable = true;
  job.communicators.push_back(comm);
  for (int32_t r = 0; r < 2; ++r) {
    tui::Rank rank;
    rank.rank = r;
    rank.life = tui::Life::kRunning;
    rank.begin_ticks = 1;
    job.ranks.push_back(rank);
  }
  return job;
}

EndedStep step_of(uint64_t number) {
  EndedStep step;
  step.number = number;
  step.start_ticks = kStart + number * kStepTicks;
  step.end_ticks = step.start_ticks + kStepTicks;
  return step;
}

DeviceRecord kernel(uint64_t start, uint64_t end, uint32_t correlation, uint32_t name = 0) {
  DeviceRecord r = {};
  r.start = start;
  r.end = end;
  r.what = device_what(DeviceKind::kKernel, 0, 0, 0, 0);
  r.correlation = correlation;
  r.name = name;
  r.context = kContextOfLaunch;
  return r;
}

Record launch(uint64_t start, uint32_t correlation, uint32_t sequence = kNoSequence) {
  Record r = {};
  r.start_ticks = start;
  r.word = record_word(RecordKind::kLaunch, static_cast<uint32_t>(LaunchKind::kKernel), 5);
  r.payload = correlation;
  r.comm = sequence == kNoSequence ? kNoComm : kComm;
  r.sequence = sequence;
  return r;
}

Record call(uint32_t sequence, uint64_t bytes) {
  Record r = {};
  r.start_ticks = kStart;
  r.word = record_word(RecordKind::kCall, kNcclOp, 5);
  r.payload = record_payload(bytes, 0, 0);
  r.comm = kComm;
  r.sequence = sequence;
  r.peer = -1;
  return r;
}

/// The spools of both ranks.
struct Spools {
  Spools() {
    for (int32_t r = 0; r < 2; ++r) of[r].on_communicator(kComm, 0, r);
  }
  void join(tui::Job& job) {
    for (int32_t r = 0; r < 2; ++r) of[r].join(job, job.ranks[static_cast<size_t>(r)]);
  }
  std::unordered_map<uint32_t, std::string> strings = {{1, "gemm"}, {2, "ncclDevKernel_AllReduce"}};
  tui::NcclSizes sizes;
  tui::SpoolDevices of[2] = {{sizes, strings}, {sizes, strings}};
};

/// In a step of 1 ms rank 0 computes for 300 us and rank 1 for 500; their collective transfers for 200 us.
void add_step(Spools& spools, uint64_t number) {
  const uint64_t begin = kStart + number * kStepTicks;
  const auto sequence = static_cast<uint32_t>(number + 1), correlation = static_cast<uint32_t>(2 * number + 1);
  for (int32_t r = 0; r < 2; ++r) {
    tui::SpoolDevices& spool = spools.of[r];
    const uint64_t computed = begin + (r == 0 ? 300'000 : 500'000);
    spool.take_call(call(sequence, 4000), 0, 0, tui::kNone);
    spool.take(kernel(computed, begin + 700'000, correlation + 1, 2));  // what comes first is not what was first
    spool.take(kernel(begin, computed, correlation, 1));
    spool.take_launch(launch(begin, correlation));
    spool.take_launch(launch(begin + 10, correlation + 1, sequence));
  }
}

TEST(Devices, AreJoinedAndCut) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Observer observer;
  for (uint64_t number = 0; number < 4; ++number) {
    add_step(spools, number);
    for (tui::Rank& rank : job.ranks) rank.steps.push_back(step_of(number));
  }
  job.now_ns = static_cast<int64_t>(kStart + 4 * kStepTicks);
  spools.join(job);
  const tui::Snapshot s = observer.look(job, false);
  ASSERT_EQ(s.window, 4u);
  EXPECT_TRUE(s.by_device);
  EXPECT_TRUE(s.waiting_known);
  ASSERT_TRUE(s.shares);
  EXPECT_DOUBLE_EQ((*s.shares)[tui::kCompute], 0.4);
  EXPECT_DOUBLE_EQ((*s.shares)[tui::kWaiting], 0.1);
  EXPECT_DOUBLE_EQ((*s.shares)[tui::kTransfer], 0.2);
  EXPECT_DOUBLE_EQ((*s.shares)[tui::kIdle], 0.3);
  EXPECT_EQ(s.ranks[0].wait_ns, 200'000);
  EXPECT_EQ(s.ranks[1].wait_ns, 0);
  EXPECT_EQ(s.ranks[1].late_ns, 200'000);
  ASSERT_EQ(s.collectives.size(), 1u);
  EXPECT_EQ(s.collectives[0].time_ns, 300'000);
  EXPECT_EQ(s.collectives[0].wait_ns, 100'000);
  EXPECT_EQ(s.collectives[0].bytes, 4000);
  ASSERT_EQ((s.blame.count({1, 0})), 1u);
  EXPECT_EQ(s.blame.at({1, 0}), 200'000);
}

/// Two collectives of one group share a kernel: it waits once, and each gets its share, by what it moves.
TEST(Devices, ShareAKernelByWhatTheyMove) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Observer observer;
  for (int32_t r = 0; r < 2; ++r) {
    tui::SpoolDevices& spool = spools.of[r];
    spool.take_call(call(1, 3000), 0, 0, tui::kNone);
    spool.take_call(call(2, r == 0 ? 1000 : 0), 0, 1, tui::kNone);  // only the root sends
    Record group = call(1, 0);
    group.payload = 2;
    spool.take_group(group);
    spool.take_launch(launch(kStart, 1, 1));
    spool.take(kernel(kStart + (r == 0 ? 0u : 400'000u), kStart + 800'000, 1, 2));
    job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(0));
  }
  spools.join(job);
  const tui::Snapshot s = observer.look(job, false);
  ASSERT_EQ(s.collectives.size(), 2u);
  EXPECT_EQ(s.collectives[0].op, "ncclAllReduce");
  EXPECT_EQ(s.collectives[0].time_ns, 450'000);  // three quarters of 800 and 400 us, mean rank
  EXPECT_EQ(s.collectives[0].wait_ns, 150'000);
  EXPECT_EQ(s.collectives[1].time_ns, 150'000);
  EXPECT_EQ(s.ranks[0].wait_ns, 400'000);
}

TEST(Devices, AStepWaitsForWhatMayStillCome) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Steps steps;
  const auto look = [&](int64_t after_ns) {
    job.now_ns = static_cast<int64_t>(kStart + 4 * kStepTicks) + after_ns;
    spools.join(job);
    steps.advance(job);
  };
  add_step(spools, 0);
  for (int32_t r = 0; r < 2; ++r) {
    for (uint64_t number = 0; number < 4; ++number) job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(number));
    spools.of[r].take_launch(launch(kStart + kStepTicks, 1001));
  }
  look(0);
  ASSERT_EQ(steps.count(), 1u) << "of the second step one launch is not answered";
  look(1'000'000'000);
  EXPECT_EQ(steps.count(), 1u);
  for (tui::SpoolDevices& spool : spools.of)
    spool.take(kernel(kStart + kStepTicks, kStart + kStepTicks + 100'000, 1001, 1));
  look(1'100'000'000);
  EXPECT_EQ(steps.count(), 4u) << "and of the last two nothing is awaited";
  EXPECT_EQ(steps.finished()[1].parts[0].compute_ns, 100'000);
  EXPECT_EQ(steps.finished()[2].parts[0].compute_ns, 0);
}

/// Nothing comes, as from a host whose records of GPUs cannot be read: nobody claims that they were idle.
TEST(Devices, WhatHasNotComeIsNotIdle) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Observer observer;
  for (uint64_t number = 0; number < 4; ++number) {
    add_step(spools, number);
    for (tui::Rank& rank : job.ranks) rank.steps.push_back(step_of(number));
  }
  for (uint64_t number = 4; number < 8; ++number) {
    for (tui::Rank& rank : job.ranks) rank.steps.push_back(step_of(number));
    for (tui::SpoolDevices& spool : spools.of)
      spool.take_launch(launch(step_of(number).start_ticks, static_cast<uint32_t>(1000 + number)));
  }
  job.now_ns = static_cast<int64_t>(kStart + 8 * kStepTicks) + 6'000'000'000;
  spools.join(job);
  const tui::Snapshot s = observer.look(job, false);
  EXPECT_EQ(s.window, 8u);
  EXPECT_TRUE(s.by_device);
  EXPECT_EQ(s.devices_unknown, (std::vector<int64_t>{0, 1}));
  ASSERT_TRUE(s.shares);
  EXPECT_DOUBLE_EQ((*s.shares)[tui::kIdle], 0.3) << "of the four steps of which everything is known";
  EXPECT_EQ(s.ranks[0].trend.back(), std::nullopt);
}

/// The records of one rank never come, as of a host whose live files have none: the other is shown, the step is
/// as long as it was.
TEST(Devices, OneRankMayBeUnknown) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Observer observer;
  const auto look = [&](int64_t after_ns) {
    job.now_ns = static_cast<int64_t>(kStart + 4 * kStepTicks) + after_ns;
    spools.join(job);
    return observer.look(job, false);
  };
  job.device_collectives = true;
  for (uint64_t number = 0; number < 4; ++number) {
    for (int32_t r = 0; r < 2; ++r) {
      const auto correlation = static_cast<uint32_t>(number + 1);
      spools.of[r].take_call(call(correlation, 4000), 0, 0, tui::kNone);
      spools.of[r].take_launch(launch(step_of(number).start_ticks, correlation, correlation));
      if (r == 0)
        spools.of[r].take(kernel(step_of(number).start_ticks, step_of(number).start_ticks + 400'000, correlation, 2));
      job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(number));
    }
  }
  EXPECT_EQ(look(0).window, 0u) << "it may still come";
  const tui::Snapshot s = look(6'000'000'000);
  EXPECT_EQ(s.devices_unknown, std::vector<int64_t>{1});
  EXPECT_EQ(s.ranks[1].step_ns, 1e6);
  EXPECT_EQ(s.ranks[1].compute_ns, std::nullopt);
  EXPECT_EQ(s.ranks[0].exposed_ns, 400'000);
  EXPECT_EQ(s.ranks[0].wait_ns, std::nullopt) << "who came last is not known";
}

/// A copy of nothing is launched and never heard of again: what was launched after the step shows that it would have
/// come.
TEST(Devices, ALaunchWithoutWorkHoldsUpNothing) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Steps steps;
  for (tui::SpoolDevices& spool : spools.of) spool.take_launch(launch(kStart + 20, 1001));
  for (uint64_t number = 0; number < 2; ++number) {
    add_step(spools, number);
    for (tui::Rank& rank : job.ranks) rank.steps.push_back(step_of(number));
  }
  job.now_ns = static_cast<int64_t>(kStart + 2 * kStepTicks) + 3'000'000'000;
  spools.join(job);
  steps.advance(job);
  ASSERT_EQ(steps.count(), 1u);
  EXPECT_EQ(steps.finished()[0].parts[1].compute_ns, 500'000);
}

/// A job on one GPU has no collectives, and what its GPU does is what it does.
TEST(Devices, AreShownWithoutCollectives) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Observer observer;
  for (int32_t r = 0; r < 2; ++r) {
    spools.of[r].take_launch(launch(kStart, 1));
    spools.of[r].take(kernel(kStart, kStart + 250'000, 1, 1));
    job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(0));
  }
  spools.join(job);
  const tui::Snapshot s = observer.look(job, false);
  EXPECT_TRUE(s.by_device);
  EXPECT_EQ(s.window, 1u);
  EXPECT_EQ(s.ranks[0].compute_ns, 250'000);
}

/// CUPTI hands over a second's work stream by stream: where the log was joined in between, what the first streams did
/// is missing from steps until a flush later.
TEST(Devices, StepsOfTheFlushThatWasJoinedAreLeftOut) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Steps steps;
  constexpr uint64_t kSteps = 1600;  // of 1 ms
  for (int32_t r = 0; r < 2; ++r) {
    tui::SpoolDevices& spool = spools.of[r];
    spool.leave_out();
    for (uint64_t number = 0; number < kSteps; ++number) {
      const uint64_t begin = kStart + number * kStepTicks;
      spool.take_launch(launch(begin, static_cast<uint32_t>(number + 1)));
      spool.take(kernel(begin, begin + 100'000, static_cast<uint32_t>(number + 1), 1));
      job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(number));
    }
  }
  spools.join(job);
  steps.advance(job);
  ASSERT_FALSE(steps.finished().empty());
  EXPECT_EQ(steps.finished().front().number + steps.finished().size(), kSteps);
  EXPECT_EQ(steps.count(), 99u) << "1.5 s behind the end of the first kernel that was read";
}

/// What GPUs did after the program took CUPTI over is not known.
TEST(Devices, WhatWasHandedOverIsNotIdle) {
  tui::Job job = job_of_two();
  Spools spools;
  tui::Steps steps;
  for (uint64_t number = 0; number < 2; ++number) add_step(spools, number);
  for (int32_t r = 0; r < 2; ++r) {
    if (r == 1) spools.of[r].on_handed_over(kStart + kStepTicks + 800'000);
    for (uint64_t number = 0; number < 2; ++number) job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(number));
  }
  spools.join(job);
  steps.advance(job);
  ASSERT_EQ(steps.finished().size(), 2u);
  EXPECT_TRUE(steps.finished()[0].unknown.empty());
  EXPECT_EQ(steps.finished()[1].unknown, std::vector<int64_t>{1});
}

/// A captured collective runs with every launch of its graph; where the first runs were left out, nobody knows
/// which run is which.
TEST(Devices, RunsOfAGraphAreTheSameOnAllRanks) {
  for (const bool joined : {false, true}) {
    tui::Job job = job_of_two();
    Spools spools;
    tui::Observer observer;
    for (int32_t r = 0; r < 2; ++r) {
      tui::SpoolDevices& spool = spools.of[r];
      GraphNodeMeta node = {};
      node.node = 5;
      node.comm = kComm;
      node.sequence = 1;
      spool.on_graph_node(node);
      spool.take_call(call(1, 4000), 0, 0, tui::kNone);
      if (joined) spool.leave_out();
      for (uint64_t number = 0; number < 3; ++number) {
        const uint64_t begin = kStart + number * kStepTicks;
        const auto correlation = static_cast<uint32_t>(number + 1);
        spool.take_launch(launch(begin, correlation));
        DeviceRecord record = kernel(begin + (r == 0 ? 0u : 100'000u), begin + 300'000, correlation, 2);
        record.graph_node = 5;
        spool.take(record);
        job.ranks[static_cast<size_t>(r)].steps.push_back(step_of(number));
      }
    }
    spools.join(job);
    const tui::Snapshot s = observer.look(job, false);
    if (joined) {
      for (const tui::RankRow& row : s.ranks) EXPECT_FALSE(row.wait_ns) << "unknown is not 0";
      continue;
    }
    ASSERT_EQ(s.window, 3u);
    EXPECT_EQ(s.ranks[0].wait_ns, 100'000);
    ASSERT_EQ(s.collectives.size(), 1u);
    EXPECT_EQ(s.collectives[0].per_step, 1);
  }
}

}  // namespace
}  // namespace ddl::test
