#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/query.h"
#include "core/error.h"
#include "reports/format.h"
#include "reports/json.h"
#include "reports/overview.h"
#include "store/text.h"

namespace ddl::reports {
namespace {

// A table of ranks is for reading; with more of them the line BY RANK names the extremes.
constexpr size_t kMostRanksShown = 16;

constexpr Section kSections[] = {
    {"findings", "what to fix", nullptr, 0},
    {"stalls", "stalls that ddl record --stall reported: who did not come, since when", stalls_table, 4},
    {"stacks", "stacks of all ranks during stalls, equal ones together", stacks_table, 8},
    {"hang", "flight recorder dumps: who waits in which operation, and for whom", hang_table, 12},
    {"hang_stacks", "flight recorder dumps: from where, equal stacks together", hang_stacks_table, 8},
    {"ranks", "one line per rank: lateness, waiting, compute, how it ended", ranks_table, kMostRanksShown, true},
    {"blame", "who waited for whom, in collectives and for messages", blame_table, 0, true},
    {"processes", "one line per process, also those without a rank", processes_table, 0, true},
    {"open_calls", "calls that never returned", open_calls_table, 10},
    {"collectives", "by operation, size and communicator: waiting, transfer, bandwidth", collectives_table, 8},
    {"axes", "collectives by axis of parallelism: waiting, transfer, exposed part, who is late", axes_table, 8},
    {"axis_blame", "who was waited for on each axis of parallelism", axis_blame_table, 0, true},
    {"traffic", "bytes of all-to-alls, rank by rank", traffic_table, 8, true},
    {"calls", "every MPI operation", calls_table, 12},
    {"layers", "annotated layers", layers_table, 10},
    {"counters", "what ddl record --counters counted in steps, phases and layers", counters_table, 8},
    {"gpus", "one line per GPU: computing, collectives, copies, idle and why", gpus_table, 16},
    {"gpu", "kernels and copies of GPUs", gpu_table, 8},
    {"gpu_layers", "what GPUs did for each layer", gpu_layers_table, 8},
    {"critical_path", "what a step's critical path through host and GPUs is made of", critical_path_table, 0},
    {"what_if", "what a step would gain if operators took half their time, or none: replayed", what_if_table, 0, false,
     true},
    {"launches", "kernels and copies: how long their launches take, how late they start", launches_table, 0, true,
     true},
    {"durations", "histograms of kernels, copies, launches and delays", durations_table, 0, false, true},
    {"queue", "what was launched and had not begun, by stream", queue_table, 0, true, true},
    {"sequences", "sequences of kernels and copies that operators and layers launch most often", sequences_table, 0,
     false, true},
    {"memory", "peak memory of allocators, by device, with step and range", memory_table, 0, true},
    {"links", "rates of GPU copies against the link's", links_table, 6},
    {"steps", "one line per step", steps_table, 0},
    {"metrics", "all metrics", metrics_table, 0},
    {"loss", "what is missing from the data", loss_table, SIZE_MAX},
};

void cut(Table& table, size_t rows) {
  const size_t shown = std::min(rows, table.rows.size()), left_out = table.rows.size() - shown + table.left_out;
  if (left_out == 0) return;
  table.rows.erase(table.rows.begin() + static_cast<ptrdiff_t>(shown), table.rows.end());
  const std::string more = fmt::format("{} more: ddl report {}", count_text(static_cast<int64_t>(left_out)), table.id);
  table.note = table.note.empty() ? more : fmt::format("{}; {}", table.note, more);
}

/// Where there is one axis, the tables of collectives and of blame say it all.
bool says_nothing(const Section& section, const Table& table) {
  if (table.rows.empty()) return true;
  if (section.build == axis_blame_table)
    return table.rows.front().back().as_text() == table.rows.back().back().as_text();
  return section.build == axes_table && table.rows.size() == 1;
}

/// For a run made of dumps of flight recorders nothing is known of times: what would tell them says n/a everywhere.
bool tells_only_of_hangs(const RunView& run) {
  Query any(run.db, "SELECT 1 FROM hang_rank WHERE world = ? AND NOT EXISTS (SELECT 1 FROM event) LIMIT 1");
  any.bind(run.world);
  return any.next();
}

Document build_common(const RunView& run, const std::string& source) {
  Document document;
  add_loss(run, document);
  add_metrics(run, document);
  add_header(run, source, document);
  add_findings(run, document);
  if (run.ranks > 0 && !tells_only_of_hangs(run)) add_numbers(run, document);
  return document;
}

}  // namespace

std::span<const Section> sections() { return kSections; }

const Section* find_section(std::string_view name) {
  std::string spelled(name);
  std::replace(spelled.begin(), spelled.end(), '-', '_');
  const auto section =
      std::find_if(std::begin(kSections), std::end(kSections), [&](const Section& s) { return s.name == spelled; });
  return section == std::end(kSections) ? nullptr : section;
}

void add_row(const RunView& run, Table& table, std::vector<Value> cells) {
  if (table.rows.size() + table.handed_on >= run.rows_wanted) {
    ++table.left_out;
  } else if (run.each_row) {
    run.each_row(table, cells);
    ++table.handed_on;
  } else {
    table.rows.push_back(std::move(cells));
  }
}

Document build_overview(const RunView& run, const std::string& source) {
  Document document = build_common(run, source);
  RunView brief = run;
  for (const Section& section : kSections) {
    if (section.build == nullptr) continue;
    const bool instead_of_ranks = run.ranks == 0 && section.build == processes_table;
    const size_t rows = instead_of_ranks ? kMostRanksShown : section.rows_in_overview;
    if (rows == 0) continue;
    brief.rows_wanted = rows;
    Table table = section.build(brief);
    if (section.build == ranks_table &&
        (table.rows.size() + table.left_out > kMostRanksShown || tells_only_of_hangs(run)))
      continue;
    if (says_nothing(section, table)) continue;
    if (section.build == collectives_table) merge_like_groups(table);
    cut(table, rows);
    document.tables.push_back(std::move(table));
  }
  const std::string typed = shell_quoted(source);
  document.more = {run.has_steps ? "ddl report steps" : "ddl report metrics", "ddl report --json",
                   fmt::format("ddl query {} 'select * from v_collective limit 5'", typed)};
  if (tells_only_of_hangs(run))
    document.more = {"ddl report hang", "ddl report --html FILE",
                     fmt::format("ddl query {} 'select * from v_flight where open'", typed)};
  return document;
}

Document build_everything(const RunView& run, const std::string& source) {
  Document document = build_common(run, source);
  for (const Section& section : kSections)
    if (section.build != nullptr && section.build != metrics_table && section.build != loss_table && !section.alone)
      document.tables.push_back(section.build(run));
  return document;
}

void write_everything(const RunView& run, const std::string& source, size_t rows_by_rank,
                      const std::function<void(std::string_view)>& out) {
  const Document document = build_common(run, source);
  JsonStream json(out);
  json.begin(document);
  RunView part = run;
  part.each_row = [&](const Table& table, const std::vector<Value>& cells) { json.row(table.columns, cells); };
  std::vector<std::pair<std::string, size_t>> left_out;
  for (const Section& section : kSections) {
    if (section.build == nullptr || section.build == metrics_table || section.build == loss_table || section.alone)
      continue;
    const size_t most = section.by_rank ? rows_by_rank : SIZE_MAX;
    part.rows_wanted = most;
    json.begin_table(section.name);
    const Table table = section.build(part);
    const size_t rows = std::min(most, table.rows.size());
    for (size_t i = 0; i < rows; ++i) json.row(table.columns, table.rows[i]);
    json.end_table();
    if (const size_t more = table.left_out + table.rows.size() - rows; more > 0)
      left_out.emplace_back(section.name, more);
  }
  json.left_out(left_out);
  json.end(document);
}

Document build_page(const RunView& run, const std::string& source) {
  constexpr size_t kMostRows = 100;
  Document document = build_common(run, source);
  RunView brief = run;
  brief.rows_wanted = kMostRows;
  for (const Section& section : kSections) {
    if (section.build == nullptr || section.build == metrics_table || section.build == steps_table || section.alone)
      continue;
    if (section.build == ranks_table && tells_only_of_hangs(run)) continue;
    Table table = section.build(brief);
    if (says_nothing(section, table)) continue;
    cut(table, kMostRows);
    document.tables.push_back(std::move(table));
  }
  const std::string typed = shell_quoted(source);
  document.more = {fmt::format("ddl report {}", typed), fmt::format("ddl report {} --json", typed),
                   fmt::format("ddl query {} 'select * from v_collective limit 5'", typed)};
  return document;
}

Document build_section(const RunView& run, std::string_view name) {
  const Section* const section = find_section(name);
  if (section == nullptr)
    throw Error(fmt::format("unknown section '{}'", name), "see: ddl report --help", ExitCode::kUsage);
  Document document;
  if (section->build == nullptr) {
    add_findings(run, document);
    return document;
  }
  document.tables.push_back(section->build(run));
  return document;
}

}  // namespace ddl::reports
