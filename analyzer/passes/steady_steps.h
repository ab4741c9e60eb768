// Which steps count (metrics.md section 0): not the first ones, not those that some rank has no record of.
//
// Fills three temporary tables that all metrics and findings read:
//   steady_part  one row per rank and steady step, as step_part (without idle_ns: compute_ns + exposed_ns = duration_ns)
//   steady_step  one row per steady step: sums over the ranks that recorded steps, the slowest rank, NULL where a rank has NULL; staged is
//                how many ranks are stages of pipelines, staged_ns, staged_sigma_ns and bubble_ns are sums over those
//   steady_rank  one row per rank: its host, and sums over the steady steps; wait_ns is NULL, and why says so, where it is in one of them
// A world without a step that all ranks recorded gets one row per rank from rank_part, its whole run, with annotated = 0.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

namespace ddl {

constexpr int64_t kWarmupSteps = 5;         ///< left out ...
constexpr int64_t kMinStepsForWarmup = 10;  ///< ... of runs with more steps than this

struct SteadySteps {
  bool annotated = false;  ///< has steps; false: the whole run takes the place of a step
  bool inferred = false;   ///< its steps were found by the repetition of collectives (inferred_steps.h)
  int64_t used = 0;
  int64_t warmup = 0;      ///< left out at the beginning
  int64_t incomplete = 0;  ///< left out because some rank has no record of them
};

/// By world. Needs `step_part` and `rank_part`.
std::map<int64_t, SteadySteps> select_steady_steps(SQLite::Database& db);

}  // namespace ddl
