// The trials of one tuning: made now, or read from the log of an earlier run of it.
#pragma once

#include <algorithm>
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
  /// `folder`: for recordings and outputs of trials. `request` must outlive this.
  Trials(const TuneRequest& request, std::filesystem::path folder);

  /// What measure() is about; all of it must outlive this. `prediction` may be filled later.
  void search_in(const tune::Space& space, const std::vector<tune::JobTunable>& tunables, const tune::Goal& goal,
                 const std::vector<double>& prediction);

  std::optional<tune::Outcome> measure(size_t round, tune::Stage stage, size_t point) override;
  /// The job with these values, before there is a space.
  std::optional<tune::Outcome> measure_first(const std::string& words, const std::map<std::string, std::string>& values);
  size_t trials_left() const override;
  std::optional<double> seconds_left() const override { return request_.trials ? std::nullopt : std::optional(budget_left_s()); }

  /// For the last trial with these words whose recording was kept; those of exploring and racing are not.
  tune::TrialFacts facts(const std::string& words) const;

  tune::TrialLog& log() { return log_; }
  void spend_on_sweep(double seconds) { sweep_s_ += seconds; }
  void end() { ended_ = true; }
  bool is_interrupted() const { return ended_; }  ///< by Ctrl-C, or by end()
  double spent_s() const { return spent_s_ + sweep_s_; }
  size_t resumed() const { return log_.resumed(); }

 private:
  std::optional<tune::Outcome> measure_values(size_t round, tune::Stage stage, const std::string& words,
                                              const std::map<std::string, std::string>& values, std::optional<size_t> point);
  void spend(double seconds, std::optional<size_t> point);
  double budget_left_s() const { return std::max(0.0, request_.budget_s - spent_s()); }
  bool is_predicted(size_t point) const;
  void tell(tune::Stage stage, const std::string& words, const tune::Outcome& outcome, const RanTrial& ran,
            std::optional<size_t> point) const;

  const TuneRequest& request_;
  std::filesystem::path folder_;
  tune::TrialLog log_;
  const tune::Space* space_ = nullptr;
  std::vector<tune::JobTunable> tunables_;
  tune::Goal goal_;
  const std::vector<double>* prediction_ = nullptr;
  std::map<std::string, std::string> runs_;  ///< recordings by words
  size_t count_ = 0, others_ = 0;            ///< trials, and those that were not the default's
  double spent_s_ = 0, sweep_s_ = 0, others_s_ = 0;
  bool ended_ = false;
};

}  // namespace ddl::cli
