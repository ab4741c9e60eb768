// What a step of GPUs would take with another network, by hand: four ranks, of which {0, 1} and {2, 3} share a tensor,
// {0, 2} and {1, 3} the data.
#include "analyzer/models/replay_gpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr int64_t kGpuSteps = 20, kGpuPeriodNs = 2'000'000;
enum KernelName : int64_t { kGemm = 1, kReduce, kMessage };
enum GpuStream : int64_t { kOfComputing = 7, kOfTensor, kOfData };

/// One kernel in us from the begin of its step.
struct Kernel {
  GpuStream stream = kOfComputing;
  int64_t begin_us = 0, end_us = 0;
  int64_t launch_us = -1;  ///< -1: all are launched at once, one after the other
  int64_t comm = 0;
  int64_t bytes = 0;
  bool exchange = false;  ///< an all-to-all
};

class GpuReplays : public ::testing::Test {
 protected:
  GpuReplays() {
    run_.exec(
        "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication'),"
        " (3, 'ncclDevKernel_SendRecv', 'communication');"
        "INSERT INTO op (id, name, class, nonblocking) VALUES (1, 'ncclAllReduce', 'all_to_all', 1), (2, 'ncclAlltoAll', 'all_to_all', 1);"
        "BEGIN");
    for (const int first : {0, 2})
      tensor_.push_back(run_.communicator(fmt::format("mesh_tp#{}", first), {first, first + 1}));
    for (const int first : {0, 1})
      data_.push_back(run_.communicator(fmt::format("mesh_dp#{}", first), {first, first + 2}));
  }

  /// A step of a rank. Hosts wait for their GPUs at its end.
  void step(int64_t rank, int64_t number, const std::vector<Kernel>& kernels) {
    const int64_t t = number * kGpuPeriodNs;
    int64_t launch_us = -1, end_us = 0;
    for (const Kernel& k : kernels) {
      launch_us = k.launch_us < 0 ? launch_us + 1 : k.launch_us;
      end_us = std::max(end_us, k.end_us);
      const std::string of_comm =
          k.comm == 0 ? "NULL, NULL" : fmt::format("{}, {}", k.comm, ++numbers_[{rank, k.comm}]);
      run_.exec(fmt::format(
          "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation,"
          " comm, seq, launch_ns, launch_duration_ns) VALUES ({}, 1, {}, 0, 1, {}, 0, {}, 0, {}, {}, 0, {}, {}, 0)",
          rank + 1, k.comm == 0 ? kGemm : kReduce, static_cast<int>(k.stream), number, t + k.begin_us * 1000,
          (k.end_us - k.begin_us) * 1000, of_comm, t + launch_us * 1000));
      if (k.comm == 0) continue;
      run_.exec(fmt::format(
          "INSERT INTO event (id, process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes)"
          " VALUES ({}, {}, 0, 4, {}, {}, {}, 0, {}, {}, {}, {})",
          ++events_, rank + 1, k.exchange ? 2 : 1, k.comm, numbers_[{rank, k.comm}], number, t + k.begin_us * 1000,
          (k.end_us - k.begin_us) * 1000, k.bytes));
    }
    run_.step(rank, number, t, t + end_us * 1000, 0);
  }
  void analyze() {
    run_.exec(fmt::format("COMMIT; UPDATE process SET end_ns = {}", kGpuSteps * kGpuPeriodNs));
    run_.analyze();
  }
  /// In us; -1: nothing.
  double saving_us(int64_t comm, double factor) {
    const Catalog catalog(run_.db());
    const std::optional<double> seconds =
        models::saving_of_transfers(run_.db(), catalog, 0, comm, [&](int64_t) { return factor; });
    return seconds ? *seconds * 1e6 : -1;
  }

  double saving_without_us(const std::vector<int64_t>& ranks, models::LateWork work = models::LateWork::kAsOthers) {
    const Catalog catalog(run_.db());
    const std::optional<double> seconds = models::saving_without_late_gpus(run_.db(), catalog, 0, ranks, work);
    return seconds ? *seconds * 1e6 : -1;
  }

  /// All compute 300 us, 1 for 50 and 3 for 120 more, meet on the tensor for 100 us, compute 200, meet on the data for
  /// 50, and compute 50:
  ///   0, 1  tensor until 450, data from 650, waiting for 2 and 3 until 720
  ///   2, 3  tensor until 520, data from 720; all are done at 820
  void late_rank() {
    for (int64_t s = 0; s < kGpuSteps; ++s) {
      for (const int64_t rank : {0, 1, 2, 3}) {
        const int64_t computed = rank == 1 ? 350 : rank == 3 ? 420 : 300, met = rank < 2 ? 450 : 520;
        step(rank, s,
             {{kOfComputing, 0, computed},
              {kOfTensor, computed, met, -1, tensor_[static_cast<size_t>(rank / 2)], 1'000'000},
              {kOfComputing, met, met + 200},
              {kOfData, met + 200, 770, -1, data_[static_cast<size_t>(rank % 2)], 8000},
              {kOfComputing, 770, 820}});
      }
    }
    analyze();
  }

  /// All compute 300 us and meet on the tensor for 100 us, 2 and 3 for 200. Behind it 2 and 3 compute 200 us, 0 and 1
  /// for 60 more. Then they meet on the data for 50 us, behind which they compute 50 us:
  ///   0, 1  [0, 300)  tensor [300, 400)  [400, 660)  data [660, 750), 40 of them waiting  [750, 800)
  ///   2, 3  [0, 300)  tensor [300, 500)  [500, 700)  data [700, 750)                      [750, 800)
  /// Without the slow tensor 2 and 3 come to the data at 600, and all wait for 0 and 1: until 660, 40 us less than 700.
  /// `more_bytes`: so many more in each step, and on the second communicator half of that beside. `last_change`: of the
  /// rows, before they are analyzed.
  void slow_tensor(int64_t launch_us = -1, int64_t more_bytes = 0, const std::string& last_change = "") {
    for (int64_t s = 0; s < kGpuSteps; ++s) {
      for (const int64_t rank : {0, 1, 2, 3}) {
        const bool slow = rank >= 2;
        const int64_t met = slow ? 500 : 400, ready = slow ? 700 : 660;
        step(
            rank, s,
            {{kOfComputing, 0, 300},
             {kOfTensor, 300, met, -1, tensor_[slow ? 1 : 0], 1'150'000 + s * more_bytes + (slow ? more_bytes / 2 : 0)},
             {kOfComputing, met, ready, slow ? launch_us : -1},
             {kOfData, ready, 750, slow && launch_us >= 0 ? launch_us + 1 : -1, data_[static_cast<size_t>(rank % 2)],
              8000},
             {kOfComputing, 750, 800, slow && launch_us >= 0 ? launch_us + 2 : -1}});
      }
    }
    run_.exec(last_change);
    analyze();
  }

  Tables run_{4};
  std::vector<int64_t> tensor_, data_;
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers_;  ///< by rank and communicator
  int64_t events_ = 0;
};

TEST_F(GpuReplays, ALateRankMendedLeavesTheNextOne) {
  late_rank();
  EXPECT_NEAR(saving_without_us({3}), 70, 1e-6) << "then rank 1 is the last: at 350, 70 us before 420";
  EXPECT_NEAR(saving_without_us({1, 3}), 120, 1e-6) << "all come at 300";
  EXPECT_NEAR(saving_without_us({1}), 0, 1e-6) << "rank 3 is still as late";
  EXPECT_NEAR(saving_without_us({3}, models::LateWork::kEvenly), 420 - 350 * 342.5 / (950 / 3.0), 1e-6)
      << "342.5 us of (300 + 350 + 300 + 420) / 4; the others take 27.5 us more of it, and rank 1 is the last";
  EXPECT_NEAR(saving_without_us({1, 3}, models::LateWork::kEvenly), 77.5, 1e-6) << "both at 342.5";
  EXPECT_EQ(saving_without_us({0, 1, 2, 3}), -1) << "there are no others to do as";
}

/// Every third step has five times the work for all. Rank 3 takes 120 us longer in each, and 1 waits for it.
TEST_F(GpuReplays, ALateRankDoesAsTheOthersInTheSameStep) {
  for (int64_t s = 0; s < kGpuSteps; ++s) {
    for (const int64_t rank : {0, 1, 2, 3}) {
      const int64_t work = s % 3 == 2 ? 300 : 60, met = work + (rank % 2 == 1 ? 120 : 0);
      const int64_t computed = rank == 3 ? met : work;
      step(rank, s,
           {{kOfComputing, 0, computed},
            {kOfData, computed, met + 50, -1, data_[static_cast<size_t>(rank % 2)], 8000},
            {kOfComputing, met + 50, met + 80}});
    }
  }
  analyze();
  EXPECT_NEAR(saving_without_us({3}), 120, 1e-6);
}

/// 2 and 3, which launch two kernels where 0 and 1 launch one, are a third slower in all: 200 us each instead of 150,
/// and 80 at the end instead of 60.
TEST_F(GpuReplays, WhereNobodyElseHasTheSequenceThePaceIsThatOfTheOthers) {
  for (int64_t s = 0; s < kGpuSteps; ++s) {
    for (const int64_t rank : {0, 1, 2, 3}) {
      const int64_t data = data_[static_cast<size_t>(rank % 2)], tensor = tensor_[static_cast<size_t>(rank / 2)];
      if (rank < 2)
        step(rank, s,
             {{kOfComputing, 0, 300},
              {kOfTensor, 300, 400, -1, tensor, 1'000'000},
              {kOfData, 400, 550, -1, data, 8000},
              {kOfComputing, 550, 610}});
      else
        step(rank, s,
             {{kOfComputing, 0, 200},
              {kOfComputing, 200, 400},
              {kOfTensor, 400, 500, -1, tensor, 1'000'000},
              {kOfData, 500, 550, -1, data, 8000},
              {kOfComputing, 550, 630}});
    }
  }
  analyze();
  EXPECT_NEAR(saving_without_us({2, 3}), 120, 1e-6) << "100 us before the data, 20 behind";
}

/// All compute 300 us, exchange 1 MB with their neighbour on the tensor for 100 us and compute 100, rank 3 for 300
/// since it gets more data. What they send back takes 100 us, and 200 where rank 3 sends 2 MB. Then they meet on the
/// data for 50 us and compute 50.
TEST_F(GpuReplays, EvenDataIsSharedByThoseWhoExchangeIt) {
  for (int64_t s = 0; s < kGpuSteps; ++s) {
    for (const int64_t rank : {0, 1, 2, 3}) {
      const int64_t tensor = tensor_[static_cast<size_t>(rank / 2)];
      const int64_t computed = rank == 3 ? 700 : 500, back = rank < 2 ? 600 : 900;
      step(rank, s,
           {{kOfComputing, 0, 300},
            {kOfTensor, 300, 400, -1, tensor, 1'000'000, true},
            {kOfComputing, 400, computed},
            {kOfTensor, computed, back, -1, tensor, rank == 3 ? 2'000'000 : 1'000'000, true},
            {kOfData, back, 950, -1, data_[static_cast<size_t>(rank % 2)], 8000},
            {kOfComputing, 950, 1000}});
    }
  }
  analyze();
  EXPECT_NEAR(saving_without_us({3}, models::LateWork::kEvenly), 150, 1e-6)
      << "2 and 3 compute 200 us each, not 300, and send back 1.5 MB in 150 us, not 200; 0 and 1 keep their own";
}

TEST_F(GpuReplays, WhoElseIsWaitedFor) {
  slow_tensor();
  EXPECT_NEAR(saving_us(tensor_[1], 0.5), 40, 1e-6) << "then 0 and 1 are the last";
  EXPECT_NEAR(saving_us(tensor_[1], 0.9), 20, 1e-6) << "until then, every us counts";
  EXPECT_NEAR(saving_us(tensor_[0], 0.5), 0, 1e-6) << "0 and 1 wait afterwards in any case";
  EXPECT_NEAR(saving_us(data_[0], 0), 0, 1e-6) << "1 and 3 still take as long";
  EXPECT_EQ(run_.text("SELECT id FROM finding ORDER BY position"), "slow_link");
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 40'000)
      << "it transfers 100 us longer than its like";
}

/// As experts' all-to-alls, of which no two communicators ever carry the same.
TEST_F(GpuReplays, SizesThatAreAlikeAreCompared) {
  slow_tensor(-1, 1000);
  EXPECT_EQ(run_.text("SELECT id FROM finding ORDER BY position"), "slow_link");
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 40'000);
  const std::string sentence = run_.text("SELECT sentence FROM finding ORDER BY position");
  EXPECT_NE(sentence.find("the network of mesh_tp#2 is slow: ncclAllReduce of 1.10 MiB to 1.12 MiB moves"),
            std::string::npos)
      << sentence;
}

/// The host of 2 and 3 launches what follows the tensor at 480 us: then that is what they wait for.
TEST_F(GpuReplays, WhatTheHostLaunches) {
  slow_tensor(480);
  EXPECT_NEAR(saving_us(tensor_[1], 0.5), 20, 1e-6);
}

/// 1 and 3 transfer 400 us where 0 and 2 take 100, beside computing that does not wait for it. What comes last
/// in the step does:
///   0, 2  [0, 300)  data [300, 400)  beside  [300, 600)  [600, 650)
///   1, 3  [0, 300)  data [300, 700)  beside  [300, 600)  [700, 750)
TEST_F(GpuReplays, WhatComputingHides) {
  for (int64_t s = 0; s < kGpuSteps; ++s) {
    for (const int64_t rank : {0, 1, 2, 3}) {
      const int64_t met = rank % 2 == 1 ? 700 : 400, last = std::max<int64_t>(600, met);
      step(rank, s,
           {{kOfComputing, 0, 300},
            {kOfData, 300, met, -1, data_[static_cast<size_t>(rank % 2)], 1'000'000},
            {kOfComputing, 300, 600},
            {kOfComputing, last, last + 50}});
    }
  }
  analyze();
  EXPECT_NEAR(saving_us(data_[1], 0.25), 100, 1e-6) << "300 us faster, but computing ends at 600";
  EXPECT_NEAR(saving_us(data_[1], 0.9), 40, 1e-6);
}

/// Everything begins 200 us later in the step, and no launch was recorded: nobody knows what for.
TEST_F(GpuReplays, WhatCannotBeReplayedIsABound) {
  slow_tensor(
      -1, 0,
      "UPDATE gpu_event SET start_ns = start_ns + 200000, launch_ns = NULL; UPDATE event SET start_ns = start_ns + 200000;"
      "UPDATE step SET duration_ns = duration_ns + 200000");
  EXPECT_EQ(saving_us(tensor_[1], 0.5), -1);
  EXPECT_EQ(run_.text("SELECT id FROM finding ORDER BY position"), "slow_link");
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 100'000);
  EXPECT_EQ(run_.text("SELECT saving_bound FROM finding ORDER BY position"), "upper");
  const std::string evidence = run_.text("SELECT evidence FROM finding ORDER BY position");
  EXPECT_NE(evidence.find("The saving is at most that: the steps cannot be replayed"), std::string::npos) << evidence;
}

TEST_F(GpuReplays, WhatCannotBeReplayed) {
  for (int64_t s = 0; s < kGpuSteps; ++s) {
    for (const int64_t rank : {0, 1, 2, 3}) {
      if (rank == 3) continue;  // 1 and 2 wait for it, nobody knows for how long
      step(rank, s,
           {{kOfComputing, 0, 300},
            {kOfTensor, 300, 400, -1, tensor_[static_cast<size_t>(rank / 2)], 1'000'000},
            {kOfData, 400, 500, -1, data_[static_cast<size_t>(rank % 2)], 1'000'000}});
    }
  }
  analyze();
  EXPECT_EQ(saving_us(tensor_[0], 0.5), -1);
}

}  // namespace
}  // namespace ddl::test
