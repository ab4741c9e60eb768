#include "analyzer/passes/input_ranges.h"

#include <fmt/format.h>

namespace ddl {
namespace {

const std::string& input_regions() {
  static const std::string kRegions = fmt::format("SELECT id FROM region WHERE {}", kInputRanges);
  return kRegions;
}

bool exists(SQLite::Database& db) {
  Query row(db, input_regions());
  return row.next();
}

}  // namespace

InputRanges::InputRanges(SQLite::Database& db)
    : any_(exists(db)),
      rows_(db, fmt::format("SELECT thread, start_ns, duration_ns FROM range_event WHERE process = ? AND region IN ({}) ORDER BY start_ns",
                            input_regions())) {}

std::vector<InputRange> InputRanges::of(int64_t process) {
  std::vector<InputRange> ranges;
  if (!any_) return ranges;
  rows_.bind(process);
  while (rows_.next()) ranges.push_back({rows_.integer(0), {rows_.integer(1), rows_.integer(1) + rows_.integer(2)}});
  return ranges;
}

}  // namespace ddl
