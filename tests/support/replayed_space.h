// A space of which every point was measured many times: a search is shown these measurements again. What a point truly
// costs is the median of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "autotuner/search.h"

namespace ddl::testing {

class ReplayedSpace {
 public:
  /// A line "tunables NAME...", then for each point "VALUE... : MILLISECONDS...", a time for each recorded
  /// round; the first point is the default, and comes once more, with what it took when it was measured twice
  /// in a round (bench/measure_space.py). Or lines "RAW ALGORITHM FUSION_MB MILLISECONDS...", with (default,
  /// 64) as default. `rounds`: only each `rounds.every`-th one from `rounds.first` on. Throws
  /// std::runtime_error if the file is another.
  struct Rounds {
    size_t first = 0, every = 1;
  };
  ReplayedSpace(const std::filesystem::path& file, Rounds rounds);
  explicit ReplayedSpace(const std::filesystem::path& file) : ReplayedSpace(file, Rounds{}) {}

  const tune::Space& space() const { return *space_; }
  size_t rounds() const { return seconds_[0].size(); }
  /// What a point took in a recorded round, measured there for the first time (`time` 0) or again: what was recorded of
  /// the default's second trial; for lack of it the time of the next round.
  double seconds(size_t point, size_t round, size_t time) const;
  /// Median of the point over that of the best one, less 1.
  double regret(size_t point) const { return medians_[point] / best_ - 1; }

 private:
  std::unique_ptr<tune::Space> space_;
  std::vector<std::vector<double>> seconds_;  ///< by point and recorded round
  std::vector<double> default_again_;         ///< by recorded round; may be empty
  std::vector<double> medians_;
  double best_ = 0;
};

/// A round of the search is a recorded one, drawn anew each time: all its trials are times of that round, so that what
/// they suffered together they suffer together here.
class ReplayedBench : public tune::Bench {
 public:
  ReplayedBench(const ReplayedSpace& space, uint64_t seed, size_t trials)
      : space_(space), random_(seed), left_(trials) {}
  std::optional<tune::Outcome> measure(size_t round, tune::Stage stage, size_t point) override;
  size_t trials_left() const override { return left_; }

 private:
  const ReplayedSpace& space_;
  std::mt19937_64 random_;
  size_t left_;
  std::optional<size_t> round_;
  size_t recorded_ = 0;
  std::vector<size_t> times_;  ///< by point: in this round
};

/// Nothing is predicted. `trials`: with that of the default from which the search begins.
tune::SearchResult tune_replayed(const ReplayedSpace& space, uint64_t seed, size_t trials);

}  // namespace ddl::testing
