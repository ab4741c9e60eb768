// A run as a row of the history: from the same facts, metrics and findings that the report prints.
#include "reports/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/query.h"
#include "core/number.h"
#include "history/commit.h"
#include "reports/job_numbers.h"
#include "store/text.h"

namespace ddl::reports {
namespace {

using history::RunRow;

/// Findings that say of a rank or a host that the others wait for it because of what it is, and not because of what
/// it was given to do.
const std::set<std::string> kOfHosts = {"straggler", "host_bound"};

std::optional<std::string> maybe_text(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(without_secrets(text));
}

std::optional<int64_t> meta_number(const RunView& run, const char* key) { return number_in<int64_t>(run.meta(key)); }

/// Where and when its first rank began: what stays when the run is copied, or analyzed again, also while it still runs.
std::string identity(const RunView& run, int64_t epoch_ns) {
  Query row(
      run.db,
      "SELECT h.boot_id, p.spool FROM process p JOIN host h ON h.id = p.host WHERE p.world = ? ORDER BY p.rank IS NULL, p.rank, p.start_ns, p.id LIMIT 1");
  row.bind(run.world);
  const bool any = row.next();
  const std::string boot = any ? row.text(0) : "", spool = any ? row.text(1) : "", imported = run.meta("imported_from");
  if (!imported.empty()) return fmt::format("{}/{}/{}/{}", imported, epoch_ns, spool, run.world);
  return fmt::format("{}/{}/{}", boot, spool, run.world);
}

void add_job(const RunView& run, RunRow& row) {
  row.command = maybe_text(run.meta("command"));
  Query first(run.db, "SELECT command, process FROM v_rank WHERE world = ? ORDER BY rank IS NULL, rank LIMIT 1");
  first.bind(run.world);
  const bool any = first.next();
  if (!row.command && any) row.command = maybe_text(first.text(0));
  row.commit_id = maybe_text(run.meta("commit"));
  if (!row.commit_id) {
    std::string folder = run.meta("cwd");
    Query cwd(run.db, "SELECT value FROM process_fact WHERE process = ? AND key = 'cwd'");
    if (folder.empty() && any && cwd.bind(first.integer(1)).next()) folder = cwd.text(0);
    row.commit_id = history::commit_at(folder, row.started_ns);
  }
  row.job_id = maybe_text(run.meta("job_id"));
  row.job_step_id = maybe_text(run.meta("job_step_id"));
  row.ddl_version = maybe_text(run.meta("ddl_version"));
  row.analysis = maybe_text(run.meta("analysis.version"));
  row.verdict = maybe_text(run.verdict());
  row.exit_code = meta_number(run, "exit_code");
  row.signal = meta_number(run, "signal");
  Query length(run.db, "SELECT max(end_ns) - min(start_ns) FROM process WHERE world = ?");
  if (length.bind(run.world).next()) row.duration_ns = length.maybe_integer(0);
}

void add_metrics(const RunView& run, RunRow& row) {
  Query metric(run.db, "SELECT id, value, unit, why, lo, hi FROM metric WHERE world = ? ORDER BY id");
  for (metric.bind(run.world); metric.next();)
    row.metrics.push_back({.id = metric.text(0),
                           .value = metric.maybe_real(1),
                           .unit = metric.text(2),
                           .why = metric.is_null(3) ? std::nullopt : std::optional(metric.text(3)),
                           .lo = metric.maybe_real(4),
                           .hi = metric.maybe_real(5)});
  const auto take = [&](const std::string& id, const char* column, std::optional<double>& to) -> const RunRow::Metric* {
    const auto found = std::find_if(row.metrics.begin(), row.metrics.end(), [&](const auto& m) { return m.id == id; });
    if (found == row.metrics.end()) return nullptr;
    to = found->value;
    if (!to && found->why) row.why[column] = *found->why;
    return &*found;
  };
  const bool devices = run.facts.resource == Resource::kDevice;
  take(devices ? "gpu_parallel_efficiency" : "parallel_efficiency", "efficiency", row.efficiency);
  take(devices ? "gpu_ccr_xfer" : "ccr_xfer", "ccr", row.ccr);
  take("throughput", "throughput", row.throughput);
  std::optional<double> step_ns;
  const RunRow::Metric* step = take("step_time", "step_time_ns", step_ns);
  const bool timed = run.has_steps || run.facts.step.timed > 0;
  row.step_time_ns = timed ? run.facts.step.p50_ns : std::nullopt;
  row.step_p99_ns = timed ? run.facts.step.p99_ns : std::nullopt;
  if (step != nullptr) row.step_lo_ns = step->lo, row.step_hi_ns = step->hi;
  const char* why = run.has_steps ? "NO_DATA" : "NOT_APPLICABLE";
  if (!row.step_time_ns) row.why.try_emplace("step_time_ns", why);
  for (const auto& [column, known] :
       {std::pair("step_p99_ns", row.step_p99_ns.has_value()), std::pair("step_lo_ns", row.step_lo_ns.has_value()),
        std::pair("step_hi_ns", row.step_hi_ns.has_value())})
    if (!known) row.why[column] = row.step_time_ns ? "NO_DATA" : row.why["step_time_ns"];
}

void add_parts(const RunView& run, RunRow& row) {
  constexpr std::pair<const char*, std::optional<double> RunRow::*> kColumns[] = {
      {"compute_ns", &RunRow::compute_ns}, {"overlap_ns", &RunRow::overlap_ns}, {"transfer_ns", &RunRow::transfer_ns},
      {"wait_ns", &RunRow::wait_ns},       {"unsplit_ns", &RunRow::unsplit_ns}, {"copy_ns", &RunRow::copy_ns},
      {"idle_ns", &RunRow::idle_ns}};
  const JobTime& time = run.facts.headline;
  const bool known = time.is_known() && time.windows > 0 && run.has_steps;
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    const auto& [column, member] = kColumns[i];
    const double TimeParts::*part = kTimeParts[i];
    const bool split = part != &TimeParts::transfer_ns && part != &TimeParts::wait_ns;
    if (known && (split || !time.nothing_split()))
      row.*member = time.sum.*part / time.windows;
    else
      row.why[column] = !run.has_steps ? "NOT_APPLICABLE" : time.why.empty() ? "NO_DATA" : time.why;
  }
}

/// By axis, as collectives took them: what GPUs did while nothing computed, else blocking calls.
void add_axes(const RunView& run, RunRow& row) {
  if (!row.transfer_ns || !row.wait_ns) return;
  const bool devices = run.facts.resource == Resource::kDevice;
  Query axis(run.db, devices ? R"(
    SELECT g.axis, sum(g.exposed_ns - g.exposed_wait_ns), sum(g.exposed_wait_ns), count(*) = count(g.exposed_wait_ns)
    FROM gpu_axis_part g JOIN process p ON p.id = g.process WHERE p.world = ? AND g.step IS NULL AND g.axis IS NOT NULL GROUP BY g.axis ORDER BY g.axis)"
                             : R"(
    SELECT a.axis, sum(g.xfer_ns), sum(g.wait_ns), min(g.split_calls = g.calls)
    FROM collective_group g JOIN communicator_axis a ON a.communicator = g.comm
    WHERE g.world = ? AND NOT g.upper_bound GROUP BY a.axis ORDER BY a.axis)");
  double transfer_ns = 0, wait_ns = 0;
  for (axis.bind(run.world); axis.next();) {
    if (axis.integer(3) == 0) {  // of one that is not told nobody knows what share the others have
      row.axes.clear();
      return;
    }
    row.axes.push_back({.axis = axis.text(0), .transfer_ns = axis.real(1), .wait_ns = axis.real(2)});
    transfer_ns += axis.real(1), wait_ns += axis.real(2);
  }
  for (RunRow::Axis& one : row.axes) {
    one.transfer_ns *= transfer_ns > 0 ? *row.transfer_ns / transfer_ns : 0;
    one.wait_ns *= wait_ns > 0 ? *row.wait_ns / wait_ns : 0;
  }
}

void add_findings(const RunView& run, RunRow& row) {
  Query finding(
      run.db,
      "SELECT id, sentence, rank, saving_ns, share_ratio, confidence, saving_bound FROM finding WHERE world IS NULL OR world = ? ORDER BY position");
  for (finding.bind(run.world); finding.next();)
    row.found.push_back({.id = finding.text(0),
                         .sentence = without_secrets(finding.text(1)),
                         .rank = finding.maybe_integer(2),
                         .saving_ns = finding.maybe_integer(3),
                         .share_ratio = finding.maybe_real(4),
                         .confidence = finding.text(5),
                         .saving_bound = finding.is_null(6) ? std::nullopt : std::optional(finding.text(6))});
  row.findings = static_cast<int64_t>(row.found.size());
}

/// Hosts under the name that the batch system knows, and which of them findings name.
void add_hosts(const RunView& run, RunRow& row) {
  std::map<int64_t, std::string> of_rank;
  std::map<std::string, RunRow::Host> hosts;
  std::map<int64_t, std::string> of_id;
  std::map<std::string, std::string> of_hostname;
  Query process(run.db, R"(
    SELECT p.rank, h.id, coalesce((SELECT f.value FROM process_fact f WHERE f.process = p.id AND f.key = 'env.SLURMD_NODENAME'), h.name), h.name
    FROM process p JOIN host h ON h.id = p.host WHERE p.world = ? AND p.rank IS NOT NULL ORDER BY p.rank)");
  for (process.bind(run.world); process.next();) {
    const std::string name = process.text(2);
    of_rank[process.integer(0)] = of_id[process.integer(1)] = of_hostname[process.text(3)] = name;
    hosts[name].host = name;
    ++hosts[name].ranks;
  }
  const auto name_slow = [&](const std::string& host, std::optional<int64_t> rank) {
    const auto found = hosts.find(host);
    if (found == hosts.end() || found->second.slow) return;
    found->second.slow = true;
    found->second.slow_rank = rank;
  };
  for (const RunRow::Finding& finding : row.found) {
    if (!kOfHosts.contains(finding.id)) continue;
    if (finding.rank) {
      if (const auto host = of_rank.find(*finding.rank); host != of_rank.end()) name_slow(host->second, finding.rank);
      continue;
    }
    // All ranks of a host: of GPUs the table says which, of threads the sentence alone (findings/straggler.cpp).
    for (const auto& [hostname, node] : of_hostname)
      if (finding.sentence.starts_with(fmt::format("all {} ranks on {} ", hosts[node].ranks, hostname)))
        name_slow(node, std::nullopt);
    Query whole(run.db, "SELECT host FROM waited_for WHERE world = ? AND rank IS NULL AND host IS NOT NULL");
    if (whole.bind(run.world).next()) name_slow(of_id[whole.integer(0)], std::nullopt);
  }
  for (auto& [name, host] : hosts) row.on.push_back(std::move(host));
}

/// What the ranks reported as "loss" in the last step that has one; where numbers of steps are used again, what each of
/// them reported last.
void add_loss(const RunView& run, RunRow& row) {
  Query loss(run.db, R"(
    WITH told AS (
      SELECT v.process, v.step, v.time_ns, v.value FROM value v JOIN process p ON p.id = v.process
      WHERE p.world = ?1 AND v.name = 'loss' AND v.value IS NOT NULL
    ), last AS (
      SELECT value, max(time_ns) FROM told GROUP BY process
    )
    SELECT iif(EXISTS (SELECT 1 FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?1 AND NOT s.measured),
               (SELECT avg(value) FROM last), (SELECT avg(value) FROM told WHERE step IS (SELECT max(step) FROM told))))");
  if (loss.bind(run.world).next()) row.loss = loss.maybe_real(0);
  if (!row.loss) row.why["loss"] = "NO_DATA";
}

/// Of what nothing above has said: a job outside of a batch system has no id, what nobody recorded has no value.
void add_reasons(RunRow& row) {
  const auto missing = [&](const auto& value, const char* column, const char* why) {
    if (!value) row.why.try_emplace(column, why);
  };
  missing(row.command, "command", "NO_DATA");
  missing(row.commit_id, "commit_id", "NO_DATA");
  missing(row.job_id, "job_id", "NOT_APPLICABLE");
  missing(row.job_step_id, "job_step_id", "NOT_APPLICABLE");
  missing(row.duration_ns, "duration_ns", "NO_DATA");
  missing(row.exit_code, "exit_code", "NO_DATA");
  missing(row.signal, "signal", "NOT_APPLICABLE");
  missing(row.verdict, "verdict", "NO_DATA");
  missing(row.ddl_version, "ddl_version", "NO_DATA");
  missing(row.analysis, "analysis", "NO_DATA");
  missing(row.throughput, "throughput", "NO_DATA");
  missing(row.efficiency, "efficiency", "NO_DATA");
  missing(row.ccr, "ccr", "NO_DATA");
}

}  // namespace

RunRow history_row(const RunView& run, const std::string& path) {
  const JobNumbers job = job_numbers(run, path);
  RunRow row;
  row.started_ns = meta_number(run, "epoch_realtime_ns").value_or(0);
  row.run = identity(run, row.started_ns);
  row.name = without_secrets(job.name);
  row.path = path;
  row.world = run.world;
  row.ranks = run.ranks;
  row.expected_ranks = run.expected_ranks;
  row.hosts = run.hosts;
  row.steps = run.has_steps ? run.steps : 0;
  row.bounded = run.facts.coverage.bounded ? 1 : 0;
  row.lost_events = job.lost_events;
  std::set<std::pair<int64_t, std::optional<int64_t>>> gpus;
  for (const ResourceTime& gpu : run.facts.by_device) gpus.emplace(gpu.rank, gpu.device);
  row.gpus = static_cast<int64_t>(gpus.size());
  add_job(run, row);
  add_metrics(run, row);
  add_parts(run, row);
  add_axes(run, row);
  add_findings(run, row);
  add_hosts(run, row);
  add_loss(run, row);
  add_reasons(row);
  return row;
}

}  // namespace ddl::reports
