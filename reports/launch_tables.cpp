// Launches of GPUs, for those who ask: calls and delays, and how they are spread. Each goes through all launches.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

#include "analyzer/query.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

constexpr const char* kNoLaunches = "No launch was recorded. If the job used GPUs, ddl report loss says why.";

}  // namespace

Table launches_table(const RunView& run) {
  // The limits are those of HTA.
  Table table{.id = "launches",
              .caption = "Launches of kernels, copies and memsets, by rank",
              .columns = {{"rank", "Rank", Unit::kCount},
                          {"kind", "Kind", Unit::kText},
                          {"launches", "Launches", Unit::kCount},
                          {"call_ns", "In calls", Unit::kDuration},
                          {"mean_call_ns", "Call", Unit::kDuration},
                          {"mean_delay_ns", "Delay", Unit::kDuration},
                          {"mean_time_ns", "On GPU", Unit::kDuration},
                          {"short", "Shorter than call", Unit::kCount},
                          {"slow_calls", "Calls > 50us", Unit::kCount},
                          {"late", "Delays > 100us", Unit::kCount}},
              .note = "delay: from the end of the call to the begin on the GPU; with what a full queue holds up, too",
              .when_empty = kNoLaunches};
  Query row(run.db, R"(
    SELECT rank, kind, count(*), sum(launch_duration_ns), sum(launch_duration_ns) / count(*), sum(launch_delay_ns) / count(*),
           sum(duration_ns) / count(*), sum(duration_ns < launch_duration_ns), sum(launch_duration_ns > 50000), sum(launch_delay_ns > 100000)
    FROM v_launch
    WHERE world = ?
    GROUP BY rank, kind
    ORDER BY rank, kind)");
  row.bind(run.world);
  while (row.next()) add_row(run, table, cells(row, table));
  return table;
}

Table durations_table(const RunView& run) {
  Table table{.id = "durations",
              .caption = "How many take how long: kernels, copies and memsets, launching calls, delays until the begin",
              .columns = {{"from_ns", "From", Unit::kDuration},
                          {"below_ns", "Below", Unit::kDuration},
                          {"kernels", "Kernels", Unit::kCount},
                          {"kernels_ns", "Their time", Unit::kDuration, 2},
                          {"copies", "Copies", Unit::kCount},
                          {"copies_ns", "Their time", Unit::kDuration, 3},
                          {"calls", "Calls", Unit::kCount},
                          {"delays", "Delays", Unit::kCount}},
              .when_empty = kNoLaunches};
  struct Bin {
    int64_t kernels = 0, kernels_ns = 0, copies = 0, copies_ns = 0, calls = 0, delays = 0;
  };
  constexpr int64_t kFirstNs = 1000;  // the first bin is all below it, each further one twice as long
  std::map<int, Bin> bins;
  const auto bin_of = [&](int64_t ns) -> Bin& {
    return bins[static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(ns, 0) / kFirstNs)))];
  };
  Query row(
      run.db,
      "SELECT g.kind = 1, g.duration_ns, g.launch_duration_ns, g.start_ns - g.launch_ns - g.launch_duration_ns FROM gpu_event g"
      " JOIN process p ON p.id = g.process WHERE p.world = ? AND g.kind IN (1, 2, 3)");
  row.bind(run.world);
  while (row.next()) {
    const int64_t ns = row.integer(1);
    Bin& bin = bin_of(ns);
    (row.integer(0) != 0 ? bin.kernels : bin.copies) += 1;
    (row.integer(0) != 0 ? bin.kernels_ns : bin.copies_ns) += ns;
    if (row.is_null(3)) continue;
    ++bin_of(row.integer(2)).calls;
    ++bin_of(row.integer(3)).delays;
  }
  for (const auto& [number, bin] : bins)
    add_row(run, table,
            {Value::duration_ns(number == 0 ? 0 : kFirstNs << (number - 1)), Value::duration_ns(kFirstNs << number),
             Value::count(bin.kernels), Value::duration_ns(bin.kernels_ns), Value::count(bin.copies),
             Value::duration_ns(bin.copies_ns), Value::count(bin.calls), Value::count(bin.delays)});
  return table;
}

}  // namespace ddl::reports
