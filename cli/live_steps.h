// The steps of a running job as they end, read from its spools like ddl-top's, and the ranks' reports about the
// schedule they follow (core/tune_schedule.h).
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "tui/spool_source.h"

namespace ddl::cli {

class LiveSteps {
 public:
  /// Follows the job that records into `directory`, which may not exist yet.
  explicit LiveSteps(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Reads what is new.
  void look();

  int32_t ranks() const { return job_.world_size; }  ///< 0: none seen
  int64_t hosts() const;
  const std::string& mpi() const { return job_.mpi; }  ///< library and version; empty: unknown
  /// The job that followed the schedule is over: all its ranks have ended, or another one of the same command runs,
  /// which is not looked at.
  bool is_over() const { return over_; }
  /// All expected ranks have been seen, and follow the schedule.
  bool all_follow() const { return ranks() > 0 && following_.size() == static_cast<size_t>(ranks()); }
  const std::set<int32_t>& following() const { return following_; }  ///< ranks
  std::set<int32_t> not_following() const;
  /// A rank has requested the values of this many steps without ending one.
  bool asks_without_steps(size_t steps) const;
  /// Number of ranks that have requested this knob.
  size_t asking_for(const std::string& knob) const;
  std::set<std::string> knobs() const;

  /// The slowest rank's, in seconds; nothing until all ranks have ended it.
  std::optional<double> step_s(uint64_t step) const;
  /// Changes when any rank finishes a call, a step or a range: a job in which nothing does for long hangs. Calls by
  /// which background threads only coordinate do not count.
  uint64_t progress() const { return progress_; }
  uint64_t ended() const { return ended_; }  ///< steps ended by all ranks, so far
  size_t most_ended() const;                 ///< of the rank that has ended most
  struct Back {
    int32_t rank = 0;
    uint64_t from = 0, to = 0;
  };
  /// A rank whose step number did not increase.
  const std::optional<Back>& went_back() const { return went_back_; }
  std::optional<uint64_t> newest() const { return newest_; }  ///< number of the newest step that all ranks have ended
  /// Forgets earlier steps.
  void forget_before(uint64_t step) { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }
  /// Samples of a step, all ranks together, by their newest reports; nothing: a rank has none.
  std::optional<double> samples() const;

  /// The step and block that a rank reported; called once for each.
  using OnBlock = std::function<void(int32_t rank, uint64_t step, int64_t block)>;
  void on_block(OnBlock function) { on_block_ = std::move(function); }

 private:
  struct Step {
    size_t ranks = 0;
    int64_t longest_ns = 0;
  };
  struct Follower {
    std::deque<std::pair<uint64_t, int64_t>> blocks;  ///< ticks and number, of steps in progress
    size_t ended = 0;                                 ///< steps
    std::optional<uint64_t> last;                     ///< its number
    std::optional<double> samples;
  };
  void take(tui::Rank& rank);
  void start_afresh();

  std::filesystem::path directory_;
  std::unique_ptr<tui::SpoolSource> source_;
  tui::Job job_;
  std::map<uint64_t, Step> steps_;
  uint64_t ended_ = 0;
  uint64_t progress_ = 0;
  uint32_t generation_ = 0;  ///< of the job that is followed
  bool seen_ended_ = false, over_ = false;
  std::optional<uint64_t> newest_;
  std::optional<Back> went_back_;
  std::map<int32_t, Follower> followers_;
  std::set<int32_t> following_;
  std::map<std::string, std::set<int32_t>> asked_;
  OnBlock on_block_;
};

}  // namespace ddl::cli
