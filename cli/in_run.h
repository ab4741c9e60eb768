// The bench of `ddl tune --in-run`: one running job, in which points are compared by blocks of its steps
// (autotuner/blocks.h).
//
// The job starts once, under `ddl record`, with its defaults, and follows a schedule that is written while it runs
// (core/tune_schedule.h). Step times are read from its spools, like ddl-top's. A round's blocks are written at once;
// the next round is decided when all ranks have ended the last step of this one, and meanwhile ranks keep their present
// values. Tuning begins once every rank follows the schedule.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotuner/search.h"
#include "autotuner/space.h"
#include "autotuner/tunables.h"
#include "cli/live_steps.h"
#include "cli/process.h"
#include "core/tune_schedule.h"

namespace ddl::cli {

class InRun : public tune::Bench {
 public:
  struct Request {
    tune::PlacedJob job;  ///< with the defaults, on its nodes
    /// exists, for its recording, output and schedule; on a file system that all ranks see
    std::filesystem::path folder;
    tune::Environment start = {};  ///< names and first values of the knobs
    double budget_s = 600;         ///< from its start; with `trials` for its first steps only
    std::optional<size_t> trials = {};
  };
  /// The measurement of one point in one round.
  struct Trial {
    size_t round = 0;
    tune::Stage stage = tune::Stage::kCalibrate;
    size_t point = 0;
    std::optional<double> step_s = {};  ///< unset: none of its steps counts
    double wall_s = 0;
  };
  /// `told`: called with each finished trial.
  using Tell = std::function<void(const Trial&)>;

  /// Starts the job, and waits until all ranks follow the schedule and have ended steps. Throws ddl::Error otherwise.
  InRun(Request request, Tell told);
  /// Ends a running job, and removes the schedule.
  ~InRun() override;

  /// Whether every rank has asked for the knob's value.
  bool is_asked_for(const std::string& knob) const {
    return steps_.asking_for(knob) == static_cast<size_t>(steps_.ranks());
  }
  std::set<std::string> knobs() const { return steps_.knobs(); }  ///< requested by any rank
  int64_t ranks() const { return steps_.ranks(); }
  int64_t hosts() const { return steps_.hosts(); }
  const std::string& mpi() const { return steps_.mpi(); }
  std::optional<double> samples() const { return steps_.samples(); }
  double default_step_s() const { return default_step_s_; }
  std::filesystem::path recording() const { return request_.folder / "in-run.ddl"; }
  std::filesystem::path output() const { return request_.folder / "in-run.log"; }
  double spent_s() const;
  uint64_t steps_counted() const { return steps_counted_; }
  uint64_t steps_left_out() const { return steps_left_out_; }  ///< the first ones of each block

  /// The space and samples of measure_rounds(); must outlive this. A cost is the seconds of a step over its `samples`.
  void search_in(const tune::Space& space, double samples);

  std::optional<tune::Outcome> measure(size_t round, tune::Stage stage, size_t point) override;
  std::vector<std::vector<tune::Outcome>> measure_rounds(tune::Stage stage,
                                                         const std::vector<tune::Round>& rounds) override;
  size_t trials_left() const override;
  std::optional<double> seconds_left() const override;
  std::optional<double> expected_s(tune::Stage stage, size_t point) const override;

  /// Makes the point's values permanent. Returns the first step with them; nothing: the job has ended, or
  /// dropped the schedule.
  std::optional<uint64_t> settle(size_t point);
  bool has_ended() const { return ended_.has_value(); }
  /// Its ranks have ended; the rest of its command may run on.
  bool is_over() const { return steps_.is_over(); }
  /// No rank has finished anything for so long that the job is taken for dead-locked.
  bool hangs() const { return hangs_; }
  /// Why nothing more can be measured, in words; empty: it can.
  const std::string& why_over() const { return why_over_; }
  /// The values that were in force then, which may be why; empty: unknown.
  const std::string& over_in() const { return over_in_; }
  /// SIGTERM, and SIGKILL to what ignores it.
  void end_job() { ended_ = job_->end(); }
  Ended wait_for_end();
  /// A table of the blocks: first step, end, who made it, its values.
  std::string schedule_csv() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Block {
    uint64_t begin = 0, end = 0;
    bool of_rank = false;
    std::string values;
  };

  void begin();
  void clear_away();
  void fail_if_it_does_not_follow();
  [[noreturn]] void fail(const std::string& why, const std::string& hint);
  void check(int32_t rank, uint64_t step, int64_t block);
  std::string text_of(size_t point) const;
  std::string in_force(uint64_t step) const;  ///< "cycle=2 was in force, since step 40"; empty: unknown
  double expected_step_s(size_t point) const;
  uint64_t half_steps(tune::Stage stage, size_t point) const;  ///< in each of its two parts in a round
  void adopt();                                                ///< takes in blocks that ranks have made
  std::optional<size_t> publish(const std::string& text, std::optional<uint64_t> steps, double step_s);
  bool look();  ///< false: the job has ended
  bool wait_for_step(uint64_t step);
  std::vector<tune::Outcome> measure_round(tune::Stage stage, const tune::Round& round);

  Request request_;
  Tell told_;
  TuneFiles files_;
  std::vector<Block> blocks_;  ///< by number
  LiveSteps steps_;
  std::unique_ptr<RunningJob> job_;
  Clock::time_point started_ = {};
  std::optional<Clock::time_point> first_step_, first_follower_;
  std::optional<Ended> ended_;
  std::string why_over_, over_in_, trouble_;
  bool hangs_ = false;
  const tune::Space* space_ = nullptr;
  double samples_ = 1;
  double default_step_s_ = 0;
  /// of the job, in the last block: it may take long to come to its first step
  uint64_t patience_s_ = 600;
  std::map<size_t, double> known_step_s_, longest_step_s_;  ///< by point: of its last trial, and the longest
  size_t count_ = 0, others_ = 0;                           ///< trials, and those of other points than the default
  double all_s_ = 0, others_s_ = 0;
  uint64_t steps_counted_ = 0, steps_left_out_ = 0;
};

}  // namespace ddl::cli
