// What GPUs did: the table that nvprof prints, the same by layer, and what the links carried. Times are sums over
// ranks and streams.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/held_memory.h"
#include "reports/overview.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

Value part_of(int64_t part, int64_t whole) {
  return whole == 0 ? Value::absent(Unit::kShare, "ZERO_DENOM")
                    : Value::share(static_cast<double>(part) / static_cast<double>(whole));
}

/// The first names of a sequence; how many more there are.
std::string head_of(const std::string& sequence, int64_t kernels) {
  constexpr std::string_view kBetween = " | ";
  constexpr int64_t kMostNames = 8;
  size_t end = 0;
  for (int64_t i = 0; i < kMostNames; ++i) {
    end = sequence.find(kBetween, i == 0 ? 0 : end + kBetween.size());
    if (end == std::string::npos) return sequence;
  }
  return fmt::format("{} | {} more", std::string_view(sequence).substr(0, end), kernels - kMostNames);
}

/// What counts as computing because no rule knows its name, with the names that take longest; nothing where that is
/// little (specification.md J5).
std::string note_of_unclassified(const RunView& run) {
  constexpr double kWorthSaying = 0.01;
  constexpr size_t kNameLength = 70;
  Query share(run.db, R"(
    SELECT total(iif(class = 'unclassified', ns, 0)) / nullif(sum(ns), 0), total(iif(class = 'unclassified', names, 0))
    FROM kernel_time
    WHERE world = ?)");
  share.bind(run.world);
  if (!share.next() || share.is_null(0) || share.real(0) <= kWorthSaying) return {};
  std::string note = fmt::format(
      "{} of the kernels' time is in {} that no rule knows. It counts as computing; see that these do not communicate:",
      percent_text(share.real(0)), share.integer(1) == 1 ? "one" : fmt::format("{} names", share.integer(1)));
  Query names(run.db, R"(
    SELECT n.name
    FROM (SELECT name, sum(duration_ns) AS time_ns
          FROM gpu_event
          WHERE kind = 1 AND comm IS NULL AND process IN (SELECT id FROM process WHERE world = ?)
          GROUP BY name) s
    JOIN gpu_name n ON n.id = s.name AND n.class = 'unclassified'
    ORDER BY s.time_ns DESC, n.name
    LIMIT 3)");
  names.bind(run.world);
  for (bool first = true; names.next(); first = false) {
    std::string name = names.text(0);
    if (name.starts_with("void ")) name.erase(0, 5);
    if (name.size() > kNameLength) name.replace(kNameLength, std::string::npos, "..");
    note += (first ? " " : ", ") + printable(name);
  }
  return note;
}

}  // namespace

Table gpu_table(const RunView& run) {
  Table table{.id = "gpu",
              .caption = "GPU activities, summed over ranks and streams",
              .columns = {{"time_ratio", "Time(%)", Unit::kShare, 9, "ZERO_DENOM"},
                          {"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount},
                          {"avg_ns", "Avg", Unit::kDuration},
                          {"min_ns", "Min", Unit::kDuration, 2},
                          {"max_ns", "Max", Unit::kDuration, 2},
                          {"bytes", "Bytes", Unit::kBytes, 1},
                          {"name", "Name", Unit::kText},
                          {"class", "", Unit::kText, 0}},
              .when_empty = "No GPU activity was recorded. If the job used GPUs, ddl report loss says why."};
  // Summed by number before names are looked at.
  Query row(run.db, R"(
    WITH named AS MATERIALIZED (
      SELECT g.name AS id, sum(g.duration_ns) AS time_ns, count(*) AS calls, min(g.duration_ns) AS least_ns, max(g.duration_ns) AS most_ns,
             sum(g.bytes) AS bytes
      FROM gpu_event g
      WHERE g.kind IN (1, 2, 3) AND g.process IN (SELECT id FROM process WHERE world = ?1)
      GROUP BY g.name)
    SELECT s.time_ns * 1.0 / nullif((SELECT sum(time_ns) FROM named), 0), s.time_ns, s.calls, (s.time_ns + s.calls / 2) / s.calls, s.least_ns,
           s.most_ns, s.bytes, n.name, n.class, (SELECT count(*) FROM named)
    FROM named s
    JOIN gpu_name n ON n.id = s.id
    ORDER BY s.time_ns DESC, n.name
    LIMIT ?2)");
  row.bind(run.world, static_cast<int64_t>(std::min<size_t>(run.rows_wanted, INT64_MAX)));
  while (row.next()) {
    table.left_out = static_cast<size_t>(row.integer(9)) - table.rows.size() - 1;
    table.rows.push_back(cells(row, table));
  }
  table.note = note_of_unclassified(run);
  return table;
}

Table gpu_layers_table(const RunView& run) {
  Table table{.id = "gpu_layers",
              .caption = "What GPUs did for each layer, summed over ranks and streams; side by side counts twice",
              .columns = {{"time_ratio", "Time(%)", Unit::kShare},
                          {"time_ns", "Time", Unit::kDuration},
                          {"kernels", "Kernels", Unit::kCount, 4},
                          {"compute_ns", "Compute", Unit::kDuration},
                          {"comm_ns", "Collectives", Unit::kDuration},
                          {"copy_ns", "Copies", Unit::kDuration},
                          {"copy_bytes", "Copied", Unit::kBytes, 3},
                          {"phase", "Phase", Unit::kText},
                          {"layer", "Name", Unit::kText}},
              .when_empty = "No GPU activity was recorded. If the job used GPUs, ddl report loss says why."};
  struct Sums {
    int64_t kernels = 0, compute_ns = 0, comm_ns = 0, copy_ns = 0, copy_bytes = 0;
    bool has_bytes = false;  // something copies bytes that are known, or nothing
    int64_t time_ns() const { return compute_ns + comm_ns + copy_ns; }
  };
  // By number, before names are looked at: what there is to sum is all that GPUs did.
  std::unordered_map<int64_t, bool> communicates;
  for (Query name(run.db, "SELECT id, class = 'communication' FROM gpu_name"); name.next();)
    communicates[name.integer(0)] = name.integer(1);
  std::unordered_map<int64_t, Sums> by_region;
  Query event(run.db,
              "SELECT region, kind, duration_ns, name, comm IS NOT NULL, bytes FROM gpu_event"
              " WHERE kind IN (1, 2, 3) AND process IN (SELECT id FROM process WHERE world = ?)");
  event.bind(run.world);
  while (event.next()) {
    Sums& sums = by_region[event.integer(0)];
    const int64_t kind = event.integer(1), ns = event.integer(2);
    if (kind == 1) {
      ++sums.kernels;
      (event.integer(4) != 0 || communicates[event.integer(3)] ? sums.comm_ns : sums.compute_ns) += ns;
    } else {
      sums.copy_ns += ns;
    }
    if (kind == 2) sums.copy_bytes += event.integer(5);
    sums.has_bytes = sums.has_bytes || kind != 2 || !event.is_null(5);
  }
  using Name = std::optional<std::string>;
  std::map<std::pair<Name, Name>, Sums> by_layer;  // and phase
  int64_t all_ns = 0;
  for (Query region(run.db, "SELECT id, layer, phase FROM region"); region.next();) {
    const auto found = by_region.find(region.integer(0));
    if (found == by_region.end()) continue;
    const auto name = [&](int column) { return region.is_null(column) ? Name() : Name(region.text(column)); };
    Sums& sums = by_layer[{name(1), name(2)}];
    const Sums& more = found->second;
    sums.kernels += more.kernels, sums.compute_ns += more.compute_ns, sums.comm_ns += more.comm_ns,
        sums.copy_ns += more.copy_ns;
    sums.copy_bytes += more.copy_bytes, sums.has_bytes = sums.has_bytes || more.has_bytes;
    all_ns += more.time_ns();
  }
  std::vector<const std::pair<const std::pair<Name, Name>, Sums>*> longest;
  for (const auto& layer : by_layer) longest.push_back(&layer);
  std::stable_sort(longest.begin(), longest.end(),
                   [](auto* a, auto* b) { return a->second.time_ns() > b->second.time_ns(); });
  const auto named = [](const Name& name) {
    return name ? Value::text(*name) : Value::absent(Unit::kText, "NOT_APPLICABLE");
  };
  for (const auto* layer : longest) {
    const Sums& sums = layer->second;
    table.rows.push_back(
        {part_of(sums.time_ns(), all_ns), Value::duration_ns(sums.time_ns()), Value::count(sums.kernels),
         Value::duration_ns(sums.compute_ns), Value::duration_ns(sums.comm_ns), Value::duration_ns(sums.copy_ns),
         sums.has_bytes ? Value::bytes(sums.copy_bytes) : Value::absent(Unit::kBytes, "NOT_APPLICABLE"),
         named(layer->first.second), named(layer->first.first)});
  }
  return table;
}

Table critical_path_table(const RunView& run) {
  Table table{
      .id = "critical_path",
      .caption =
          "Critical path, of a steady step of a rank in the mean: through host and GPUs, one thing after the other",
      .columns = {{"time_ratio", "Path(%)", Unit::kShare, 9, "ZERO_DENOM"},
                  {"time_ns", "Time", Unit::kDuration},
                  {"pieces", "Pieces", Unit::kCount, 3},
                  {"kind", "What", Unit::kText},
                  {"layer", "Layer", Unit::kText, 2},
                  {"name", "Name", Unit::kText}},
      .when_empty = "No GPU activity was recorded in a steady step."};
  Query row(run.db, R"(
    WITH paths AS MATERIALIZED (
      SELECT c.*
      FROM critical_path c
      JOIN process p ON p.id = c.process
      WHERE p.world = ?1 AND iif((SELECT annotated FROM steady_world WHERE world = ?1),
                                 c.step IN (SELECT step FROM steady_number WHERE world = ?1), 1)),
    sums AS MATERIALIZED (
      SELECT c.kind, n.name, r.layer, coalesce(n.name, r.name) AS of, sum(c.pieces) AS pieces, sum(c.time_ns) AS time_ns
      FROM (SELECT kind, name, region, sum(pieces) AS pieces, sum(time_ns) AS time_ns FROM paths GROUP BY kind, name, region) c
      LEFT JOIN gpu_name n ON n.id = c.name
      LEFT JOIN region r ON r.id = c.region
      GROUP BY c.kind, n.name, r.layer, of),
    all_steps (number) AS MATERIALIZED (SELECT count(*) FROM (SELECT DISTINCT process, step FROM paths))
    SELECT time_ns * 1.0 / nullif((SELECT sum(time_ns) FROM sums), 0), (time_ns + number / 2) / number, (pieces + number / 2) / number, kind,
           layer, of, (SELECT count(*) FROM sums)
    FROM sums
    CROSS JOIN all_steps
    ORDER BY time_ns DESC, kind, of, layer
    LIMIT ?2)");
  row.bind(run.world, static_cast<int64_t>(std::min<size_t>(run.rows_wanted, INT64_MAX)));
  while (row.next()) {
    table.left_out = static_cast<size_t>(row.integer(6)) - table.rows.size() - 1;
    table.rows.push_back(cells(row, table));
  }
  return table;
}

Table sequences_table(const RunView& run) {
  Table table{.id = "sequences",
              .caption = "Kernels and copies that operators and layers launch one after the other, most frequent first",
              .columns = {{"calls", "Calls", Unit::kCount},
                          {"kernels", "Kernels", Unit::kCount},
                          {"time_ns", "On GPU", Unit::kDuration},
                          {"host_ns", "On host", Unit::kDuration},
                          {"range", "In", Unit::kText},
                          {"name", "Sequence", Unit::kText}},
              .note = "of operators and layers inside each other that launched the same, the outermost",
              .when_empty = "No operator or layer launched two kernels, or none was recorded."};
  // Equal sums are those of the same calls; max() picks the row.
  Query row(run.db, R"(
    SELECT calls, kernels, gpu_ns, max(host_ns) AS longest_ns, range_name, sequence
    FROM (SELECT range_name, sequence, kernels, sum(calls) AS calls, sum(gpu_ns) AS gpu_ns, sum(host_ns) AS host_ns
          FROM v_kernel_sequence
          WHERE world = ? AND kind IN ('operator', 'layer') AND kernels >= 2
          GROUP BY range_name, sequence)
    GROUP BY sequence, calls, gpu_ns
    ORDER BY calls DESC, gpu_ns DESC, range_name, sequence)");
  row.bind(run.world);
  while (row.next()) {
    std::vector<Value> sequence = cells(row, table);
    sequence[5] = Value::text(head_of(row.text(5), row.integer(1)));
    add_row(run, table, std::move(sequence));
  }
  return table;
}

Table memory_table(const RunView& run) {
  Table table{.id = "memory",
              .caption = "Memory of allocators, by device: most, and when",
              .columns = {{"rank", "Rank", Unit::kCount},
                          {"device", "Device", Unit::kText},
                          {"what", "What", Unit::kText},
                          {"most_bytes", "Most", Unit::kBytes},
                          {"time_ns", "At", Unit::kDuration},
                          {"step", "Step", Unit::kCount},
                          {"last_bytes", "At the end", Unit::kBytes, 2},
                          {"changes", "Changes", Unit::kCount, 3},
                          {"name", "In", Unit::kText}},
              .when_empty = "No memory was recorded: torch.profiler does with profile_memory=True."};
  Query range(run.db, R"(
    SELECT r.name
    FROM range_event e
    JOIN region r ON r.id = e.region
    WHERE e.process = ? AND e.start_ns <= ?2 AND e.start_ns + e.duration_ns > ?2
    ORDER BY e.start_ns DESC, e.duration_ns
    LIMIT 1)");
  for (const HeldMemory& held : read_held_memory(run, 0)) {
    range.bind(held.process, held.most_ns);
    add_row(run, table,
            {Value::count(held.rank), Value::text(held.device), Value::text(held.what), Value::bytes(held.most_bytes),
             Value::duration_ns(held.most_ns),
             held.most_step ? Value::count(*held.most_step) : Value::absent(Unit::kCount, "NOT_APPLICABLE"),
             Value::bytes(held.last_bytes), Value::count(held.changes),
             range.next() ? Value::text(range.text(0)) : Value::absent(Unit::kText, "NOT_APPLICABLE")});
  }
  return table;
}

Table links_table(const RunView& run) {
  Table table{.id = "links",
              .caption = "Copies of GPUs: what they carried, and what the link could in that direction",
              .columns = {{"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount},
                          {"bytes", "Bytes", Unit::kBytes},
                          {"bytes_per_second", "Bandwidth", Unit::kBandwidth},
                          {"peak_bytes_per_second", "Peak", Unit::kBandwidth, 2},
                          {"peak_ratio", "Of peak", Unit::kRatio, 3},
                          {"memory", "Memory", Unit::kText},
                          {"link", "Link", Unit::kText, 1},
                          {"name", "Name", Unit::kText}},
              .when_empty = "No GPU copied anything."};
  Query row(
      run.db,
      "SELECT kind, memory, link, sum(time_ns), sum(calls), sum(bytes), peak_bytes_per_second FROM v_link WHERE world = ?"
      " GROUP BY kind, memory, link, peak_bytes_per_second ORDER BY 4 DESC, kind, memory");
  row.bind(run.world);
  bool pageable = false;
  while (row.next()) {
    const int64_t time_ns = row.integer(3), bytes = row.integer(5);
    const double per_second = time_ns > 0 ? static_cast<double>(bytes) * 1e9 / static_cast<double>(time_ns) : 0;
    const std::string kind = row.text(0);
    const bool of_host = kind == "HtoD" || kind == "DtoH" || kind == "HtoA" || kind == "AtoH";
    const char* why = of_host || kind == "PtoP" ? "NO_DATA" : "NOT_APPLICABLE";
    pageable = pageable || row.text(1) == "pageable";
    table.rows.push_back(
        {Value::duration_ns(time_ns), Value::count(row.integer(4)), Value::bytes(bytes),
         time_ns > 0 ? Value::bandwidth(per_second) : Value::absent(Unit::kBandwidth, "ZERO_DENOM"),
         cell(row, 6, Unit::kBandwidth, why),
         row.is_null(6) || time_ns == 0 ? Value::absent(Unit::kRatio, why) : Value::ratio(per_second / row.real(6)),
         cell(row, 1, Unit::kText, of_host ? "NO_DATA" : "NOT_APPLICABLE"), cell(row, 2, Unit::kText, why),
         Value::text(kind)});
  }
  if (pageable)
    table.note = "pageable: the driver copies through a buffer of its own; pinned memory (cudaMallocHost) avoids that";
  return table;
}

// Means over the steady steps, or the whole run where there are none.
Table gpus_table(const RunView& run) {
  Table table{.id = "gpus",
              .caption = fmt::format(
                  "GPUs, {}: where their time went. Exposed: collectives with nothing that computes beside them.",
                  run.has_steps ? "mean step" : "whole run"),
              .columns = {{"rank", "Rank", Unit::kCount},
                          {"device", "GPU", Unit::kCount},
                          {"duration_ns", "Time", Unit::kDuration, 3},
                          {"compute_ns", "Compute", Unit::kDuration},
                          {"comm_ns", "Collectives", Unit::kDuration, 4},
                          {"exposed_comm_ns", "Exposed", Unit::kDuration},
                          {"exposed_wait_ns", "Wait", Unit::kDuration, 5},
                          {"exposed_copy_ns", "Copies", Unit::kDuration, 6},
                          {"idle_ns", "Idle", Unit::kDuration},
                          {"idle_host_ns", "Host late", Unit::kDuration, 7},
                          {"idle_input_ns", "Input", Unit::kDuration, 1},
                          {"idle_launch_ns", "Launch", Unit::kDuration, 1},
                          {"idle_kernel_ns", "Between", Unit::kDuration, 1},
                          {"idle_dep_comm_ns", "For coll.", Unit::kDuration, 1},
                          {"idle_dep_copy_ns", "For copy", Unit::kDuration, 1},
                          {"idle_other_ns", "Other", Unit::kDuration, 2},
                          {"name", "Name", Unit::kText}},
              .when_empty = "No GPU activity was recorded. If the job used GPUs, ddl report loss says why."};
  Query row(
      run.db,
      "SELECT p.rank, g.device, u.name, max(g.why), count(*), count(g.exposed_wait_ns), sum(g.duration_ns), sum(g.compute_ns), "
      "sum(g.comm_ns),"
      " sum(g.exposed_comm_ns), sum(g.exposed_wait_ns), sum(g.exposed_copy_ns), sum(g.idle_ns), sum(g.idle_host_ns), sum(g.idle_input_ns),"
      " sum(g.idle_launch_ns), sum(g.idle_kernel_ns), sum(g.idle_dep_comm_ns), sum(g.idle_dep_copy_ns), sum(g.idle_other_ns)"
      " FROM gpu_part g JOIN process p ON p.id = g.process LEFT JOIN gpu u ON u.process = g.process AND u.device = g.device"
      " WHERE p.world = ?1 AND iif(?2, g.step IN (SELECT step FROM steady_number WHERE world = ?1), g.step IS NULL)"
      " GROUP BY p.id, g.device ORDER BY p.rank, g.device");
  row.bind(run.world, run.has_steps ? 1 : 0);
  while (row.next()) {
    const int64_t windows = row.integer(4);
    std::vector<Value> cells = {cell(row, 0, Unit::kCount, "NOT_APPLICABLE"), Value::count(row.integer(1))};
    for (int column = 6; column < 20; ++column) {
      const bool known = column != 10 || row.integer(5) == windows;
      cells.push_back(known ? Value::duration_ns((row.integer(column) + windows / 2) / windows)
                            : Value::absent(Unit::kDuration, row.text(3)));
    }
    cells.push_back(cell(row, 2, Unit::kText, "NO_DATA"));
    table.rows.push_back(std::move(cells));
  }
  Query tracing(
      run.db,
      "SELECT total(g.duration_ns) FROM gpu_event g JOIN process p ON p.id = g.process WHERE p.world = ? AND g.kind = 5");
  tracing.bind(run.world);
  if (tracing.next() && tracing.real(0) > 0)
    table.note = fmt::format("CUPTI's own overhead in the whole run, summed over ranks: {} (v_gpu, kind overhead)",
                             table_text(Value::duration_ns(static_cast<int64_t>(tracing.real(0)))));
  return table;
}

}  // namespace ddl::reports
