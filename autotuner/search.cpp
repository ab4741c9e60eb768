#include "autotuner/search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <stdexcept>

#include "analyzer/statistics.h"
#include "autotuner/paired.h"

namespace ddl::tune {
namespace {

/// New points a round, beside the best so far. Without predictions more points must be seen, and the best, measured
/// again in each round, should take a smaller share of the trials (docs/performance.md).
constexpr size_t kExplored = 3, kExploredUnpredicted = 6;
/// for each tunable: from so many on, a space without predictions is searched as a whole
constexpr size_t kTrialsOfTunable = 12;
constexpr double kTrialsOfOptimism = 14, kMostOptimism = 3;  ///< while many are left, uncertain points promise more
constexpr size_t kAskedAgain = 300;
constexpr size_t kFinalists = 4, kMostFinalists = 12;
constexpr size_t kTrialsOfFinalist = 16;  ///< for each finalist: more trials allow more finalists
constexpr size_t kTellingRounds = 5;
constexpr double kToldApart = 0.03;        ///< with noise of this size one round tells finalists apart
constexpr size_t kLeastExploredShare = 4;  ///< a quarter of the trials explores, whatever few trials suggest
constexpr size_t kConfirmTrials = 3;       ///< a round: the winner, the default, the default again
constexpr size_t kConfirmShare = 4;        ///< a quarter of the trials is kept for confirming
constexpr double kExpectedGain = 0.0005;   ///< exploring ends when no point promises more
constexpr size_t kTellingNoise = 12;       ///< trials after which the noise is known well enough to choose by
constexpr double kLoud = 0.08;             ///< with more noise a model of few trials is worth less than many trials
constexpr size_t kEta = 3;                 ///< of halving: the field shrinks to 1/kEta, measured kEta times as often
constexpr size_t kHalvings = 3;            ///< least stages that the trials must allow
constexpr size_t kProvingRounds = 3;       ///< for a choice of our own whose gain is in doubt

// Expected improvement of a point over the one that the belief is relative to.
double expected_improvement(const Belief& belief) {
  if (belief.sd <= 0) return std::max(0.0, -belief.mean);
  const double z = -belief.mean / belief.sd;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return -belief.mean * std::erfc(-z / std::numbers::sqrt2) / 2 + belief.sd * density;
}

class Search {
 public:
  Search(const Space& space, const std::vector<double>& prediction, const std::vector<bool>& feasible, Bench& bench,
         const SearchSettings& settings)
      : space_(space),
        prediction_(prediction),
        feasible_(feasible),
        bench_(bench),
        settings_(settings),
        random_(settings.seed),
        lanes_(std::max<size_t>(1, bench.lanes())),
        is_predicted_(std::any_of(space.tunables().begin(), space.tunables().end(),
                                  [](const Tunable& tunable) { return tunable.modelled; })),
        explored_a_round_(
            std::min(is_predicted_ ? kExplored : kExploredUnpredicted, std::max<size_t>(1, space.size() - 1))),
        surrogate_(space, prediction) {}

  SearchResult run(const std::vector<Trial>& calibrating) {
    is_wide_ = !is_predicted_ && bench_.trials_left() >= kTrialsOfTunable * space_.tunables().size();
    if (is_wide_) surrogate_ = Surrogate(space_, prediction_, Scale::kMeasured);
    for (const Trial& trial : calibrating) keep(trial);
    first_trial_ = result_.trials.size();
    if (!measured_.contains(0))
      throw std::invalid_argument("search: the default has to be among the calibrating trials");
    const bool finished = explore() && (has_halved_ || race()) && prove_added();
    if (!finished) {  // what is believed so far, though nothing more can be tried
      surrogate_.fit();
      result_.best_seen = ranked().front();
    }
    result_.explored = finished && (promises_nothing_ || is_all_measured());
    result_.conclusion = confirm(finished);
    return std::move(result_);
  }

 private:
  void keep(const Trial& trial) {
    result_.trials.push_back(trial);
    round_ = std::max(round_, trial.round + 1);
    Walls& walls = walls_[trial.point];
    walls.sum_s += trial.outcome.wall_s;
    walls.longest_s = std::max(walls.longest_s, trial.outcome.wall_s);
    ++walls.trials;
    if (trial.outcome.cost) {
      surrogate_.add({trial.point, trial.round, std::log(*trial.outcome.cost)});
      measured_.insert(trial.point);
    } else {
      feasible_[trial.point] = trial.point == 0;
    }
  }

  // At most one round for each lane. The surrogate must be fitted before it is asked again. False: the
  // bench wants to end.
  bool measure_rounds(Stage stage, const std::vector<std::vector<size_t>>& points) {
    std::vector<Round> rounds;
    for (const std::vector<size_t>& of_round : points) {
      rounds.push_back({round_ + rounds.size(), of_round});
      std::shuffle(rounds.back().points.begin(), rounds.back().points.end(), random_);
    }
    const std::vector<std::vector<Outcome>> outcomes = bench_.measure_rounds(stage, rounds);
    bool whole = outcomes.size() == rounds.size();
    for (size_t r = 0; r < outcomes.size(); ++r) {
      for (size_t i = 0; i < outcomes[r].size(); ++i)
        keep({rounds[r].number, stage, rounds[r].points[i], outcomes[r][i]});
      whole = whole && outcomes[r].size() == rounds[r].points.size();
    }
    if (whole) round_ = rounds.back().number + 1;
    return whole;
  }
  // The same round several times, at most once for each lane and within the trials beside those `kept`. At least once.
  bool measure_alike(Stage stage, const std::vector<size_t>& points, size_t most, size_t kept = 0) {
    const size_t left = bench_.trials_left();
    const size_t affordable = left > kept ? (left - kept) / points.size() : 1;
    return measure_rounds(stage, std::vector(std::clamp<size_t>(std::min(most, affordable), 1, lanes_), points));
  }

  std::vector<size_t> candidates() const {
    std::vector<size_t> points;
    for (size_t point = 0; point < space_.size(); ++point)
      if (feasible_[point]) points.push_back(point);
    return points;
  }

  // Best first.
  std::vector<size_t> by_belief(std::vector<size_t> points) const {
    const std::vector<Belief> beliefs = surrogate_.beliefs(points, points.front());
    std::map<size_t, double> mean;
    for (size_t i = 0; i < points.size(); ++i) mean[points[i]] = beliefs[i].mean;
    std::stable_sort(points.begin(), points.end(), [&](size_t a, size_t b) { return mean[a] < mean[b]; });
    return points;
  }
  // Among those that were measured, best first.
  std::vector<size_t> ranked() const {
    std::vector<size_t> points;
    for (const size_t point : measured_)
      if (feasible_[point]) points.push_back(point);
    return by_belief(std::move(points));
  }

  // Expected duration of a trial: by the bench, else that of earlier trials of its point, or of others if there were
  // none. When confirming, that of the longest of them: no confirming round is given up.
  double expected_s(Stage stage, size_t point) const {
    if (const std::optional<double> said_s = bench_.expected_s(stage, point)) return *said_s;
    const auto own = walls_.find(point);
    if (own != walls_.end()) return stage == Stage::kConfirm ? own->second.longest_s : own->second.mean_s();
    Walls others;
    for (const auto& [other, walls] : walls_) {
      if (other == 0) continue;
      others.sum_s += walls.sum_s;
      others.trials += walls.trials;
    }
    return others.trials > 0 ? others.mean_s() : walls_.at(0).mean_s();
  }
  double expected_s(Stage stage, const std::vector<size_t>& points) const {
    double sum_s = 0;
    for (const size_t point : points) sum_s += expected_s(stage, point);
    return sum_s;
  }
  // Duration of so many confirming rounds; lanes run side by side.
  double confirming_s(size_t rounds, size_t winner) const {
    return static_cast<double>((rounds + lanes_ - 1) / lanes_) * expected_s(Stage::kConfirm, {winner, 0, 0});
  }
  // Whether there is time for a round and the rounds that confirm its result.
  bool leaves_time_to_confirm(Stage stage, const std::vector<size_t>& round) const {
    const std::optional<double> left_s = bench_.seconds_left();
    return !left_s ||
           *left_s >= expected_s(stage, round) + confirming_s(settings_.least_confirm_rounds, ranked().front());
  }

  // Trials made and left: where time is limited, this depends on how long trials turn out to take.
  size_t budget() const { return result_.trials.size() - first_trial_ + bench_.trials_left(); }

  // Trials left by exploring and racing.
  size_t confirming_trials() const {
    return kConfirmTrials * std::clamp(budget() / kConfirmShare / kConfirmTrials, settings_.least_confirm_rounds,
                                       settings_.most_confirm_rounds);
  }

  // Trials that exploring leaves to the race: a noisy machine needs many rounds to tell the best few apart.
  size_t racing_trials() const {
    const double wanted = static_cast<double>(kFinalists) * std::pow(surrogate_.noise() / kToldApart, 2);
    return static_cast<size_t>(
        std::min(wanted, static_cast<double>(budget() - std::min(budget(), confirming_trials())) / 2));
  }

  std::vector<std::vector<size_t>> next_rounds() const;
  bool explore();
  bool is_for_halving() const;
  std::vector<size_t> field_of_halving() const;
  bool halve();
  std::vector<size_t> in_order(const std::vector<size_t>& field, size_t first_trial) const;
  bool none_is_better(const std::vector<size_t>& field) const;
  bool is_told_from_default(const std::vector<size_t>& field) const;
  bool race();
  bool is_all_measured() const;
  /// What the best point would lose without a tunable's value; nothing: it has the default, or may not go back.
  std::optional<Belief> loss_without(size_t tunable) const;
  bool is_shown(size_t tunable, const Belief& loss) const;
  bool prove_added();
  void put_back(size_t tunable, std::vector<size_t>& why);
  void put_back_idle();
  Conclusion confirm(bool finished);

  const Space& space_;
  const std::vector<double>& prediction_;
  std::vector<bool> feasible_;
  Bench& bench_;
  const SearchSettings& settings_;
  std::mt19937_64 random_;
  const size_t lanes_;
  const bool is_predicted_;  ///< costs of some points are
  const size_t explored_a_round_;
  bool is_wide_ = false;  ///< nothing is predicted, and trials suffice to search the whole space
  Surrogate surrogate_;
  std::set<size_t> measured_;
  struct Walls {
    double sum_s = 0, longest_s = 0;
    size_t trials = 0;
    double mean_s() const { return sum_s / static_cast<double>(trials); }
  };
  std::map<size_t, Walls> walls_;  ///< by point
  size_t first_trial_ = 0;         ///< of the search's own
  size_t round_ = 0;
  std::map<size_t, size_t> won_;   ///< by tunable of our own: rounds that its choice won against its default
  bool promises_nothing_ = false;  ///< no point that was not tried
  bool has_halved_ = false;        ///< the field is down to one
  SearchResult result_;
};

// The next rounds, one for each lane that trials are left for: the best so far, and the points that promise most beside
// it. They are chosen one after the other, as if those before had cost what is believed of them, since their neighbours
// promise less then. None if no point promises anything.
std::vector<std::vector<size_t>> Search::next_rounds() const {
  const size_t best = ranked().front(), kept = confirming_trials() + racing_trials(), left = bench_.trials_left();
  const size_t most = std::clamp<size_t>(left > kept ? (left - kept) / (explored_a_round_ + 1) : 0, 1, lanes_);
  const bool early = result_.trials.size() < budget() / kLeastExploredShare;
  std::vector<std::vector<size_t>> rounds;
  std::set<size_t> chosen = {best};
  Surrogate imagined = surrogate_;
  const double level = surrogate_.level(best);
  const double optimism = is_wide_ && left > kept
                              ? std::clamp(static_cast<double>(left - kept) / kTrialsOfOptimism, 1.0, kMostOptimism)
                              : 1.0;
  std::vector<size_t> asked = candidates();
  while (rounds.size() < most) {
    const size_t number = round_ + rounds.size();
    std::vector<size_t> round = {best};
    imagined.add({best, number, level});
    imagined.condition();
    while (round.size() <= explored_a_round_) {
      const std::vector<Belief> beliefs = imagined.beliefs(asked, best);
      std::vector<std::pair<double, size_t>> promises;
      for (size_t i = 0; i < asked.size(); ++i)
        if (!chosen.contains(asked[i]))
          promises.emplace_back(expected_improvement({beliefs[i].mean, optimism * beliefs[i].sd}), i);
      const auto next_best = std::max_element(promises.begin(), promises.end());
      if (next_best == promises.end() || (next_best->first < kExpectedGain && !early)) break;
      round.push_back(asked[next_best->second]);
      chosen.insert(round.back());
      imagined.add({round.back(), number, level + beliefs[next_best->second].mean});
      imagined.condition();
      // Imagined results only shrink promises: points far behind need not be asked again.
      const size_t kept_points = std::min(promises.size(), kAskedAgain);
      std::partial_sort(promises.begin(), promises.begin() + static_cast<std::ptrdiff_t>(kept_points), promises.end(),
                        std::greater<>());
      std::vector<size_t> next;
      for (size_t i = 0; i < kept_points; ++i) next.push_back(asked[promises[i].second]);
      asked = next;
    }
    if (round.size() < 2) break;
    rounds.push_back(round);
  }
  return rounds;
}

bool Search::explore() {
  surrogate_.fit();
  // Before the first round only the default tells how long a trial takes, and others may be much faster.
  const auto has_trials = [&] {
    return bench_.trials_left() >= confirming_trials() + racing_trials() + explored_a_round_ + 1;
  };
  bool is_first = true;
  while (has_trials() || (is_first && bench_.seconds_left())) {
    std::vector<std::vector<size_t>> rounds = next_rounds();
    if (rounds.empty()) {
      promises_nothing_ = true;
      return true;
    }
    for (std::vector<size_t>& round : rounds)
      while (round.size() > 2 && !leaves_time_to_confirm(Stage::kExplore, round)) round.pop_back();
    if (!leaves_time_to_confirm(Stage::kExplore, rounds.front())) return true;
    is_first = false;
    if (!measure_rounds(Stage::kExplore, rounds)) return false;
    surrogate_.fit();
    if (is_for_halving()) return halve();
  }
  return true;
}

bool Search::is_for_halving() const {
  return result_.trials.size() - first_trial_ >= kTellingNoise && surrogate_.noise() > kLoud &&
         bench_.trials_left() >= confirming_trials() + kHalvings * candidates().size();
}

// All points; where measuring all of them once takes more time than halving has for each of its stages, without those
// believed worst: from a poor start they take longest.
std::vector<size_t> Search::field_of_halving() const {
  std::vector<size_t> field = by_belief(candidates());
  const std::optional<double> left_s = bench_.seconds_left();
  if (!left_s) return field;
  const double stages = std::ceil(std::log(static_cast<double>(field.size())) / std::log(static_cast<double>(kEta)));
  const double share_s =
      (*left_s - confirming_s(settings_.least_confirm_rounds, field.front())) / std::max(1.0, stages);
  double sum_s = 0;
  const auto too_much = std::find_if(field.begin(), field.end(), [&](size_t point) {
    return (sum_s += expected_s(Stage::kExplore, point)) > share_s;
  });
  field.erase(std::max(too_much, field.begin() + 1), field.end());
  return field;
}

// Successive halving: the field once, the best third of it three times, the best ninth nine times ... each time in
// rounds of its own. Points are ranked by belief, which uses their neighbours; the medians of their own times alone
// lose more (docs/performance.md).
bool Search::halve() {
  std::vector<size_t> field = field_of_halving();
  has_halved_ = true;
  for (size_t repeats = 1; field.size() > 1; repeats *= kEta) {
    const Stage stage = repeats == 1 ? Stage::kExplore : Stage::kRace;
    for (size_t i = 0; i < repeats;) {
      if (bench_.trials_left() < confirming_trials() + field.size() || !leaves_time_to_confirm(stage, field)) break;
      const size_t before = round_;
      if (!measure_alike(stage, field, repeats - i, confirming_trials())) return false;
      i += round_ - before;
      surrogate_.condition();  // fitting to hundreds of trials takes as long as a short trial
    }
    surrogate_.fit();
    std::erase_if(field, [&](size_t point) { return !feasible_[point]; });
    if (field.empty()) break;
    field = by_belief(std::move(field));
    field.resize(std::max<size_t>(1, field.size() / kEta));
  }
  result_.best_seen = field.empty() ? ranked().front() : field.front();  // none: they all failed
  return true;
}

// Robust location of some values: that of Student's t, so that values far off count for little.
double location(const std::vector<double>& values, double scale) {
  constexpr double kFreedom = 4;
  constexpr int kSteps = 20;
  std::vector<double> sorted = values;
  double at = median_of(sorted);
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0, weights = 0;
    for (const double value : values) {
      const double weight = (kFreedom + 1) / (kFreedom + std::pow((value - at) / scale, 2));
      sum += weight * value;
      weights += weight;
    }
    at = sum / weights;
  }
  return at;
}

// Best first: by belief, until all have been measured in enough common rounds to be ranked by these.
std::vector<size_t> Search::in_order(const std::vector<size_t>& field, size_t first_trial) const {
  std::map<size_t, std::vector<double>> raced;
  for (size_t i = first_trial; i < result_.trials.size(); ++i)
    if (const Trial& trial = result_.trials[i]; trial.outcome.cost)
      raced[trial.point].push_back(std::log(*trial.outcome.cost));
  std::vector<size_t> order;
  std::map<size_t, double> typical;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const size_t point : ranked()) {
    if (std::find(field.begin(), field.end(), point) == field.end()) continue;
    order.push_back(point);
    fewest = std::min(fewest, raced[point].size());
    if (!raced[point].empty()) typical[point] = location(raced[point], surrogate_.noise() / 2);
  }
  if (fewest >= kTellingRounds)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return typical[a] < typical[b]; });
  return order;
}

// Whether none of the others can be better than the first by a gain worth while: then the race is over.
bool Search::none_is_better(const std::vector<size_t>& field) const {
  constexpr double kSds = 2;
  const std::vector<Belief> beliefs = surrogate_.beliefs(field, field.front());
  return std::all_of(beliefs.begin() + 1, beliefs.end(), [&](const Belief& belief) {
    return belief.mean - kSds * belief.sd > -std::log1p(settings_.worth_while);
  });
}

// Whether the default is believed to be worse than the first of them beyond doubt.
bool Search::is_told_from_default(const std::vector<size_t>& field) const {
  constexpr double kSds = 4;
  const Belief loss = surrogate_.beliefs({0}, field.front())[0];
  return loss.mean - kSds * loss.sd > std::log1p(settings_.worth_while);
}

// Halves the field until one is left, or the rest of the budget is needed to confirm. Each halving has its share of
// the trials, one round at least. The default runs along until it is told apart: from a poor start its trials take
// longer than all others.
bool Search::race() {
  std::vector<size_t> field = ranked();
  const size_t trials = racing_trials(), first_trial = result_.trials.size();
  field.resize(std::min(field.size(), std::clamp(trials / kTrialsOfFinalist, kFinalists, kMostFinalists)));
  const size_t share = field.size() > 1 ? trials / static_cast<size_t>(std::bit_width(field.size() - 1)) : 0;
  while (field.size() > 1) {
    const size_t most = (field.size() + 1) / 2, begin = result_.trials.size();
    do {
      if (bench_.trials_left() < confirming_trials() + field.size() + 1) break;
      std::vector<size_t> round = field;
      if (std::find(round.begin(), round.end(), size_t{0}) == round.end() && !is_told_from_default(field))
        round.push_back(0);
      if (!leaves_time_to_confirm(Stage::kRace, round)) break;
      const size_t made = result_.trials.size() - begin;
      const size_t of_share = share > made ? (share - made + field.size() - 1) / field.size() : 1;
      if (!measure_alike(Stage::kRace, round, of_share, confirming_trials())) return false;
      surrogate_.fit();
      field = in_order(field, first_trial);
      if (!field.empty() && none_is_better(field)) field.resize(1);
    } while (field.size() > 1 && result_.trials.size() + field.size() < begin + share);
    if (result_.trials.size() == begin) break;
    field.resize(std::min(field.size(), most));
  }
  result_.best_seen = field.empty() ? ranked().front() : field.front();  // none: they all failed
  return true;
}

bool Search::is_all_measured() const {
  const std::vector<size_t> points = candidates();  // without those that failed
  return std::all_of(points.begin(), points.end(), [&](size_t point) { return measured_.contains(point); });
}

std::optional<Belief> Search::loss_without(size_t tunable) const {
  const size_t point = space_.with(result_.best_seen, tunable, 0);
  if (point == result_.best_seen || !feasible_[point]) return std::nullopt;
  return surrogate_.beliefs({point}, result_.best_seen)[0];
}

// Where the sweep predicts a gain, or what is believed rests on its predictions, these are evidence. Elsewhere the
// trials that chose it are none: the best of several looks good by chance. Rounds with and without it are.
bool Search::is_shown(size_t tunable, const Belief& loss) const {
  constexpr double kSds = 2;
  if (prediction_[space_.with(result_.best_seen, tunable, 0)] - prediction_[result_.best_seen] >
      std::log1p(settings_.worth_while))
    return true;
  const bool is_flat =
      std::all_of(prediction_.begin(), prediction_.end(), [&](double one) { return one == prediction_[0]; });
  const auto won = won_.find(tunable);
  return loss.mean - kSds * loss.sd > 0 && (!is_flat || (won != won_.end() && won->second == kProvingRounds));
}

bool is_idle(const Belief& loss, double worth_while) { return loss.mean + loss.sd < std::log1p(worth_while); }

// A choice that nobody asked for has to show its gain. Where it came with another one, rounds with and without it tell
// whose the gain is, as far as the trials beside the confirming ones reach.
bool Search::prove_added() {
  for (size_t i = 0; i < space_.tunables().size(); ++i) {
    if (!space_.tunables()[i].added) continue;
    for (size_t round = 0; round < kProvingRounds; ++round) {
      const std::optional<Belief> loss = loss_without(i);
      const std::vector<size_t> points = {result_.best_seen, space_.with(result_.best_seen, i, 0)};
      if (!loss || points[1] == 0 || is_shown(i, *loss) || is_idle(*loss, settings_.worth_while)) break;
      if (bench_.trials_left() < confirming_trials() + points.size() || !leaves_time_to_confirm(Stage::kRace, points))
        break;
      const size_t begin = result_.trials.size(), chosen = result_.best_seen;
      if (!measure_rounds(Stage::kRace, {points})) return false;
      surrogate_.fit();
      if (!feasible_[chosen]) {
        result_.best_seen = ranked().front();
        won_.erase(i);
        break;
      }
      std::map<size_t, std::optional<double>> cost;
      for (size_t t = begin; t < result_.trials.size(); ++t)
        cost[result_.trials[t].point] = result_.trials[t].outcome.cost;
      if (cost[points[1]] && *cost[points[1]] <= *cost[chosen]) break;
      ++won_[i];
    }
  }
  return true;
}

void Search::put_back(size_t tunable, std::vector<size_t>& why) {
  why.push_back(tunable);
  result_.best_seen = space_.with(result_.best_seen, tunable, 0);
}

// A tunable without effect is not recommended: it goes back to its default where that is believed to lose less than a
// gain worth while. One that nobody asked for goes back unless its gain is shown, first, since what it seems to gain
// may be another's; but not where it is all that changes, which the confirming rounds are about.
void Search::put_back_idle() {
  for (const bool added : {true, false}) {
    for (size_t i = 0; i < space_.tunables().size(); ++i) {
      if (space_.tunables()[i].added != added) continue;
      const std::optional<Belief> loss = loss_without(i);
      if (!loss) continue;
      if (is_idle(*loss, settings_.worth_while))
        put_back(i, result_.idle);
      else if (added && !is_shown(i, *loss) && space_.with(result_.best_seen, i, 0) != 0)
        put_back(i, result_.unproven);
    }
  }
}

// Confirming rounds are few and share the conditions of a minute: where they contradict all that the search has seen of
// the default, the interval includes both. A confirmed point was believed to be a gain, so this takes back none.
void reach_to(const Belief& before, Gain& gain) {
  constexpr double kSds = 2;
  const double seen = std::exp(before.mean);
  if (std::exp(before.mean + kSds * before.sd) < gain.lo) gain.lo = seen, gain.spans_search = true;
  if (std::exp(before.mean - kSds * before.sd) > gain.hi) gain.hi = seen, gain.spans_search = true;
}

// The interval, examined after every round, ends confirming early only beyond doubt: each look needs more confidence
// than the last one.
Conclusion Search::confirm(bool finished) {
  put_back_idle();
  for (size_t i = 0; i < space_.tunables().size(); ++i)
    result_.worth.push_back(surrogate_.loss(space_.with(result_.best_seen, i, 0), result_.best_seen));
  const size_t winner = result_.best_seen;
  const Belief before = surrogate_.loss(0, winner);
  if (winner == 0 || before.mean < std::log1p(settings_.worth_while))
    return result_.explored ? Conclusion::kNoneBetter : Conclusion::kNotExplored;
  if (!finished) return Conclusion::kNotConfirmed;

  std::vector<double> tuned, base, first, second;
  const auto compared = [&](double confidence) { return compare_beside_noise(base, tuned, first, second, confidence); };
  while (bench_.trials_left() >= kConfirmTrials && tuned.size() < settings_.most_confirm_rounds) {
    // Begun only where the fewest rounds fit, within the spread of trials; once begun, not given up for longer trials
    // before there are enough rounds.
    constexpr double kAbout = 0.8;
    const std::optional<double> left_s = bench_.seconds_left();
    const bool is_begun = !tuned.empty() && tuned.size() < kMinRounds;
    const size_t rounds = tuned.empty() ? settings_.least_confirm_rounds : 1;
    if (left_s && !is_begun && *left_s < kAbout * confirming_s(rounds, winner)) break;
    const size_t begin = result_.trials.size(), first_round = round_;
    if (!measure_alike(Stage::kConfirm, {winner, 0, 0}, settings_.most_confirm_rounds - tuned.size())) break;
    for (size_t round = first_round; round < round_; ++round) {
      std::vector<double> defaults;
      std::optional<double> won;
      for (size_t i = begin; i < result_.trials.size(); ++i) {
        const Trial& trial = result_.trials[i];
        if (trial.round != round || !trial.outcome.cost) continue;
        if (trial.point == 0)
          defaults.push_back(*trial.outcome.cost);
        else
          won = *trial.outcome.cost;
      }
      if (!won) return Conclusion::kFails;  // now and then: not to be recommended
      if (defaults.size() < 2) continue;
      tuned.push_back(*won);
      base.push_back(std::sqrt(defaults[0] * defaults[1]));
      first.push_back(defaults[0]);
      second.push_back(defaults[1]);
    }
    if (tuned.size() < settings_.least_confirm_rounds) continue;
    const PairedRatio sure = compared(settings_.early_confidence);
    if (sure.excludes_one() || sure.hi < 1 + settings_.worth_while) break;
  }
  if (tuned.size() < kMinRounds) return Conclusion::kNotConfirmed;
  const PairedRatio ratio = compared(settings_.confidence), noise = compare(first, second, settings_.confidence);
  result_.gain = Gain{ratio.ratio, ratio.lo, ratio.hi,        static_cast<int64_t>(ratio.rounds),
                      noise.lo,    noise.hi, ratio.of_rounds, settings_.confidence};
  reach_to(before, *result_.gain);
  if (ratio.lo <= 1 || ratio.ratio < 1 + settings_.worth_while) return Conclusion::kNoDifference;
  result_.winner = winner;
  return Conclusion::kBetterFound;
}

}  // namespace

std::vector<std::vector<Outcome>> Bench::measure_rounds(Stage stage, const std::vector<Round>& rounds) {
  std::vector<std::vector<Outcome>> outcomes;
  for (const Round& round : rounds) {
    outcomes.emplace_back();
    for (const size_t point : round.points) {
      const std::optional<Outcome> outcome = measure(round.number, stage, point);
      if (!outcome) return outcomes;
      outcomes.back().push_back(*outcome);
    }
  }
  return outcomes;
}

size_t tried_points(const SearchResult& result) {
  std::set<size_t> points;
  for (const Trial& trial : result.trials) points.insert(trial.point);
  return points.size();
}

size_t tried_values(const SearchResult& result, const Space& space, size_t tunable) {
  std::set<size_t> values;
  for (const Trial& trial : result.trials) values.insert(space.value_index(trial.point, tunable));
  return values.size();
}

std::string_view name_of(Stage stage) {
  constexpr std::array<std::string_view, 5> kNames = {"calibrate", "explore", "race", "confirm", "explain"};
  return kNames[static_cast<size_t>(stage)];
}

SearchResult search(const Space& space, const std::vector<double>& prediction, const std::vector<bool>& feasible,
                    const std::vector<Trial>& calibrating, Bench& bench, const SearchSettings& settings) {
  return Search(space, prediction, feasible, bench, settings).run(calibrating);
}

}  // namespace ddl::tune
