#include "reports/job_numbers.h"

#include <filesystem>

#include "analyzer/query.h"
#include "core/format.h"
#include "reports/html/shares.h"
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
  if (!run.has_steps) return;
  if (const auto throughput = job.metrics.find("throughput"); throughput != job.metrics.end()) job.samples_per_s = throughput->second;
  Query row(run.db, "SELECT max(step) FROM v_step WHERE world = ? AND duration_ns IS NOT NULL");
  if (row.bind(run.world).next()) job.step = row.maybe_integer(0);
  Document document;
  add_numbers(run, document);
  for (const NumberLine& line : document.lines)
    for (const NumberLine::Item& item : line.items)
      if (line.id == "step" && item.key == "p99_ns" && !item.value.is_absent())
        job.step_p99_ns = static_cast<double>(item.value.as_integer());
}

void add_shares(const RunView& run, JobNumbers& job) {
  html::Share sum;
  for (const html::Share& share : html::shares_of_ranks(run))
    for (const html::Category& category : html::kCategories) sum.*category.part += share.*category.part;
  const double whole = sum.total_ns();
  if (whole <= 0) return;
  job.shares = {{"compute", sum.compute_ns / whole}, {"compute_and_communication", sum.overlap_ns / whole}};
  if (sum.unsplit_ns > 0) {
    job.shares.emplace_back("communication", (sum.transfer_ns + sum.unsplit_ns + sum.wait_ns) / whole);
  } else {
    job.shares.emplace_back("transfer", sum.transfer_ns / whole);
    job.shares.emplace_back("waiting", sum.wait_ns / whole);
  }
  job.shares.emplace_back("idle", sum.idle_ns / whole);
}

void add_ranks(const RunView& run, JobNumbers& job) {
  std::map<int64_t, double> step_ns;
  if (run.has_steps) {
    Query row(run.db, "SELECT rank, avg(duration_ns) FROM temp.steady_part WHERE world = ? GROUP BY rank");
    for (row.bind(run.world); row.next();) step_ns.emplace(row.integer(0), row.real(1));
  }
  const Table table = ranks_table(run);
  const auto number = [](const Value& value) { return value.is_absent() ? std::nullopt : std::optional(value.as_double()); };
  for (const auto& row : table.rows) {
    JobNumbers::Rank rank{
        .rank = row[0].as_integer(), .node = row[6].as_text(), .late_ns = number(row[1]), .wait_ns = number(row[2]), .step_ns = {}};
    if (const auto step = step_ns.find(rank.rank); step != step_ns.end()) rank.step_ns = step->second;
    job.by_rank.push_back(std::move(rank));
  }
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
  add_metrics(run, job);
  add_steps(run, job);
  add_shares(run, job);
  add_ranks(run, job);
  add_collectives(run, job);
  Query lost(run.db,
             std::string("SELECT coalesce(sum(count), 0) FROM loss WHERE (world = ? OR world IS NULL) AND kind IN (") + kLiveLosses + ")");
  if (lost.bind(run.world).next()) job.lost_events = lost.integer(0);
  return job;
}

}  // namespace ddl::reports
