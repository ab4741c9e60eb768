#include "analyzer/findings/waited_for.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/late_ranks.h"
#include "analyzer/models/replay_gpus.h"
#include "analyzer/passes/waited_for.h"
#include "analyzer/query.h"

namespace ddl {

std::optional<WaitedFor> waited_for(const FindingInput& input, std::string_view cause) {
  Query row(
      input.db,
      "SELECT since_step, steps, late_steps, lead_ns, cause, own_ns, others_ns, comm_ns, others_comm_ns, axis, axis_ratio,"
      " own_bytes, others_bytes FROM waited_for WHERE world = ? AND cause = ?");
  row.bind(input.world, cause);
  if (!row.next()) return std::nullopt;
  WaitedFor found;
  Query rank(input.db, "SELECT rank FROM waited_for_rank WHERE world = ? ORDER BY rank");
  for (rank.bind(input.world); rank.next();) found.ranks.push_back(rank.integer(0));
  found.since_step = row.maybe_integer(0);
  found.steps = row.integer(1);
  found.late_steps = row.integer(2);
  found.lead_ns = row.real(3);
  found.cause = row.text(4);
  found.own_ns = row.real(5);
  found.others_ns = row.real(6);
  found.comm_ns = row.real(7);
  found.others_comm_ns = row.real(8);
  if (!row.is_null(9)) found.axis = row.text(9);
  found.axis_ratio = row.real(10);
  found.own_bytes = row.maybe_real(11);
  found.others_bytes = row.maybe_real(12);
  return found;
}

bool asks_whom_gpus_wait_for(const FindingInput& input) {
  if (!input.steps.annotated || input.steps.used < kLeastStepsWaitedFor) return false;
  Query row(
      input.db,
      "SELECT count(DISTINCT a.axis) > 1 OR count(a.exposed_wait_ns) < count(*) FROM gpu_axis_part a JOIN process p ON p.id = a.process"
      " JOIN steady_world w ON w.world = p.world WHERE p.world = ? AND w.waits_by = 'device'");
  row.bind(input.world);
  return row.next() && row.integer(0) != 0;
}

std::string idling_sentence(const FindingInput& input, const WaitedFor& found, std::string_view what) {
  const bool one = found.ranks.size() == 1;
  return fmt::format("the others wait for {} in {} of steps{}: {} GPU{} idle{} {} {}, the others' {}",
                     those(input, found.ranks),
                     percent_text(static_cast<double>(found.late_steps) / static_cast<double>(found.steps)),
                     found.since_step ? fmt::format(" since step {}", *found.since_step) : "", one ? "its" : "their",
                     one ? "" : "s", one ? "s" : "", duration_text(found.own_ns), what, duration_text(found.others_ns));
}

Finding describe(const FindingInput& input, const WaitedFor& found) {
  Finding finding;
  const bool one = found.ranks.size() == 1;
  if (one)
    finding.rank = found.ranks.front();
  else
    finding.subject = fmt::format("{}", fmt::join(found.ranks, ","));
  finding.ranks = found.ranks;
  const models::LateWork work = found.cause == "data" ? models::LateWork::kEvenly : models::LateWork::kAsOthers;
  const std::optional<double> replayed_s =
      models::saving_without_late_gpus(input.db, input.catalog, input.world, found.ranks, work, found.since_step);
  finding.saving_ns = std::llround(replayed_s ? std::max(0.0, *replayed_s) * 1e9 : found.lead_ns);
  finding.since = found.since_step;
  finding.confidence = "likely";
  finding.evidence = fmt::format(
      "In {} of {} steps nobody spends less in collectives that nothing hides: {}{}, the others {}.", found.late_steps,
      found.steps, duration_text(found.comm_ns), one ? "" : " each", duration_text(found.others_comm_ns));
  if (found.axis)
    finding.evidence +=
        fmt::format(" {} of their waiting for it is on the axis '{}'.", percent_text(found.axis_ratio), *found.axis);
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, exposed_comm_ns, exposed_wait_ns, compute_ns, idle_host_ns, idle_input_ns, duration_ns FROM v_gpu_part"
      " WHERE world = {} AND step IS NOT NULL ORDER BY step, exposed_comm_ns LIMIT 200",
      input.world);
  return finding;
}

}  // namespace ddl
