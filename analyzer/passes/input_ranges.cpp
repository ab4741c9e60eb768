#include "analyzer/passes/input_ranges.h"

#include <fmt/format.h>

#include <algorithm>

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

InputRanges::InputRanges(SQLite::Database& db) : db_(db), any_(exists(db)) {}

const std::vector<InputRange>& InputRanges::of(int64_t process) {
  static const std::vector<InputRange> kNone;
  if (any_ && !read_) {
    read_ = true;
    Query rows(db_, fmt::format("SELECT process, thread, start_ns, duration_ns FROM range_event WHERE region IN ({})", input_regions()));
    while (rows.next()) ranges_[rows.integer(0)].push_back({rows.integer(1), {rows.integer(2), rows.integer(2) + rows.integer(3)}});
    // They lie so nearly always.
    const auto earlier = [](const InputRange& a, const InputRange& b) { return a.interval.begin_ns < b.interval.begin_ns; };
    for (auto& [id, ranges] : ranges_)
      if (!std::is_sorted(ranges.begin(), ranges.end(), earlier)) std::stable_sort(ranges.begin(), ranges.end(), earlier);
  }
  const auto known = ranges_.find(process);
  return known == ranges_.end() ? kNone : known->second;
}

}  // namespace ddl
