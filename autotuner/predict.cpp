#include "autotuner/predict.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

namespace ddl::tune {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

double step_seconds(const Calibration& calibration, double batch, std::optional<double> bucket_mb, const Curve& allreduce) {
  const double growth = calibration.batch > 0 ? batch / calibration.batch : 1;
  const double compute_s = calibration.compute_fixed_s + (calibration.compute_s - calibration.compute_fixed_s) * growth;
  std::vector<models::Gradient> gradients = calibration.gradients;
  for (models::Gradient& gradient : gradients)
    if (calibration.compute_s > 0) gradient.ready_s *= compute_s / calibration.compute_s;
  // Unless the bucket is tuned, what was seen is what is sent.
  const auto threshold = bucket_mb ? static_cast<int64_t>(*bucket_mb * kMib) : int64_t{0};
  return models::schedule(
             models::fuse(gradients, threshold), compute_s, [&](int64_t bytes) { return allreduce.seconds(static_cast<double>(bytes)); },
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

bool is_modelled(const std::string& tunable) { return tunable == kBatch || tunable == kBucketMb || tunable == kAlgorithm; }

double relative_efficiency(double batch, double base, std::optional<double> noise_scale) {
  return noise_scale ? (*noise_scale + base) / (*noise_scale + batch) : 1;
}

std::vector<double> predict(const Space& space, const Calibration& calibration) {
  const bool tunes_batch = space.has(kBatch), tunes_bucket = space.has(kBucketMb), tunes_algorithm = space.has(kAlgorithm);
  const double ranks = static_cast<double>(calibration.ranks);
  std::map<std::string, double> known;  // tunables that are not modelled do not make it a new prediction
  std::vector<double> result(space.size());
  for (size_t point = 0; point < space.size(); ++point) {
    const std::string batch_word = tunes_batch ? space.value(point, kBatch) : "";
    const std::string bucket_word = tunes_bucket ? space.value(point, kBucketMb) : "";
    const std::string algorithm = tunes_algorithm ? space.value(point, kAlgorithm) : "default";
    const auto [entry, is_new] = known.try_emplace(batch_word + " " + bucket_word + " " + algorithm, 0.0);
    if (is_new) {
      const double batch = tunes_batch ? std::stod(batch_word) : std::max(calibration.batch, 1.0);
      const auto measured = calibration.allreduce.find(algorithm);
      const Curve& curve = measured != calibration.allreduce.end() ? measured->second : calibration.allreduce.at("default");
      const double step_s = step_seconds(calibration, batch, tunes_bucket ? std::optional(std::stod(bucket_word)) : std::nullopt, curve);
      const double base = calibration.batch > 0 ? calibration.batch : batch;
      entry->second = std::log(step_s / (batch * ranks * relative_efficiency(batch * ranks, base * ranks, calibration.noise_scale)));
    }
    result[point] = entry->second;
  }
  return result;
}

}  // namespace ddl::tune
