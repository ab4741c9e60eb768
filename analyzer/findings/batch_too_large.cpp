// Too many samples in a step, for jobs that report them (ddl_value "samples"): above the noise scale phi a step of M
// samples makes M / (phi + M) of progress (specification.md G4), so half the batch makes more than half of it, in the
// time that today's step takes less half of its computing.
#include <fmt/format.h>

#include "analyzer/findings/batch.h"
#include "analyzer/findings/findings.h"

namespace ddl {

DDL_FINDING(batch_too_large, kSpeed, "where", "more samples than the gradient noise scale bears",
            "reported samples and norms of gradients") {
  const std::optional<Batch> batch = batch_of(input);
  if (!batch || !batch->noise_hi || batch->samples <= *batch->noise_hi) return {};
  const auto step_ns = static_cast<double>(input.step_ns);
  const double noise = *batch->noise_hi;  // the least that is wasted
  // of today's step against one of half the batch
  const double progress = (2 * noise + batch->samples) / (noise + batch->samples);
  const double saving_ns = step_ns - (step_ns - batch->compute_ns / 2) * progress;
  if (saving_ns < kBatchMinSavingShare * step_ns) return {};
  Finding finding;
  finding.evidence_sql = batch_values_sql(input);
  finding.confidence = "maybe";
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.sentence = fmt::format(
      "{:.0f} samples per step are above the gradient noise scale of {:.0f}: most of what the last ones add is wasted",
      batch->samples, *batch->noise);
  finding.evidence = fmt::format(
      "At most {:.0f} with 95% confidence. With half the batch {:.2f} steps make the progress of one of today's, and each computes {} "
      "less.",
      noise, progress, duration_text(batch->compute_ns / 2));
  finding.advice =
      "smaller batches per rank (with the learning rate to match) as long as the noise scale stays below them; it grows during training: "
      "larger batches may pay later";
  return {finding};
}

}  // namespace ddl
