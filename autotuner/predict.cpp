#include "autotuner/predict.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

namespace ddl::tune {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

// What a point says of the modelled tunables.
struct Settings {
  double batch = 1;
  double bucket_mb = -1;      ///< negative: not tuned
  double micro_batches = -1;  ///< likewise
  Code code = {};
};

double step_seconds(const Calibration& calibration, const Settings& at, const Curve& allreduce) {
  const double growth = calibration.batch > 0 ? at.batch / calibration.batch : 1;
  double compute_s = calibration.compute_fixed_s + (calibration.compute_s - calibration.compute_fixed_s) * growth;
  double bubble_s = 0;
  if (calibration.pipeline && calibration.compute_s > 0) {
    // The longest stage is never idle but for the first micro-batch on its way through the others
    // (specification.md B1, B3).
    const double micro_batches =
        at.micro_batches > 0 ? at.micro_batches : static_cast<double>(calibration.pipeline->micro_batches);
    compute_s += calibration.micro_batch_s * (micro_batches - static_cast<double>(calibration.pipeline->micro_batches));
    bubble_s = calibration.pipeline->others_s * compute_s / calibration.compute_s /
               (micro_batches * static_cast<double>(calibration.pipeline->chunks));
  }
  std::vector<models::Gradient> gradients = calibration.gradients;
  for (models::Gradient& gradient : gradients)
    if (calibration.compute_s > 0) gradient.ready_s *= compute_s / calibration.compute_s;
  // Unless the bucket is tuned, what was seen is what is sent.
  std::vector<models::Bucket> buckets =
      at.bucket_mb >= 0 ? buckets_of(calibration.bucket_rule, gradients, static_cast<int64_t>(at.bucket_mb * kMib))
                        : models::fuse(gradients, 0);
  auto tensor = gradients.begin();
  for (models::Bucket& bucket : buckets) {
    for (int64_t i = 0; i < bucket.tensors; ++i, ++tensor) {
      if (tensor->bytes < kLeastCompressed) continue;
      const auto bytes = static_cast<double>(tensor->bytes);
      bucket.bytes -= static_cast<int64_t>(bytes * (1 - at.code.bytes_per_byte));
      compute_s += bytes * at.code.seconds_per_byte;
    }
  }
  return bubble_s + models::schedule(
                        buckets, compute_s,
                        [&](int64_t bytes) { return allreduce.seconds(static_cast<double>(bytes)); },
                        calibration.overlap)
                        .step_s;
}

}  // namespace

double Curve::seconds(double bytes) const {
  if (points_.empty()) throw std::logic_error("Curve::seconds: no points");
  const auto above = points_.lower_bound(bytes);
  if (above == points_.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == points_.end()) return below->second * bytes / below->first;
  const double share = std::log(bytes / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

std::vector<models::Bucket> buckets_of(BucketRule rule, const std::vector<models::Gradient>& gradients, int64_t bytes) {
  if (rule == BucketRule::kFuse) return models::fuse(gradients, bytes);
  return models::fill(gradients, bytes, rule == BucketRule::kFill ? bytes : models::kDdpFirstBucketBytes);
}

BucketRule bucket_rule(const std::vector<models::Gradient>& tensors, const std::vector<models::Gradient>& seen,
                       int64_t bytes) {
  BucketRule best = BucketRule::kFuse;
  std::pair<size_t, int64_t> least = {SIZE_MAX, 0};
  for (const BucketRule rule : {BucketRule::kFuse, BucketRule::kFill, BucketRule::kFillAfterFirst}) {
    const std::vector<models::Bucket> made = buckets_of(rule, tensors, bytes);
    std::pair<size_t, int64_t> off = {std::max(made.size(), seen.size()) - std::min(made.size(), seen.size()), 0};
    for (size_t i = 0; i < std::min(made.size(), seen.size()); ++i)
      off.second += std::abs(made[i].bytes - seen[i].bytes);
    if (off < least) least = off, best = rule;
  }
  return best;
}

std::optional<Code> code_of(const std::string& compression) {
  // Scales of groups of 512 values are 4 bytes, 8 with one bit; a value was 4.
  constexpr double kScale = 4.0 / 2048, kHalf = 2 / 8.0e9, kQuantised = 1 / 4.6e9 + 1 / 8.8e9,
                   kOneBit = 1 / 2.2e9 + 1 / 0.8e9;
  if (compression == "none") return Code{};
  if (compression == "fp16" || compression == "bf16") return Code{0.5, kHalf};
  if (compression == "q8") return Code{1.0 / 4 + kScale, kQuantised};
  if (compression == "q4") return Code{1.0 / 8 + kScale, kQuantised};
  if (compression == "ternary") return Code{1.0 / 16 + kScale, kQuantised};
  if (compression == "onebit") return Code{1.0 / 32 + 2 * kScale, kOneBit};
  return std::nullopt;
}

bool is_modelled(const std::string& tunable, const std::vector<std::string>& values, bool pipeline) {
  if (tunable == kMicroBatches) return pipeline;
  if (tunable == kCompression)
    return values.front() == "none" &&
           std::all_of(values.begin(), values.end(), [](const std::string& value) { return code_of(value); });
  return tunable == kBatch || tunable == kBucketMb || tunable == kAlgorithm;
}

double relative_efficiency(double batch, double base, std::optional<double> noise_scale) {
  return noise_scale ? (*noise_scale + base) / (*noise_scale + batch) : 1;
}

std::vector<double> predict(const Space& space, const Calibration& calibration) {
  const double ranks = static_cast<double>(calibration.ranks);
  const auto word = [&](size_t point, const char* name) {
    return space.has(name) ? space.value(point, name) : std::string();
  };
  const auto modelled = [&](const char* name) {
    const auto& tunables = space.tunables();
    return std::any_of(tunables.begin(), tunables.end(),
                       [&](const Tunable& tunable) { return tunable.name == name && tunable.modelled; });
  };
  const bool pipelined = modelled(kMicroBatches), coded = modelled(kCompression);
  std::map<std::string, double> known;  // tunables that are not modelled do not make it a new prediction
  std::vector<double> result(space.size());
  for (size_t point = 0; point < space.size(); ++point) {
    const std::string batch = word(point, kBatch), bucket_mb = word(point, kBucketMb),
                      algorithm = word(point, kAlgorithm);
    const std::string micro_batches = pipelined ? word(point, kMicroBatches) : "",
                      compression = coded ? word(point, kCompression) : "";
    const auto [entry, is_new] =
        known.try_emplace(batch + " " + bucket_mb + " " + algorithm + " " + micro_batches + " " + compression, 0.0);
    if (is_new) {
      Settings at{.batch = batch.empty() ? std::max(calibration.batch, 1.0) : std::stod(batch)};
      if (!bucket_mb.empty()) at.bucket_mb = std::stod(bucket_mb);
      if (!micro_batches.empty()) at.micro_batches = std::stod(micro_batches);
      if (!compression.empty()) at.code = *code_of(compression);
      const auto measured = calibration.allreduce.find(algorithm);
      const Curve& curve =
          measured != calibration.allreduce.end() ? measured->second : calibration.allreduce.at(kDefaultAlgorithm);
      const double base = calibration.batch > 0 ? calibration.batch : at.batch;
      entry->second =
          std::log(step_seconds(calibration, at, curve) /
                   (at.batch * ranks * relative_efficiency(at.batch * ranks, base * ranks, calibration.noise_scale)));
    }
    result[point] = entry->second;
  }
  return result;
}

}  // namespace ddl::tune
