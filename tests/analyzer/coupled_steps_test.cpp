// Programs of one job that repeat by themselves and exchange now and then: an ocean on ranks 0 and 1, the atmosphere on
// ranks 2 and 3.
#include "analyzer/passes/coupled_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/analyzer/message_rows.h"

namespace ddl::test {
namespace {

struct Coupled {
  int64_t couplings = 40;
  int64_t late = -1;  ///< computes 40 ms longer in each coupling
  bool marked = false;
  bool exchange = true;
  std::function<int64_t(int64_t coupling)> ocean = [](int64_t) { return 3; };  ///< reductions in a coupling
  int64_t atmosphere = 1;
};

/// Each computes 24 ms in a coupling, in as many pieces as it reduces, then ranks 0 and 2 exchange, and 1 and 3.
/// Returns how long a coupling takes.
double coupled_ms(Tables& run, const Coupled& job) {
  const int64_t comms[] = {run.communicator("ocean", {0, 1}), run.communicator("atmosphere", {2, 3})};
  std::vector<int64_t> now_ns(4, 1_s), seq(2, 0);
  run.exec("BEGIN");
  for (int64_t c = 0; c < job.couplings; ++c) {
    const std::vector<int64_t> begin_ns = now_ns;
    for (const size_t model : {0, 1}) {
      const int64_t pieces = model == 0 ? job.ocean(c) : job.atmosphere;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        int64_t last_ns = 0;
        for (const size_t rank : {2 * model, 2 * model + 1}) {
          now_ns[rank] += (24_ms + (static_cast<int64_t>(rank) == job.late ? 40_ms : 0)) / pieces +
                          static_cast<int64_t>(rank) * 10_us;
          last_ns = std::max(last_ns, now_ns[rank]);
        }
        ++seq[model];
        for (const size_t rank : {2 * model, 2 * model + 1}) {
          Row row{.rank = static_cast<int64_t>(rank), .enter_ns = now_ns[rank], .leave_ns = last_ns + 100_us};
          row.bytes = 8000;
          row.comm = comms[model];
          row.seq = seq[model];
          if (job.marked) row.step = c;
          run.add(row);
          now_ns[rank] = last_ns + 100_us;
        }
      }
    }
    for (const size_t rank : {0, 1}) {
      if (!job.exchange) continue;
      const int64_t met_ns = std::max(now_ns[rank], now_ns[rank + 2]) + 50_us;
      for (const size_t one : {rank, rank + 2}) {
        RankRows rows(run, static_cast<int64_t>(one));
        if (job.marked) rows.in_step(c);
        const int64_t other = static_cast<int64_t>(one < 2 ? one + 2 : one - 2);
        rows.exchange(other, 3, other, 3, now_ns[one], met_ns);
        now_ns[one] = met_ns;
      }
    }
    for (size_t rank = 0; rank < 4 && job.marked; ++rank)
      run.step(static_cast<int64_t>(rank), c, begin_ns[rank], now_ns[rank], 0);
  }
  run.exec("UPDATE process SET end_ns = " + std::to_string(*std::max_element(now_ns.begin(), now_ns.end())) +
           "; COMMIT");
  run.analyze();
  return static_cast<double>(*std::max_element(now_ns.begin(), now_ns.end()) - 1_s) / 1e6 /
         static_cast<double>(job.couplings);
}

TEST(CoupledSteps, AreFromExchangeToExchange) {
  for (const int64_t late : {1, 3}) {
    Tables run(4), healthy(4);
    const double took_ms = coupled_ms(run, {.late = late}), would_ms = coupled_ms(healthy, {});
    EXPECT_EQ(run.integers("SELECT period FROM inferred_steps ORDER BY process"), (std::vector<int64_t>{3, 3, 1, 1}));
    EXPECT_EQ(run.integers("SELECT count(DISTINCT step) FROM v_step GROUP BY rank"), std::vector<int64_t>(4, 39))
        << "before the first reduction nothing tells where the first began";
    EXPECT_EQ(run.integer("SELECT max(ranks) FROM steady_step"), 4);
    EXPECT_EQ(run.integer("SELECT count(*) FROM steady_step"), 39 - 5);
    // Those that exchange with each other have the same number.
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_step a JOIN v_step b ON b.step = a.step AND b.rank = a.rank + 2"
                          " WHERE abs(a.start_ns - b.start_ns) > 42000000"),
              0);
    EXPECT_NEAR(*run.metric("step_time") / 1e6, took_ms, 0.2);
    EXPECT_EQ(run.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"),
              "straggler " + std::to_string(late));
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding WHERE position = 1") / 1e6, took_ms - would_ms, 0.5);
  }
}

TEST(CoupledSteps, OfTwoAndThreeReductions) {
  Tables run(4);
  coupled_ms(run, {.late = 1, .atmosphere = 2});
  EXPECT_EQ(run.integers("SELECT period FROM inferred_steps ORDER BY process"), (std::vector<int64_t>{3, 3, 2, 2}));
  EXPECT_EQ(run.integers("SELECT count(DISTINCT step) FROM v_step GROUP BY rank"), std::vector<int64_t>(4, 39));
  EXPECT_NEAR(*run.metric("step_time") / 1e6, 64.4, 0.3);
}

TEST(CoupledSteps, NoneWhereTheirNumberChanges) {
  std::mt19937 random(3);
  Tables run(4);
  coupled_ms(run, {.late = 1, .ocean = [&](int64_t) { return 2 + static_cast<int64_t>(random() % 4); }});
  EXPECT_EQ(run.integer("SELECT count(*) FROM inferred_steps"), 0);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'analysis.basis'"), "run");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 1);
}

TEST(CoupledSteps, WhoNeverExchangesCountsItsOwn) {
  Tables run(4);
  coupled_ms(run, {.exchange = false});
  EXPECT_EQ(run.integers("SELECT count(DISTINCT step) FROM v_step GROUP BY rank"),
            (std::vector<int64_t>{119, 119, 39, 39}));
}

TEST(CoupledSteps, AMarkedCouplingWithoutItsLateRankIsThatOfItsOwnProgram) {
  for (const int64_t late : {1, 3}) {
    Tables run(4), healthy(4);
    const double took_ms = coupled_ms(run, {.late = late, .marked = true}),
                 would_ms = coupled_ms(healthy, {.marked = true});
    EXPECT_EQ(run.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"),
              "straggler " + std::to_string(late));
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding WHERE position = 1") / 1e6, took_ms - would_ms, 0.5);
  }
}

// Two reductions in a coupling of 10, three in the tenth; the other group began to reduce two couplings later.
TEST(CoupledSteps, AnotherNumberOfReductionsShiftsNothing) {
  std::vector<GroupSteps> groups(2);
  for (int64_t k = 0; k < 30; ++k) {
    const int64_t begin = k * 10;
    groups[0].exchanges.push_back({begin + 1, begin + 2});
    for (const auto& [from, to] : {std::pair(0, 5), {5, k == 9 ? 8 : 10}})
      groups[0].units.push_back({begin + from, begin + to});
    if (k == 9) groups[0].units.push_back({begin + 8, begin + 10});
    if (k < 2) continue;
    groups[1].exchanges.push_back({begin + 1, begin + 2});
    groups[1].units.push_back({begin, begin + 10});
  }
  EXPECT_FALSE(keep_step(groups));
  const auto coupled = couple_steps(groups);
  ASSERT_TRUE(coupled);
  const CoupledSteps &finer = coupled->front(), &other = coupled->back();
  ASSERT_EQ(finer.steps.size(), 29u) << "the tenth has more than a step";
  EXPECT_EQ(finer.units, 2u);
  EXPECT_EQ(finer.steps[28].number, 29);
  EXPECT_EQ(finer.steps[28].first, 59u);
  ASSERT_EQ(other.steps.size(), 28u);
  EXPECT_EQ(other.steps[0].number, 2);
  EXPECT_EQ(other.steps[27].number, 29);
}

}  // namespace
}  // namespace ddl::test
