// For whom everybody waits on GPUs over two axes, by hand: a step in which rank 3 of 4 is late for 200 us, for one
// reason after the other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr int64_t kPeriodNs = 1'000'000;

/// Two by two: {0, 1} and {2, 3} share a tensor, {0, 2} and {1, 3} the experts. GPUs compute 400 us, meet on the tensor
/// for 50 us, then among the experts for 50 us. In us, with rank 3 late:
///   0, 1  compute [0, 400)  tensor [400, 450)  experts [450, 700), 200 of them waiting
///   2     compute [0, 400)  tensor [400, 650), 200 of them waiting  experts [650, 700)
///   3     late    [0, 600)  tensor [600, 650)  experts [650, 700)
class WaitedFor : public ::testing::Test {
 protected:
  WaitedFor() {
    run_.exec(
        "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication'),"
        " (3, 'ncclDevKernel_SendRecv', 'communication');"
        "INSERT INTO op (id, name, class, nonblocking) VALUES (1, 'ncclAllReduce', 'all_to_all', 1), (2, 'ncclAlltoAll', 'all_to_all', 1);"
        "INSERT INTO region VALUES (1, 0, 'phase', 'load_batch', 'load_batch', NULL);"
        "BEGIN");
    for (const int first : {0, 2})
      tensor_.push_back(run_.communicator(fmt::format("mesh_tp#{}", first), {first, first + 1}));
    for (const int first : {0, 1})
      experts_.push_back(run_.communicator(fmt::format("mesh_ep#{}", first), {first, first + 2}));
  }

  void kernel(int64_t rank, int64_t name, int64_t step, int64_t begin_us, int64_t end_us, int64_t launch_us,
              int64_t comm = 0) {
    const int64_t t = step * kPeriodNs;
    const std::string seq = comm == 0 ? "NULL, NULL" : fmt::format("{}, {}", comm, step + 1);
    run_.exec(fmt::format(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns,"
        " correlation, comm, seq, launch_ns, launch_duration_ns) VALUES ({}, 1, {}, 0, 1, {}, 0, {}, 0, {}, {}, 0, {}, {}, 0)",
        rank + 1, name, name, step, t + begin_us * 1000, (end_us - begin_us) * 1000, seq, t + launch_us * 1000));
  }
  void collective(int64_t rank, int64_t op, int64_t step, int64_t begin_us, int64_t end_us, int64_t comm,
                  int64_t bytes) {
    kernel(rank, op + 1, step, begin_us, end_us, 0, comm);
    const int64_t start_ns = step * kPeriodNs + begin_us * 1000, duration_ns = (end_us - begin_us) * 1000;
    run_.exec(fmt::format(
        "INSERT INTO event (id, process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes)"
        " VALUES ({}, {}, 0, 4, {}, {}, {}, 0, {}, {}, {}, {})",
        ++events_, rank + 1, op, comm, step + 1, step, start_ns, duration_ns, bytes));
  }

  /// `computes_us` of rank 3, which begin at `begin_us` and were launched at `launch_us`; `bytes` that it sends to the
  /// experts, others 1 MB.
  void steps(int64_t begin_us, int64_t launch_us, int64_t bytes = 1'000'000) {
    for (int64_t s = 0; s < 20; ++s) {
      for (int64_t rank = 0; rank < 4; ++rank) {
        const int64_t first = rank == 3 ? begin_us : 0, ready = rank == 3 ? 600 : 400;
        run_.step(rank, s, s * kPeriodNs, s * kPeriodNs + 800'000, 0);
        kernel(rank, 1, s, first, ready, rank == 3 ? launch_us : 0);
        const int64_t met = rank < 2 ? 450 : 650;
        collective(rank, 1, s, ready, met, tensor_[static_cast<size_t>(rank / 2)], 8000);
        collective(rank, 2, s, met, 700, experts_[static_cast<size_t>(rank % 2)],
                   rank == 3 ? bytes : 1'000'000 + s % 3);
      }
    }
    run_.exec("COMMIT; UPDATE process SET end_ns = 20000000");
  }
  std::string first(const char* column) {
    return run_.text(fmt::format("SELECT {} FROM finding ORDER BY position", column));
  }

  Tables run_{4};
  std::vector<int64_t> tensor_, experts_;
  int64_t events_ = 0;
};

TEST_F(WaitedFor, WhoComputesLonger) {
  steps(0, 0);
  run_.analyze();
  EXPECT_EQ(run_.text("SELECT rank || ' ' || cause || ' ' || steps || ' ' || late_steps FROM waited_for"),
            "3 compute 15 15");
  EXPECT_EQ(run_.number("SELECT lead_ns FROM waited_for"), 200'000) << "in collectives 100 us, the others 300";
  EXPECT_EQ(run_.text("SELECT axis FROM waited_for"), "expert") << "there two ranks wait for it, on the tensor one";
  EXPECT_NEAR(run_.number("SELECT axis_ratio FROM waited_for"), 2.0 / 3, 1e-9);
  EXPECT_EQ(first("id"), "straggler");
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 200'000)
      << "the step would end 200 us earlier";
  EXPECT_NE(first("evidence").find("67% of their waiting for it is on the axis 'expert'"), std::string::npos)
      << first("evidence");
}

/// Rank 2 left no trace, and so nobody's waiting on either axis is known of all: what ranks are in their
/// collectives tells as much.
TEST_F(WaitedFor, WithoutARankWaitingIsToldByTheTimeInCollectives) {
  steps(0, 0);
  run_.exec(
      "DELETE FROM event WHERE process = 3; DELETE FROM gpu_event WHERE process = 3; DELETE FROM step WHERE process = 3;"
      "DELETE FROM process WHERE id = 3");
  run_.analyze();
  EXPECT_EQ(run_.integer("SELECT count(*) FROM gpu_part WHERE process = 1 AND exposed_wait_ns IS NOT NULL"), 0)
      << "else this test shows nothing";
  EXPECT_EQ(first("id"), "straggler");
  EXPECT_EQ(run_.integer("SELECT rank FROM finding ORDER BY position"), 3);
  EXPECT_EQ(run_.text("SELECT axis FROM waited_for"), "expert")
      << "ranks 0 and 1 wait there; for whom rank 0 does nobody saw";
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 200'000);
}

/// Ranks of its host are judged by what their GPUs compute, not by their threads, which only launch.
TEST_F(WaitedFor, WhetherItIsTheHost) {
  steps(0, 0);
  run_.exec(
      "INSERT INTO host SELECT 2, 'node2', 'boot2', clock, ticks_per_second, fit_residual_ns, offset_ns, drift_ppm, sigma_ns, method FROM host");
  run_.exec("UPDATE process SET host = 2 WHERE rank IN (0, 1)");
  run_.analyze();
  EXPECT_NE(first("evidence").find("The other ranks on its host do not compute longer than those elsewhere"),
            std::string::npos)
      << first("evidence");
}

TEST_F(WaitedFor, WhoGetsMoreData) {
  steps(0, 0, 1'500'000);
  run_.analyze();
  EXPECT_EQ(run_.text("SELECT cause FROM waited_for"), "data");
  EXPECT_EQ(first("id"), "uneven_experts");
  EXPECT_EQ(run_.integer("SELECT count(*) FROM finding WHERE id = 'straggler'"), 0);
  EXPECT_EQ(run_.integer("SELECT rank FROM finding ORDER BY position"), 3);
  EXPECT_NE(first("sentence").find("uneven data, not slow: rank 3"), std::string::npos) << first("sentence");
  EXPECT_NEAR(run_.number("SELECT mean_ratio FROM v_traffic WHERE rank = 3 AND axis = 'expert'"), 1.5 / 1.25, 1e-5);
  EXPECT_EQ(run_.integer("SELECT bytes FROM v_traffic WHERE rank = 3 AND axis = 'expert'"), 20 * 1'500'000);
  EXPECT_EQ(run_.integer("SELECT wait_ns FROM v_traffic WHERE rank = 0 AND axis = 'expert'"), 20 * 200'000);
}

TEST_F(WaitedFor, WhoseHostLaunchesLate) {
  steps(200, 195);
  run_.analyze();
  EXPECT_EQ(run_.text("SELECT cause FROM waited_for"), "host");
  EXPECT_EQ(first("id"), "host_bound");
  EXPECT_EQ(run_.integer("SELECT rank FROM finding ORDER BY position"), 3);
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 200'000);
}

TEST_F(WaitedFor, WhoseDataIsLate) {
  for (int64_t s = 0; s < 20; ++s)
    run_.exec(fmt::format(
        "INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (4, 0, 1, {}, {}, 190000, 0)",
        s, s * kPeriodNs));
  steps(200, 195);
  run_.analyze();
  EXPECT_EQ(run_.text("SELECT cause FROM waited_for"), "input");
  EXPECT_EQ(first("id"), "input_bound");
  EXPECT_EQ(run_.integer("SELECT rank FROM finding ORDER BY position"), 3);
  EXPECT_EQ(run_.integer("SELECT saving_ns FROM finding ORDER BY position"), 190'000) << "the rest is a launch";
}

/// Messages carry no number: the k-th of a step on a communicator of two is the same one on both.
TEST_F(WaitedFor, KernelsOfMessagesMeetByTheirOrder) {
  const int64_t pair = run_.communicator("mesh_pp", {0, 2});
  for (int64_t s = 0; s < 3; ++s) {
    for (const int64_t rank : {0, 2}) {
      run_.step(rank, s, s * kPeriodNs, s * kPeriodNs + 800'000, 0);
      kernel(rank, 3, s, rank == 0 ? 0 : 30, 50, 0, pair);
      kernel(rank, 3, s, 100, 150, 0, pair);
    }
    if (s == 2) kernel(0, 3, s, 200, 250, 0, pair);  // nobody meets it: which of that step belong together is not known
  }
  run_.exec("COMMIT; UPDATE gpu_event SET seq = NULL; UPDATE process SET end_ns = 3000000");
  run_.analyze();
  const char* waits = "SELECT exposed_wait_ns FROM gpu_part WHERE process = {} AND step = {}";
  EXPECT_EQ(run_.integer(fmt::format(fmt::runtime(waits), 1, 0)), 30'000);
  EXPECT_EQ(run_.integer(fmt::format(fmt::runtime(waits), 3, 1)), 0);
  EXPECT_TRUE(run_.is_null(fmt::format(fmt::runtime(waits), 1, 2)));
}

}  // namespace
}  // namespace ddl::test
