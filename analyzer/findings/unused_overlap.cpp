// Non-blocking reductions of gradients that are waited for at once: they hide no more than blocking ones.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/overlap_replay.h"

namespace ddl {
namespace {

constexpr double kMinUnusedShare = 0.05;  // of the step

}  // namespace

DDL_FINDING(unused_overlap, kSpeed, "timeline", "non-blocking reductions of gradients are waited for at once",
            "a replay of each rank's steps with the same transfers beside the computing; of reductions that pass 90 % "
            "of their flight inside MPI") {
  const auto replay = replay_overlap(input, true, kMinUnusedShare);
  if (!replay) return {};
  Finding finding;
  finding.subject = replay->op;
  finding.saving_ns = static_cast<int64_t>(replay->saving_ns);
  finding.confidence = replay->phases ? "likely" : "maybe";
  finding.sentence = fmt::format(
      "{:.1f} {} per step are waited for at once: {} of transfer hide behind nothing, while {} are computed between them",
      replay->calls, replay->op, duration_text(replay->transfer_ns), duration_text(replay->between_ns));
  finding.evidence =
      fmt::format("{} per step and rank; if they were waited for behind the last one, a step of {} would take {} less.",
                  bytes_text(replay->bytes), duration_text(input.step_ns), duration_text(replay->saving_ns));
  finding.evidence_sql = fmt::format(
      "SELECT rank, step, seq, op, payload_bytes, enter_ns, leave_ns, wait_ns, xfer_ns FROM v_collective WHERE world = {} AND op = '{}'"
      " ORDER BY rank, enter_ns LIMIT 200",
      input.world, replay->op);
  finding.advice =
      "post each when its gradients are ready, and wait for all of them once, before the optimizer needs them";
  return {finding};
}

}  // namespace ddl
