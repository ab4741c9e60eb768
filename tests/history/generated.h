// Histories whose truth is known: runs of one job with noise, outliers and, from a run on, a part of the step
// that takes longer.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <vector>

#include "history/row.h"

namespace ddl::test {

struct GeneratedHistory {
  size_t runs = 1000;
  double noise = 0.01;      ///< of the step time, from run to run
  double outliers = 0.02;   ///< share of runs that take up to twice as long
  size_t drift_from = 600;  ///< the first run whose step is longer
  double drift = 0;         ///< by so much, all of it exposed transfer on the data axis
  uint64_t seed = 1;
};

inline history::RunRow generated_run(size_t number, double transfer_ms, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> around(0, 1);
  history::RunRow row;
  row.run = fmt::format("boot/node1.{}.{}.spool/0", 1000 + number, number);
  row.name = "train";
  row.path = fmt::format("login1:/scratch/runs/train-{}.ddl", 4111 + number);
  row.job_id = fmt::format("{}", 4111 + number);
  // 2026-01-01, one an hour
  row.started_ns = 1'767'225'600'000'000'000 + static_cast<int64_t>(number) * 3'600'000'000'000;
  row.ranks = row.expected_ranks = 16;
  row.hosts = 2;
  row.steps = 100;
  row.added_by = "tester";
  row.added_ns = row.updated_ns = row.started_ns + 60'000'000'000;
  const double factor = std::exp(noise * around(random));
  row.compute_ns = 10e6 * factor;
  row.overlap_ns = 0.5e6 * factor;
  row.transfer_ns = transfer_ms * 1e6 * factor;
  row.wait_ns = 1.2e6 * factor;
  row.unsplit_ns = 0;
  row.copy_ns = 0;
  row.idle_ns = 0.2e6 * factor;
  row.axes = {{"data", (transfer_ms - 1) * 1e6 * factor, 1e6 * factor}, {"tensor", 1e6 * factor, 0.2e6 * factor}};
  row.step_time_ns = std::llround(*row.compute_ns + *row.overlap_ns + *row.transfer_ns + *row.wait_ns + *row.idle_ns);
  return row;
}

inline std::vector<history::RunRow> generate(const GeneratedHistory& wanted) {
  std::mt19937_64 random(wanted.seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<history::RunRow> rows;
  constexpr double kStepMs = 10 + 0.5 + 3 + 1.2 + 0.2;
  for (size_t i = 0; i < wanted.runs; ++i) {
    rows.push_back(generated_run(i, 3 + (i >= wanted.drift_from ? wanted.drift * kStepMs : 0), wanted.noise, random));
    if (uniform(random) < wanted.outliers)
      rows.back().step_time_ns = std::llround(static_cast<double>(*rows.back().step_time_ns) * (1 + uniform(random)));
  }
  return rows;
}

}  // namespace ddl::test
