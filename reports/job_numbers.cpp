#include "reports/job_numbers.h"

#include <filesystem>

#include "analyzer/query.h"
#include "core/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

// The kinds that a process counts while it runs, as ddl-top sums them.
constexpr const char* kLiveLosses =
#define DDL_LOSS_NAME(id, name, note) "'" name "',"
    DDL_LOSS_KINDS(DDL_LOSS_NAME)
#undef DDL_LOSS_NAME
        "''";

void add_metrics(const RunView& run, JobNumbers& job) {
  Query row(run.db, "SELECT id, value FROM metric WHERE world = ? AND value IS NOT NULL");
  for (row.bind(run.world); row.next();) job.metrics.emplace(row.text(0), row.real(1));
}

void add_steps(const RunView& run, JobNumbers& job) {
  if (!run.has_steps && run.facts.step.timed == 0) return;
  if (const auto throughput = job.metrics.find("throughput"); throughput != job.metrics.end())
    job.samples_per_s = throughput->second;
  Query row(run.db, "SELECT max(step) FROM v_step WHERE world = ? AND duration_ns IS NOT NULL");
  if (row.bind(run.world).next()) job.step = row.maybe_integer(0);
  if (run.facts.step.p99_ns) job.step_p99_ns = static_cast<double>(*run.facts.step.p99_ns);
}

void add_shares(const RunView& run, JobNumbers& job) {
  const JobTime& time = run.facts.headline;
  if (!time.is_known()) return;
  const auto add = [&](const char* part, double TimeParts::*member) {
    job.shares.emplace_back(part, time.share(member));
  };
  add("compute", &TimeParts::compute_ns);
  add("compute_and_communication", &TimeParts::overlap_ns);
  if (time.nothing_split()) {
    add("communication", &TimeParts::unsplit_ns);  // one part of which nobody knows what is waiting: no 0 for either
  } else {
    add("transfer", &TimeParts::transfer_ns);
    add("waiting", &TimeParts::wait_ns);
    if (time.sum.unsplit_ns > 0) add("not_split", &TimeParts::unsplit_ns);
  }
  if (run.facts.resource != Resource::kThread) add("copy", &TimeParts::copy_ns);
  add("idle", &TimeParts::idle_ns);
}

void add_ranks(const RunView& run, JobNumbers& job) {
  const auto number = [](std::optional<int64_t> ns) {
    return ns ? std::optional(static_cast<double>(*ns)) : std::nullopt;
  };
  for (const RankFacts& rank : run.facts.ranks)
    job.by_rank.push_back({.rank = rank.rank,
                           .node = rank.host,
                           .late_ns = number(rank.late_ns),
                           .wait_ns = number(rank.wait_ns),
                           .step_ns = rank.step_ns});
}

void add_collectives(const RunView& run, JobNumbers& job) {
  Query row(
      run.db,
      "SELECT o.name, c.label, g.bytes, g.time_ns * 1.0 / g.calls, g.wait_ns * 1.0 / nullif(g.split_calls, 0),"
      " iif(g.upper_bound, NULL, g.xfer_ns * 1.0 / nullif(g.split_calls, 0)), g.busbw_xfer FROM collective_group g JOIN op o ON o.id = g.op"
      " JOIN communicator c ON c.id = g.comm WHERE g.world = ? AND g.calls > 0 ORDER BY g.time_ns DESC, o.name, c.label, g.bytes");
  for (row.bind(run.world); row.next();)
    job.collectives.push_back({.op = row.text(0),
                               .comm = row.text(1),
                               .bytes = row.maybe_integer(2),
                               .time_ns = row.real(3),
                               .wait_ns = row.maybe_real(4),
                               .xfer_ns = row.maybe_real(5),
                               .busbw = row.maybe_real(6)});
}

}  // namespace

JobNumbers job_numbers(const RunView& run, const std::string& shown) {
  JobNumbers job;
  job.run = std::filesystem::path(shown).filename().string();
  job.name = job_name(run);
  job.job_id = run.meta("job_id");
  job.ranks = run.ranks;
  job.expected_ranks = run.expected_ranks;
  job.nodes = run.hosts;
  job.bounded = run.facts.coverage.bounded;
  add_metrics(run, job);
  add_steps(run, job);
  add_shares(run, job);
  add_ranks(run, job);
  add_collectives(run, job);
  Query lost(run.db,
             std::string("SELECT coalesce(sum(count), 0) FROM loss WHERE (world = ? OR world IS NULL) AND kind IN (") +
                 kLiveLosses + ")");
  if (lost.bind(run.world).next()) job.lost_events = lost.integer(0);
  return job;
}

}  // namespace ddl::reports
