// The trials of a tuning: run now, or read from the log of an earlier run.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotuner/search.h"
#include "autotuner/trial_log.h"
#include "cli/tune.h"
#include "cli/tune_trial.h"

namespace ddl::cli {

class Trials : public tune::Bench {
 public:
  /// `folder`: for recordings and output of trials. `request` must outlive this.
  Trials(const TuneRequest& request, std::filesystem::path folder);

  /// The subject of measure(); everything must outlive this. `prediction` may be filled in later.
  void search_in(const tune::Space& space, const std::vector<tune::JobTunable>& tunables, const tune::Goal& goal,
                 const std::vector<double>& prediction);

  std::optional<tune::Outcome> measure(size_t round, tune::Stage stage, size_t point) override;
  size_t lanes() const override { return std::max<size_t>(1, request_.lanes.size()); }
  /// Reads recordings after all have ended: reading would take CPU from the nodes of trials.
  std::vector<std::vector<tune::Outcome>> measure_rounds(tune::Stage stage,
                                                         const std::vector<tune::Round>& rounds) override;
  /// The job with these values, before a space exists.
  std::optional<tune::Outcome> measure_first(const std::string& words,
                                             const std::map<std::string, std::string>& values);
  size_t trials_left() const override;
  std::optional<double> seconds_left() const override {
    return request_.trials ? std::nullopt : std::optional(budget_left_s());
  }

  /// A job on the lane's nodes, or placed by its launcher.
  tune::PlacedJob placed(tune::PlacedJob job, size_t lane = 0) const;

  /// The last trial with these words whose recording was kept; those of exploring and racing are not.
  tune::TrialFacts facts(const std::string& words) const;

  tune::TrialLog& log() { return log_; }
  void spend_on_sweep(double seconds);
  void end() { ended_ = true; }
  bool is_interrupted() const { return ended_; }  ///< by Ctrl-C, or by end()
  double spent_s() const { return spent_s_ + sweep_s_; }
  double sweep_s() const { return sweep_s_; }
  size_t resumed() const { return log_.resumed(); }

 private:
  /// A requested trial: its values and outcome.
  struct Wanted {
    size_t round = 0;
    tune::Stage stage = tune::Stage::kCalibrate;
    std::optional<size_t> point = {};  ///< unset before a space exists
    std::string words;
    std::map<std::string, std::string> values;
    size_t lane = 0;
    size_t number = 0;
    std::optional<tune::Outcome> outcome = {};
  };
  std::optional<tune::Outcome> measure_one(Wanted wanted);
  /// False: it cannot be started any more, and the tuning ends.
  bool start(const std::vector<std::vector<Launch>>& launches, std::vector<std::vector<LaneEnd>>& ends);
  std::string hosts_of(size_t lane) const;
  /// Counts it. True: an earlier run of this search has its outcome.
  bool is_known(Wanted& wanted);
  TrialRun run_of(const Wanted& wanted) const;
  /// Its launch, which ends when it takes too long.
  Launch launch_of(const TrialRun& trial, const Wanted& wanted) const;
  double most_s(const Wanted& wanted) const;
  /// Throws ddl::Error if it ran on another number of ranks than the default.
  void require_same_ranks(const Wanted& wanted, const tune::TrialFacts& facts) const;
  std::vector<std::string> launcher_of(const std::map<std::string, std::string>& values) const;
  /// Logs and tells it.
  void keep(Wanted& wanted, const RanTrial& ran, const std::filesystem::path& recording);
  void count(const Wanted& wanted);
  double budget_left_s() const { return std::max(0.0, request_.budget_s - spent_s()); }
  bool is_predicted(size_t point) const;
  void tell(const Wanted& wanted, const RanTrial& ran) const;

  /// Time since the last call, counted against the budget: a trial with choosing it and reading its recording.
  double since_last_s();

  using Clock = std::chrono::steady_clock;
  const TuneRequest& request_;
  std::filesystem::path folder_;
  tune::TrialLog log_;
  const tune::Space* space_ = nullptr;
  std::vector<tune::JobTunable> tunables_;
  tune::Goal goal_;
  const std::vector<double>* prediction_ = nullptr;
  std::map<std::string, std::string> runs_;  ///< recordings by words
  std::map<std::string, std::string> default_values_;
  std::vector<std::string> default_launcher_;
  double default_s_ = 0;           ///< of the first trial; 0: it has not ended
  int64_t ranks_ = 0;              ///< of that
  size_t count_ = 0, others_ = 0;  ///< trials, and those of other points than the default
  double spent_s_ = 0;             ///< trials side by side count once
  Clock::time_point last_ = Clock::now();
  double all_s_ = 0, sweep_s_ = 0, others_s_ = 0;
  bool ended_ = false;
};

}  // namespace ddl::cli
