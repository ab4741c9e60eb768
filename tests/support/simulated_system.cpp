#include "tests/support/simulated_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/models/fusion.h"

namespace ddl::testing {
namespace {

using tune::Tunable;

constexpr double kMib = 1024.0 * 1024.0;
const std::vector<std::string> kAlgorithms = {
    "default", "linear", "recursive_doubling", "ring", "segmented_ring:128K", "rabenseifner"};

double uniform(std::mt19937_64& random, double lo, double hi) {
  return std::uniform_real_distribution<double>(lo, hi)(random);
}
double between(std::mt19937_64& random, double lo, double hi) {
  return std::exp(uniform(random, std::log(lo), std::log(hi)));
}
double lognormal(std::mt19937_64& random, double sigma) {
  return std::exp(std::normal_distribution<double>(0, sigma)(random));
}
bool chance(std::mt19937_64& random, double probability) { return uniform(random, 0, 1) < probability; }

}  // namespace

SimulatedSystem::SimulatedSystem(uint64_t system, bool nothing_helps) : system_(system), nothing_helps_(nothing_helps) {
  std::mt19937_64 random(system * 7919 + (nothing_helps ? 1 : 0));
  ranks_ = int64_t{4} << random() % 4;
  // Shared memory, 1 Gbit Ethernet, 10 Gbit, InfiniBand.
  constexpr double kAlphas[] = {3e-6, 5e-5, 3e-5, 2e-6}, kBandwidths[] = {4e9, 1.1e8, 1e9, 1e10};
  const size_t network = random() % 4;
  alpha_s_ = kAlphas[network] * between(random, 0.7, 1.5);
  beta_s_per_byte_ = 1 / (kBandwidths[network] * between(random, 0.6, 1.2));
  copy_s_per_byte_ = network == 0 ? between(random, 1, 4) / 8e9 : between(random, 0.5, 1.5) / 1e10;
  overlap_ = chance(random, 0.5);
  contention_ = overlap_ ? uniform(random, 0, 0.3) : 0;
  noise_scale_ = between(random, 50, 5000);
  trial_noise_ = between(random, 0.002, 0.01);

  const auto tensors = static_cast<size_t>(between(random, 10, 200));
  double total = 0;
  for (size_t i = 0; i < tensors; ++i) total += tensors_.emplace_back(Tensor{between(random, 512, 16 * kMib), 0}).bytes;
  const double wanted = between(random, 1, 200) * kMib;
  double so_far = 0;
  for (Tensor& tensor : tensors_) {
    tensor.bytes = std::max(4.0, std::round(tensor.bytes * wanted / total));
    so_far += 1.0 / static_cast<double>(tensors);
    tensor.ready_share = 0.35 + 0.65 * so_far;  // forward, then backward layer by layer
  }
  for (const std::string& algorithm : kAlgorithms) {
    double now = lognormal(random, 0.2);
    for (int decade = 0; decade < 10; ++decade) better_[algorithm].push_back(now *= lognormal(random, 0.12));
  }
  // Computing and communication of the same order, or there would be nothing to choose; or next to no
  // communication at all.
  double comm_s = 0;
  for (const Tensor& tensor : tensors_) comm_s += allreduce_seconds("default", tensor.bytes);
  const double compute_s = comm_s * (nothing_helps ? 2000 : between(random, 0.5, 4));
  compute_fixed_s_ = compute_s * uniform(random, 0.02, 0.3);
  compute_s_per_sample_ = (compute_s - compute_fixed_s_) / default_batch_;

  std::vector<Tunable> tunables;
  const bool batch = !nothing_helps && chance(random, 0.6);
  if (batch) tunables.push_back({tune::kBatch, {"32", "8", "16", "64", "128"}, true});
  const std::vector<std::string> buckets = {"0", "0.25", "1", "2", "4", "8", "16", "64"};
  std::vector<std::string> chosen = {buckets[random() % buckets.size()]};
  for (const std::string& value : buckets)
    if (value != chosen[0]) chosen.push_back(value);
  tunables.push_back({tune::kBucketMb, chosen, true});
  tunables.push_back({tune::kAlgorithm, kAlgorithms, true});
  if (!batch || chance(random, 0.5)) {
    tunables.push_back({"threads", {"1", "2", "4", "8", "16"}, false});
    double factor = 1;
    for (int i = 0; i < 5; ++i, factor *= lognormal(random, 0.08))
      user_["threads"].push_back(nothing_helps ? 1 + 0.004 * i : factor);
  }
  if (chance(random, 0.3)) {
    tunables.push_back({"pinning", {"none", "core", "socket"}, false});
    for (int i = 0; i < 3; ++i)
      user_["pinning"].push_back(i == 0 ? 1 : nothing_helps ? 1.003 : lognormal(random, 0.05));
  }
  space_ = std::make_unique<tune::Space>(tunables);

  for (size_t point = 0; point < space_->size(); ++point) {
    const double samples = space_->has(tune::kBatch) ? std::stod(space_->value(point, tune::kBatch)) : default_batch_;
    const double p = static_cast<double>(ranks_);
    costs_.push_back(step_seconds(point) /
                     (samples * p * tune::relative_efficiency(samples * p, default_batch_ * p, noise_scale_)));
  }
  if (nothing_helps)
    for (double& cost : costs_) cost = std::max(cost, costs_[0]);
  best_ = static_cast<size_t>(std::min_element(costs_.begin(), costs_.end()) - costs_.begin());
}

double SimulatedSystem::allreduce_seconds(const std::string& algorithm, double bytes) const {
  const double p = static_cast<double>(ranks_), rounds = std::log2(p);
  double messages = 0, moved = 0;
  const std::string kind = algorithm != "default" ? algorithm
                           : bytes < 10'000       ? "recursive_doubling"
                           : bytes < 1e6          ? "ring"
                                                  : "segmented_ring:128K";
  if (kind == "linear") {
    messages = 2 * (p - 1), moved = 2 * (p - 1);
  } else if (kind == "recursive_doubling") {
    messages = rounds, moved = rounds;
  } else if (kind == "ring") {
    messages = 2 * (p - 1), moved = 2 * (p - 1) / p;
  } else if (kind == "rabenseifner") {
    messages = 2 * rounds, moved = 2 * (p - 1) / p;
  } else {
    messages = 2 * (p - 1) * std::ceil(bytes / p / (128 * 1024)), moved = 1.7 * (p - 1) / p;
  }
  const auto decade = static_cast<size_t>(std::clamp(std::log10(std::max(bytes, 1.0)), 0.0, 9.0));
  return (messages * alpha_s_ + moved * bytes * beta_s_per_byte_) * better_.at(kind)[decade];
}

double SimulatedSystem::step_seconds(size_t point) const {
  const double batch = space_->has(tune::kBatch) ? std::stod(space_->value(point, tune::kBatch)) : default_batch_;
  double compute_s = compute_fixed_s_ + compute_s_per_sample_ * batch;
  for (size_t i = 0; i < space_->tunables().size(); ++i)
    if (const auto factors = user_.find(space_->tunables()[i].name); factors != user_.end())
      compute_s *= factors->second[space_->value_index(point, i)];
  std::vector<models::Gradient> gradients;
  for (const Tensor& tensor : tensors_)
    gradients.push_back({static_cast<int64_t>(tensor.bytes), tensor.ready_share * compute_s});
  const double cap = std::stod(space_->value(point, tune::kBucketMb)) * kMib;
  const std::string& algorithm = space_->value(point, tune::kAlgorithm);
  double over_s = 0, comm_s = 0, hidden_s = 0;
  for (const models::Bucket& bucket : models::fuse(gradients, static_cast<int64_t>(cap))) {
    const double bytes = static_cast<double>(bucket.bytes);
    const double time_s = allreduce_seconds(algorithm, bytes) + (bucket.tensors > 1 ? 2 * bytes * copy_s_per_byte_ : 0);
    const double begin_s = std::max(over_s, bucket.ready_s);
    over_s = begin_s + time_s;
    comm_s += time_s;
    hidden_s += std::clamp(compute_s - begin_s, 0.0, time_s);
  }
  if (!overlap_) return compute_s + comm_s;
  return std::max(compute_s, over_s) + contention_ * hidden_s;
}

std::string SimulatedSystem::words() const {
  return fmt::format("system {}: {} ranks, {} points, overlap {}, best {:.1f} % cheaper than the default ({})", system_,
                     ranks_, space_->size(), overlap_ ? "yes" : "no", 100 * (costs_[0] / costs_[best_] - 1),
                     space_->words(best_));
}

double SimulatedSystem::round_noise(std::mt19937_64& random) const {
  return std::normal_distribution<double>(0, 0.03)(random) +
         (chance(random, 0.15) ? std::log(uniform(random, 1.2, 4)) : 0);
}

double SimulatedSystem::trial_noise(std::mt19937_64& random) const {
  return std::normal_distribution<double>(0, trial_noise_)(random) +
         (chance(random, 0.02) ? std::log(uniform(random, 1.02, 1.3)) : 0);
}

tune::Calibration SimulatedSystem::calibrate(std::mt19937_64& random, std::vector<tune::Trial>& trials) const {
  const double round = round_noise(random);
  const auto trial = [&](size_t point) {
    trials.push_back({0, tune::Stage::kCalibrate, point, {costs_[point] * std::exp(round + trial_noise(random)), ""}});
  };
  trial(0);
  size_t other = 0;  // the largest batch, and tensors one by one
  for (size_t i = 0; i < space_->tunables().size(); ++i) {
    const Tunable& tunable = space_->tunables()[i];
    const auto value =
        std::find(tunable.values.begin(), tunable.values.end(), tunable.name == tune::kBatch ? "128" : "0");
    if ((tunable.name == tune::kBatch || tunable.name == tune::kBucketMb) && value != tunable.values.end())
      other = space_->with(other, i, static_cast<size_t>(value - tunable.values.begin()));
  }
  trial(other);

  tune::Calibration result;
  result.ranks = ranks_;
  result.batch = default_batch_;
  result.overlap = overlap_;
  if (space_->has(tune::kBatch)) result.noise_scale = noise_scale_ * lognormal(random, 0.05);
  const double measured = std::exp(round + trial_noise(random));
  result.compute_s = (compute_fixed_s_ + compute_s_per_sample_ * default_batch_) * measured;
  result.compute_fixed_s = compute_fixed_s_ * measured * lognormal(random, 0.1);
  for (const Tensor& tensor : tensors_)
    result.gradients.push_back(
        {static_cast<int64_t>(tensor.bytes), tensor.ready_share * result.compute_s * lognormal(random, 0.01)});
  for (const std::string& algorithm : kAlgorithms)
    for (double bytes = 256; bytes < 3e8; bytes *= 4)
      result.allreduce[algorithm].add(bytes,
                                      allreduce_seconds(algorithm, bytes) * std::exp(round) * lognormal(random, 0.03));
  return result;
}

std::optional<tune::Outcome> SimulatedBench::measure(size_t round, tune::Stage, size_t point) {
  if (left_ == 0) return std::nullopt;
  --left_;
  if (round_ != round) round_noise_ = system_.round_noise(random_);
  round_ = round;
  return tune::Outcome{system_.cost(point) * std::exp(round_noise_ + system_.trial_noise(random_)), ""};
}

tune::SearchResult tune_system(const SimulatedSystem& system, uint64_t seed, size_t trials) {
  SimulatedBench bench(system, seed, trials);
  std::vector<tune::Trial> calibrating;
  const tune::Calibration calibration = system.calibrate(bench.random(), calibrating);
  bench.spend(SimulatedSystem::kCalibratingTrials);
  return tune::search(system.space(), tune::predict(system.space(), calibration),
                      std::vector<bool>(system.space().size(), true), calibrating, bench, {.seed = seed});
}

}  // namespace ddl::testing
