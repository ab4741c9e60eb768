#include "analyzer/passes/input_ranges.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/each_row.h"

namespace ddl {

InputRanges::InputRanges(SQLite::Database& db)
    : db_(db), regions_(id_list(db, fmt::format("SELECT id FROM region WHERE {}", kInputRanges))) {}

const std::vector<InputRange>& InputRanges::of(int64_t process) {
  static const std::vector<InputRange> kNone;
  if (any() && !read_) {
    read_ = true;
    EachRow rows(db_, "process, thread, start_ns, duration_ns",
                 fmt::format("range_event WHERE region IN ({})", regions_));
    rows.run([&](const RowValues& row) {
      ranges_[row.integer(0)].push_back({row.integer(1), {row.integer(2), row.integer(2) + row.integer(3)}});
    });
    // They lie so nearly always.
    const auto earlier = [](const InputRange& a, const InputRange& b) {
      return a.interval.begin_ns < b.interval.begin_ns;
    };
    for (auto& [id, ranges] : ranges_)
      if (!std::is_sorted(ranges.begin(), ranges.end(), earlier))
        std::stable_sort(ranges.begin(), ranges.end(), earlier);
  }
  const auto known = ranges_.find(process);
  return known == ranges_.end() ? kNone : known->second;
}

}  // namespace ddl
