// Rule R8 (specification.md R8) over plain rows, so that a report and the live view judge alike: which rank is late
// again and again, or which few together, and what that costs the others.
//
// Where several ranks are equally late, none enters last often enough, and mending one wins nothing. They are judged
// like one, by what is booked to any of them, if they are a minority that stands apart: with ranks in the order of
// their waits, the half that waits least has its widest gap behind them.
//
// Blame comes from the instances (W10) and from the calls that waited for messages (W5, W6), and is booked where the
// lateness began (find_late_roots()); its cost comes from the partition of the steps, because the waits of overlapping
// non-blocking collectives add up to more than the time lost. The instances with the shortest waits, which make up a
// tenth of all waiting together, are left out of the late rate, as are those below a thousandth of the step: their last
// rank says nothing, and often only the first of the many collectives of a step has to wait for the late rank. Where
// there are so many that this does not do, the steps count in which most of the blame is the rank's, if its mean over
// them is beyond chance. A rank that became slow in mid-run is found by cutting its blame per step in two where the
// means differ most.
//
// Ranks that never wait for each other, as those of several jobs in one MPI_COMM_WORLD, are judged apart: what mending
// one wins is not bounded by the waiting of those that it does not keep.
//
// Times are ns. Pure functions; the rows are read several times and must be the same each time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/waiting_parts.h"

namespace ddl {

constexpr double kStragglerMinSavingShare = 0.01;  ///< of the step

/// An instance, one rank that entered last, and the others' waiting for it.
struct LateRow {
  int64_t step = 0;
  int64_t rank = 0;
  double instances = 0;   ///< its share of them, if several ranks entered last
  double wait_ns = 0;     ///< the others' waiting, its share of it
  double longest_ns = 0;  ///< longest wait of one rank in the instance
  bool message = false;   ///< calls that waited for messages, not a collective
};

/// The parts of one step of one rank.
struct StepOfRank {
  int64_t step = 0;
  int64_t rank = 0;
  double duration_ns = 0;
  double compute_ns = 0;
  double wait_ns = 0;
  double exposed_ns = 0;
};

struct StragglerInput {
  bool annotated = false;  ///< steps are real; else everything is step 0
  bool inferred = false;   ///< and were found by the repetition of collectives
  bool bounded = false;    ///< ranks left no record, and waits are lower bounds (specification.md J7)
  /// background threads reduce what all ranks have ready: the rows tell of readiness, not of entering
  bool negotiated = false;
  int64_t step_ns = 0;              ///< median step, or the duration of the run
  size_t ranks = 0;                 ///< with a record
  size_t all_ranks = 0;             ///< that there are
  PartOfRank parts = {};            ///< each judged apart
  std::vector<int64_t> steps = {};  ///< in which all waiting is known, ascending; used where `annotated`
  /// Those of `steps` in which all ranks synchronise, directly or through other ranks; empty: in all, or in none.
  std::vector<int64_t> joint_steps = {};
  std::function<void(const std::function<void(const LateRow&)>&)> each_late = {};
  /// of steps with known waiting, by step
  std::function<void(const std::function<void(const StepOfRank&)>&)> each_step = {};
};

/// How the suspects and the others spent the steps that count: medians over the steps; means where medians hide half of
/// the waiting or make no case (a rank that is late in some of the steps). Waiting that several suspects share, by the
/// schedule of a pipeline for example, does not count in the others' waits.
struct StragglerCosts {
  double others_wait_ns = 0;       ///< the others' mean
  double others_mean_wait_ns = 0;  ///< the same, always the mean over the steps
  double least_wait_ns = 0;        ///< of the one that waited least: its lead is all that can be won
  double wait_share = 0;           ///< of the others' time
  double step_ns = 0;              ///< of the longest
  double compute_ns = 0;           ///< of the suspect (of several their mean)
  double others_compute_ns = 0;
  double blocked_ns = 0;  ///< of the suspect, neither computing nor in communication
  double others_blocked_ns = 0;
  double less_in_mpi_ns = 0;  ///< than the others
  double lead_ns = 0;         ///< least waiting among the others, less a suspect's
  double apart_ns = 0;        ///< waits of several suspects, the longest less the shortest
  /// The suspect's time inside MPI that is not known to be waiting: the most that it can have waited for ranks
  /// without a record.
  double transfer_ns = 0;

  double mean_least_wait_ns = 0, mean_less_in_mpi_ns = 0;  ///< as above, always the mean over the steps

  /// suspects with steps that count: a damaged record says who was last, but not what its rank did instead
  size_t own_ranks = 0;
  size_t other_ranks = 0;  ///< the others with such steps
  bool by_mean = false;    ///< not by the median

  double saving_ns(double blame_share) const;
  /// The same as the mean over the steps, which shares of the mean step are made of.
  double mean_saving_ns(double blame_share) const;
};

struct StragglerCase {
  size_t among = 0;              ///< ranks with a record that may wait for each other, these included
  std::vector<int64_t> ranks;    ///< one, or several that are late together, ascending
  std::optional<int64_t> since;  ///< step from which on it is late; nothing: from the begin
  double blame_share = 0;        ///< of all waiting
  double late_rate = 0;          ///< of the instances that make ranks wait
  double late = 0;               ///< instances
  double messages = 0;           ///< of `late`, calls that waited for messages
  double instances = 0;
  size_t steps = 0;  ///< in question; 0: the job marks none
  size_t late_steps = 0;
  std::optional<double>
      /// of the blame above that of all others, over the steps, as a share of it; nothing: it is not above
      standard_error;
  bool by_chance = true;       ///< the standard error says that it may be above by chance
  bool one_sided = false;      ///< the standard error says chance over all steps, but not over those with long waits
  bool nearly_always = false;  ///< the same, but it is late to nearly all steps, some of which are much longer
  bool negotiated = false;     ///< as StragglerInput
  bool bounded = false;        ///< as StragglerInput
  StragglerCosts costs;
};

/// Nothing if no rank is late often enough, or its lateness costs too little. Several where mending one of them would
/// save less than half.
std::optional<StragglerCase> find_straggler_case(const StragglerInput& input);

/// Lateness as clear as this is not an accident: from step to step it differs so little that its mean is no
/// chance. Where ranks left no record, the suspect may have waited for one of them and be late for it: then
/// most of its lateness must remain even if all of its transfers were such waiting. And steps in which another
/// one was late may be hidden: it must be late in nearly all of enough of them. Several must be fewer than the
/// others whose record is whole.
bool is_sure(const StragglerCase& found);
/// The rank is late to: "collectives", "messages" or both.
const char* late_to(const StragglerCase& found);
/// "rank 11 (nid0042) enters last in 87.0% of collectives since step 1795: the others wait 34.1 ms/step"; "ranks 2 and
/// 5 are late: one of them enters last in ...". `who`: "rank 11 (nid0042)". `saving_ns`: where a replay says that
/// mending it saves a tenth more than the others wait in a typical step, their mean counts, and where that is less,
/// too, "it costs 34.1 ms/step".
std::string straggler_sentence(const StragglerCase& found, const std::string& who, const std::string& per, size_t ranks,
                               double saving_ns = 0);

}  // namespace ddl
