// Rules of consistency against recurrences and jobs that can be counted by hand.
#include "analyzer/models/consistency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.h"

namespace ddl::models {
namespace {

ConsistencyJob even_job(const std::vector<double>& compute_s, size_t steps, double exchange_s) {
  ConsistencyJob job;
  for (const double seconds : compute_s) job.compute_s.emplace_back(steps, seconds);
  job.exchange_s.assign(steps, exchange_s);
  job.bytes = 1e6;
  return job;
}

ConsistencyJob drawn_job(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> seconds(0.5, 2);
  ConsistencyJob job;
  job.compute_s.resize(2 + seed % 5);
  for (auto& rank : job.compute_s) {
    const double slower = seconds(random);
    for (int step = 0; step < 12; ++step) rank.push_back(slower * seconds(random));
  }
  for (int step = 0; step < 12; ++step) job.exchange_s.push_back(0.1 * seconds(random));
  job.bytes = 1e6;
  job.beta_s_per_byte = 1e-7;
  return job;
}

/// begin(r, c) = max(end(r, c - 1), when all have done c - s): Ho et al., as a recurrence over clocks instead of
/// events. The rate is that of the second half of many repetitions of the recorded steps.
double bounded_step_s(const ConsistencyJob& job, size_t bound) {
  constexpr size_t kRepeated = 840;  // by any small number of them the same again
  const size_t ranks = job.compute_s.size(), steps = job.exchange_s.size();
  std::vector<std::vector<double>> end(ranks);
  std::vector<double> all;
  for (size_t c = 0; c < 2 * kRepeated * steps; ++c) {
    double last = 0;
    for (size_t r = 0; r < ranks; ++r) {
      const double own = c > 0 ? end[r][c - 1] : 0, others = c > bound ? all[c - bound - 1] : 0;
      end[r].push_back(std::max(own, others) + job.compute_s[r][c % steps] + job.exchange_s[c % steps]);
      last = std::max(last, end[r][c]);
    }
    all.push_back(last);
  }
  return (all.back() - all[kRepeated * steps - 1]) / static_cast<double>(kRepeated * steps);
}

/// A rank that is always slow bounds everybody: nothing is gained, however short the recording is and
/// whatever the bound.
TEST(Consistency, APermanentStragglerBoundsStaleness) {
  for (const size_t steps : {3u, 20u, 100u})
    for (const int64_t bound : {1, 4, 16}) {
      const ConsistencyReplay replay =
          replay_consistency(even_job({10e-3, 10e-3, 10e-3, 14e-3}, steps, 2e-3), {Consistency::kBounded, bound});
      EXPECT_NEAR(replay.step_s, 16e-3, 1e-9) << steps << " " << bound;
      EXPECT_NEAR(replay.idle_ratio, 3 * 4e-3 / (4 * 16e-3), 1e-9);
      EXPECT_NEAR(replay.transfer_ratio, 2.0 / 16, 1e-9);
      EXPECT_EQ(replay.staleness.size(), static_cast<size_t>(bound) + 1);
    }
}

TEST(Consistency, BoundedStalenessIsTheRecurrenceAndKeepsItsBound) {
  size_t at_the_bound = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const ConsistencyJob job = drawn_job(seed);
    for (const int64_t bound : {0, 1, 2, 4}) {
      const ConsistencyReplay replay = replay_consistency(job, {Consistency::kBounded, bound});
      EXPECT_NEAR(replay.step_s, bounded_step_s(job, static_cast<size_t>(bound)), 1e-9) << seed << " " << bound;
      ASSERT_LE(replay.staleness.size(), static_cast<size_t>(bound) + 1) << seed;
      at_the_bound += replay.staleness.size() == static_cast<size_t>(bound) + 1 ? 1 : 0;
    }
  }
  EXPECT_GT(at_the_bound, 100u);  // a bound that binds nobody would be kept by anything
}

TEST(Consistency, WithoutStalenessItIsSynchronous) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const ConsistencyJob job = drawn_job(seed);
    double step_s = 0;
    for (size_t step = 0; step < job.exchange_s.size(); ++step) {
      double slowest = 0;
      for (const auto& rank : job.compute_s) slowest = std::max(slowest, rank[step]);
      step_s += (slowest + job.exchange_s[step]) / static_cast<double>(job.exchange_s.size());
    }
    for (const ConsistencyRule& rule :
         {ConsistencyRule{}, {Consistency::kBounded, 0}, {Consistency::kLocal, 1}, {Consistency::kPartial, 0}}) {
      const ConsistencyReplay replay = replay_consistency(job, rule);
      EXPECT_NEAR(replay.step_s, step_s, 1e-9) << seed;
      EXPECT_EQ(replay.staleness.size(), 1u) << seed;
    }
  }
}

TEST(Consistency, AServersLinkIsTheLimit) {
  ConsistencyJob job = even_job(std::vector<double>(8, 1e-3), 200, 1e-3);
  job.beta_s_per_byte = 1e-9;  // 1 ms a message
  const ConsistencyReplay one = replay_consistency(job, {Consistency::kAsynchronous, 1});
  EXPECT_NEAR(one.step_s, 8e-3, 0.1e-3);  // eight pushes through one link
  EXPECT_NEAR(one.missed_updates, 7, 0.3);
  EXPECT_DOUBLE_EQ(one.server_bytes, 8e6);
  const ConsistencyReplay eight = replay_consistency(job, {Consistency::kAsynchronous, 8});
  EXPECT_NEAR(eight.step_s, 2.125e-3, 0.05e-3);  // computing, a push, and the last part of the pull behind it
  EXPECT_DOUBLE_EQ(eight.server_bytes, 1e6);
  const ConsistencyReplay elastic = replay_consistency(job, {Consistency::kElastic, 16});
  EXPECT_NEAR(elastic.step_s, (16e-3 + 2e-3) / 16, 0.05e-3);
  EXPECT_DOUBLE_EQ(elastic.sent_bytes, 1e6 / 16);
}

TEST(Consistency, NobodyWaitsForASlowRankWithoutReason) {
  ConsistencyJob job = even_job({10e-3, 10e-3, 10e-3, 30e-3}, 60, 2e-3);
  EXPECT_NEAR(replay_consistency(job, {}).step_s, 32e-3, 1e-9);
  // Collectives end at 12, 24 and 36 ms; the slow rank comes at 30 to that of 34, and so on.
  const ConsistencyReplay partial = replay_consistency(job, {Consistency::kPartial, 1});
  EXPECT_NEAR(partial.step_s, 4 / (3 / 12e-3 + 1 / 36e-3), 1e-9);
  EXPECT_EQ(partial.staleness, (std::vector<int64_t>{3 * 180, 0, 60}));
  EXPECT_NEAR(partial.idle_ratio, (60 * 4e-3) / (4 * 60 * 36e-3), 1e-9);
  // transfers for nothing
  const ConsistencyReplay asynchronous = replay_consistency(job, {Consistency::kAsynchronous, 1});
  EXPECT_NEAR(asynchronous.step_s, 4 / (3 / 10e-3 + 1 / 30e-3), 1e-9);
}

TEST(Consistency, LocalStepsAverageWhatRanksTakeLonger) {
  ConsistencyJob job = even_job({10e-3, 20e-3}, 20, 2e-3);
  for (size_t step = 1; step < 20; step += 2) std::swap(job.compute_s[0][step], job.compute_s[1][step]);
  EXPECT_NEAR(replay_consistency(job, {}).step_s, 22e-3, 1e-9);
  const ConsistencyReplay local = replay_consistency(job, {Consistency::kLocal, 2});
  EXPECT_NEAR(local.step_s, 16e-3, 1e-9);
  EXPECT_DOUBLE_EQ(local.sent_bytes, 0.5e6);
  EXPECT_LE(local.staleness.size(), 2u);
}

/// A rank begins a step with its neighbour's one before it, so the slowest holds up its neighbours at once, and
/// theirs a step later.
TEST(Consistency, GossipIsBoundedByTheGraph) {
  ConsistencyJob job = even_job({10e-3, 10e-3, 10e-3, 10e-3, 30e-3}, 40, 2e-3);
  const ConsistencyReplay chain = replay_consistency(job, {Consistency::kGossip, 0, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}});
  EXPECT_EQ(chain.staleness.size(), 3u + 1);
  const ConsistencyReplay all = replay_consistency(job, {Consistency::kGossip, 0, gossip_graph("all", 5)});
  EXPECT_EQ(all.staleness.size(), 1u);
  EXPECT_NEAR(all.step_s, 30e-3, 1e-9);
  EXPECT_DOUBLE_EQ(all.sent_bytes, 4e6);
  EXPECT_EQ(gossip_graph("ring", 2).size(), 1u);
  EXPECT_EQ(gossip_graph("ring", 5).size(), 5u);
  EXPECT_EQ(gossip_graph("hypercube", 8).size(), 12u);
  EXPECT_THROW(gossip_graph("hypercube", 6), Error);
  EXPECT_THROW(gossip_graph("star", 6), Error);
}

TEST(Consistency, RefusesWhatIsNone) {
  const ConsistencyJob job = even_job({1, 1}, 3, 0.1);
  for (const ConsistencyRule& rule : {ConsistencyRule{Consistency::kBounded, -1},
                                      {Consistency::kPartial, 2},
                                      {Consistency::kLocal, 0},
                                      {Consistency::kAsynchronous, 0},
                                      {Consistency::kGossip, 0, {{0, 2}}}})
    EXPECT_THROW(replay_consistency(job, rule), Error);
  EXPECT_THROW(replay_consistency(even_job({1, 0}, 3, 0.1), {}), Error);
}

}  // namespace
}  // namespace ddl::models
