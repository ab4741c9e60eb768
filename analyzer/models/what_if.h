// What a job would have been, had something been otherwise: replays of its recorded operations with other durations,
// and how much of its slowness each type of operation, each rank and each stage has to answer for (specification.md R5,
// R6; the definitions are those of Lin et al., "Understanding Stragglers in Large Model Training Using What-if
// Analysis", OSDI 2025).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/models/replay.h"

namespace ddl::models {

/// Durations of all operations in the ideal job: computing of a kind takes its mean, a transfer of a kind its median,
/// over ranks and steps; one that is only known to take at most so long the shortest of its kind.
std::vector<double> ideal_durations(const Replay& replay);

struct SlowdownShare {
  std::string name;     ///< of a type
  int64_t number = 0;   ///< of a rank or stage
  double slowdown = 1;  ///< S of a job that is ideal but for this
};

struct Slowdown {
  double step_s = 0, ideal_step_s = 0;  ///< mean over steps, both replayed: launch delays are in neither
  double slowdown = 1;                  ///< S = T / T_ideal
  std::vector<SlowdownShare> types;     ///< S_t, worst first
  /// S_w, worst first; at most kMostReplayedRanks: those that compute longest beyond the mean
  std::vector<SlowdownShare> ranks;
  std::vector<SlowdownShare> stages;          ///< the same of pipeline stages, in their order; empty without
  std::vector<int64_t> worst_ranks;           ///< those that M_W fixes: 3 % of the ranks, one at least
  std::optional<double> fixed_by_worst_rank;  ///< the same as M_W of the first of them alone
  /// M_W: (T - T without their slowness) / (T - T_ideal); unset: T is not above T_ideal
  std::optional<double> fixed_by_ranks;
  std::optional<double> fixed_by_last_stage;  ///< M_S: the same of the last stage; unset also without stages
};

constexpr size_t kMostReplayedRanks = 256;

/// `stage_of`: the pipeline stage of a rank; empty: there are none.
Slowdown slowdown_of(const Replay& replay, const std::function<int64_t(int64_t rank)>& stage_of = {});

// The rest are durations of all operations, to be replayed.

/// Transfers `factor` times as fast.
std::vector<double> faster_network(const Replay& replay, double factor);
/// `rank` computes as its kind does in the mean over the other ranks, in the same step where they have that kind in
/// it, and varies about that as it did, but no more than each of several others does. Throws ddl::Error (usage) if
/// there is no such rank.
std::vector<double> healthy_rank(const Replay& replay, int64_t rank);
/// The same of several ranks: the mean is over those that are not among them. Computing of a kind that only they have
/// stays. Where that is more than 5 % of what they compute longer, their work is another one, place by place: then all
/// of it takes the share of its time that the others' computing of a step is of theirs.
std::vector<double> healthy_ranks(const Replay& replay, const std::vector<int64_t>& ranks);
/// Computing in proportion to the batch, `within_s` of each operation or, if that is empty, all of it;
/// transfers as they were.
std::vector<double> larger_batch(const Replay& replay, double factor, std::span<const double> within_s = {});
/// All computing at the mean of its kind, transfers as they were.
std::vector<double> balanced(const Replay& replay);
/// Spreads a layer's work evenly: its part of each operation's computing, `layer_s` (empty: there is none), takes in
/// each step the mean over the ranks that have it.
std::vector<double> even_layer(const Replay& replay, std::span<const double> layer_s);
/// Mean step if transfers hid behind computing altogether: that of free transfers, but no rank transfers longer than a
/// step. Waits for other ranks stay.
double overlapped_step_seconds(const Replay& replay);

}  // namespace ddl::models
