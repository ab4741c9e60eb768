// Which steps count (specification.md "Conventions"): not the first ones, not those that some rank has no record of.
// Ranks whose record is damaged or torn count as if they had left none (specification.md J7): table torn_rank.
//
// What they are and what they add up to are tables that all metrics and findings read: steady_world, steady_number,
// steady_part, steady_step, steady_rank and job_window (analyzer/tables.sql). How long a step took is known also where
// nobody knows what its training threads did in it: timed_step.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

#include "analyzer/passes/catalog.h"

namespace ddl {

constexpr int64_t kWarmupSteps = 5;         ///< left out ...
constexpr int64_t kMinStepsForWarmup = 10;  ///< ... of runs with more steps than this

struct SteadySteps {
  bool annotated = false;  ///< has steps; false: the whole run takes the place of a step
  bool inferred = false;   ///< its steps were found by the repetition of collectives (inferred_steps.cpp)
  int64_t used = 0;
  int64_t warmup = 0;      ///< left out at the beginning
  int64_t incomplete = 0;  ///< left out because some rank has no record of them
};

/// By world, as in `steady_world`. Fills that, `torn_rank` and the other tables; needs `step_part`, `rank_part`,
/// `pipeline` and `inferred_steps`.
std::map<int64_t, SteadySteps> select_steady_steps(SQLite::Database& db, const Catalog& catalog);

/// Fills `job_window`; needs `steady_number`.
void sum_job_windows(SQLite::Database& db, const Catalog& catalog);

}  // namespace ddl
