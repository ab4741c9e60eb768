// Ranges in which a rank does not train - it writes a checkpoint, collects garbage, compiles, loads data -, step by
// step, and the time of the steps without them.
//
// In the replay all ranks end a step together: it takes as long as the rank that is busy longest, waiting for others
// not counted, and a pause is taken from the rank that was in it. A pause behind another rank's computing saves
// nothing. Ranges between two steps belong to the later one; their time inside MPI is not a pause. ns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

struct RankPause {
  int64_t rank = 0;
  double busy_ns = 0;    ///< of the step, and of the ranges before it: all but waiting for others
  double pause_ns = 0;   ///< of busy_ns: in the ranges
  double before_ns = 0;  ///< of pause_ns: before the step
};

struct StepPauses {
  int64_t step = 0;
  std::vector<RankPause> ranks;
  double longest_pause_ns() const;
};

/// Mean over the steps of the longest time that a rank was in the ranges before it.
double mean_before_ns(const std::vector<StepPauses>& steps);

/// SQL over table `region`: which ranges. Layers of the network may have any name.
inline constexpr std::string_view kCheckpointRanges =
    "kind NOT IN ('step', 'layer') AND (lower(name) IN ('checkpoint', 'checkpointing', 'checkpoint_save', 'torch.save', 'async_save')"
    " OR lower(name) LIKE '%save%checkpoint%')";
inline constexpr std::string_view kCollectionRanges =
    "kind NOT IN ('step', 'layer') AND lower(name) IN ('garbage collection', 'garbage_collection', 'gc', 'gc.collect')";
inline constexpr std::string_view kCompilationRanges =
    "kind NOT IN ('step', 'layer') AND lower(name) IN ('compilation', 'recompilation', 'torch.compile')";

/// Pauses of the steady steps, in their order; empty without annotated steps or without such ranges.
std::vector<StepPauses> pauses_in(const FindingInput& input, std::string_view ranges);

/// Pauses that cost a hundredth of the step or more, on average; those that are as long count.
struct CostlyPauses {
  std::vector<StepPauses> steps;  ///< not empty
  double saving_ns = 0;           ///< mean over the steps of what each would be shorter by without them
  double least_ns = 0;            ///< a shorter one is noise
};
std::optional<CostlyPauses> costly_pauses(const FindingInput& input, std::string_view ranges);

/// Mean over the steps of what each would be shorter by if `left_out(step, rank)` were taken from the ranks.
double saving_without(const std::vector<StepPauses>& steps,
                      const std::function<double(const StepPauses&, const RankPause&)>& left_out);

/// Over all steps and ranks.
struct PauseCount {
  std::set<int64_t> ranks;  ///< that paused
  int64_t count = 0;        ///< steps of a rank in which it paused
  size_t steps = 0;         ///< in which some rank paused
  size_t steps_of_few = 0;  ///< in which at most half of the ranks did
  int64_t last_step = 0;
  double sum_ns = 0, longest_ns = 0;

  double mean_ns() const { return sum_ns / static_cast<double>(count); }  ///< count > 0
};
PauseCount count_pauses(const CostlyPauses& pauses);

/// Rows behind a finding: the longest of the ranges.
std::string pauses_sql(int64_t world, std::string_view ranges);
/// A finding with what the pauses cost, how sure that is, and the rows behind it.
Finding finding_of_pauses(const FindingInput& input, std::string_view ranges, const CostlyPauses& pauses);

}  // namespace ddl
