// What must hold of every run (specification.md "Invariants"): identities, scaling of time, permutation of ranks, a
// moved clock, an injected delay.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

std::map<std::string, std::pair<std::string, std::optional<double>>> metrics_of(SQLite::Database& db) {
  std::map<std::string, std::pair<std::string, std::optional<double>>> result;
  SQLite::Statement rows(db, "SELECT id, unit, value FROM metric");
  while (rows.executeStep()) {
    const auto value = rows.getColumn(2);
    result[rows.getColumn(0).getString()] = {rows.getColumn(1).getString(),
                                             value.isNull() ? std::nullopt : std::optional(value.getDouble())};
  }
  return result;
}

/// Random arrivals; `scale` multiplies all times, `order` says which rank plays whose part. For two hosts ranks 0 and 1
/// are on the first.
Tables random_run(unsigned seed, int64_t scale, const std::vector<int64_t>& order, int64_t hosts = 1) {
  Tables run(3, hosts);
  run.exec("UPDATE host SET sigma_ns = 0");
  std::mt19937_64 random(seed);
  int64_t seq = 0;
  for (int64_t step = 0; step < 12; ++step) {
    const int64_t begin_ns = step * 100_ms;
    std::vector<int64_t> mpi_ns(3, 0);
    for (int64_t slot = 0; slot < 3; ++slot) {
      std::vector<int64_t> enter_ns(3);
      for (size_t part = 0; part < 3; ++part)
        enter_ns[static_cast<size_t>(order[part])] =
            begin_ns + slot * 30_ms + static_cast<int64_t>(random() % 20'000'000);
      const auto xfer_ns = static_cast<int64_t>(random() % 5'000'000 + 1);
      const int64_t leave_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + xfer_ns;
      for (size_t r = 0; r < 3; ++r) mpi_ns[r] += leave_ns - enter_ns[r];
      for (int64_t& enter : enter_ns) enter *= scale;
      run.allreduce(++seq, enter_ns, xfer_ns * scale, 1'000, step);
    }
    for (int64_t rank = 0; rank < 3; ++rank)
      run.step(rank, step, begin_ns * scale, (begin_ns + 100_ms) * scale, mpi_ns[static_cast<size_t>(rank)] * scale);
  }
  run.analyze();
  return run;
}

TEST(Invariants, ProductsOfEfficiencies) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Tables run = random_run(seed, 1, {0, 1, 2}, 2);
    const auto m = [&](const char* id) { return run.metric(id).value(); };
    EXPECT_NEAR(m("load_balance") * m("communication_efficiency"), m("parallel_efficiency"), 1e-9);
    EXPECT_NEAR(m("serialisation_efficiency") * m("transfer_efficiency"), m("communication_efficiency"), 1e-9);
    EXPECT_NEAR(m("talp_load_balance_in") * m("talp_load_balance_out"), m("talp_mpi_load_balance"), 1e-9);
    EXPECT_NEAR(m("talp_mpi_communication_efficiency") * m("talp_mpi_load_balance"), m("talp2_mpi_parallel_efficiency"),
                1e-9);
    for (const char* id : {"load_balance", "communication_efficiency", "serialisation_efficiency",
                           "transfer_efficiency", "talp_mpi_parallel_efficiency", "talp_mpi_communication_efficiency",
                           "talp_load_balance_in", "talp_load_balance_out"})
      EXPECT_LE(m(id), 1 + 1e-9) << id;
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame"), run.integer("SELECT sum(wait_ns) FROM collective"));
    EXPECT_EQ(m("nxn_wait"), static_cast<double>(run.integer("SELECT sum(wait_ns) FROM collective")));
    EXPECT_NEAR(run.number("SELECT sum(value) FROM rank_metric WHERE id = 'blame_of_rank'"), 1, 1e-9);
    EXPECT_NEAR(run.number("SELECT sum(value) FROM rank_metric WHERE id = 'late_rate'"), 1, 1e-9);
    // All leave together: nobody stays after the first one.
    EXPECT_EQ(m("nxn_completion"), 0);
  }
}

TEST(Invariants, TalpOfTwoNodesByHand) {
  Tables run(4, 2);
  const std::vector<int64_t> mpi_ns = {40_ms, 20_ms, 30_ms, 10_ms};  // means: 25, of the nodes 30 and 20
  for (int64_t s = 0; s < 20; ++s) {
    std::vector<int64_t> enter_ns;
    for (const int64_t ns : mpi_ns) enter_ns.push_back(s * 100_ms + 100_ms - ns);
    run.allreduce(s + 1, enter_ns, 10_ms, 1'000, s);
    for (int64_t rank = 0; rank < 4; ++rank)
      run.step(rank, s, s * 100_ms, (s + 1) * 100_ms, mpi_ns[static_cast<size_t>(rank)]);
  }
  run.analyze();
  const auto m = [&](const char* id) { return run.metric(id).value_or(-1); };
  EXPECT_DOUBLE_EQ(m("talp2_mpi_parallel_efficiency"), 0.75);
  EXPECT_DOUBLE_EQ(m("talp_mpi_parallel_efficiency"), 300.0 / 400);
  EXPECT_DOUBLE_EQ(m("talp_mpi_communication_efficiency"), 0.9);
  EXPECT_DOUBLE_EQ(m("talp_mpi_load_balance"), 75.0 / 90);
  EXPECT_DOUBLE_EQ(m("talp_load_balance_in"), 80.0 / 90);
  EXPECT_DOUBLE_EQ(m("talp_load_balance_out"), 75.0 / 80);
}

TEST(Invariants, ScalingTimeLeavesRatiosAlone) {
  Tables one = random_run(4, 1, {0, 1, 2}), three = random_run(4, 3, {0, 1, 2});
  const auto before = metrics_of(one.db()), after = metrics_of(three.db());
  for (const auto& [id, metric] : before) {
    const auto& [unit, value] = metric;
    ASSERT_EQ(value.has_value(), after.at(id).second.has_value()) << id;
    if (!value) continue;
    const double factor = unit == "ns" ? 3 : 1;
    EXPECT_NEAR(*after.at(id).second, *value * factor, 1e-9 * (1 + std::abs(*value) * factor)) << id;
  }
}

TEST(Invariants, PermutingRanksPermutesRanks) {
  const std::vector<int64_t> order = {2, 0, 1};
  Tables straight = random_run(5, 1, {0, 1, 2}), turned = random_run(5, 1, order);
  const auto before = metrics_of(straight.db()), after = metrics_of(turned.db());
  for (const auto& [id, metric] : before) {
    ASSERT_EQ(metric.second.has_value(), after.at(id).second.has_value()) << id;
    if (!metric.second) continue;
    EXPECT_NEAR(*after.at(id).second, *metric.second, 1e-9 * (1 + std::abs(*metric.second))) << id;
  }
  for (size_t part = 0; part < 3; ++part) {
    const std::string sql = "SELECT sum(wait_ns) FROM v_step WHERE rank = ";
    EXPECT_EQ(straight.integer(sql + std::to_string(part)), turned.integer(sql + std::to_string(order[part])));
  }
}

TEST(Invariants, ADelayRaisesWaitingByItselfTimesTheOthers) {
  for (const int ranks : {2, 5, 8}) {
    SyntheticRun job = run().ranks(ranks).steps(10).compute(10_ms).allreduce(1_MiB, 2_ms);
    SyntheticRun delayed = job;
    Analyzed before(job), after(delayed.delay(ranks - 1, 6, 7_ms));
    EXPECT_EQ(after.integer("SELECT sum(wait_ns) FROM v_step") - before.integer("SELECT sum(wait_ns) FROM v_step"),
              (ranks - 1) * 7_ms);
    EXPECT_EQ(after.integer("SELECT sum(xfer_ns) FROM v_step"), before.integer("SELECT sum(xfer_ns) FROM v_step"));
  }
}

TEST(Invariants, AMovedClockChangesWhatNeedsClocksOnly) {
  // Two hosts whose clocks are trusted, rightly or not; the second one's is moved.
  const auto moved = [](int64_t offset_ns) {
    Tables run(2, 2);
    run.exec("UPDATE host SET sigma_ns = 0");
    for (int64_t s = 0; s < 8; ++s) {
      const int64_t begin_ns = s * 100_ms;
      for (int64_t rank : {0, 1}) {
        const int64_t by_ns = rank == 1 ? offset_ns : 0;
        Row row;
        row.rank = rank;
        row.seq = s + 1;
        row.step = s;
        row.bytes = 1'000;
        row.enter_ns = begin_ns + (rank == 0 ? 60_ms : 90_ms) + by_ns;
        row.leave_ns = begin_ns + 100_ms + by_ns;
        run.add(row);
        run.step(rank, s, begin_ns + by_ns, begin_ns + 100_ms + by_ns, rank == 0 ? 40_ms : 10_ms);
      }
    }
    run.analyze();
    return run;
  };
  Tables straight = moved(0), crooked = moved(5_ms);
  for (const char* id : {"ccr_raw", "ccr_exposed", "overlap", "comm_overhead", "load_balance", "parallel_efficiency"})
    EXPECT_NEAR(*crooked.metric(id), *straight.metric(id), 1e-12) << id;
  EXPECT_EQ(crooked.integer("SELECT sum(min_duration_wait_ns) FROM collective"),
            straight.integer("SELECT sum(min_duration_wait_ns) FROM collective"));
  EXPECT_EQ(straight.metric("nxn_wait"), 8 * 30_ms);
  EXPECT_EQ(crooked.metric("nxn_wait"), 8 * 35_ms);
}

// --------------------------------------------------------------------------------------------------- completion, sigma

TEST(Completion, StayingAfterTheFirstLeft) {
  // All have entered at 30; they leave at 40, 45 and 60.
  Tables run(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    Row row;
    row.rank = rank;
    row.seq = 1;
    row.bytes = 100;
    row.enter_ns = std::vector<int64_t>{10, 30, 20}[static_cast<size_t>(rank)];
    row.leave_ns = std::vector<int64_t>{40, 45, 60}[static_cast<size_t>(rank)];
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.metric("nxn_completion"), 5 + 20);
  EXPECT_EQ(run.metric("nxn_wait"), 20 + 10);
}

TEST(Sigma, OfOneHostIsZeroAndOfTwoIsThatOfTheirClocks) {
  for (const int hosts : {1, 2}) {
    Tables run(2, hosts);
    if (hosts == 2) run.exec("UPDATE host SET sigma_ns = iif(id = 1, 0, 3000)");
    for (int64_t s = 0; s < 8; ++s) {
      run.allreduce(s + 1, {s * 100_ms + 60_ms, s * 100_ms + 90_ms}, 10_ms, 1'000, s);
      run.step(0, s, s * 100_ms, s * 100_ms + 100_ms, 40_ms);
      run.step(1, s, s * 100_ms, s * 100_ms + 100_ms, 10_ms);
    }
    run.analyze();
    const double sigma = hosts == 1 ? 0 : 3000;
    const auto sigma_of = [&](const std::string& id) {
      return run.number("SELECT sigma FROM metric WHERE id = '" + id + "'");
    };
    EXPECT_DOUBLE_EQ(run.number("SELECT max(sigma_ns) FROM v_step"), sigma);  // one wait in each step, of rank 0
    EXPECT_DOUBLE_EQ(sigma_of("exposed_wait"), sigma / 2);
    EXPECT_DOUBLE_EQ(sigma_of("f_wait"), sigma / 200e6);
    EXPECT_NEAR(sigma_of("ccr_xfer"), 150e6 * sigma / (20e6 * 20e6), 1e-12);
    EXPECT_DOUBLE_EQ(sigma_of("nxn_wait"), 8 * sigma);
    EXPECT_DOUBLE_EQ(run.number("SELECT sum(sigma_ns) FROM v_blame"), 8 * sigma);
    EXPECT_TRUE(run.is_null("SELECT sigma FROM metric WHERE id = 'load_balance'"));  // compares no clocks
  }
}

}  // namespace
}  // namespace ddl::test
