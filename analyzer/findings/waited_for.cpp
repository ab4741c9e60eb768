#include "analyzer/findings/waited_for.h"

#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/passes/waited_for.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

std::vector<int64_t> ranks_on(const FindingInput& input, int64_t host) {
  std::vector<int64_t> ranks;
  for (const auto& [id, process] : input.catalog.processes)
    if (process.world == input.world && process.host == host && process.rank >= 0) ranks.push_back(process.rank);
  return ranks;
}

}  // namespace

std::optional<WaitedFor> waited_for(const FindingInput& input, std::string_view cause) {
  Query row(
      input.db,
      "SELECT rank, host, since_step, steps, late_steps, lead_ns, cause, own_ns, others_ns, comm_ns, others_comm_ns, axis, axis_ratio,"
      " own_bytes, others_bytes FROM waited_for WHERE world = ? AND cause = ?");
  row.bind(input.world, cause);
  if (!row.next()) return std::nullopt;
  WaitedFor found;
  found.ranks = row.is_null(0) ? ranks_on(input, row.integer(1)) : std::vector{row.integer(0)};
  found.since_step = row.maybe_integer(2);
  found.steps = row.integer(3);
  found.late_steps = row.integer(4);
  found.lead_ns = row.real(5);
  found.cause = row.text(6);
  found.own_ns = row.real(7);
  found.others_ns = row.real(8);
  found.comm_ns = row.real(9);
  found.others_comm_ns = row.real(10);
  if (!row.is_null(11)) found.axis = row.text(11);
  found.axis_ratio = row.real(12);
  found.own_bytes = row.maybe_real(13);
  found.others_bytes = row.maybe_real(14);
  return found;
}

bool hands_on_lateness(const FindingInput& input) {
  if (!input.steps.annotated || input.steps.used < kLeastStepsWaitedFor) return false;
  Query row(input.db,
            "SELECT count(DISTINCT a.axis) FROM gpu_axis_part a JOIN process p ON p.id = a.process JOIN steady_world w ON w.world = p.world"
            " WHERE p.world = ? AND w.waits_by = 'device'");
  row.bind(input.world);
  return row.next() && row.integer(0) > 1;
}

std::string who(const FindingInput& input, const WaitedFor& found) {
  const int64_t rank = found.ranks.front();
  return found.ranks.size() == 1
             ? rank_on_host(input.catalog, input.world, rank)
             : fmt::format("all {} ranks on {}", found.ranks.size(), input.catalog.process_of(input.world, rank)->host_name);
}

Finding describe(const FindingInput& input, const WaitedFor& found) {
  Finding finding;
  const bool one = found.ranks.size() == 1;
  if (one) finding.rank = found.ranks.front();
  finding.saving_ns = static_cast<int64_t>(found.lead_ns);
  finding.confidence = "likely";
  finding.evidence =
      fmt::format("In {} of {} steps nobody spends less in collectives that nothing hides: {}{}, the others {}.", found.late_steps,
                  found.steps, duration_text(found.comm_ns), one ? "" : " each", duration_text(found.others_comm_ns));
  if (found.axis)
    finding.evidence += fmt::format(" {} of their waiting for it is on the axis '{}'.", percent_text(found.axis_ratio), *found.axis);
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, exposed_comm_ns, exposed_wait_ns, compute_ns, idle_host_ns, idle_input_ns, duration_ns FROM v_gpu_part"
      " WHERE world = {} AND step IS NOT NULL ORDER BY step, exposed_comm_ns LIMIT 200",
      input.world);
  return finding;
}

}  // namespace ddl
