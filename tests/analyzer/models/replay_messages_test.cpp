// Replays of hand-made messages against the same program without its fault, simulated by a few lines that know nothing
// of replays.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "analyzer/models/rank_saving.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/models/what_if.h"
#include "tests/analyzer/message_rows.h"

namespace ddl::models {
namespace {

using namespace test::literals;
using test::RankRows;
using test::Tables;

constexpr double kSame = 0.002;

double saved_without(Tables& run, int64_t rank) {
  const std::optional<ReplayedSaving> saving = saving_without(run.db(), 0, {rank});
  return saving ? saving->seconds : -1;
}

/// All enter a barrier, which ends the run.
int64_t end_together(Tables& run, const std::vector<int64_t>& now_ns) {
  run.allreduce(1, now_ns, 100_us, 8);
  const int64_t end_ns = *std::max_element(now_ns.begin(), now_ns.end()) + 100_us;
  run.exec("UPDATE process SET end_ns = " + std::to_string(end_ns));
  run.analyze();
  return end_ns;
}

/// Three workers compute 20 ms, send to rank 0 and wait for its answer, 40 times; rank 2 computes longer. Rank 0 looks
/// who comes first: `probe`, or receives from whom it may be.
int64_t served(Tables& run, int64_t longer_ns, bool probe) {
  constexpr int64_t kRounds = 40, kShort = 20_us;
  struct Worker {
    int64_t round = 0, begin_ns = 0, send_ns = 0;
  };
  std::array<Worker, 4> workers;
  const auto compute = [&](int64_t w) {
    Worker& worker = workers[static_cast<size_t>(w)];
    worker.send_ns = worker.begin_ns + 20_ms + w * 100_us + (w == 2 ? longer_ns : 0);
  };
  for (const int64_t w : {1, 2, 3}) compute(w);
  int64_t server_ns = 0;
  for (int64_t served = 0; served < 3 * kRounds; ++served) {
    int64_t first = 0;
    for (const int64_t w : {1, 2, 3}) {
      const Worker& worker = workers[static_cast<size_t>(w)];
      if (worker.round < kRounds && (first == 0 || worker.send_ns < workers[static_cast<size_t>(first)].send_ns))
        first = w;
    }
    Worker& worker = workers[static_cast<size_t>(first)];
    const int64_t entered_ns = server_ns, found_ns = std::max(server_ns, worker.send_ns) + kShort;
    RankRows server(run, 0), client(run, first);
    if (probe) server.call("MPI_Probe", first, 1, entered_ns, found_ns);
    server.call("MPI_Recv", first, 1, probe ? found_ns : entered_ns, found_ns + kShort);
    server.call("MPI_Send", first, 2, found_ns + kShort, found_ns + 2 * kShort);
    client.call("MPI_Send", 0, 1, worker.send_ns, worker.send_ns + kShort);
    client.call("MPI_Recv", 0, 2, worker.send_ns + kShort, found_ns + 2 * kShort);
    server_ns = found_ns + 2 * kShort;
    worker.begin_ns = server_ns;
    ++worker.round;
    compute(first);
  }
  return end_together(run, {server_ns, workers[1].begin_ns, workers[2].begin_ns, workers[3].begin_ns});
}

TEST(ReplayMessages, AServerThatProbesWaitsForWhoSends) {
  for (const bool probe : {false, true}) {
    Tables late(4), healthy(4);
    const int64_t took_ns = served(late, 40_ms, probe), would_ns = served(healthy, 0, probe);
    const double truth_s = static_cast<double>(took_ns - would_ns) * 1e-9, saved_s = saved_without(late, 2);
    EXPECT_LT(saved_s, truth_s) << "who came first keeps being served first";
    EXPECT_GT(saved_s, 0.75 * truth_s) << probe;
    const Replay replay = replay_run(late.db(), 0).replay;
    EXPECT_NEAR(replay.mean_step_seconds(replay.recorded()) / (static_cast<double>(took_ns) * 1e-9), 1, kSame);
    EXPECT_EQ(late.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"), "straggler 2") << probe;
  }
}

}  // namespace
}  // namespace ddl::models
