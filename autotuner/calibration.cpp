#include "autotuner/calibration.h"

#include <algorithm>

#include "autotuner/tunables.h"

namespace ddl::tune {

Calibration calibration_of(const CalibratingTrial& base, const CalibratingTrial& second,
                           const std::optional<Sweep>& sweep, const std::vector<AllreduceRule>& rules) {
  Calibration result;
  result.ranks = base.facts.ranks;
  result.compute_s = base.facts.compute_s;
  result.overlap = base.facts.nonblocking && !base.facts.blocking;
  result.batch = base.batch > 0 ? base.batch : base.facts.samples.value_or(0) / static_cast<double>(base.facts.ranks);
  if (base.batch != second.batch) {
    const double per_sample_s = (second.facts.compute_s - base.facts.compute_s) / (second.batch - base.batch);
    result.compute_fixed_s = std::clamp(base.facts.compute_s - per_sample_s * base.batch, 0.0, base.facts.compute_s);
  }
  if (base.facts.pipeline) {
    const TrialFacts::Pipeline& pipeline = *base.facts.pipeline;
    result.pipeline = PipelineFacts{pipeline.micro_batches, pipeline.chunks, pipeline.others_s};
    if (base.batch == second.batch && base.micro_batches && second.micro_batches &&
        *base.micro_batches != *second.micro_batches)
      result.micro_batch_s = std::max(
          0.0, (second.facts.compute_s - base.facts.compute_s) / (*second.micro_batches - *base.micro_batches));
  }
  result.gradients = base.facts.gradients;
  if (second.facts.gradients.size() > result.gradients.size() && second.facts.compute_s > 0) {
    result.gradients = second.facts.gradients;
    for (models::Gradient& gradient : result.gradients)
      gradient.ready_s *= base.facts.compute_s / second.facts.compute_s;
    if (base.bucket_mb)
      result.bucket_rule =
          bucket_rule(result.gradients, base.facts.gradients, static_cast<int64_t>(*base.bucket_mb * (1 << 20)));
  }
  if (!sweep) {
    double bytes = 0;
    for (const models::Gradient& gradient : base.facts.gradients) bytes += static_cast<double>(gradient.bytes);
    const double seconds_per_byte = std::max(base.facts.transfer_s.value_or(0), 1e-9) / std::max(bytes, 1.0);
    Curve& curve = result.allreduce[kDefaultAlgorithm];
    curve.add(1, seconds_per_byte);
    curve.add(std::max(bytes, 2.0), seconds_per_byte * std::max(bytes, 2.0));
    return result;
  }
  for (const auto& [algorithm, times] : sweep->seconds) {
    const std::string value = algorithm.name == kDefaultAlgorithm ? kDefaultAlgorithm : algorithm_value(algorithm);
    if (!value.empty()) result.allreduce[value] = curve_of(*sweep, algorithm);
  }
  if (!rules.empty()) result.allreduce[kRules] = curve_of(*sweep, rules);
  return result;
}

std::optional<MemoryModel> memory_model(const MemoryUse& one, const MemoryUse& other) {
  if (one.batch == other.batch) return std::nullopt;
  const double per_sample = (other.peak_bytes - one.peak_bytes) / (other.batch - one.batch);
  if (per_sample <= 0) return MemoryModel{std::max(one.peak_bytes, other.peak_bytes), 0};
  return MemoryModel{one.peak_bytes - per_sample * one.batch, per_sample};
}

}  // namespace ddl::tune
