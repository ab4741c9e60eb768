// The metrics: every file metrics/NAME.sql is one, compiled in by CMake. A file is a header of comment
// lines and one SELECT.
//
//   -- id: NAME            as the file
//   -- name: ...           for people
//   -- unit: ...           ns, ratio, samples/s
//   -- better: higher|lower|none
//   -- scope: job|step|rank
//   -- bound: lower|upper  may be left out: the value's kind where waits are lower bounds (specification.md J7)
//   -- needs: computing|communication   may be left out: it has no value (NO_DATA) where the thread of a rank does not tell that, because
//                          GPUs compute and communicate: recorded, then metrics of GPUs tell it, or a rank that calls
//                          NCCL whose GPUs left no record. Its MPI calls still tell communication if it makes any
//   -- source: ...         its definition, an id of docs/specification.md: specification.md W5
//   -- sentence: ...       what it says; shown as help
//
// The SELECT sees the store, the tables of the passes (analyzer/tables.sql) and :world. Scope job: one row (value,
// why). Scope step: rows (step, value, why), one per steady step, of which the median is the metric's value. A ratio is
// 9e999 in a step where the denominator alone is 0, which the median orders behind the others; an infinite median is
// ZERO_DENOM. Scope rank: rows (rank, value, why), of which the worst is. `why` counts only where value is NULL. More
// columns, by name: lo and hi, the ends of a 95 % interval (scope job); sigma, the error through the hosts' clocks, in
// its unit; part and whole (scope step): a rate (unit ".../s") is always their ratio summed over the steps, another
// ratio is that where the median step hides what it is divided by (specification.md, "Aggregation").
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

struct Metric {
  std::string id, name, unit, better, scope, source, sentence, bound, needs;
  std::string sql;
};

/// All metrics by id.
const std::vector<Metric>& all_metrics();

enum class MetricBound { kLower, kUpper };
/// The kind of bound that the value is where waits are lower bounds; nothing: it rests on none.
std::optional<MetricBound> bound_of(std::string_view id);

/// Throws ddl::Error (ExitCode::kUsage) naming `file` if the header is not complete.
Metric parse_metric(std::string_view file, std::string_view text);

/// A metric's value for a world, in its unit.
struct MetricResult {
  struct OfRank {
    int64_t rank = 0;
    std::optional<double> value, sigma;
    std::string why;
  };
  std::optional<double> value, lo, hi, p10, p90, sigma;  ///< as the columns of table `metric`
  std::optional<int64_t> steps;
  std::string why;            ///< of a value that is not known
  std::vector<OfRank> ranks;  ///< of scope rank
};

/// `db` is an analyzed run. Throws ddl::Error (ExitCode::kUsage) if the SELECT has other columns or rows than
/// the scope asks for.
MetricResult evaluate(SQLite::Database& db, const Metric& metric, int64_t world);

/// Fills tables `metric` and `rank_metric` for one world. `threads` as read_in_parallel() takes them
/// (analyzer/parallel_reads.h).
void compute_metrics(SQLite::Database& db, int64_t world, unsigned threads = 1);

struct MetricSource {
  std::string_view file;  ///< name without folder
  std::string_view text;
};

/// By file name.
std::span<const MetricSource> metric_sources();

}  // namespace ddl
