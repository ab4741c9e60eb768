// Waiting and transfer of single instances, with the numbers written down by hand.
#include "analyzer/passes/instance.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ddl {
namespace {

const Operation kAllreduce = describe_operation("MPI_Allreduce", "all_to_all", false);
const Operation kIallreduce = describe_operation("MPI_Iallreduce", "all_to_all", true);
const Operation kBcast = describe_operation("MPI_Bcast", "root_to_all", false);
const Operation kReduce = describe_operation("MPI_Reduce", "all_to_root", false);

/// Members 0, 1, ... that stay [enter, leave), each sending `bytes`.
Instance instance(const Operation& operation, const std::vector<std::pair<int64_t, int64_t>>& stays,
                  int64_t bytes = 100) {
  Instance result;
  result.operation = &operation;
  result.nonblocking = operation.nonblocking;
  result.complete = true;
  for (size_t i = 0; i < stays.size(); ++i) {
    Member m;
    m.rank = m.comm_rank = static_cast<int64_t>(i);
    m.enter_ns = stays[i].first;
    m.duration_ns = stays[i].second - stays[i].first;
    m.payload_bytes = bytes;
    result.members.push_back(m);
  }
  return result;
}

using Waits = std::vector<int64_t>;

TEST(Instance, MaxStart) {
  const Split split = split_waiting(instance(kAllreduce, {{0, 100}, {60, 110}, {30, 105}}));
  EXPECT_EQ(split.method, WaitMethod::kMaxStart);
  EXPECT_EQ(split.wait_ns, (Waits{60, 0, 30}));
  EXPECT_EQ(split.min_duration_wait_ns, (Waits{50, 0, 25}));  // durations 100, 50, 75
  EXPECT_EQ(split.late, (std::vector<size_t>{1}));
  EXPECT_EQ(split.clock_violations, 0);
}

TEST(Instance, WaitIsCutAtTheLeaveAndTheViolationCounted) {
  // rank 0 left before rank 1 came: impossible
  const Split split = split_waiting(instance(kAllreduce, {{0, 40}, {60, 110}}));
  EXPECT_EQ(split.wait_ns, (Waits{40, 0}));
  EXPECT_EQ(split.clock_violations, 1);
}

TEST(Instance, UntrustedClocksFallBackToMinDuration) {
  // rank 1's clock is 1 ms ahead
  Instance offset = instance(kAllreduce, {{0, 100}, {1'000'060, 1'000'110}, {30, 105}});
  offset.clock_trusted = false;
  const Split split = split_waiting(offset);
  EXPECT_EQ(split.method, WaitMethod::kMinDuration);
  EXPECT_EQ(split.wait_ns, (Waits{50, 0, 25}));
  EXPECT_EQ(split.late, (std::vector<size_t>{1}));
}

TEST(Instance, UntrustedClocksLeaveTheOthersUnknown) {
  for (const Operation* operation : {&kIallreduce, &kBcast, &kReduce}) {
    Instance offset = instance(*operation, {{0, 100}, {60, 110}});
    offset.root = 0;
    offset.clock_trusted = false;
    const Split split = split_waiting(offset);
    EXPECT_TRUE(split.wait_ns.empty());
    EXPECT_EQ(split.why, Why::kClockUntrusted);
  }
}

TEST(Instance, NonblockingWaitsFromPostToTheLastPost) {
  const Split split = split_waiting(instance(kIallreduce, {{0, 100}, {60, 110}}));
  EXPECT_EQ(split.method, WaitMethod::kMaxPost);
  EXPECT_EQ(split.wait_ns, (Waits{60, 0}));
  EXPECT_TRUE(split.min_duration_wait_ns.empty());
}

TEST(Instance, LateBroadcast) {
  Instance bcast = instance(kBcast, {{10, 90}, {50, 70}, {60, 95}});
  bcast.root = 1;
  const Split split = split_waiting(bcast);
  EXPECT_EQ(split.method, WaitMethod::kLateRoot);
  EXPECT_EQ(split.wait_ns, (Waits{40, 0, 0}));  // rank 2 came after the root
  EXPECT_EQ(split.late, std::vector<size_t>{1});
}

TEST(Instance, TheRootOfAReductionWaitsForTheLast) {
  Instance reduce = instance(kReduce, {{0, 100}, {50, 60}, {20, 30}});
  reduce.root = 0;
  const Split split = split_waiting(reduce);
  EXPECT_EQ(split.method, WaitMethod::kEarlyReduce);
  EXPECT_EQ(split.wait_ns, (Waits{50, 0, 0}));
  EXPECT_EQ(split.late, std::vector<size_t>{1});
}

TEST(Instance, WhoStaysInAReductionUntilTheLastHasComeWaitsForIt) {
  // A chain of 625 KiB, as Open MPI does it: rank 2 hands on what rank 1 sends. And a short one, which is sent eagerly.
  Instance chain = instance(kReduce, {{6, 103}, {97, 104}, {0, 102}, {1, 3}});
  chain.root = 0;
  EXPECT_EQ(split_waiting(chain).wait_ns, (Waits{91, 0, 97, 0}));
  EXPECT_EQ(split_waiting(chain).late, std::vector<size_t>{1});
  EXPECT_TRUE(split_waiting(chain).for_root_ns.empty());
}

TEST(Instance, OthersWaitForALateRootOfAReduction) {
  // The last but one had left before the root came: the library took its data. The last one came after the root.
  Instance reduce = instance(kReduce, {{10, 55}, {50, 100}, {20, 50}, {60, 70}});
  reduce.root = 1;
  EXPECT_EQ(split_waiting(reduce).wait_ns, (Waits{40, 10, 0, 0}));
  EXPECT_EQ(split_waiting(reduce).for_root_ns, (Waits{40, 0, 0, 0}));
  std::vector<std::pair<size_t, int64_t>> booked;
  each_late(split_waiting(reduce), [&](size_t late, int64_t ties, int64_t longest_ns, const auto& share_ns_of) {
    EXPECT_EQ(ties, 1);
    int64_t sum_ns = 0;
    for (size_t i = 0; i < 4; ++i) sum_ns += share_ns_of(i);
    EXPECT_EQ(sum_ns, longest_ns);
    booked.emplace_back(late, sum_ns);
  });
  EXPECT_EQ(booked, (std::vector<std::pair<size_t, int64_t>>{{3, 10}, {1, 40}}));
  EXPECT_EQ(split_waiting(reduce).clock_violations, 0);
  for (Member& member : reduce.members) member.payload_bytes = 0;
  EXPECT_EQ(split_waiting(reduce).wait_ns, (Waits{0, 0, 0, 0})) << "nobody waits for nothing";
}

TEST(Instance, WithMembersMissingOthersWaitForTheRootOfAReductionAllTheSame) {
  Instance reduce = instance(kReduce, {{40, 100}, {50, 60}, {20, 45}});
  reduce.root = 0;
  reduce.complete = false;
  reduce.partial = reduce.bounded = true;
  EXPECT_EQ(split_waiting(reduce).method, WaitMethod::kLowerBound);
  EXPECT_EQ(split_waiting(reduce).wait_ns, (Waits{10, 0, 20}))
      << "so long at least, as the one without a record may have come last";
  reduce.root = 3;
  EXPECT_EQ(split_waiting(reduce).method, WaitMethod::kLowerBound);
  EXPECT_EQ(split_waiting(reduce).wait_ns, (Waits{0, 0, 0}));
}

TEST(Instance, EarlyReduceOfNothingDoesNotWait) {
  Instance reduce = instance(kReduce, {{0, 100}, {50, 60}}, 0);
  reduce.root = 0;
  EXPECT_EQ(split_waiting(reduce).wait_ns, (Waits{0, 0}));
}

TEST(Instance, NonblockingRootedCollectivesWaitFromTheirPost) {
  // From post to completion; rank 1 is the root.
  const std::vector<std::pair<int64_t, int64_t>> stays = {{10, 90}, {50, 70}, {60, 95}, {20, 30}};
  for (const char* name : {"MPI_Ibcast", "MPI_Iscatter", "MPI_Iscatterv"}) {
    const Operation operation = describe_operation(name, "root_to_all", true);
    Instance instance = ddl::instance(operation, stays);
    instance.root = 1;
    const Split split = split_waiting(instance);
    EXPECT_EQ(split.method, WaitMethod::kMaxPost) << name;
    EXPECT_EQ(split.wait_ns, (Waits{40, 0, 0, 10})) << name;  // the last one had left before the root came
    EXPECT_EQ(split.clock_violations, 1) << name;
    EXPECT_EQ(split.late, std::vector<size_t>{1}) << name;
  }
  for (const char* name : {"MPI_Ireduce", "MPI_Igather", "MPI_Igatherv"}) {
    const Operation operation = describe_operation(name, "all_to_root", true);
    Instance instance = ddl::instance(operation, stays);
    instance.root = 0;
    EXPECT_EQ(split_waiting(instance).wait_ns, (Waits{50, 10, 0, 0})) << name;  // for the last, but for who had left
    instance.root = 2;
    EXPECT_EQ(split_waiting(instance).wait_ns, (Waits{50, 10, 0, 0})) << name;  // for the root, but for who had left
    EXPECT_EQ(split_waiting(instance).method, WaitMethod::kMaxPost) << name;
  }
}

TEST(Instance, UnknownRootIsNotApplicable) {
  EXPECT_EQ(split_waiting(instance(kBcast, {{0, 10}, {5, 12}})).why, Why::kNotApplicable);
}

TEST(Instance, IncompleteIsPartial) {
  Instance partial = instance(kAllreduce, {{0, 100}, {60, 110}});
  partial.complete = false;
  const Split split = split_waiting(partial);
  EXPECT_TRUE(split.wait_ns.empty());
  EXPECT_EQ(split.why, Why::kPartialRanks);
}

TEST(Instance, ScansAreNotApplicable) {
  const Operation scan = describe_operation("MPI_Scan", "scan", false);
  EXPECT_EQ(split_waiting(instance(scan, {{0, 10}, {5, 12}})).why, Why::kNotApplicable);
}

TEST(Instance, AloneNobodyWaits) { EXPECT_EQ(split_waiting(instance(kAllreduce, {{5, 50}})).wait_ns, Waits{0}); }

TEST(Instance, NothingToMoveNothingToWaitFor) {
  EXPECT_EQ(split_waiting(instance(kAllreduce, {{0, 100}, {60, 110}}, 0)).wait_ns, (Waits{0, 0}));
  const Operation barrier = describe_operation("MPI_Barrier", "barrier", false);
  // waiting is all a barrier does
  EXPECT_EQ(split_waiting(instance(barrier, {{0, 100}, {60, 110}}, 0)).wait_ns, (Waits{60, 0}));
}

TEST(Instance, Bytes) {
  const auto bytes = [](const char* name, const char* op_class, std::vector<int64_t> payloads, bool complete = true) {
    const Operation operation = describe_operation(name, op_class, false);
    Instance i = instance(operation, std::vector<std::pair<int64_t, int64_t>>(payloads.size(), {0, 10}));
    for (size_t m = 0; m < payloads.size(); ++m) i.members[m].payload_bytes = payloads[m];
    i.complete = complete;
    i.partial = !complete;
    i.size = 5;
    i.root = 0;
    return operation_bytes(i);
  };
  EXPECT_EQ(bytes("MPI_Allreduce", "all_to_all", {8, 8, 8}), 8);
  EXPECT_EQ(bytes("MPI_Allreduce", "all_to_all", {8, 8}, false), 8);
  EXPECT_EQ(bytes("MPI_Allgather", "all_to_all", {8, 8, 8}), 24);
  EXPECT_EQ(bytes("MPI_Allgatherv", "all_to_all", {1, 2, 3}), 6);
  EXPECT_EQ(bytes("MPI_Allgather", "all_to_all", {8, 8}, false), 40) << "five members contribute as much as one";
  EXPECT_EQ(bytes("MPI_Allgather", "all_to_all", {INT64_MAX / 2}, false), std::nullopt);
  EXPECT_EQ(bytes("MPI_Allgatherv", "all_to_all", {8, 8}, false), std::nullopt);
  EXPECT_EQ(bytes("MPI_Reduce_scatter", "all_to_all", {24, 24, 24}), 24);
  EXPECT_EQ(bytes("MPI_Alltoall", "all_to_all", {24, 24, 24}), 24);
  EXPECT_EQ(bytes("MPI_Alltoallv", "all_to_all", {10, 40, 20}), 40);
  EXPECT_EQ(bytes("MPI_Bcast", "root_to_all", {8, 0, 0}), 8);
  EXPECT_EQ(bytes("MPI_Scatter", "root_to_all", {24, 0, 0}), 24);
  EXPECT_EQ(bytes("MPI_Gather", "all_to_root", {8, 8, 8}), 24);
  EXPECT_EQ(bytes("MPI_Reduce", "all_to_root", {8, 8, 8}), 8);
  EXPECT_EQ(bytes("MPI_Barrier", "barrier", {0, 0, 0}), 0);
  EXPECT_EQ(bytes("MPI_Comm_split", "communicator", {0, 0, 0}), 0);
}

TEST(Instance, BytesThatAreNotToldAreNotNone) {
  for (const Operation& operation : {kAllreduce, describe_operation("ncclAllGather", "all_to_all", true)}) {
    Instance i = instance(operation, {{0, 100}, {60, 110}}, 0);
    for (Member& member : i.members) member.payload_bytes.reset();
    EXPECT_EQ(operation_bytes(i), std::nullopt);
    EXPECT_EQ(split_waiting(i).wait_ns, (Waits{60, 0})) << "something may have been moved";
    i.members[0].payload_bytes = 8;
    EXPECT_EQ(operation_bytes(i), std::nullopt);
  }
  Instance barrier = instance(describe_operation("MPI_Barrier", "barrier", false), {{0, 100}, {60, 110}}, 0);
  barrier.members[0].payload_bytes.reset();
  EXPECT_EQ(operation_bytes(barrier), 0);
}

TEST(Instance, BusFactors) {
  EXPECT_DOUBLE_EQ(*bus_factor(describe_operation("MPI_Iallreduce", "all_to_all", true).bus, 8), 1.75);
  EXPECT_DOUBLE_EQ(*bus_factor(describe_operation("MPI_Allgather", "all_to_all", false).bus, 8), 0.875);
  EXPECT_DOUBLE_EQ(*bus_factor(describe_operation("MPI_Ibcast", "root_to_all", true).bus, 8), 1);
  EXPECT_FALSE(bus_factor(describe_operation("MPI_Barrier", "barrier", false).bus, 8));
  EXPECT_FALSE(bus_factor(describe_operation("MPI_Allreduce", "all_to_all", false).bus, 1));
}

TEST(Instance, SharesAddUp) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 10'000; ++round) {
    const auto wait_ns = static_cast<int64_t>(random() % 1'000'000);
    const auto shares = static_cast<int64_t>(random() % 17 + 1);
    int64_t sum = 0;
    for (int64_t i = 0; i < shares; ++i) {
      const int64_t share = share_of(wait_ns, shares, i);
      ASSERT_LE(std::abs(share - wait_ns / shares), 1);
      sum += share;
    }
    ASSERT_EQ(sum, wait_ns);
  }
}

/// A made-up collective whose true waiting is known because it was put there: everybody enters when it likes and leaves
/// `xfer` after the last.
TEST(Instance, BothEstimatorsFindWhatWasPutIn) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 2'000; ++round) {
    const size_t n = random() % 30 + 2;
    const auto xfer_ns = static_cast<int64_t>(random() % 1'000'000 + 1);
    std::vector<int64_t> late_ns(n);  // how much earlier than the last each one comes
    for (int64_t& late : late_ns) late = static_cast<int64_t>(random() % 5'000'000);
    late_ns[random() % n] = 0;
    std::vector<std::pair<int64_t, int64_t>> stays;
    for (int64_t early : late_ns) stays.emplace_back(10'000'000 - early, 10'000'000 + xfer_ns);
    const Split split = split_waiting(instance(kAllreduce, stays));
    ASSERT_EQ(split.wait_ns, late_ns);
    ASSERT_EQ(split.min_duration_wait_ns, late_ns);
  }
}

TEST(Instance, ClockOffsetMovesMaxStartOnly) {
  const std::vector<std::pair<int64_t, int64_t>> stays = {{0, 100}, {60, 110}, {30, 105}};
  std::vector<std::pair<int64_t, int64_t>> shifted = stays;
  shifted[2] = {shifted[2].first + 7, shifted[2].second + 7};
  const Split before = split_waiting(instance(kAllreduce, stays));
  const Split after = split_waiting(instance(kAllreduce, shifted));
  EXPECT_NE(before.wait_ns, after.wait_ns);
  EXPECT_EQ(before.min_duration_wait_ns, after.min_duration_wait_ns);
}

}  // namespace
}  // namespace ddl
