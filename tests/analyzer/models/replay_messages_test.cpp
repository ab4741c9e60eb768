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
/// who comes first: `probe`, or receives from whom it may be. `order`: that of an earlier run, or empty; then it is
/// filled.
int64_t served(Tables& run, int64_t longer_ns, bool probe, std::vector<int64_t>& order) {
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
  const auto next = [&] {
    int64_t first = 0;
    for (const int64_t w : {1, 2, 3}) {
      const Worker& worker = workers[static_cast<size_t>(w)];
      if (worker.round < kRounds && (first == 0 || worker.send_ns < workers[static_cast<size_t>(first)].send_ns))
        first = w;
    }
    return first;
  };
  int64_t server_ns = 0;
  for (size_t served = 0; served < 3 * kRounds; ++served) {
    if (served == order.size()) order.push_back(next());
    const int64_t first = order[served];
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
    Tables late(4), healthy(4), in_order(4);
    std::vector<int64_t> order, other_order;
    const int64_t took_ns = served(late, 40_ms, probe, order), would_ns = served(healthy, 0, probe, other_order),
                  would_in_order_ns = served(in_order, 0, probe, order);
    const double saved_ns = saved_without(late, 2) * 1e9;
    EXPECT_GT(saved_ns, 0.99 * static_cast<double>(took_ns - would_in_order_ns)) << probe;
    EXPECT_LT(saved_ns, static_cast<double>(took_ns - would_ns)) << "the server serves in the order of the recording";
    const Replay replay = replay_run(late.db(), 0).replay;
    EXPECT_NEAR(replay.mean_step_seconds(replay.recorded()) / (static_cast<double>(took_ns) * 1e-9), 1, kSame);
    EXPECT_EQ(late.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"), "straggler 2") << probe;
  }
}

/// Three ranks compute 20 ms, send to the next by MPI_Bsend and receive from the one before, 40 times; rank 1 computes
/// longer. What a rank sends is with the next after 60 us if it waits in its receive meanwhile; else it stands until
/// that rank calls again.
int64_t ring_of_buffered_sends(Tables& run, int64_t longer_ns) {
  constexpr int64_t kMoves = 60_us, kCall = 20_us;
  const auto compute_ns = [&](size_t rank) { return 20_ms + (rank == 1 ? longer_ns : 0); };
  std::vector<int64_t> now_ns(3, 0);
  for (int64_t k = 0; k < 40; ++k) {
    std::array<int64_t, 3> sent_ns{}, came_ns{};
    for (size_t rank = 0; rank < 3; ++rank)
      sent_ns[rank] = now_ns[rank] + compute_ns(rank) + static_cast<int64_t>(rank) * 1_us;
    for (size_t rank = 0; rank < 3; ++rank) came_ns[rank] = sent_ns[rank] + kMoves;
    for (const size_t rank : {1, 2, 0}) {
      const bool waits = came_ns[(rank + 2) % 3] > sent_ns[rank] + kCall;
      if (!waits) came_ns[rank] += 2 * kCall + (k < 39 ? compute_ns(rank) : 0);
    }
    for (size_t rank = 0; rank < 3; ++rank) {
      const int64_t next = static_cast<int64_t>(rank + 1) % 3, before = static_cast<int64_t>(rank + 2) % 3;
      now_ns[rank] = std::max(sent_ns[rank] + 2 * kCall, came_ns[static_cast<size_t>(before)]);
      RankRows(run, static_cast<int64_t>(rank))
          .call("MPI_Bsend", next, 1, sent_ns[rank], sent_ns[rank] + kCall)
          .call("MPI_Recv", before, 1, sent_ns[rank] + kCall, now_ns[rank]);
    }
  }
  return end_together(run, now_ns);
}

TEST(ReplayMessages, WhatStoodWhileALateRankComputedIsNoTransfer) {
  Tables late(3), healthy(3);
  const int64_t took_ns = ring_of_buffered_sends(late, 40_ms), would_ns = ring_of_buffered_sends(healthy, 0);
  EXPECT_NEAR(saved_without(late, 1) / (static_cast<double>(took_ns - would_ns) * 1e-9), 1, 0.02);
  const Replay replay = replay_run(late.db(), 0).replay;
  EXPECT_NEAR(replay.mean_step_seconds(replay.recorded()) / (static_cast<double>(took_ns) * 1e-9), 1, 0.02);
}

/// Three ranks compute 20 ms, post receives and sends to both others, compute 5 ms and wait for one request after the
/// other, first for what rank 1 sends, 40 times; rank 1 computes longer. Messages take 100 us.
int64_t halo_of_single_waits(Tables& run, int64_t longer_ns) {
  std::vector<int64_t> now_ns(3, 0);
  for (int64_t k = 0; k < 40; ++k) {
    std::array<int64_t, 3> posted_ns{};
    for (size_t rank = 0; rank < 3; ++rank)
      posted_ns[rank] = now_ns[rank] + 20_ms + static_cast<int64_t>(rank) * 10_us + (rank == 1 ? longer_ns : 0);
    for (size_t rank = 0; rank < 3; ++rank) {
      RankRows rows(run, static_cast<int64_t>(rank));
      const size_t first = rank == 1 ? 0 : 1;
      now_ns[rank] = posted_ns[rank] + 5_ms;
      for (const size_t other : {first, 3 - rank - first}) {
        const int64_t peer = static_cast<int64_t>(other), entered_ns = now_ns[rank];
        now_ns[rank] = std::max(entered_ns + 2_us, std::max(posted_ns[rank], posted_ns[other]) + 100_us);
        rows.post("MPI_Irecv", peer, 1, posted_ns[rank] + peer * 1_us, now_ns[rank]);
        rows.wait(entered_ns, now_ns[rank], "MPI_Wait");
      }
      for (const size_t other : {first, 3 - rank - first}) {
        const int64_t peer = static_cast<int64_t>(other), entered_ns = now_ns[rank];
        now_ns[rank] = entered_ns + 2_us;
        rows.post("MPI_Isend", peer, 1, posted_ns[rank] + 10_us + peer * 1_us, now_ns[rank]);
        rows.wait(entered_ns, now_ns[rank], "MPI_Wait");
      }
    }
  }
  return end_together(run, now_ns);
}

TEST(ReplayMessages, WhatIsAskedForBehindALateMessageTookNoLongerThanItsLike) {
  Tables late(3), healthy(3);
  const int64_t took_ns = halo_of_single_waits(late, 40_ms), would_ns = halo_of_single_waits(healthy, 0);
  EXPECT_NEAR(saved_without(late, 1) / (static_cast<double>(took_ns - would_ns) * 1e-9), 1, 0.02);
}

}  // namespace
}  // namespace ddl::models
