// Tables with a row per rank, step or loss.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "analyzer/cpu_waits.h"
#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

std::string how_it_ended(const Query& row, int ended, int abort_code) {
  std::string word = row.text(ended);
  if (word == "aborted" && !row.is_null(abort_code)) return fmt::format("aborted({})", row.integer(abort_code));
  return word;
}

std::string what_is_late(const RunView& run) {
  if (run.facts.coordination.ranks > 0) return "is ready for reductions later than the median rank";
  Query row(
      run.db,
      "SELECT EXISTS (SELECT 1 FROM message_blame WHERE world = ?1 AND wait_ns > 0), EXISTS (SELECT 1 FROM blame WHERE world = ?1 AND wait_ns > 0)");
  row.bind(run.world);
  if (!row.next() || row.integer(0) == 0) return "enters collectives later than the median rank";
  return fmt::format("the median rank's waiting less its own, in {}messages",
                     row.integer(1) != 0 ? "collectives and " : "");
}

}  // namespace

// A rank's lateness: how much later than the median rank it enters the collectives of a step. Entering late and waiting
// little are the same number: all members of a collective leave off waiting at the same moment. Waits for messages
// count as well, whose ends leave off apart.
Table ranks_table(const RunView& run) {
  Table table{
      .id = "ranks",
      .caption = fmt::format(
          "Ranks, {}{}. Late: {}{}.", run.has_steps ? "mean step" : "whole run",
          run.facts.resource == Resource::kThread   ? ""
          : run.facts.resource == Resource::kUnseen ? "; by their threads: what their GPUs did was not recorded"
          : run.facts.waits_by == Resource::kThread ? "; compute: of their GPUs, all else: of their threads"
          : run.facts.resource == Resource::kDevice ? ", by their GPUs"
                                                    : ", by their GPUs where they have any",
          what_is_late(run), run.facts.parts.empty() ? "" : " of those that it may wait for"),
      .columns = {{"rank", "Rank", Unit::kCount},
                  {"late_ns", "Late", Unit::kDuration},
                  {"wait_ns", "Wait", Unit::kDuration},
                  {"xfer_ns", "Transfer", Unit::kDuration, 1},
                  {"compute_ns", "Compute", Unit::kDuration},
                  {"no_cpu_ratio", "No CPU(%)", Unit::kRatio, 0},
                  {"ended", "Ended", Unit::kText},
                  {"host", "Host", Unit::kText, 2},
                  {"cpus", "CPUs", Unit::kText, 0}},
      .when_empty = "No process is a rank of this world: ddl report processes lists those that recorded something."};
  Query row(
      run.db,
      "SELECT rank, ended, abort_code, cpus FROM v_rank WHERE world = ? AND rank IS NOT NULL ORDER BY rank, process");
  row.bind(run.world);
  constexpr size_t kNoCpu = 5, kCpus = 8;
  std::map<int64_t, double> no_cpu;
  for (const CpuWait& wait : read_cpu_waits(run.db, run.world)) no_cpu[wait.rank] = wait.share();
  std::set<std::string> bindings;
  for (const RankFacts& rank : run.facts.ranks) {
    if (!row.next()) break;
    const auto per_step = [&](std::optional<int64_t> ns, Value::Bound bound = Value::Bound::kNone) {
      return ns ? Value::duration_ns(*ns).bounded(rank.bounded ? bound : Value::Bound::kNone)
                : Value::absent(Unit::kDuration, rank.why);
    };
    const auto without_cpu = [&](int64_t number) {
      const auto share = no_cpu.find(number);
      return share == no_cpu.end() ? Value::absent(Unit::kRatio, "NO_DATA") : Value::ratio(share->second);
    };
    bindings.insert(row.text(3));
    add_row(run, table,
            {Value::count(rank.rank), per_step(rank.late_ns), per_step(rank.wait_ns, Value::Bound::kLower),
             per_step(rank.xfer_ns, Value::Bound::kUpper), per_step(rank.compute_ns), without_cpu(rank.rank),
             Value::text(how_it_ended(row, 1, 2)), Value::text(rank.host), cell(row, 3, Unit::kText, "NO_DATA")});
  }
  if (std::ranges::any_of(no_cpu, [](const auto& share) { return share.second > kLeastCpuWait; }))
    table.columns[kNoCpu].keep = 1;
  if (bindings.size() > 1) table.columns[kCpus].keep = 1;  // of interest where ranks are bound, and not all to the same
  return table;
}

Table blame_table(const RunView& run) {
  Table table{
      .id = "blame",
      .caption =
          "Who waited for whom, whole run: in collectives for the last rank to enter, in messages for the other end",
      .columns = {{"wait_ratio", "Wait(%)", Unit::kRatio, 9, "ZERO_DENOM"},
                  {"wait_ns", "Wait", Unit::kDuration},
                  {"sigma_ns", "Clock sigma", Unit::kDuration, 1},
                  {"calls", "Calls", Unit::kCount, 2},
                  {"late", "Late rank", Unit::kCount},
                  {"waiter", "Waiting rank", Unit::kCount},
                  {"kind", "In", Unit::kText}},
      .when_empty = "No rank waited for another, or its waiting is not known (ddl report loss)."};
  if (run.negotiates())
    table.caption =
        "Who waited for whom, whole run: for the last rank to be ready for a reduction, in messages for the other end";
  // Pairs of ranks: there may be millions. With a limit SQLite sorts no more than it returns, without one
  // it does so on disk.
  Query all(run.db, "SELECT count(*), sum(wait_ns) FROM v_blame WHERE world = ?");
  all.bind(run.world);
  const size_t rows = all.next() ? static_cast<size_t>(all.integer(0)) : 0;
  const double all_ns = rows == 0 ? 0 : all.real(1);
  const bool limited = run.rows_wanted < rows;
  Query row(
      run.db,
      std::string(
          "SELECT wait_ns / nullif(?2, 0), wait_ns, sigma_ns, calls, late, waiter, kind FROM v_blame WHERE world = ?1"
          " ORDER BY wait_ns DESC, late, waiter, kind") +
          (limited ? " LIMIT ?3" : ""));
  row.bind(run.world, all_ns);
  if (limited) row.bind(run.world, all_ns, static_cast<int64_t>(run.rows_wanted));
  while (row.next()) add_row(run, table, cells(row, table));
  table.left_out = rows - table.rows.size() - table.handed_on;
  return table;
}

Table processes_table(const RunView& run) {
  Table table{.id = "processes",
              .caption = "Processes that recorded something",
              .columns = {{"pid", "Process", Unit::kCount},
                          {"rank", "Rank", Unit::kCount},
                          {"start_ns", "Began", Unit::kDuration, 1},
                          {"end_ns", "Last seen", Unit::kDuration},
                          {"ended", "Ended", Unit::kText},
                          {"sits_in", "Sits in", Unit::kText},
                          {"host", "Host", Unit::kText, 2},
                          {"exe", "Program", Unit::kText}},
              .when_empty = "No process recorded anything: ddl report loss says why."};
  Query row(
      run.db,
      "SELECT pid, rank, start_ns, end_ns, ended, (SELECT o.name FROM open_call x JOIN op o ON o.id = x.op"
      " WHERE x.process = r.process ORDER BY x.start_ns LIMIT 1), host, exe, abort_code FROM v_rank r WHERE world = ? ORDER BY process");
  row.bind(run.world);
  while (row.next()) {
    std::vector<Value> process = cells(row, table);
    process[4] = Value::text(how_it_ended(row, 4, 8));
    add_row(run, table, std::move(process));
  }
  return table;
}

Table steps_table(const RunView& run) {
  Table table{
      .id = "steps",
      .caption = "Steps: the slowest rank's duration; the parts are means over ranks",
      .columns = {{"step", "Step", Unit::kCount},
                  {"duration_ns", "Duration", Unit::kDuration, 9, "NO_DATA"},
                  {"compute_ns", "Compute", Unit::kDuration, 9, "NO_DATA"},
                  {"xfer_ns", "Transfer", Unit::kDuration, 9, "NO_DATA"},
                  {"wait_ns", "Wait", Unit::kDuration, 9, "NO_DATA"},
                  {"ranks", "Ranks", Unit::kCount, 1},
                  {"slowest_rank", "Slowest rank", Unit::kCount}},
      .when_empty =
          "The job marks no steps. Mark them with ddl/annotate.h (ddl_step_begin), ddl_annotate.py (step) or NVTX."};
  // Each rank by its resource, as in facts.h: of several GPUs the mean.
  Query row(run.db, R"(
    WITH device AS (
      SELECT g.rank, g.step, avg(g.compute_ns) AS compute_ns, avg(g.exposed_comm_ns) AS exposed_ns,
             iif(count(g.exposed_wait_ns) = count(*), avg(g.exposed_wait_ns), NULL) AS wait_ns
      FROM v_gpu_part g
      JOIN rank_resource r ON r.world = g.world AND r.rank = g.rank AND r.resource = 'device'
      WHERE g.world = ?1 AND g.step IS NOT NULL
      GROUP BY g.rank, g.step
    ), part AS (
      SELECT s.step, s.rank, s.duration_ns,
             iif(?3, NULL, coalesce(g.compute_ns, s.compute_ns)) AS compute_ns,
             CASE WHEN ?4 THEN NULL WHEN g.rank IS NULL OR NOT ?2 THEN s.xfer_ns ELSE g.exposed_ns - g.wait_ns END AS xfer_ns,
             CASE WHEN ?4 THEN NULL WHEN g.rank IS NULL OR NOT ?2 THEN s.wait_ns ELSE g.wait_ns END AS wait_ns
      FROM v_step s
      LEFT JOIN device g ON g.rank = s.rank AND g.step = s.step
      WHERE s.world = ?1 AND s.measured AND s.duration_ns IS NOT NULL AND (s.world, s.rank) NOT IN (SELECT world, rank FROM torn_rank)
    )
    SELECT step, max(duration_ns), avg(compute_ns),
           iif(count(xfer_ns) = count(*), avg(xfer_ns), NULL),
           iif(count(wait_ns) = count(*), avg(wait_ns), NULL),
           count(*), rank
    FROM part
    GROUP BY step
    ORDER BY step)");
  const bool unseen = run.facts.resource == Resource::kUnseen;
  row.bind(run.world, run.facts.waits_by == Resource::kDevice, unseen, unseen && !run.facts.threads_tell());
  while (row.next()) {
    std::vector<Value>& step = table.rows.emplace_back(cells(row, table));
    if (!run.facts.coverage.bounded) continue;
    step[3] = step[3].bounded(Value::Bound::kUpper);
    step[4] = step[4].bounded(Value::Bound::kLower);
  }
  return table;
}

Table open_calls_table(const RunView& run) {
  Table table{.id = "open_calls",
              .caption = "Calls that were entered and had not returned at the end",
              .columns = {{"rank", "Rank", Unit::kCount},
                          {"start_ns", "Since", Unit::kDuration},
                          {"since_ns", "For", Unit::kDuration},
                          {"seq", "Number", Unit::kCount, 2},
                          {"step", "Step", Unit::kCount, 3},
                          {"bytes", "Bytes", Unit::kBytes, 1},
                          {"peer", "Peer", Unit::kCount, 4},
                          {"name", "Name", Unit::kText},
                          {"op", "", Unit::kText, 0},
                          {"comm", "", Unit::kText, 0},
                          {"layer", "Layer", Unit::kText, 2}},
              .when_empty = "Every call returned."};
  // A rank that waits records nothing: where nobody says how it ended, it did so with the job.
  Query row(run.db, R"(
    SELECT o.rank, o.start_ns, nullif(max(o.since_ns, iif(p.ended = 'lost', coalesce(e.end_ns, 0) - o.start_ns, 0)), 0), o.seq, o.step,
           o.bytes, o.peer, o.op || coalesce(' ' || o.comm, ''), o.op, o.comm, o.layer
    FROM v_open_call o
    LEFT JOIN process p ON p.world = o.world AND p.rank = o.rank
    LEFT JOIN (
      SELECT CAST(e.value AS INTEGER) - CAST(b.value AS INTEGER) AS end_ns, (SELECT max(world) FROM process) AS world
      FROM meta e, meta b
      WHERE e.key = 'ended_realtime_ns' AND b.key = 'epoch_realtime_ns') e ON e.world = o.world
    WHERE o.world = ?
    ORDER BY o.rank, o.start_ns)");
  row.bind(run.world);
  while (row.next()) table.rows.push_back(cells(row, table));
  return table;
}

Table loss_table(const RunView& run) {
  Table table{.id = "loss_table",
              .caption = "Missing data",
              .columns = {{"count", "Count", Unit::kCount},
                          {"note", "What", Unit::kText},
                          {"kind", "Kind", Unit::kText, 1},
                          {"rank", "Rank", Unit::kCount}},
              .when_empty = "Nothing is missing."};
  Document document;
  add_loss(run, document);
  for (const Loss& loss : document.loss)
    table.rows.push_back({Value::count(loss.count), Value::text(loss.note), Value::text(loss.kind),
                          loss.rank ? Value::count(*loss.rank) : Value::absent(Unit::kCount, "NOT_APPLICABLE")});
  return table;
}

}  // namespace ddl::reports
