// Batches of the wrong size, for jobs that report their samples (ddl_value "samples").
//
// Too small: transfers that nothing hides take the same time whatever the batch, so twice the samples per step halve their share
// (metrics.md G7). What is won is told for the samples of today's step. Not above the gradient noise scale, where that is known: what more
// samples add there is wasted.
//
// Too large: above the noise scale phi a step of M samples makes M / (phi + M) of progress (G4), so half the batch makes more than half of
// it, in the time that today's step takes less half of its computing.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/findings.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kMinSavingShare = 0.05;  // of the step

struct Batch {
  double samples = 0;  ///< of all ranks in a step
  double per_rank = 0;
  std::optional<double> noise, noise_hi;  ///< noise scale, and the upper end of its interval
};

Batch batch_of(const FindingInput& input) {
  Batch batch;
  const std::vector<models::RankStep> ranks = models::rank_steps(input.db, input.world);
  batch.samples = models::samples_per_step(input.db, input.world).value_or(0);
  batch.per_rank = batch.samples / static_cast<double>(ranks.size());
  Query noise(input.db, "SELECT value, hi FROM metric WHERE id = 'noise_scale' AND world = ? AND value IS NOT NULL");
  noise.bind(input.world);
  if (noise.next()) {
    batch.noise = noise.real(0);
    batch.noise_hi = noise.maybe_real(1);
  }
  return batch;
}

double metric(const FindingInput& input, const char* id) { return models::metric_of(input.db, input.world, id).value_or(0); }

/// Of a step, mean over ranks, or over GPUs where those tell more.
double exposed_xfer_ns(const FindingInput& input) {
  Query gpus(input.db,
             "SELECT (total(exposed_comm_ns) - total(exposed_wait_ns)) / total(windows) FROM temp.steady_gpu WHERE world = ?"
             " HAVING count(*) > 0 AND count(exposed_wait_ns) = count(*)");
  gpus.bind(input.world);
  return std::max(metric(input, "exposed_xfer"), gpus.next() ? gpus.real(0) : 0);
}

std::string values_sql(const FindingInput& input) {
  return fmt::format(
      "SELECT s.step, s.rank, v.value AS samples, s.compute_ns, s.xfer_ns, s.duration_ns FROM v_step s JOIN process p ON p.world = s.world "
      "AND"
      " p.rank = s.rank JOIN value v ON v.process = p.id AND v.step = s.step AND v.name = 'samples' WHERE s.world = {} ORDER BY s.step, "
      "s.rank"
      " LIMIT 200",
      input.world);
}

}  // namespace

std::vector<Finding> find_batch_size(const FindingInput& input) {
  if (!input.steps.annotated || input.step_ns <= 0) return {};
  const Batch batch = batch_of(input);
  if (batch.samples <= 0) return {};
  const auto step_ns = static_cast<double>(input.step_ns);
  const double xfer_ns = exposed_xfer_ns(input), compute_ns = metric(input, "compute_time");
  Finding finding;
  finding.evidence_sql = values_sql(input);
  finding.confidence = "maybe";

  const bool room = !batch.noise || 2 * batch.samples <= *batch.noise;
  if (xfer_ns / 2 >= kMinSavingShare * step_ns && room) {
    finding.id = "batch_too_small";
    finding.saving_ns = static_cast<int64_t>(xfer_ns / 2);
    finding.confidence = batch.noise ? "likely" : "maybe";
    finding.sentence = fmt::format("{:.0f} samples per rank are few for the network: {} of the step are transfers that nothing hides",
                                   batch.per_rank, percent_text(xfer_ns / step_ns));
    finding.evidence = fmt::format(
        "They take {}/step, computing {}; twice the samples per step would halve that for each sample. {}.", duration_text(xfer_ns),
        duration_text(compute_ns),
        batch.noise
            ? fmt::format("The gradient noise scale, {:.0f} samples, is well above the {:.0f} of all ranks", *batch.noise, batch.samples)
            : std::string("Whether convergence bears it is not known: the job reports no gradient norms"));
    finding.advice =
        "larger batches per rank as far as memory goes, or several of them per reduction (gradient accumulation, no_sync() in PyTorch "
        "DDP), with the "
        "learning rate to match; ddl model whatif says what twice the batch does";
    return {finding};
  }
  if (!batch.noise_hi || batch.samples <= *batch.noise_hi) return {};
  const double noise = *batch.noise_hi;                                           // the least that is wasted
  const double progress = (2 * noise + batch.samples) / (noise + batch.samples);  // of today's step against one of half the batch
  const double saving_ns = step_ns - (step_ns - compute_ns / 2) * progress;
  if (saving_ns < kMinSavingShare * step_ns) return {};
  finding.id = "batch_too_large";
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.sentence =
      fmt::format("{:.0f} samples per step are above the gradient noise scale of {:.0f}: most of what the last ones add is wasted",
                  batch.samples, *batch.noise);
  finding.evidence = fmt::format(
      "At most {:.0f} with 95% confidence. With half the batch {:.2f} steps make the progress of one of today's, and each computes {} "
      "less.",
      noise, progress, duration_text(compute_ns / 2));
  finding.advice =
      "smaller batches per rank (with the learning rate to match) as long as the noise scale stays below them; it grows during training: "
      "larger "
      "batches may pay later";
  return {finding};
}

}  // namespace ddl
