#include "reports/held_memory.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "analyzer/query.h"
#include "store/sorted_records.h"

namespace ddl::reports {
namespace {

struct MemoryValue {
  int64_t time_ns, step;  ///< step: -1: none
  double bytes;
  uint32_t series;  ///< a number of the process's own
};
struct ByValueTime {
  bool operator()(const MemoryValue& a, const MemoryValue& b) const { return a.time_ns < b.time_ns; }
};

constexpr std::string_view kMemoryPrefix = "memory ", kMemoryChange = "change";

/// "memory allocated cuda:0": what and device.
std::pair<std::string, std::string> what_and_device(const std::string& name) {
  const std::string rest = name.substr(kMemoryPrefix.size());
  const size_t blank = rest.find(' ');
  return {rest.substr(0, blank), rest.substr(blank + 1)};
}

void add_values(store::SortedRecords<MemoryValue, ByValueTime>& values, std::vector<HeldMemory>& series,
                bool with_bins) {
  struct Now {
    double bytes = 0;
    int64_t since_ns = 0;
  };
  std::vector<Now> now(series.size());
  int64_t end_ns = 0;
  const auto hold_until = [&](size_t i, int64_t ns) {
    if (with_bins && series[i].changes > 0) series[i].bins.hold(now[i].since_ns, ns, now[i].bytes);
  };
  values.sort();
  while (const MemoryValue* value = values.next()) {
    HeldMemory& held = series[value->series];
    hold_until(value->series, value->time_ns);
    end_ns = value->time_ns;
    Now& at = now[value->series];
    at = {held.what == kMemoryChange ? at.bytes + value->bytes : value->bytes, value->time_ns};
    held.last_bytes = static_cast<int64_t>(at.bytes);
    if (held.changes++ == 0 || held.last_bytes > held.most_bytes) {
      held.most_bytes = held.last_bytes;
      held.most_ns = value->time_ns;
      held.most_step = value->step < 0 ? std::nullopt : std::optional(value->step);
    }
  }
  for (size_t i = 0; i < series.size(); ++i) hold_until(i, end_ns);
}

}  // namespace

std::vector<HeldMemory> read_held_memory(const RunView& run, size_t drawn) {
  std::map<int64_t, int64_t> ranks;  // by process
  Query processes(run.db, "SELECT id, rank FROM process WHERE world = ? AND rank IS NOT NULL");
  for (processes.bind(run.world); processes.next();) ranks[processes.integer(0)] = processes.integer(1);
  std::vector<HeldMemory> all;
  std::map<std::pair<int64_t, std::string>, uint32_t> numbers;  // by process and name
  store::SortedRecords<MemoryValue, ByValueTime> values;
  Query row(
      run.db,
      "SELECT process, name, time_ns, step, value FROM value WHERE value IS NOT NULL"
      " AND (name LIKE 'memory allocated %' OR name LIKE 'memory reserved %' OR name LIKE 'memory change %') ORDER BY rowid");
  while (row.next()) {
    const auto rank = ranks.find(row.integer(0));
    if (rank == ranks.end()) continue;
    const auto [place, is_new] = numbers.try_emplace({row.integer(0), row.text(1)}, static_cast<uint32_t>(all.size()));
    if (is_new) {
      HeldMemory& held = all.emplace_back();
      held.process = rank->first, held.rank = rank->second;
      std::tie(held.what, held.device) = what_and_device(place->first.second);
    }
    values.add({row.integer(2), row.maybe_integer(3).value_or(-1), row.real(4), place->second});
  }
  add_values(values, all, drawn > 0);
  for (HeldMemory& held : all)
    if (held.what == kMemoryChange) held.what = "since begin";
  keep_most_important(all, drawn, [](const HeldMemory& a, const HeldMemory& b) { return a.most_bytes < b.most_bytes; });
  std::stable_sort(all.begin(), all.end(), [](const HeldMemory& a, const HeldMemory& b) {
    return std::tie(a.rank, a.device, a.what) < std::tie(b.rank, b.device, b.what);
  });
  return all;
}

}  // namespace ddl::reports
