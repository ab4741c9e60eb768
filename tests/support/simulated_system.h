// Systems with a known best configuration, for the search: a training job whose step time follows from its tensors,
// its network and its tunables by rules that are richer than what the predictor knows - algorithms that are better
// or worse at some sizes than their model, communication that slows the computing it hides behind, copies into
// fusion buffers, a user's tunable that nobody predicted - and trials with noise: of each trial, of whole rounds,
// and now and then of a single trial.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "autotuner/predict.h"
#include "autotuner/search.h"

namespace ddl::testing {

class SimulatedSystem {
 public:
  /// `system`: which one; the same number, the same truth. `nothing_helps`: no point is better than the default.
  explicit SimulatedSystem(uint64_t system, bool nothing_helps = false);

  const tune::Space& space() const { return *space_; }
  /// Seconds per sample at equal statistical efficiency, without noise.
  double cost(size_t point) const { return costs_[point]; }
  size_t best() const { return best_; }
  /// How much more than the best one a point costs: 0.02 is 2 %.
  double regret(size_t point) const { return costs_[point] / costs_[best_] - 1; }
  std::string words() const;

  /// What a tuner is told by its calibrating trials, with noise; and those trials. The sweep of algorithms takes the
  /// time of one more.
  tune::Calibration calibrate(std::mt19937_64& random, std::vector<tune::Trial>& trials) const;
  static constexpr size_t kCalibratingTrials = 3;

  /// Log of the noise that a round has in common, and of a trial.
  double round_noise(std::mt19937_64& random) const;
  double trial_noise(std::mt19937_64& random) const;

 private:
  double step_seconds(size_t point) const;
  double allreduce_seconds(const std::string& algorithm, double bytes) const;

  uint64_t system_;
  bool nothing_helps_;
  std::unique_ptr<tune::Space> space_;
  int64_t ranks_ = 4;
  double alpha_s_ = 0, beta_s_per_byte_ = 0, copy_s_per_byte_ = 0;
  double compute_fixed_s_ = 0, compute_s_per_sample_ = 0, contention_ = 0, noise_scale_ = 0, trial_noise_ = 0;
  double default_batch_ = 32;
  bool overlap_ = false;
  struct Tensor {
    double bytes, ready_share;
  };
  std::vector<Tensor> tensors_;                        ///< as backward finishes them
  std::map<std::string, std::vector<double>> better_;  ///< factor of an algorithm by decade of bytes
  std::map<std::string, std::vector<double>> user_;    ///< factor on computing by value of a user's tunable
  std::vector<double> costs_;
  size_t best_ = 0;
};

/// A bench over a system: `trials` may be made, all drawn from one seed.
class SimulatedBench : public tune::Bench {
 public:
  SimulatedBench(const SimulatedSystem& system, uint64_t seed, size_t trials)
      : system_(system), random_(seed), left_(trials) {}
  std::optional<tune::Outcome> measure(size_t round, tune::Stage stage, size_t point) override;
  size_t trials_left() const override { return left_; }
  std::mt19937_64& random() { return random_; }
  void spend(size_t trials) { left_ -= std::min(left_, trials); }

 private:
  const SimulatedSystem& system_;
  std::mt19937_64 random_;
  size_t left_;
  std::optional<size_t> round_;
  double round_noise_ = 0;
};

/// Calibrates and searches with a budget of `trials`, calibration included.
tune::SearchResult tune_system(const SimulatedSystem& system, uint64_t seed, size_t trials);

}  // namespace ddl::testing
