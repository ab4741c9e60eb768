// A parameter server that is busy all the time, while the workers wait for it: its link where it transfers longer than
// it computes, else what it does with what was pushed. Workers that wait because the server holds them up (bounded
// staleness) wait for a slow worker: the server then waits as well, and nothing is said of it here.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/findings.h"
#include "analyzer/models/run_consistency.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kLeastWaitOfWorkers = 0.1;  // of the step
constexpr double kLeastBusy = 0.6;           // of the server's time

struct ServerTime {
  double all_ns = 0, computing_ns = 0, transfer_ns = 0;
};

std::optional<ServerTime> time_of(const FindingInput& input, int64_t rank) {
  Query row(
      input.db,
      "SELECT t.duration_ns, t.compute_ns, t.xfer_ns FROM rank_part t JOIN process p ON p.id = t.process WHERE p.world = ?1 AND p.rank "
      "= ?2");
  if (!row.bind(input.world, rank).next() || row.is_null(2) || row.real(0) <= 0) return std::nullopt;
  return ServerTime{row.real(0), row.real(1), row.real(2)};
}

/// Waiting of all workers for this server, over the run.
double waited_for_ns(const FindingInput& input, const std::vector<int64_t>& workers, int64_t server) {
  Query rows(input.db, "SELECT waiter, sum(wait_ns) FROM message_blame WHERE world = ?1 AND late = ?2 GROUP BY waiter");
  double sum = 0;
  for (rows.bind(input.world, server); rows.next();)
    if (std::binary_search(workers.begin(), workers.end(), rows.integer(0))) sum += rows.real(1);
  return sum;
}

}  // namespace

DDL_FINDING(busy_server, kSpeed, "late",
            "a parameter server cannot keep up: its link, or its computing, is busy while all workers wait for it",
            "the push and pull pattern of messages; waiting for its messages, and how little it waits itself") {
  const auto found = models::parameter_server_of(input.db, input.world);
  const double steps = recorded_steps(input);
  if (!found || !input.steps.annotated || steps == 0) return {};
  const auto workers = static_cast<double>(found->workers.size());
  double waited_ns = 0;
  int64_t busiest = found->servers.front();
  ServerTime time;
  for (const int64_t server : found->servers) {
    waited_ns += waited_for_ns(input, found->workers, server) / (workers * steps);
    const auto one = time_of(input, server);
    if (!one) return {};
    if ((one->computing_ns + one->transfer_ns) / one->all_ns >
        (time.all_ns > 0 ? (time.computing_ns + time.transfer_ns) / time.all_ns : 0))
      time = *one, busiest = server;
  }
  const double busy = time.all_ns > 0 ? (time.computing_ns + time.transfer_ns) / time.all_ns : 0;
  if (waited_ns < kLeastWaitOfWorkers * static_cast<double>(input.step_ns) || busy < kLeastBusy) return {};
  const bool link = time.transfer_ns >= time.computing_ns;
  Finding finding;
  finding.rank = busiest;
  finding.saving_ns = static_cast<int64_t>(waited_ns);
  finding.confidence = "likely";
  finding.sentence = fmt::format("{} is a parameter server whose {} cannot keep up: {} workers wait {}/step for it",
                                 rank_on_host(input.catalog, input.world, busiest), link ? "link" : "computing",
                                 found->workers.size(), duration_text(waited_ns));
  finding.evidence =
      fmt::format("{} push {} and pull {} a step, all through {}; it transfers for {} of its time and computes for {}.",
                  ranks_text(found->workers), bytes_text(found->pushed_bytes / steps),
                  bytes_text(found->pulled_bytes / steps), ranks_text(found->servers),
                  percent_text(time.transfer_ns / time.all_ns), percent_text(time.computing_ns / time.all_ns));
  finding.evidence_sql = fmt::format(
      "SELECT late, waiter, kind, calls, wait_ns FROM v_blame WHERE world = {} AND late IN ({}) ORDER BY wait_ns DESC",
      input.world, busiest);
  finding.advice =
      link
          ? "shard the parameters over more servers, push and pull less often (local steps, EASGD) or less (codes), or reduce without "
            "a server; ddl model consistency compares them"
          : "shard the parameters over more servers, or change them by more threads; ddl model consistency compares rules";
  return {std::move(finding)};
}

}  // namespace ddl
