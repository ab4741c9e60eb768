// The search: which point of the space is worth it, and by how much.
//
//   explore   rounds of a few points each, chosen by what is believed of them (surrogate.h): the best so far, and those from which most
//             improvement may be expected
//   race      the best few and the default twice, all in the same rounds, halving the field after each
//   confirm   the one that is left and the default twice: only these rounds make the claim, since none of them chose the winner
//
// Where the bench has several lanes, so many rounds are measured side by side. Trials are compared within their round only, so that nodes that are faster
// than others tell nothing of points.
//
// Peers pick the best of noisy scores and never look again; on replayed measurements that loses more than any optimiser wins
// (docs/performance.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autotuner/space.h"
#include "autotuner/surrogate.h"
#include "autotuner/tuned.h"

namespace ddl::tune {

/// What one trial gave.
struct Outcome {
  std::optional<double> cost = {};  ///< seconds per sample at equal statistical efficiency, positive; unset: it failed
  std::string why;                  ///< it failed
  double wall_s = 0;                ///< what the trial took of the time that is left
};

enum class Stage { kCalibrate, kExplore, kRace, kConfirm, kExplain };  ///< the last is not of the search
std::string_view name_of(Stage stage);                                 ///< "calibrate", ...

struct Trial {
  size_t round = 0;
  Stage stage = Stage::kCalibrate;
  size_t point = 0;
  Outcome outcome;
};

/// Points that are compared with each other.
struct Round {
  size_t number = 0;
  std::vector<size_t> points;  ///< in the order in which they are to be tried
};

/// Runs trials. A round is measured one after the other, as close together as can be and on the same nodes.
class Bench {
 public:
  virtual ~Bench() = default;
  /// Nothing: the search shall end here (Ctrl-C, time is over); it then says what it knows.
  virtual std::optional<Outcome> measure(size_t round, Stage stage, size_t point) = 0;
  /// Rounds that can be measured side by side, each on nodes of its own.
  virtual size_t lanes() const { return 1; }
  /// At most lanes() rounds. What they gave, in their order; fewer, or shorter ones: the search shall end here.
  virtual std::vector<std::vector<Outcome>> measure_rounds(Stage stage, const std::vector<Round>& rounds);
  /// Trials that may still be made, on all lanes; asked before each round, may shrink as time passes.
  virtual size_t trials_left() const = 0;
  /// Time for trials that is left; nothing: they are only counted.
  virtual std::optional<double> seconds_left() const { return std::nullopt; }
  /// How long a trial of a point takes in a stage, in seconds; nothing: as long as its earlier trials took.
  virtual std::optional<double> expected_s(Stage, size_t) const { return std::nullopt; }
};

struct SearchSettings {
  uint64_t seed = 1;          ///< of the order within rounds
  double worth_while = 0.01;  ///< gains below are none
  /// Confidence of the interval that has to exclude no gain, and of the intervals that are looked at after each round and may end the
  /// confirmation early. Both may be higher where rounds are cheap.
  double confidence = 0.95, early_confidence = 0.99;
  size_t least_confirm_rounds = 3, most_confirm_rounds = 12;  ///< before the first look, and in all; at least kMinRounds
};

/// What may be said of the default.
enum class Conclusion {
  kBetterFound,   ///< the winner's gain is confirmed
  kNoneBetter,    ///< nothing that was explored is believed to be better by as much as is worth while
  kNoDifference,  ///< the best of the others was measured in rounds of its own, and its interval includes no gain
  kFails,         ///< the best of the others failed when it was to be confirmed
  kNotConfirmed,  ///< something is believed to be better, and the search ended before that was confirmed
  kNotExplored,   ///< the search ended before it had looked
};

struct SearchResult {
  Conclusion conclusion = Conclusion::kNotExplored;
  size_t winner = 0;         ///< 0: the default, unless the conclusion is kBetterFound
  std::optional<Gain> gain;  ///< of best_seen over the default; set by kMinRounds confirming rounds, whether or not it is a gain
  size_t best_seen = 0;      ///< the point that is believed best, confirmed or not
  std::vector<size_t> idle;  ///< tunables that best_seen has at their default because the value that was best does nothing
  /// By tunable: how much log cost the best point would lose by going back to the tunable's default; 0 where it is at its default.
  std::vector<Belief> worth;
  std::vector<Trial> trials;  ///< in the order in which they were made, calibrating ones first
};

/// `prediction`: log cost by point. `feasible`: points that may be tried; the default is. `calibrating`: trials made before, all of one
/// round (numbered 0), the default among them. The result is a function of the arguments and of what the bench says, whichever of several rounds
/// ends first.
SearchResult search(const Space& space, const std::vector<double>& prediction, const std::vector<bool>& feasible,
                    const std::vector<Trial>& calibrating, Bench& bench, const SearchSettings& settings = {});

}  // namespace ddl::tune
