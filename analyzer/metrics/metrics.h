// The metrics: every file metrics/NAME.sql is one, compiled in by CMake. A file is a header of comment lines and one SELECT.
//
//   -- id: NAME            as the file
//   -- name: ...           for people
//   -- unit: ...           ns, ratio, samples/s
//   -- better: higher|lower|none
//   -- scope: job|step|rank
//   -- source: ...         definition in metrics.md
//   -- sentence: ...       what it says; shown as help
//
// The SELECT sees the store, the temporary tables of the passes (steady_steps.h, metric_inputs.h, devices.h, gradient_noise.h,
// straggler_scores.h, collectives.h), and :world. Scope job: one row (value, why). Scope step: rows (step, value, why), one per steady
// step, of which the median is the metric's value. Scope rank: rows (rank, value, why), of which the worst is. `why` counts only where
// value is NULL. More columns, by name: lo and hi, the ends of a 95 % interval (scope job); sigma, what the value may be wrong by because
// the clocks are, in its unit.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

struct Metric {
  std::string id, name, unit, better, scope, source, sentence;
  std::string sql;
};

/// All metrics by id.
const std::vector<Metric>& all_metrics();

/// Throws ddl::Error naming `file` if the header is not complete.
Metric parse_metric(std::string_view file, std::string_view text);

/// Fills tables `metric` and `rank_metric` for one world.
void compute_metrics(SQLite::Database& db, int64_t world);

}  // namespace ddl
