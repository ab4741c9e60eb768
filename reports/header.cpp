// The first lines: what ran, how it ended, how much of it was seen; and what the analyzer found.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "analyzer/findings/job_end.h"
#include "analyzer/metrics/metrics.h"
#include "analyzer/query.h"
#include "analyzer/verdict.h"
#include "reports/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

std::optional<int64_t> integer_of(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' ? std::nullopt : std::optional<int64_t>(value);
}

struct Recorded {
  int64_t start_ns = 0, end_ns = 0;
  int64_t events = 0;
  std::optional<double> overhead_ratio;
  std::optional<double> sigma_ns;  ///< between the two hosts whose clocks are known least; nothing: unknown
};

Recorded recorded(const RunView& run) {
  Recorded result;
  // When a process ran is not known of one whose header is damaged: years may be between it and the others.
  Query span(
      run.db,
      "SELECT coalesce(min(start_ns) FILTER (WHERE whole), min(start_ns)), coalesce(max(end_ns) FILTER (WHERE whole), max(end_ns))"
      " FROM (SELECT start_ns, end_ns, rank IS NULL OR rank NOT IN (SELECT rank FROM loss WHERE world = ?1 AND kind = 'damaged_header'"
      " AND rank IS NOT NULL) AS whole FROM process WHERE world = ?1 AND (rank IS NOT NULL OR ?2))");
  span.bind(run.world, run.ranks == 0 ? 1 : 0);
  if (span.next()) result.start_ns = span.integer(0), result.end_ns = span.integer(1);
  // Ids are dense and grouped by process, so this is exact without counting ten million rows.
  Query events(run.db, "SELECT coalesce((SELECT max(id) FROM event) - (SELECT min(id) FROM event) + 1, 0)");
  if (events.next()) result.events = events.integer(0);
  // A trace of another tool is ranges and what GPUs did, before it is calls.
  Query imported(
      run.db,
      "SELECT coalesce((SELECT max(rowid) FROM range_event), 0) + coalesce((SELECT max(rowid) FROM gpu_event), 0)");
  if (!run.meta("imported_from").empty() && imported.next()) result.events += imported.integer(0);
  Query overhead(run.db, "SELECT value FROM metric WHERE world = ? AND id = 'recording_overhead'");
  overhead.bind(run.world);
  if (overhead.next()) result.overhead_ratio = overhead.maybe_real(0);
  result.sigma_ns = run.clock_sigma_ns();
  return result;
}

/// What ddl record could not hook in torch: "torch not hooked on 2 ranks", "torch 3.1 without layers".
std::vector<std::string> unhooked(const RunView& run) {
  std::vector<std::string> texts;
  Query row(
      run.db,
      "SELECT value, count(DISTINCT f.process) FROM process_fact f JOIN process p ON p.id = f.process WHERE p.world = ? AND key = 'torch.hooks' AND"
      " (value = 'none' OR value LIKE '%; without %') GROUP BY value ORDER BY value");
  row.bind(run.world);
  while (row.next()) {
    std::string text = row.text(0);
    if (const size_t version = text.find(';'); version != std::string::npos) text.erase(version, 1);
    texts.push_back(text == "none" ? fmt::format("torch not hooked in {}", plural(row.integer(1), "process"))
                                   : "torch " + text);
  }
  return texts;
}

/// Who told when NCCL's collectives ran; empty: NCCL was not used.
std::string nccl_source(const RunView& run) {
  Query any(run.db, "SELECT 1 FROM op WHERE name LIKE 'nccl%' LIMIT 1");
  if (!any.next()) return {};
  std::string text;
  Query row(
      run.db,
      "SELECT DISTINCT n.source FROM nccl_collective n JOIN event e ON e.id = n.event JOIN process p ON p.id = e.process WHERE "
      "p.world = ? ORDER BY 1");
  row.bind(run.world);
  while (row.next())
    text += fmt::format("{}{}", text.empty() ? "NCCL timed by " : " and ",
                        row.text(0) == "kernel" ? "CUPTI" : "its profiler");
  return text.empty() ? "NCCL: calls only" : text;
}

int64_t processes_of(const RunView& run) {
  Query row(run.db, "SELECT count(*) FROM process WHERE world = ?");
  row.bind(run.world);
  return row.next() ? row.integer(0) : 0;
}

std::vector<int64_t> ranks_that(const RunView& run, std::string_view ended, bool of_mpi = false) {
  std::vector<int64_t> ranks;
  Query row(
      run.db,
      "SELECT rank FROM process WHERE world = ? AND rank IS NOT NULL AND ended = ? AND (init_ns IS NOT NULL OR NOT ?) ORDER BY rank");
  row.bind(run.world, ended, of_mpi ? 1 : 0);
  while (row.next()) ranks.push_back(row.integer(0));
  return ranks;
}

void add_alerts(const RunView& run, Document& document) {
  const JobEnd end = job_end(run.db);
  if (end.signal != 0 && !end.exit_code)
    document.alerts.push_back(fmt::format("The job was killed by {}.", signal_name(end.signal)));
  else if (end.rank_failed())
    document.alerts.push_back(fmt::format("The job failed: exit code {}{}.", *end.exit_code,
                                          end.signal != 0 ? fmt::format(" ({})", signals_text(end)) : ""));
  Query aborted(
      run.db,
      "SELECT rank, abort_code FROM process WHERE world = ? AND rank IS NOT NULL AND ended = 'aborted' ORDER BY rank");
  aborted.bind(run.world);
  while (aborted.next())
    document.alerts.push_back(fmt::format("rank {} called MPI_Abort({}).", aborted.integer(0),
                                          aborted.is_null(1) ? "?" : std::to_string(aborted.integer(1))));
  const auto tell = [&](const std::vector<int64_t>& ranks, std::string_view what) {
    if (!ranks.empty())
      document.alerts.push_back(fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks), what));
  };
  tell(ranks_that(run, "exited", true), "exited without MPI_Finalize.");
  tell(ranks_that(run, "exec"),
       end.mpi ? "became another program (exec) without MPI_Finalize." : "became another program (exec).");
  tell(ranks_that(run, "lost"),
       fmt::format("ended without {}exit: killed, crashed{} All that was recorded until then is here.",
                   end.mpi ? "MPI_Finalize or " : "", end.seen ? " or _exit." : ", _exit, or still running."));
  Query lost(
      run.db,
      "SELECT pid, coalesce(exe, '?'), (SELECT o.name FROM open_call x JOIN op o ON o.id = x.op WHERE x.process = p.id LIMIT 1)"
      " FROM process p WHERE world = ? AND rank IS NULL AND ended = 'lost' ORDER BY id");
  lost.bind(run.world);
  while (lost.next())
    document.alerts.push_back(fmt::format("process {} ({}), which had no rank, ended abnormally{}.", lost.integer(0),
                                          lost.text(1).substr(lost.text(1).rfind('/') + 1),
                                          lost.is_null(2) ? "" : fmt::format(", in {}", lost.text(2))));
  if (run.worlds > 1)
    document.alerts.push_back(fmt::format(
        "The run holds {} worlds ({}); this is world {}. Others: --world N", run.worlds,
        end.mpi ? "MPI_Comm_spawn, or several mpirun" : "torchrun started the ranks again, or several jobs ran",
        run.world));
}

/// What no finding says: only of what was looked for, and not that all is well where ranks wait for long.
std::string what_was_looked_for(const RunView& run) {
  const JobTime& time = run.facts.headline;
  const double waiting = time.is_known() ? time.shown_share(&TimeParts::wait_ns) : 0;
  const std::string straggler =
      run.ranks == 1 ? "nothing: one rank alone was recorded, and is compared with nobody"
      : waiting > kBoundThreshold
          ? fmt::format(
                "no single rank explains the waiting, {:.1f}% of the {} (who waited for whom: ddl report blame)",
                waiting * 100, run.has_steps ? "step" : "run")
          : "nothing: no straggler";
  if (run.has_steps) return straggler + ", no crowd of small collectives, no exposed tail worth a change";
  return straggler +
         "; the job marks no steps, so that small collectives, exposed tails, slow algorithms and uneven layers were not looked for (to "
         "mark steps: ddl/annotate.h, ddl_annotate.py or NVTX)";
}

}  // namespace

constexpr int64_t kLongSilenceNs = 1'000'000'000;

constexpr const char* kLowerBound = "lower_bound";

std::string job_name(const RunView& run) {
  if (std::string name = run.meta("name"); !name.empty()) return name;
  Query row(run.db, "SELECT exe, command FROM v_rank WHERE world = ? ORDER BY rank IS NULL, rank");
  row.bind(run.world);
  if (!row.next()) return "job";
  const std::string exe = row.text(0), command = row.text(1);
  std::string name = exe.substr(exe.rfind('/') + 1);
  if (const size_t script = command.find(".py"); name.starts_with("python") && script != std::string::npos) {
    const size_t start = command.find_last_of(" /", script);
    name = command.substr(start == std::string::npos ? 0 : start + 1,
                          script - (start == std::string::npos ? 0 : start + 1));
  }
  return name.empty() ? "job" : name;
}

void add_header(const RunView& run, const std::string& source, Document& document) {
  const Recorded seen = recorded(run);
  const std::string name = job_name(run), job_id = run.meta("job_id"), step_id = run.meta("job_step_id"),
                    version = run.meta("ddl_version");
  Query set_back(run.db, "SELECT 1 FROM loss WHERE world = ? AND kind = 'clock_back' LIMIT 1");
  set_back.bind(run.world);
  const Value duration = set_back.next() ? Value::absent(Unit::kDuration, "CLOCK_UNTRUSTED")
                                         : Value::duration_ns(seen.end_ns - seen.start_ns);
  const std::string lasted = !duration.is_absent() ? short_duration(seen.end_ns - seen.start_ns) : table_text(duration);

  const NeverReturned open = never_returned(run.db, run.world);
  std::string then;  // nothing: what was recorded is the run, or nearly so
  if (open.ranks > 0 && !duration.is_absent()) {
    if (!open.span_ns)
      then = ", then not known";
    else if (*open.span_ns > kLongSilenceNs)
      then = fmt::format(", then nothing for {}{}", open.seen ? "" : "at least ", short_duration(*open.span_ns));
  }
  document.headline.push_back(name);
  if (!job_id.empty())
    document.headline.push_back(fmt::format("job {}{}{}", job_id, step_id.empty() ? "" : ".", step_id));
  const std::string ranks = run.ranks == 0 ? fmt::format("{} without a rank", plural(processes_of(run), "process"))
                            : run.ranks < run.expected_ranks
                                ? fmt::format("{} of {}", run.ranks, plural(run.expected_ranks, "rank"))
                                : plural(run.expected_ranks, "rank");
  document.headline.push_back(fmt::format("{} on {}", ranks, plural(run.hosts, "host")));
  document.headline.push_back(run.all_steps > 0
                                  ? fmt::format("{} in {}{}",
                                                plural(run.all_steps, run.inferred_steps ? "inferred step" : "step"),
                                                lasted, then)
                                  : fmt::format("{}, no steps marked{}", lasted, then));

  document.data.push_back(run.ranks > 0 ? fmt::format("{}/{} ranks", run.ranks, run.expected_ranks) : "no ranks");
  Query remembered(run.db, "SELECT count(*) FROM flight_entry f JOIN process p ON p.id = f.process WHERE p.world = ?");
  remembered.bind(run.world);
  const int64_t operations = remembered.next() ? remembered.integer(0) : 0;
  document.data.push_back(operations > 0 && seen.events == 0
                              ? fmt::format("{} of {}", plural(operations, "operation"),
                                            run.meta("imported_from") == "nccl-ras" ? "NCCL RAS" : "flight recorders")
                              : fmt::format("{} kept", plural(seen.events, "event")));
  document.data.push_back(document.loss.empty() ? "nothing missing" : "incomplete: see Missing data");
  Query doubted(run.db, "SELECT 1 FROM finding WHERE world = ? AND id = 'clocks_uncertain'");
  doubted.bind(run.world);
  if (doubted.next())
    document.data.push_back("clocks contradict each other");
  else if (run.hosts > 1)
    document.data.push_back(seen.sigma_ns ? "clock error < " + short_duration(std::llround(3 * *seen.sigma_ns))
                                          : "clock error unknown");
  else
    document.data.push_back("one clock");
  if (std::string nccl = nccl_source(run); !nccl.empty()) document.data.push_back(std::move(nccl));
  for (std::string& text : unhooked(run)) document.data.push_back(std::move(text));
  if (seen.overhead_ratio)
    document.data.push_back("overhead " +
                            (*seen.overhead_ratio < 0.0005 ? "<0.1%" : percent_text(*seen.overhead_ratio)));
  document.source = version.empty() ? source : fmt::format("{} (ddl {})", source, version);

  const auto number = [&](const char* key) {
    const auto value = integer_of(run.meta(key));
    return value ? Value::count(*value) : Value::absent(Unit::kCount);
  };
  const auto text = [](const std::string& value) {
    return value.empty() ? Value::absent(Unit::kText) : Value::text(value);
  };
  document.facts = {
      {"name", Value::text(name)},
      {"path", Value::text(source)},
      {"command", text(run.meta("command"))},
      {"job_id", text(job_id)},
      {"job_step_id", text(step_id)},
      {"ddl_version", text(version)},
      {"world", Value::count(run.world)},
      {"worlds", Value::count(run.worlds)},
      {"ranks", Value::count(run.ranks)},
      {"expected_ranks", Value::count(run.expected_ranks)},
      {"hosts", Value::count(run.hosts)},
      {"steps", Value::count(run.all_steps)},
      {"steady_steps", run.has_steps ? Value::count(run.steps) : Value::absent(Unit::kCount, "NO_DATA")},
      {"duration_ns", duration},
      {"epoch_realtime_ns", number("epoch_realtime_ns")},
      {"exit_code", number("exit_code")},
      {"signal", number("signal")},
      {"events", Value::count(seen.events)},
      {"known_ranks", run.ranks == 0 ? Value::absent(Unit::kCount, "NO_DATA") : Value::count(run.facts.coverage.ranks)},
      {"estimator", run.facts.coverage.bounded ? Value::text(kLowerBound) : Value::null(Unit::kText)},
      {"clock_sigma_ns",
       seen.sigma_ns ? Value::number(*seen.sigma_ns) : Value::absent(Unit::kNumber, "CLOCK_UNTRUSTED")},
      {"verdict", text(run.meta(run.world == 0 ? "verdict" : fmt::format("verdict.{}", run.world)))}};
  add_alerts(run, document);
}

void add_findings(const RunView& run, Document& document) {
  Query row(
      run.db,
      "SELECT id, sentence, rank, saving_ns, share_ratio, coalesce(saving_bound, ''), confidence, evidence, try FROM finding WHERE world IS NULL OR world = ? "
      "ORDER BY position");
  row.bind(run.world);
  while (row.next())
    document.findings.push_back({.id = row.text(0),
                                 .sentence = row.text(1),
                                 .rank = row.maybe_integer(2),
                                 .saving_ns = row.maybe_integer(3),
                                 .share_ratio = row.maybe_real(4),
                                 .bound = Value::bound_of(row.text(5)),
                                 .confidence = row.text(6),
                                 .estimator = run.facts.coverage.bounded && !row.is_null(3) ? kLowerBound : "",
                                 .evidence = row.text(7),
                                 .try_next = row.text(8)});
  document.saving_per = run.has_steps ? "step" : "run";
  const std::string verdict = run.verdict();
  if (run.ranks == 0) {
    document.no_finding = "nothing: findings compare ranks, and there are none";
    return;
  }
  Query hang(run.db, "SELECT 1 FROM hang_rank WHERE world = ? LIMIT 1");
  hang.bind(run.world);
  if (hang.next()) {
    document.no_finding = "nothing: no rank waits for one that did not come, and no operation differs between ranks";
    return;
  }
  document.no_finding = what_was_looked_for(run) + (verdict.empty() ? "" : "; " + verdict);
}

void add_metrics(const RunView& run, Document& document) {
  Query row(run.db, "SELECT id, unit, value, why, lo, hi, sigma FROM metric WHERE world = ? ORDER BY id");
  row.bind(run.world);
  const auto bound_of = [&](const std::string& id) {
    const std::optional<ddl::MetricBound> bound = run.facts.coverage.bounded ? ddl::bound_of(id) : std::nullopt;
    return !bound                               ? Value::Bound::kNone
           : *bound == ddl::MetricBound::kLower ? Value::Bound::kLower
                                                : Value::Bound::kUpper;
  };
  while (row.next())
    document.metrics.push_back({.id = row.text(0),
                                .unit = row.text(1),
                                .value = row.maybe_real(2),
                                .why = row.text(3),
                                .lo = row.maybe_real(4),
                                .hi = row.maybe_real(5),
                                .sigma = row.maybe_real(6),
                                .bound = row.is_null(2) ? Value::Bound::kNone : bound_of(row.text(0))});
}

void add_loss(const RunView& run, Document& document) {
  Query row(
      run.db,
      "SELECT rank, kind, count, note FROM loss WHERE world IS NULL OR world = ? ORDER BY rank IS NOT NULL, kind, rank");
  row.bind(run.world);
  while (row.next())
    document.loss.push_back(
        {.rank = row.maybe_integer(0), .kind = row.text(1), .count = row.integer(2), .note = row.text(3)});
}

}  // namespace ddl::reports
