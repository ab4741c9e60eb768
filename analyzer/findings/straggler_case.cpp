#include "analyzer/findings/straggler_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "analyzer/change_points.h"
#include "analyzer/findings/findings.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinWaitShare = 0.02;         // of the others' step: less waiting is not worth a finding
constexpr double kMinBlameShare = 0.05;        // blame against step time
constexpr double kNoiseShare = 0.001;          // of the step
constexpr double kNoiseWaiting = 0.1;          // of all waiting
constexpr size_t kStragglerMinSteps = 5;       // in which the rank was late
constexpr double kStragglerMinInstances = 20;  // the same, in runs without steps
constexpr size_t kCandidates = 3;
constexpr double kExplainedShare = 0.5;  // of the others' waiting must be missing from the rank's own time inside MPI
constexpr size_t kSureSteps = 8;         // where ranks left no record: a few in a row may be an accident
constexpr double kSureLateSteps = 0.8;   // of the steps
// standard errors by which the blame is above that of all others: less may be chance
constexpr double kSureDeviations = 6;
// confidence that it is above, of a rank that is late at times, whose mean one odd step may make, or since a
// step that was chosen
constexpr double kAsSure = 0.9973;
constexpr double kMaxOneSided = 0.05;  // probability that as many waits fall to one rank by chance
// the same of steps that are chosen for their waits among those in which ranks met
constexpr double kMaxOfChosen = 0.01;
// share of the steps with communication in which one rank causes most of the waiting: that rank is late in all of them
constexpr double kNearlyAll = 0.9;
constexpr size_t kNearlyAllOf = 10;  // steps
// mean waiting against the median: the rank is late in some steps, which the median hides
constexpr double kHiddenByMedian = 2;
// of waiting, which a replay's saving may be above as it is another way to know it
constexpr double kAbout = 1.1;
constexpr double kLongWait = 0.5;     // of the step that half of all waiting is in steps of as much or more
constexpr double kOwnShare = 0.5;     // of the lateness, that ranks without a record cannot have caused
constexpr double kClearIncrease = 4;  // blame after the change against before it
// of what the others wait longer: the waits of several that are late together differ by no more
constexpr double kTogether = 0.5;
constexpr double kMoreTogether = 2;  // saving of several against that of one of them

using Late = std::set<int64_t>;  // ranks

/// What the instances of one step say about the suspects.
struct StepBlame {
  int64_t step = 0;
  bool met = false;       // there was any instance
  double all_ns = 0;      // blame of all ranks
  double own_ns = 0;      // of these
  double longest_ns = 0;  // wait of one rank for one of these
  double instances = 0;   // above the noise: collectives, and calls that waited for messages
  double late = 0;        // of those, one of them was to blame; ties count as shares
  double messages = 0;    // of `late`, calls that waited for messages
};

std::vector<int64_t> most_blamed(const StragglerInput& input) {
  std::map<int64_t, double> blame_ns;
  input.each_late([&](const LateRow& late) { blame_ns[late.rank] += late.wait_ns; });
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [rank, wait_ns] : blame_ns) {
    if (wait_ns > 0) order.emplace_back(wait_ns, rank);
  }
  std::sort(order.rbegin(), order.rend());
  if (order.size() > kCandidates) order.resize(kCandidates);
  std::vector<int64_t> ranks;
  for (const auto& candidate : order) ranks.push_back(candidate.second);
  return ranks;
}

/// Instances whose longest wait is shorter say nothing about who is late.
double noise_ns(const StragglerInput& input) {
  std::map<int, double> waiting_ns;  // by quarter octaves of the instance's longest wait
  double all_ns = 0;
  input.each_late([&](const LateRow& late) {
    if (late.longest_ns <= 0) return;
    waiting_ns[static_cast<int>(std::floor(4 * std::log2(late.longest_ns)))] += late.wait_ns;
    all_ns += late.wait_ns;
  });
  const double noise = input.annotated ? kNoiseShare * static_cast<double>(input.step_ns) : 0;
  double sum_ns = 0;
  for (const auto& [quarter_octave, wait_ns] : waiting_ns) {
    if ((sum_ns += wait_ns) > kNoiseWaiting * all_ns) return std::max(noise, std::exp2(quarter_octave / 4.0));
  }
  return noise;
}

std::vector<StepBlame> blame_by_step(const StragglerInput& input, const Late& suspects, double noise_ns) {
  std::map<int64_t, StepBlame> steps;
  if (input.annotated) {  // those in which nobody waited, too
    for (const int64_t step : input.steps) steps[step].step = step;
  }
  input.each_late([&](const LateRow& late) {
    StepBlame& s = steps[late.step];
    s.step = late.step;
    s.met = true;
    s.all_ns += late.wait_ns;
    const bool own = suspects.contains(late.rank);
    if (own) {
      s.own_ns += late.wait_ns;
      s.longest_ns = std::max(s.longest_ns, late.longest_ns);
    }
    if (late.longest_ns < noise_ns || late.longest_ns == 0) return;
    s.instances += late.instances;
    if (!own) return;
    s.late += late.instances;
    if (late.message) s.messages += late.instances;
  });
  std::vector<StepBlame> result;
  for (const auto& [step, blame] : steps) result.push_back(blame);
  return result;
}

/// First step from which the blame is clearly higher; 0 if there is no such change.
size_t find_change(const std::vector<StepBlame>& steps) {
  std::vector<double> blame_ns;
  for (const StepBlame& step : steps) blame_ns.push_back(step.own_ns);
  size_t best = rise_at(blame_ns, kStragglerMinSteps, kClearIncrease);
  // Lateness that is passed on reaches one rank more in every step, so the blame rises for a while: the change is
  // where that began.
  for (double sum = std::accumulate(blame_ns.begin(), blame_ns.begin() + static_cast<std::ptrdiff_t>(best), 0.0);
       best > kStragglerMinSteps; --best) {
    const double last = blame_ns[best - 1];
    sum -= last;
    if (last == 0 || last <= kClearIncrease * sum / static_cast<double>(best - 1)) break;
  }
  return best;
}

double mean_over_steps(std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// What is typical of a step: of a rank that is late in most steps the median, which a few odd ones do not change; of
/// one that is late now and then the mean.
template <class T>
struct TwoWays {
  T by_median, by_mean;
};

TwoWays<StragglerCosts> costs_of(const StragglerInput& input, const Late& suspects, const std::set<int64_t>& steps) {
  struct One {
    double own_compute = 0, compute = 0, own_blocked = 0, blocked = 0, own_exposed = 0, own_transfer = 0, own_most = 0,
           own_least = -1, exposed = 0, wait = 0, least = -1, duration = 0, longest = 0;
    int own = 0, others = 0;
  };
  std::vector<double> means, leasts, leads, aparts, longest, compute, others_compute, blocked, others_blocked,
      less_in_mpi, transfer;
  double wait_ns = 0;
  double duration_ns = 0;
  One now;
  const auto close = [&] {
    if (now.others == 0) return;
    const int own = std::max(1, now.own);
    wait_ns += now.wait;
    duration_ns += now.duration;
    const double own_least_ns = std::max(0.0, now.own_least), shared_ns = now.own > 1 ? own_least_ns : 0;
    means.push_back(now.wait / now.others - shared_ns);
    leads.push_back(now.least - own_least_ns);
    leasts.push_back(now.least - shared_ns);
    longest.push_back(now.longest);
    aparts.push_back(now.own_most - own_least_ns);
    compute.push_back(now.own_compute / own);
    others_compute.push_back(now.compute / now.others);
    blocked.push_back(now.own_blocked / own);
    others_blocked.push_back(now.blocked / now.others);
    less_in_mpi.push_back(now.exposed / now.others - now.own_exposed / own);
    transfer.push_back(now.own_transfer);
  };
  int64_t current = -1;
  input.each_step([&](const StepOfRank& row) {
    if (!steps.contains(row.step)) return;
    if (row.step != current) {
      close();
      now = {};
      current = row.step;
    }
    now.longest = std::max(now.longest, row.duration_ns);
    const double blocked_ns = row.duration_ns - row.compute_ns - row.exposed_ns;
    if (suspects.contains(row.rank)) {
      ++now.own;
      now.own_compute += row.compute_ns;
      now.own_blocked += blocked_ns;
      now.own_exposed += row.exposed_ns;
      now.own_transfer = std::max(now.own_transfer, row.exposed_ns - row.wait_ns);
      now.own_most = std::max(now.own_most, row.wait_ns);
      now.own_least = now.own_least < 0 ? row.wait_ns : std::min(now.own_least, row.wait_ns);
      return;
    }
    ++now.others;
    now.duration += row.duration_ns;
    now.compute += row.compute_ns;
    now.blocked += blocked_ns;
    now.wait += row.wait_ns;
    now.exposed += row.exposed_ns;
    now.least = now.least < 0 ? row.wait_ns : std::min(now.least, row.wait_ns);
  });
  close();
  if (means.empty() || duration_ns <= 0) return {};
  const double mean_wait_ns = mean_over_steps(means), mean_least_wait_ns = mean_over_steps(leasts),
               mean_less_in_mpi_ns = mean_over_steps(less_in_mpi);
  const auto typical_costs = [&](double (*typical)(std::vector<double> & values)) {
    StragglerCosts costs;
    costs.others_wait_ns = typical(means);
    costs.others_mean_wait_ns = mean_wait_ns;
    costs.by_mean = typical == mean_over_steps;
    costs.least_wait_ns = typical(leasts);
    costs.lead_ns = typical(leads);
    costs.apart_ns = typical(aparts);
    costs.wait_share = wait_ns / duration_ns;
    costs.step_ns = typical(longest);
    costs.compute_ns = typical(compute);
    costs.others_compute_ns = typical(others_compute);
    costs.blocked_ns = typical(blocked);
    costs.others_blocked_ns = typical(others_blocked);
    costs.less_in_mpi_ns = typical(less_in_mpi);
    costs.mean_least_wait_ns = mean_least_wait_ns;
    costs.mean_less_in_mpi_ns = mean_less_in_mpi_ns;
    costs.transfer_ns = typical(transfer);
    costs.own_ranks = static_cast<size_t>(now.own);
    costs.other_ranks = static_cast<size_t>(now.others);
    return costs;
  };
  return {typical_costs(median_of), typical_costs(mean_over_steps)};
}

/// Where all ranks meet in some of the steps only, each is let wait in all steps for the mean up to where they meet:
/// there they wait for what others were late by in the steps before, too. What begins before the steps, or is not over
/// with them, is left out, if enough remains.
StragglerInput evened(const StragglerInput& input, const std::set<int64_t>& steps) {
  struct Stretch {
    std::set<int64_t> steps;
    std::map<int64_t, StepOfRank> sums;  // by rank
  };
  std::map<size_t, Stretch> stretches;
  const std::vector<int64_t>& joint = input.joint_steps;
  input.each_step([&](const StepOfRank& row) {
    if (!steps.contains(row.step)) return;
    const auto end = static_cast<size_t>(std::lower_bound(joint.begin(), joint.end(), row.step) - joint.begin());
    Stretch& stretch = stretches[end];
    stretch.steps.insert(row.step);
    StepOfRank& sum = stretch.sums[row.rank];
    sum.duration_ns += row.duration_ns;
    sum.compute_ns += row.compute_ns;
    sum.wait_ns += row.wait_ns;
    sum.exposed_ns += row.exposed_ns;
  });
  stretches.erase(joint.size());
  if (stretches.size() > 1) stretches.erase(stretches.begin());
  StragglerInput even = input;
  even.each_step = [stretches](const std::function<void(const StepOfRank&)>& use) {
    for (const auto& [place, stretch] : stretches) {
      const auto n = static_cast<double>(stretch.steps.size());
      for (const int64_t step : stretch.steps)
        for (const auto& [rank, sum] : stretch.sums)
          use({step, rank, sum.duration_ns / n, sum.compute_ns / n, sum.wait_ns / n, sum.exposed_ns / n});
    }
  };
  return even;
}

TwoWays<StragglerCosts> costs_until_all_meet(const StragglerInput& input, const Late& suspects,
                                             const std::set<int64_t>& steps) {
  TwoWays<StragglerCosts> costs = costs_of(input, suspects, steps);
  if (input.joint_steps.empty()) return costs;
  const StragglerCosts evened_costs = costs_of(evened(input, steps), suspects, steps).by_mean;
  if (evened_costs.other_ranks == 0) return costs;
  costs.by_mean = evened_costs;
  costs.by_median.mean_least_wait_ns = costs.by_mean.mean_least_wait_ns;
  costs.by_median.mean_less_in_mpi_ns = costs.by_mean.mean_less_in_mpi_ns;
  return costs;
}

/// What the mean may be off by, as a share of it; nothing: it is not above 0, or there is only one value.
std::optional<double> relative_standard_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (n < 2 || mean <= 0) return std::nullopt;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1) / n) / mean;
}

/// Few steps make the error itself a poor estimate, for which Student's t allows. `steps`: that the error is over.
bool is_by_chance(const std::optional<double>& standard_error, size_t steps) {
  return !standard_error || *standard_error * student_t(static_cast<double>(steps) - 1, kAsSure) > 1;
}

/// Probability that as many as `own` of `n` steps are of the same `share` of all ranks, whoever they are, if each falls
/// to any of them.
double chance_of(double own, double n, double share) {
  double log_term = n * std::log(share), probability = std::exp(log_term);
  for (double k = n; k > own; --k) probability += std::exp(log_term += std::log(k / (n - k + 1) * (1 - share) / share));
  return probability / share;
}

/// Whether the waits are too even in size, and too many for one side, to be chance. `more_ns`: by step with long waits,
/// blame of the suspects less that of all others. `regular`: these are no accident, whoever they are of. `share`:
/// suspects of all ranks. `most`: probability.
bool are_one_sided(const std::vector<double>& more_ns, bool regular, double share, double most) {
  const std::optional<double> error = relative_standard_error(more_ns);
  const auto n = static_cast<double>(more_ns.size());
  if (share >= 1 || is_by_chance(error, more_ns.size())) return false;
  const auto own = static_cast<double>(std::count_if(more_ns.begin(), more_ns.end(), [](double ns) { return ns > 0; }));
  if (regular && own == n) return true;
  return chance_of(own, n, share) <= most;
}

/// Whether the suspects make most of the waiting, and that no small one, in nearly all steps in which ranks met. How
/// long the waits are tells nothing where all ranks meet in few of the steps only: those are many times the others.
bool are_late_to_nearly_all(const std::vector<StepBlame>& met, double step_ns, double share) {
  if (share >= 1 || met.size() < kNearlyAllOf) return false;
  const auto own = static_cast<double>(std::count_if(met.begin(), met.end(), [step_ns](const StepBlame& step) {
    return 2 * step.own_ns > step.all_ns && step.longest_ns > kMinBlameShare * step_ns;
  }));
  const auto n = static_cast<double>(met.size());
  return own >= kNearlyAll * n && chance_of(own, n, share) <= 1 - kAsSure;
}

/// The steps with long waits, by their places among those in which ranks met: what short ones are of is noise,
/// however many they are.
std::vector<size_t> with_long_waits(const std::vector<StepBlame>& met) {
  std::vector<double> waits_ns;
  for (const StepBlame& step : met) waits_ns.push_back(step.all_ns);
  std::sort(waits_ns.rbegin(), waits_ns.rend());
  const double half_ns = std::accumulate(waits_ns.begin(), waits_ns.end(), 0.0) / 2;
  size_t middle = 0;
  for (double sum_ns = 0; middle + 1 < waits_ns.size() && (sum_ns += waits_ns[middle]) < half_ns;) ++middle;
  std::vector<size_t> places;
  for (size_t i = 0; i < met.size(); ++i)
    if (met[i].all_ns > 0 && met[i].all_ns >= kLongWait * waits_ns[middle]) places.push_back(i);
  return places;
}

/// Every k-th, with k > 1: what the program does on purpose, and no chance.
bool are_every_kth(const std::vector<size_t>& places) {
  if (places.size() < kStragglerMinSteps || places[1] - places[0] < 2) return false;
  for (size_t i = 2; i < places.size(); ++i)
    if (places[i] - places[i - 1] != places[1] - places[0]) return false;
  return true;
}

TwoWays<std::optional<StragglerCase>> judge_from(const StragglerInput& input, const Late& suspects,
                                                 const std::vector<StepBlame>& steps, size_t first) {
  StragglerCase c;
  c.ranks.assign(suspects.begin(), suspects.end());
  c.among = input.ranks;
  c.negotiated = input.negotiated;
  c.bounded = input.bounded;
  double all_ns = 0;
  double own_ns = 0;
  std::vector<double> more_ns;  // by step: blame of the suspects less that of all others
  std::vector<StepBlame> met;
  std::set<int64_t> numbers;
  for (size_t i = first; i < steps.size(); ++i) {
    more_ns.push_back(2 * steps[i].own_ns - steps[i].all_ns);
    if (steps[i].met) met.push_back(steps[i]);
    all_ns += steps[i].all_ns;
    own_ns += steps[i].own_ns;
    c.instances += steps[i].instances;
    c.late += steps[i].late;
    c.messages += steps[i].messages;
    c.late_steps += steps[i].late > 0 ? 1 : 0;
    numbers.insert(steps[i].step);
  }
  if (input.annotated) c.steps = numbers.size();
  if (all_ns <= 0 || c.instances <= 0) return {};
  c.blame_share = own_ns / all_ns;
  c.late_rate = c.late / c.instances;
  c.standard_error = relative_standard_error(more_ns);
  c.by_chance = is_by_chance(c.standard_error, more_ns.size());
  const double share = static_cast<double>(suspects.size()) / static_cast<double>(input.ranks);
  if (c.by_chance) {
    const std::vector<size_t> places = with_long_waits(met);
    std::vector<double> more_long_ns;
    for (const size_t i : places) more_long_ns.push_back(2 * met[i].own_ns - met[i].all_ns);
    c.one_sided = are_one_sided(more_long_ns, are_every_kth(places), share,
                                places.size() < met.size() ? kMaxOfChosen : kMaxOneSided);
  }
  // Since a step that was chosen, it may be the cores that others crowd for a while.
  c.nearly_always =
      input.annotated && first == 0 && are_late_to_nearly_all(met, static_cast<double>(input.step_ns), share);
  const double least = std::min(2 * share, (1 + share) / 2);
  // Among many small collectives of a step it may be late to one alone: then the step is what it makes
  // late, or does not.
  const auto own_steps =
      std::count_if(met.begin(), met.end(), [](const StepBlame& step) { return 2 * step.own_ns > step.all_ns; });
  const bool in_most_steps = input.annotated && (!c.by_chance || c.nearly_always) &&
                             static_cast<double>(own_steps) > least * static_cast<double>(met.size());
  // A few steps that were inferred may hold many of the program's: they are judged as a run without steps.
  const bool by_steps = input.annotated && (!input.inferred || input.steps.size() >= kStragglerMinSteps);
  const bool often = by_steps ? c.late_steps >= kStragglerMinSteps : c.late >= kStragglerMinInstances;
  const auto judged = [&](const StragglerCosts& costs) {
    const bool together = suspects.size() == 1 || costs.apart_ns <= kTogether * costs.least_wait_ns;
    const bool holds = often && together && c.blame_share > least && (c.late_rate > least || in_most_steps) &&
                       costs.wait_share >= kMinWaitShare &&
                       costs.less_in_mpi_ns >= kExplainedShare * costs.others_wait_ns * c.blame_share &&
                       own_ns / static_cast<double>(numbers.size()) > kMinBlameShare * costs.step_ns &&
                       costs.saving_ns(c.blame_share) > kStragglerMinSavingShare * costs.step_ns;
    c.costs = costs;
    return holds ? std::optional(c) : std::nullopt;
  };
  const TwoWays<StragglerCosts> costs = costs_until_all_meet(input, suspects, numbers);
  return {judged(costs.by_median), judged(costs.by_mean)};
}

/// The median counts, unless it hides most of the waiting, as of a rank that is late in some of the steps.
std::optional<StragglerCase> better_of(const TwoWays<std::optional<StragglerCase>>& judged) {
  const std::optional<StragglerCase>&mostly = judged.by_median, &at_times = judged.by_mean;
  if (!at_times) return mostly;
  if (at_times->by_chance && !at_times->one_sided) return mostly || !at_times->nearly_always ? mostly : at_times;
  return mostly && at_times->costs.others_wait_ns <= kHiddenByMedian * mostly->costs.others_wait_ns ? mostly : at_times;
}

/// Always, or from a step on.
std::optional<StragglerCase> judge(const StragglerInput& input, const Late& suspects, double noise_ns) {
  const std::vector<StepBlame> steps = blame_by_step(input, suspects, noise_ns);
  if (const size_t change = find_change(steps); change > 0) {
    const TwoWays<std::optional<StragglerCase>> after = judge_from(input, suspects, steps, change);
    if (after.by_median && !after.by_median->by_chance) {
      std::optional<StragglerCase> found = better_of(after);
      found->since = steps[change].step;
      return found;
    }
  }
  return better_of(judge_from(input, suspects, steps, 0));
}

/// The rows of those ranks alone that the suspects may keep waiting.
StragglerInput around(const StragglerInput& input, const Late& suspects) {
  if (input.parts.empty()) return input;
  const auto part_of = [&input](int64_t rank) {
    const auto known = input.parts.find(rank);
    return known == input.parts.end() ? rank : known->second;
  };
  std::set<int64_t> parts;
  for (const int64_t rank : suspects) parts.insert(part_of(rank));
  const auto belongs = [part_of, parts](int64_t rank) { return parts.contains(part_of(rank)); };
  StragglerInput own = input;
  own.ranks = own.all_ranks = static_cast<size_t>(std::count_if(
      input.parts.begin(), input.parts.end(), [&](const auto& part) { return parts.contains(part.second); }));
  own.each_late = [&input, belongs](const std::function<void(const LateRow&)>& use) {
    input.each_late([&](const LateRow& row) {
      if (belongs(row.rank)) use(row);
    });
  };
  own.each_step = [&input, belongs](const std::function<void(const StepOfRank&)>& use) {
    input.each_step([&](const StepOfRank& row) {
      if (belongs(row.rank)) use(row);
    });
  };
  return own;
}

/// Those that wait least, if they stand apart.
Late late_together(const StragglerInput& input) {
  std::map<int64_t, double> less_ns;
  input.each_step([&](const StepOfRank& row) { less_ns[row.rank] -= row.wait_ns; });
  const std::vector<int64_t> ranks = stand_apart(less_ns, input.all_ranks);
  return {ranks.begin(), ranks.end()};
}

/// What the suspect was late to.
const char* what_is_late(const StragglerCase& c) {
  return c.negotiated ? "is ready last for" : c.messages == 0 ? "enters last in" : "is late in";
}

}  // namespace

double StragglerCosts::saving_ns(double blame_share) const {
  return std::min(least_wait_ns * blame_share, less_in_mpi_ns);
}

double StragglerCosts::mean_saving_ns(double blame_share) const {
  return std::min(mean_least_wait_ns * blame_share, mean_less_in_mpi_ns);
}

std::optional<StragglerCase> find_straggler_case(const StragglerInput& input) {
  if (input.ranks < 2) return std::nullopt;
  const double noise = noise_ns(input);
  std::optional<StragglerCase> one;
  for (const int64_t suspect : most_blamed(input))
    if ((one = judge(around(input, {suspect}), {suspect}, noise))) break;
  const Late several = late_together(input);
  if (several.empty() || (one && !several.contains(one->ranks.front()))) return one;
  const std::optional<StragglerCase> together = judge(around(input, several), several, noise);
  const auto saving_ns = [](const StragglerCase& c) {
    return std::min(c.costs.lead_ns * c.blame_share, c.costs.saving_ns(c.blame_share));
  };
  return together && (!one || saving_ns(*together) > kMoreTogether * saving_ns(*one)) ? together : one;
}

bool is_sure(const StragglerCase& c) {
  const bool own = !c.bounded || c.costs.transfer_ns <= (1 - kOwnShare) * c.costs.others_wait_ns * c.blame_share;
  const bool always = !c.bounded || c.steps == 0 ||
                      (c.late_steps >= kSureSteps &&
                       static_cast<double>(c.late_steps) >= kSureLateSteps * static_cast<double>(c.steps));
  const bool by_chance = c.steps > 0 && (!c.standard_error || *c.standard_error * kSureDeviations > 1);
  const bool few =
      c.costs.own_ranks == c.ranks.size() && (c.ranks.size() == 1 || c.costs.own_ranks < c.costs.other_ranks);
  return own && always && few && !by_chance && c.blame_share > 0.8 && c.late_rate > 0.5 &&
         c.late >= kStragglerMinInstances;
}

const char* late_to(const StragglerCase& c) {
  return c.negotiated          ? "reductions"
         : c.messages == 0     ? "collectives"
         : c.messages < c.late ? "collectives and messages"
                               : "messages";
}

std::string straggler_sentence(const StragglerCase& found, const std::string& who, const std::string& per, size_t ranks,
                               double saving_ns) {
  const double for_it_ns = found.costs.others_wait_ns * found.blame_share;
  const auto explains = [saving_ns](double ns) { return saving_ns <= kAbout * ns; };
  const double waited_ns = explains(for_it_ns) ? for_it_ns : std::max(for_it_ns, found.costs.others_mean_wait_ns);
  const char* others = ranks - found.ranks.size() == 1 ? "the other waits" : "the others wait";
  return fmt::format(
      "{} {} {} of {}{}: {} {}{}", found.ranks.size() == 1 ? who : who + " are late: one of them", what_is_late(found),
      percent_text(found.late_rate), late_to(found), found.since ? fmt::format(" since step {}", *found.since) : "",
      explains(waited_ns) ? others : "it costs", duration_text(explains(waited_ns) ? waited_ns : saving_ns), per);
}

}  // namespace ddl
