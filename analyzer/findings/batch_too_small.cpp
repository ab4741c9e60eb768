// Too few samples in a step, for jobs that report them (ddl_value "samples"): transfers that nothing hides take the
// same time whatever the batch, so twice the samples per step halve their share (specification.md G7), and that of the
// optimizer. What is won is told for the samples of today's step. Not above the gradient noise scale, where that is
// known: what more samples add there is wasted.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/batch.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/missing_member.h"
#include "analyzer/models/rank_saving.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

struct ExposedTransfer {
  double ns = 0;
  bool at_most = false;  ///< ranks left no record, and waiting for them may be in it
};

/// In a mean step: that of the ranks or, if larger, that of the GPUs.
ExposedTransfer exposed_transfer_of_step(const FindingInput& input) {
  Query gpus(input.db,
             "SELECT (total(exposed_comm_ns) - total(exposed_wait_ns)) / total(windows) FROM steady_gpu WHERE world = ?"
             " HAVING count(*) > 0 AND count(exposed_wait_ns) = count(*)");
  gpus.bind(input.world);
  const double of_ranks = models::metric_of(input.db, input.world, "exposed_xfer").value_or(0);
  const double of_gpus = gpus.next() ? gpus.real(0) : 0;
  return of_gpus >= of_ranks ? ExposedTransfer{of_gpus, false} : ExposedTransfer{of_ranks, input.bounded};
}

/// What the replay of the steps says (specification.md J8), but where ranks left no record; where transfers are bounds,
/// half of them if that is more.
std::optional<double> replayed_saving_ns(const FindingInput& input, const ExposedTransfer& xfer) {
  if (xfer.at_most) return std::nullopt;
  const std::optional<models::ReplayedSaving> replayed = models::saving_of_twice_the_batch(input.db, input.world);
  if (!replayed) return std::nullopt;
  return std::max(replayed->lower_bound ? xfer.ns / 2 : 0, replayed->seconds * 1e9);
}

}  // namespace

DDL_FINDING(batch_too_small, kSpeed, "where", "few samples for the network",
            "reported samples: exposed transfer, and the noise scale where norms are reported") {
  const std::optional<Batch> batch = batch_of(input);
  if (!batch) return {};
  const ExposedTransfer xfer = exposed_transfer_of_step(input);
  const auto [xfer_ns, at_most] = xfer;
  const bool room = !batch->noise || 2 * batch->samples <= *batch->noise;
  const double least_ns = kBatchMinSavingShare * static_cast<double>(input.step_ns) * (at_most ? kClearBound : 1);
  if (!room || xfer_ns / 2 < least_ns) return {};
  Finding finding;
  finding.evidence_sql = batch_values_sql(input);
  const std::optional<double> replayed_ns = replayed_saving_ns(input, xfer);
  finding.saving_ns = static_cast<int64_t>(replayed_ns.value_or(xfer_ns / 2));
  finding.at_most = at_most;
  finding.confidence = batch->noise && !at_most ? "likely" : "maybe";
  finding.sentence = fmt::format(
      "{:.0f} samples per rank are few for the network: {}{} of the step are transfers that nothing hides{}",
      batch->per_rank, at_most ? "at most " : "", percent_text(xfer_ns / static_cast<double>(input.step_ns)),
      at_most ? fmt::format(", or waiting for {}", missing_text(input)) : "");
  finding.evidence = fmt::format(
      "They take {}/step, computing {}; twice the samples per step would halve that for each sample{}. {}.",
      duration_text(xfer_ns), duration_text(batch->compute_ns), replayed_ns ? ", and what is computed once a step" : "",
      batch->noise ? fmt::format("The gradient noise scale, {:.0f} samples, is well above the {:.0f} of all ranks",
                                 *batch->noise, batch->samples)
                   : std::string("Whether convergence bears it is not known: the job reports no gradient norms"));
  finding.advice =
      "larger batches per rank as far as memory goes, or several of them per reduction (gradient accumulation, no_sync() in PyTorch DDP), "
      "with the learning rate to match; ddl model whatif says what twice the batch does";
  return {finding};
}

}  // namespace ddl
