// The search: finds the best point of the space, and how much it gains.
//
//   explore   rounds of a few points each, chosen by belief (surrogate.h): the best so far, and those with the largest
//             expected improvement
//   race      the best few and the default twice, in common rounds; the field is halved after each
//   confirm   the winner and the default twice: only these rounds make the claim, since none of them chose the winner
//
// A bench with several lanes measures as many rounds side by side. Trials are compared within their round only, so that
// faster nodes favour no point.
//
// Peers pick the best of noisy scores and never look again; on replayed measurements that loses more than any optimiser
// wins (docs/performance.md).
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

/// The result of a trial.
struct Outcome {
  std::optional<double> cost = {};  ///< seconds per sample at equal statistical efficiency, positive; unset: it failed
  std::string why;                  ///< of a failure
  double wall_s = 0;                ///< what the trial took of the remaining time
};

enum class Stage { kCalibrate, kExplore, kRace, kConfirm, kExplain };  ///< kExplain is not part of the search
std::string_view name_of(Stage stage);                                 ///< "calibrate", ...

struct Trial {
  size_t round = 0;
  Stage stage = Stage::kCalibrate;
  size_t point = 0;
  Outcome outcome;
};

/// Points to compare with each other.
struct Round {
  size_t number = 0;
  std::vector<size_t> points;  ///< in trial order
};

/// Runs trials. The trials of a round run one after the other, as close together as possible and on the same nodes.
class Bench {
 public:
  virtual ~Bench() = default;
  /// Nothing: the search ends here (Ctrl-C, out of time) with what it knows.
  virtual std::optional<Outcome> measure(size_t round, Stage stage, size_t point) = 0;
  /// How many rounds can run side by side, each on nodes of its own.
  virtual size_t lanes() const { return 1; }
  /// At most lanes() rounds. Returns their outcomes in order; fewer, or shorter ones: the search ends here.
  virtual std::vector<std::vector<Outcome>> measure_rounds(Stage stage, const std::vector<Round>& rounds);
  /// Trials left, on all lanes; asked before each round, may shrink as time passes.
  virtual size_t trials_left() const = 0;
  /// Seconds left for trials; nothing: only their number counts.
  virtual std::optional<double> seconds_left() const { return std::nullopt; }
  /// Expected seconds of a trial of a point in a stage; nothing: as long as its earlier trials.
  virtual std::optional<double> expected_s(Stage, size_t) const { return std::nullopt; }
};

struct SearchSettings {
  uint64_t seed = 1;          ///< for the order within rounds
  double worth_while = 0.01;  ///< smaller gains do not count
  /// Confidence of the interval that must exclude no gain, and of those after each round that may end confirming early.
  /// Raise both where rounds are cheap.
  double confidence = 0.95, early_confidence = 0.99;
  /// before the first look, and in all; at least kMinRounds
  size_t least_confirm_rounds = 3, most_confirm_rounds = 12;
};

/// The conclusion about the default.
enum class Conclusion {
  kBetterFound,   ///< the winner's gain is confirmed
  kNoneBetter,    ///< no point is believed to gain as much as worth_while; those never tried promised nothing
  kNoDifference,  ///< the best alternative was measured in rounds of its own, and its interval includes no gain
  kFails,         ///< the best alternative failed while being confirmed
  kNotConfirmed,  ///< an alternative is believed better, but the search ended before confirming it
  kNotExplored,   ///< no point tried is believed better, but the search ended before all that promised something were
};

struct SearchResult {
  Conclusion conclusion = Conclusion::kNotExplored;
  size_t winner = 0;  ///< 0: the default, unless the conclusion is kBetterFound
  /// of best_seen over the default; set after kMinRounds confirming rounds, even if not a gain
  std::optional<Gain> gain;
  size_t best_seen = 0;      ///< the point believed best, confirmed or not
  bool explored = false;     ///< no point was left that promised anything, or all were tried
  std::vector<size_t> idle;  ///< tunables that best_seen keeps at their default because their best value does nothing
  /// Likewise, those that ddl added itself, because the gain of their best value is not shown.
  std::vector<size_t> unproven;
  /// By tunable: the log cost that the best point would lose by returning to the tunable's default; 0 at the default.
  std::vector<Belief> worth;
  std::vector<Trial> trials;  ///< in order, calibrating ones first
};

/// How many points were tried, the default included; and how many values of a tunable.
size_t tried_points(const SearchResult& result);
size_t tried_values(const SearchResult& result, const Space& space, size_t tunable);

/// `prediction`: log cost by point. `feasible`: points that may be tried; includes the default. `calibrating`: earlier
/// trials, all of one round (numbered 0), the default among them. The result depends on the arguments and the bench's
/// answers only, whichever of several rounds ends first.
SearchResult search(const Space& space, const std::vector<double>& prediction, const std::vector<bool>& feasible,
                    const std::vector<Trial>& calibrating, Bench& bench, const SearchSettings& settings = {});

}  // namespace ddl::tune
