// Launches of GPUs, for those who ask: calls and delays, how they are spread, and the queues of streams. Each goes through all launches.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

#include "analyzer/query.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

constexpr const char* kNoLaunches = "No launch was recorded. If the job used GPUs, ddl report loss says why.";

Value mean_ns(int64_t sum, int64_t count) {
  return count == 0 ? Value::absent(Unit::kDuration, "ZERO_DENOM") : Value::duration_ns(sum / count);
}

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
              .rows = {},
              .note = "delay: from the end of the call to the begin on the GPU; with what a full queue holds up, too",
              .when_empty = kNoLaunches};
  Query row(
      run.db,
      "SELECT rank, kind, count(*), sum(launch_duration_ns), sum(launch_delay_ns), sum(duration_ns), sum(duration_ns < launch_duration_ns),"
      " sum(launch_duration_ns > 50000), sum(launch_delay_ns > 100000) FROM v_launch WHERE world = ? GROUP BY rank, kind ORDER BY rank, kind");
  row.bind(run.world);
  while (row.next()) {
    const int64_t count = row.integer(2);
    add_row(run, table,
            {Value::count(row.integer(0)), Value::text(row.text(1)), Value::count(count), Value::duration_ns(row.integer(3)),
             mean_ns(row.integer(3), count), mean_ns(row.integer(4), count), mean_ns(row.integer(5), count), Value::count(row.integer(6)),
             Value::count(row.integer(7)), Value::count(row.integer(8))});
  }
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
              .rows = {},
              .note = {},
              .when_empty = kNoLaunches};
  struct Bin {
    int64_t kernels = 0, kernels_ns = 0, copies = 0, copies_ns = 0, calls = 0, delays = 0;
  };
  constexpr int64_t kFirstNs = 1000;  // the first bin is all below it, each further one twice as long
  std::map<int, Bin> bins;
  const auto bin_of = [&](int64_t ns) -> Bin& {
    return bins[static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(ns, 0) / kFirstNs)))];
  };
  Query row(run.db,
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
             Value::count(bin.kernels), Value::duration_ns(bin.kernels_ns), Value::count(bin.copies), Value::duration_ns(bin.copies_ns),
             Value::count(bin.calls), Value::count(bin.delays)});
  return table;
}

Table queue_table(const RunView& run) {
  // CUDA's queue of launches holds 1024; the call that launches one more waits.
  Table table{.id = "queue",
              .caption = "Queues of streams: kernels, copies and memsets that were launched and had not begun",
              .columns = {{"rank", "Rank", Unit::kCount},
                          {"device", "GPU", Unit::kCount},
                          {"stream", "Stream", Unit::kCount},
                          {"changes", "Changes", Unit::kCount, 2},
                          {"most", "Most", Unit::kCount},
                          {"mean", "Mean over time", Unit::kNumber},
                          {"empty_ns", "Empty for", Unit::kDuration},
                          {"full_ns", "1024 for", Unit::kDuration}},
              .rows = {},
              .note = "from a stream's first launch to the begin of its last operation",
              .when_empty = kNoLaunches};
  Query row(run.db, R"(
    WITH change AS (
      SELECT process, device, stream, launch_ns AS time_ns, 1 AS by FROM gpu_event WHERE kind IN (1, 2, 3) AND launch_ns IS NOT NULL
      UNION ALL
      SELECT process, device, stream, max(start_ns, launch_ns), -1 FROM gpu_event WHERE kind IN (1, 2, 3) AND launch_ns IS NOT NULL),
    moment AS (SELECT process, device, stream, time_ns, sum(by) AS by FROM change GROUP BY process, device, stream, time_ns),
    held AS (
      SELECT process, device, stream, sum(by) OVER stream_order AS length, lead(time_ns) OVER stream_order - time_ns AS ns
      FROM moment
      WINDOW stream_order AS (PARTITION BY process, device, stream ORDER BY time_ns)),
    time AS (
      SELECT process, device, stream, total(length * ns) / nullif(total(ns), 0) AS mean, sum(iif(length = 0, ns, 0)) AS empty_ns,
             sum(iif(length >= 1024, ns, 0)) AS full_ns
      FROM held
      GROUP BY process, device, stream),
    length AS (SELECT rank, device, stream, count(*) AS changes, max(length) AS most FROM v_queue WHERE world = ?1 GROUP BY rank, device, stream)
    SELECT l.rank, l.device, l.stream, l.changes, l.most, t.mean, t.empty_ns, t.full_ns
    FROM length l
    JOIN process p ON p.world = ?1 AND p.rank = l.rank
    JOIN time t ON t.process = p.id AND t.device IS l.device AND t.stream IS l.stream
    ORDER BY l.rank, l.device, l.stream)");
  row.bind(run.world);
  while (row.next())
    add_row(run, table,
            {Value::count(row.integer(0)), Value::count(row.integer(1)), Value::count(row.integer(2)), Value::count(row.integer(3)),
             Value::count(row.integer(4)), row.is_null(5) ? Value::absent(Unit::kNumber, "ZERO_DENOM") : Value::number(row.real(5)),
             Value::duration_ns(row.integer(6)), Value::duration_ns(row.integer(7))});
  return table;
}

}  // namespace ddl::reports
