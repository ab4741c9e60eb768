#include "analyzer/passes/input_ranges.h"

#include <fmt/format.h>

namespace ddl {
namespace {

/// Names that PyTorch, TensorFlow and people use, in any case.
constexpr const char* kInputRegions =
    "SELECT id FROM region WHERE lower(name) LIKE '%dataload%' OR lower(name) LIKE '%load_data%' OR lower(name) LIKE '%data_load%'"
    " OR lower(name) LIKE '%load_batch%' OR lower(name) LIKE '%next_batch%' OR lower(name) IN ('data', 'input', 'input_pipeline', 'load')";

bool exists(SQLite::Database& db) {
  Query row(db, kInputRegions);
  return row.next();
}

}  // namespace

InputRanges::InputRanges(SQLite::Database& db)
    : any_(exists(db)),
      rows_(db, fmt::format("SELECT thread, start_ns, duration_ns FROM range_event WHERE process = ? AND region IN ({}) ORDER BY start_ns",
                            kInputRegions)) {}

std::vector<InputRange> InputRanges::of(int64_t process) {
  std::vector<InputRange> ranges;
  if (!any_) return ranges;
  rows_.bind(process);
  while (rows_.next()) ranges.push_back({rows_.integer(0), {rows_.integer(1), rows_.integer(1) + rows_.integer(2)}});
  return ranges;
}

}  // namespace ddl
