#include "analyzer/run_diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "analyzer/metrics/metrics.h"
#include "analyzer/tables.h"
#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl {
namespace {

using namespace test::literals;
using test::Analyzed;

/// A metric over steps that are normal around `mean`.
MetricValue measured(double mean, double sigma, size_t steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> step(mean, sigma);
  std::vector<double> values(steps);
  for (double& value : values) value = step(random);
  std::sort(values.begin(), values.end());
  const auto interval = bootstrap_median(values);
  return {.value = median_of(values), .why = {}, .interval = interval};
}

TEST(RunDiff, IntervalOfADifferenceIsTheirHypotenuse) {
  const Range range = difference_interval(10, {7, 11}, 20, {16, 28});
  EXPECT_NEAR(range.lo, 10 - std::hypot(4, 1), 1e-12);
  EXPECT_NEAR(range.hi, 10 + std::hypot(8, 3), 1e-12);
}

/// At each end r of the interval that of b - r a ends at 0.
TEST(RunDiff, IntervalOfARatioIsThatOfTheDifferencesThatMayBeNone) {
  const Range of_a{7, 11}, of_b{16, 28}, ratio = ratio_interval(10, of_a, 20, of_b);
  const auto difference = [&](double r) { return difference_interval(r * 10, {r * of_a.lo, r * of_a.hi}, 20, of_b); };
  EXPECT_NEAR(difference(ratio.lo).lo, 0, 1e-9);
  EXPECT_NEAR(difference(ratio.hi).hi, 0, 1e-9);
  EXPECT_LT(ratio.lo, 2);
  EXPECT_GT(ratio.hi, 2);
  const Range down = ratio_interval(0.395, {0.39, 0.41}, 0.00914, {0, 0.4});  // as a share of the step
  EXPECT_EQ(down.lo, 0) << "by no more than all of it";
  EXPECT_LT(down.hi, 1.1);
  const Range wide = ratio_interval(10, {-2, 30}, 20, {-1, 50});
  EXPECT_EQ(wide.lo, 0);
  EXPECT_TRUE(std::isinf(wide.hi));
  EXPECT_EQ(ratio_interval(10, {9, 11}, 0, {0, 0}).hi, 0);
}

TEST(RunDiff, NothingFallsByMoreThanAllOfIt) {
  const MetricValue before{.value = 10, .why = {}, .interval = Range{2, 12}},
      after{.value = 3, .why = {}, .interval = Range{0.5, 9}};
  const MetricChange change = compare_metric(before, after, "lower");
  EXPECT_EQ(change.change, Change::kNotSeen);
  EXPECT_GE(change.interval->lo, -1);
  EXPECT_GT(change.interval->hi, 0) << "as the difference";
}

TEST(RunDiff, TheSameJobTwiceShowsNoChange) {
  int seen = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const MetricChange change =
        compare_metric(measured(100, 5, 30, 2 * seed), measured(100, 5, 30, 2 * seed + 1), "lower");
    seen += change.change != Change::kNotSeen;
  }
  EXPECT_LE(seen, 60);  // 5 % are expected
}

TEST(RunDiff, ARealChangeIsSeenAndItsSizeIsInTheInterval) {
  int seen = 0, covered = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const MetricChange change =
        compare_metric(measured(100, 5, 30, 2 * seed), measured(108, 5, 30, 2 * seed + 1), "lower");
    seen += change.change == Change::kWorse;
    covered += change.interval->lo <= 0.08 && 0.08 <= change.interval->hi;
  }
  EXPECT_GE(seen, 990);
  EXPECT_GE(covered, 930);
}

TEST(RunDiff, WhatIsBetterSaysTheMetric) {
  const MetricValue low{.value = 10, .why = {}, .interval = Range{9, 11}},
      high{.value = 20, .why = {}, .interval = Range{19, 21}};
  EXPECT_EQ(compare_metric(low, high, "lower").change, Change::kWorse);
  EXPECT_EQ(compare_metric(low, high, "higher").change, Change::kBetter);
  EXPECT_EQ(compare_metric(high, low, "higher").change, Change::kWorse);
  EXPECT_EQ(compare_metric(low, high, "none").change, Change::kChanged);
  EXPECT_NEAR(*compare_metric(low, high, "lower").ratio, 1, 1e-12);
}

TEST(RunDiff, AbsentIsNotZero) {
  const MetricValue absent{.value = {}, .why = "NO_DATA", .interval = {}},
      value{.value = 3, .why = {}, .interval = Range{2, 4}}, zero{.value = 0, .why = {}, .interval = Range{0, 0}},
      whole{.value = 3, .why = {}, .interval = {}};
  EXPECT_EQ(compare_metric(absent, value, "lower").change, Change::kAppeared);
  EXPECT_EQ(compare_metric(value, absent, "lower").change, Change::kGone);
  EXPECT_EQ(compare_metric(absent, absent, "lower").change, Change::kAbsent);
  EXPECT_EQ(compare_metric(whole, value, "lower").change, Change::kNoInterval);
  const MetricChange from_zero = compare_metric(zero, value, "lower");
  EXPECT_EQ(from_zero.change, Change::kWorse);
  EXPECT_FALSE(from_zero.ratio);  // no percentage of 0
}

TEST(RunDiff, BoundsTellAChangeWhereTheyLeaveNoDoubt) {
  const auto value = [](double middle, std::optional<MetricBound> bound = {}) {
    return MetricValue{.value = middle, .why = {}, .interval = Range{middle - 1, middle + 1}, .bound = bound};
  };
  const auto lower = MetricBound::kLower, upper = MetricBound::kUpper;
  EXPECT_EQ(compare_metric(value(10), value(20, lower), "lower").change, Change::kWorse) << "20 or more";
  EXPECT_EQ(compare_metric(value(10), value(20, upper), "lower").change, Change::kNoInterval)
      << "20 or less, perhaps 10";
  EXPECT_EQ(compare_metric(value(10, upper), value(20), "lower").change, Change::kWorse);
  EXPECT_EQ(compare_metric(value(10, lower), value(20), "lower").change, Change::kNoInterval);
  EXPECT_EQ(compare_metric(value(20), value(10, upper), "lower").change, Change::kBetter);
  EXPECT_EQ(compare_metric(value(20), value(10, lower), "lower").change, Change::kNoInterval);
  EXPECT_FALSE(compare_metric(value(10), value(20, lower), "lower").ratio) << "nobody knows by how much";
}

TEST(RunDiff, ALostRankIsNoSlowerTransferAndALongerRunNoMoreWaiting) {
  const auto made = [](uint64_t steps, uint64_t seed) {
    return test::run().ranks(4).steps(steps).compute(10_ms).allreduce(1_MiB, 1_ms).slow(2, 8_ms).jitter(200_us, seed);
  };
  Analyzed all(made(30, 1)), lost(made(30, 2).missing(2)), longer(made(300, 3));
  const auto of = [](Analyzed& a, Analyzed& b, const std::string& id) {
    for (const MetricChange& change : compare_metrics(a.db, 0, b.db, 0))
      if (change.id == id) return change;
    return MetricChange();
  };
  const MetricChange transfer = of(all, lost, "exposed_xfer");
  EXPECT_EQ(transfer.change, Change::kNoInterval) << *transfer.after.value;
  EXPECT_EQ(transfer.after.bound, MetricBound::kUpper);
  EXPECT_FALSE(transfer.ratio);
  const MetricChange waiting = of(all, longer, "nxn_wait");
  EXPECT_GT(*waiting.after.value, 8 * *waiting.before.value);
  EXPECT_FALSE(waiting.ratio) << "of ten times as many steps";
  EXPECT_TRUE(of(all, all, "nxn_wait").ratio);
}

test::SyntheticRun job(int slow_rank) {
  auto job = test::run()
                 .ranks(4)
                 .steps(30)
                 .compute(10_ms)
                 .allreduce(1_MiB, 1_ms)
                 .jitter(200_us, static_cast<uint64_t>(slow_rank + 2));
  if (slow_rank >= 0) job.slow(slow_rank, 8_ms);
  return job;
}

using State = FindingChange::State;

TEST(RunDiff, FindingsAreNewGoneOrStillThere) {
  Analyzed one(job(1)), two(job(2)), none(job(-1));
  const auto states = [](Analyzed& a, Analyzed& b) {
    std::vector<std::pair<State, int64_t>> found;
    for (const FindingChange& change : compare_findings(a.db, 0, b.db, 0))
      if (change.id == "straggler") found.emplace_back(change.state, change.rank.value_or(-1));
    return found;
  };
  using States = std::vector<std::pair<State, int64_t>>;
  EXPECT_EQ(states(none, one), (States{{State::kNew, 1}}));
  EXPECT_EQ(states(one, none), (States{{State::kGone, 1}}));
  EXPECT_EQ(states(one, one), (States{{State::kStill, 1}}));
  EXPECT_EQ(states(one, two), (States{{State::kNew, 2}, {State::kGone, 1}}));
}

using Changes = std::vector<std::pair<State, std::string>>;

Changes changes_of(SQLite::Database& a, SQLite::Database& b, int64_t world_b = 0) {
  Changes changes;
  for (const FindingChange& change : compare_findings(a, 0, b, world_b))
    changes.emplace_back(change.state, change.sentence);
  return changes;
}

test::SyntheticRun small_collectives(const std::vector<std::string>& operations) {
  auto job = test::run().ranks(4).steps(30).compute(4_ms);
  for (int i = 0; i < 20; ++i)
    for (const std::string& operation : operations) job.collective(operation, 1_KiB, 100_us);
  return job;
}

TEST(RunDiff, FindingsOfSeveralOperationsAreToldApart) {
  Analyzed both(small_collectives({"MPI_Allreduce", "MPI_Allgather"})), gather(small_collectives({"MPI_Allgather"})),
      reduce(small_collectives({"MPI_Allreduce"}));
  const std::string of_reduce = "20 small MPI_Allreduce per step on MPI_COMM_WORLD could be fused: 1.00 KiB on average",
                    of_gather = "20 small MPI_Allgather per step on MPI_COMM_WORLD could be fused: 4.00 KiB on average";
  EXPECT_EQ(changes_of(both.db, gather.db), (Changes{{State::kGone, of_reduce}, {State::kStill, of_gather}}));
  EXPECT_EQ(changes_of(gather.db, both.db), (Changes{{State::kNew, of_reduce}, {State::kStill, of_gather}}));
  EXPECT_EQ(changes_of(reduce.db, gather.db), (Changes{{State::kNew, of_gather}, {State::kGone, of_reduce}}));
  EXPECT_EQ(changes_of(both.db, both.db), (Changes{{State::kStill, of_reduce}, {State::kStill, of_gather}}));
  // each saving beside its own sentence
  for (const FindingChange& change : compare_findings(both.db, 0, gather.db, 0)) {
    const std::string saving = "SELECT saving_ns FROM finding WHERE sentence = '" + change.sentence + "'";
    EXPECT_EQ(change.saving_before_ns, both.integer(saving)) << change.sentence;
    if (change.state == State::kStill) {
      EXPECT_EQ(change.saving_after_ns, gather.integer(saving));
    }
  }
}

/// A store with one finding and nothing else.
struct Said {
  std::string id, rank, sentence, subject;
};
std::unique_ptr<test::Tables> saying(const Said& said, int world = 0) {
  auto run = std::make_unique<test::Tables>(2);
  make_tables(run->db());
  SQLite::Statement insert(
      run->db(), "INSERT INTO finding (id, rank, sentence, world, confidence, evidence, try) VALUES (?, " + said.rank +
                     ", ?, ?, '', '', '')");
  insert.bind(1, said.id), insert.bind(2, said.sentence), insert.bind(3, world);
  insert.exec();
  SQLite::Statement about(run->db(), "INSERT INTO finding_about (position, subject) SELECT position, ? FROM finding");
  about.bind(1, said.subject);
  about.exec();
  return run;
}

TEST(RunDiff, AFindingIsTheSameWhateverItsWords) {
  const auto still = [](const Said& before, const Said& after) {
    const Changes changes = changes_of(saying(before)->db(), saying(after, 1)->db(), 1);
    if (changes.size() == 1) return changes[0].first == State::kStill;
    EXPECT_EQ(changes, (Changes{{State::kNew, after.sentence}, {State::kGone, before.sentence}}));
    return false;
  };
  EXPECT_TRUE(still({"slow_link", "NULL", "the network of data#1 is slow", "data#1"},
                    {"slow_link", "NULL", "the network of data#1 became slow at step 12", "data#1"}));
  EXPECT_FALSE(still({"slow_link", "NULL", "the network of data#1 is slow", "data#1"},
                     {"slow_link", "NULL", "the network of data#2 is slow", "data#2"}));
  EXPECT_FALSE(still({"straggler", "NULL", "ranks 0 and 1 enter last", "0,1"},
                     {"straggler", "NULL", "ranks 4 and 5 enter last", "4,5"}));
  EXPECT_TRUE(still({"straggler", "2", "rank 2 (node0) enters last", ""},
                    {"straggler", "2", "rank 2 (node0) computes longest", ""}));
  EXPECT_FALSE(still({"straggler", "2", "rank 2 (node0) enters last", ""},
                     {"straggler", "NULL", "ranks 2 and 3 enter last", "2,3"}));
}

TEST(RunDiff, EveryMetricIsThereAndTheGateFollowsTheStep) {
  Analyzed slow(job(1)), good(job(-1));
  const std::vector<MetricChange> changes = compare_metrics(good.db, 0, slow.db, 0);
  EXPECT_EQ(changes.size(), all_metrics().size());
  EXPECT_EQ(changes[0].change, Change::kWorse);
  const SlowdownGate gate = slowdown_gate(changes, good.db, 0, slow.db, 0);
  ASSERT_TRUE(gate.known && gate.seen);
  EXPECT_EQ(gate.by->id, "step_time");
  EXPECT_NEAR(*gate.slower, 8.0 / 11, 0.05);
  const std::vector<MetricChange> back = compare_metrics(slow.db, 0, good.db, 0);
  EXPECT_LT(*slowdown_gate(back, slow.db, 0, good.db, 0).slower, 0);
}

/// A median over steps says nothing of one step in ten. The samples reported at the very end of a step are the next
/// one's, by half-open intervals: the step behind a stall tells none, and its time counts.
TEST(RunDiff, TheGateSeesWhatFewStepsTake) {
  for (const bool samples : {false, true}) {
    const auto stalling = [&](bool stalls, uint64_t seed) {
      auto made = test::run().ranks(4).steps(105).jitter(200_us, seed).compute(10_ms).allreduce(4_MiB, 2_ms);
      if (samples) made.value("samples", 32);
      if (stalls) made.every(10).compute(200_ms);
      return made;
    };
    Analyzed good(stalling(false, 1)), again(stalling(false, 2)), bad(stalling(true, 3));
    const auto gate = [](Analyzed& a, Analyzed& b) {
      return slowdown_gate(compare_metrics(a.db, 0, b.db, 0), a.db, 0, b.db, 0);
    };
    const auto mean_ns = [](Analyzed& run) {
      return run.db.execAndGet("SELECT avg(longest_ns) FROM steady_step WHERE annotated").getDouble();
    };
    const SlowdownGate slower = gate(good, bad);
    ASSERT_TRUE(slower.by && slower.seen && slower.mean);
    EXPECT_EQ(slower.by->id, samples ? "throughput" : "step_time");
    EXPECT_NEAR(*slower.slower, mean_ns(bad) / mean_ns(good) - 1, 1e-9);
    // The longest of 4 ranks takes 3/5 of the jitter more; a mean of 100 steps is known to 0.1 %.
    EXPECT_NEAR(*slower.slower, (12.12 + 0.1 * 200.12) / 12.12 - 1, 0.005);
    EXPECT_LT(slower.by->interval->lo, slower.by->interval->hi);
    EXPECT_GT(slower.by->interval->lo, -1);
    EXPECT_LT(std::abs(*slower.other), 0.01) << "the median";
    const SlowdownGate same = gate(good, again);
    EXPECT_FALSE(same.seen && std::abs(*same.slower) > 0.005) << "chance";
  }
}

/// One long step of thirty may be chance.
TEST(RunDiff, TheGateDoesNotTripOverOneStep) {
  const auto job = [](uint64_t seed) {
    return test::run().ranks(2).steps(35).jitter(200_us, seed).compute(10_ms).allreduce(1_MiB, 1_ms);
  };
  Analyzed good(job(1)), once(job(2).delay(1, 20, 2_s));
  const SlowdownGate gate = slowdown_gate(compare_metrics(good.db, 0, once.db, 0), good.db, 0, once.db, 0);
  EXPECT_FALSE(gate.mean);
  EXPECT_GT(*gate.other, 1);
}

}  // namespace
}  // namespace ddl
