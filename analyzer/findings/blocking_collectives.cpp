// Blocking reductions of gradients between which is computed: they could go on beside that.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/overlap_replay.h"

namespace ddl {
namespace {

constexpr double kMinOverlapShare = 0.05;  // of the step

}  // namespace

DDL_FINDING(blocking_collectives, kSpeed, "timeline",
            "blocking reductions of gradients hide nothing, though computing lies between them",
            "a replay of each rank's steps with the same transfers beside the computing") {
  const auto replay = replay_overlap(input, false, kMinOverlapShare);
  if (!replay) return {};
  Finding finding;
  finding.subject = replay->op;
  finding.saving_ns = static_cast<int64_t>(replay->saving_ns);
  finding.confidence = replay->phases ? "likely" : "maybe";
  finding.sentence = fmt::format(
      "{:.1f} blocking {} per step hide nothing of their {} of transfer, while {} are computed between them",
      replay->calls, replay->op, duration_text(replay->transfer_ns), duration_text(replay->between_ns));
  finding.evidence = fmt::format(
      "{} per step and rank; if each went on beside what is computed up to the last one, a step of {} would take {} less.{}",
      bytes_text(replay->bytes), duration_text(input.step_ns), duration_text(replay->saving_ns),
      replay->phases
          ? ""
          : " The job marks no phases: whether what is computed between them needs their results is not known.");
  finding.evidence_sql = fmt::format(
      "SELECT rank, step, seq, op, payload_bytes, enter_ns, leave_ns, wait_ns, xfer_ns FROM v_collective WHERE world = {} AND op = '{}'"
      " ORDER BY rank, enter_ns LIMIT 200",
      input.world, replay->op);
  finding.advice =
      "reduce gradients while backward goes on: DistributedDataParallel or Horovod instead of a loop of all_reduce; by hand async_op=True or "
      "MPI_Iallreduce, and one wait before the optimizer (ddl model fusion says which buckets)";
  return {finding};
}

}  // namespace ddl
