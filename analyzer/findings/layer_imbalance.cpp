// One layer that takes some rank much longer than the others, in every step perhaps another one: experts that get more
// tokens than others, samples of unlike length. Whoever is longest makes all others wait. A rank that is slow in all
// its layers is a straggler and not meant here: a layer must stand out against the others.
#include "analyzer/findings/layer_imbalance.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/shared.h"
#include "analyzer/findings/uneven_steps.h"
#include "analyzer/models/rank_saving.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kLayerMinSavingShare = 0.03;  // of the step
constexpr double kMinExcess = 0.1;             // longest against the mean of the ranks
constexpr double kStandsOut = 2;               // against the excess of the other layers
constexpr size_t kLayerMinSteps = 5;
constexpr double kLeastTold = 0.01;  // of the saving, that is of ranks without a record
// of what a rank computes longer or costs the others, and of what the layer takes longer
constexpr double kMostOfLonger = 0.5;

/// `spreads` are used up.
std::map<std::string, UnevenLayer> compare_layers(LayerSpreads& spreads) {
  std::map<std::string, UnevenLayer> layers;
  for (auto& [name, in_steps] : spreads) {
    UnevenLayer& layer = layers[name];
    layer.name = name;
    layer.region = in_steps.region;
    layer.steps = std::move(in_steps.steps);
    std::map<int64_t, size_t> steps_of;  // by the longest rank
    for (const auto& [step, spread] : layer.steps) {
      const double mean_ns = spread.sum_ns / static_cast<double>(spread.ranks);
      layer.excess_ns += spread.longest_ns - mean_ns;
      layer.mean_ns += mean_ns;
      ++steps_of[spread.longest_rank];
    }
    layer.excess_ns /= static_cast<double>(layer.steps.size());
    layer.mean_ns /= static_cast<double>(layer.steps.size());
    for (const auto& [who, times] : steps_of) layer.longest.emplace_back(times, who);
    std::stable_sort(layer.longest.begin(), layer.longest.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  }
  return layers;
}

/// "rank 7 in 20 of 27 steps, rank 6 in 7". `longest`: as UnevenLayer::longest; `left`: all steps.
std::string longest_text(const std::vector<std::pair<size_t, int64_t>>& longest, size_t left) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, longest.size()); ++i) {
    const auto& [steps, rank] = longest[i];
    text += i == 0 ? fmt::format("rank {} in {} of {} steps", rank, steps, left)
                   : fmt::format(", rank {} in {}", rank, steps);
  }
  for (size_t i = 0; i < std::min(kShown, longest.size()); ++i) left -= longest[i].first;
  if (const size_t more = longest.size() - std::min(kShown, longest.size()); more > 0)
    text += fmt::format(" and {} more in {}", more, left);
  return text;
}

std::optional<UnevenLayer> look_for_uneven_layer(const FindingInput& input) {
  if (!input.steps.annotated) return std::nullopt;
  std::map<std::string, UnevenLayer> layers = compare_layers(input.shared.layers);
  const auto worst = std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) {
    return a.second.excess_ns < b.second.excess_ns;
  });
  if (worst == layers.end() || worst->second.steps.size() < kLayerMinSteps) return std::nullopt;
  UnevenLayer& layer = worst->second;
  std::vector<double> others;
  for (const auto& [name, other] : layers) {
    if (name != worst->first) others.push_back(other.excess());
  }
  if (!others.empty()) layer.others_excess = median_of(others);
  // No more can be won than what ranks spend inside MPI.
  layer.saving_ns =
      std::min(layer.excess_ns, models::metric_of(input.db, input.world, "exposed_comm_mean").value_or(0));
  if (layer.saving_ns < kLayerMinSavingShare * static_cast<double>(input.step_ns) || layer.excess() < kMinExcess ||
      layer.excess() < kStandsOut * layer.others_excess.value_or(0))
    return std::nullopt;
  return std::move(layer);
}

struct LayerSaving {
  double ns = 0;
  double of_missing_ns = 0;  ///< the part that is of steps in which a rank without a record was the slowest
};

/// What the replay of the steps says (specification.md J8), with the layer's work the same on all ranks; where they
/// cannot be replayed, what the rule says. Where the replay is a bound, of non-blocking messages or for ranks that left
/// no record, the rule counts if it says more.
LayerSaving saving_of(const FindingInput& input, const UnevenLayer& layer) {
  const std::optional<models::ReplayedSaving> replayed =
      models::saving_of_even_layer(input.db, input.world, layer.name);
  if (!replayed) return {layer.saving_ns};
  const double missing_ns = replayed->unexplained_s * 1e9, replayed_ns = replayed->seconds * 1e9 + missing_ns;
  if ((replayed->lower_bound || input.bounded) && layer.saving_ns > replayed_ns) return {layer.saving_ns};
  return {replayed_ns, missing_ns};
}

/// Where no layer stands out, or none is marked, the steps as a whole.
std::vector<Finding> uneven_steps(const FindingInput& input) {
  const std::optional<UnevenSteps> found = find_uneven_steps(input);
  if (!found) return {};
  Finding finding;
  finding.saving_ns = static_cast<int64_t>(found->saving_ns);
  finding.confidence = "maybe";
  finding.sentence = fmt::format(
      "work of steps is uneven: ranks take turns, in each step the slowest {} {} longer than the mean of {}",
      found->sleeping ? "sleeps outside communication" : "computes", duration_text(found->excess_ns),
      duration_text(found->mean_ns));
  finding.evidence =
      fmt::format("The slowest is {}; what a rank {} longer throughout is not counted. {}",
                  longest_text(found->longest, found->steps), found->sleeping ? "sleeps" : "computes",
                  found->sleeping               ? "Where in the step its training thread is blocked is not known."
                  : input.shared.layers.empty() ? "No layers are marked: where in the step it is, is not known."
                                                : "No layer is more uneven than the others.");
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, {}, wait_ns, duration_ns FROM v_step WHERE world = {} AND measured ORDER BY step, 3 DESC LIMIT 200",
      found->sleeping ? "duration_ns - compute_ns - exposed_ns AS sleep_ns" : "compute_ns", input.world);
  finding.advice =
      found->sleeping
          ? "see what training threads sleep for, in each step that of another rank: input, checkpoints, reading files, locks"
          : "give every rank the same work in each step: batches by length, long samples and experts spread evenly; if they have the same, see "
            "what slows ranks down now and then (other load, garbage collection, clocks)";
  return {finding};
}

}  // namespace

const std::optional<UnevenLayer>& find_uneven_layer(const FindingInput& input) {
  return input.shared.uneven_layer.get([&] { return look_for_uneven_layer(input); });
}

bool is_by_uneven_layer(const FindingInput& input, int64_t rank, std::optional<int64_t> since, double longer_ns,
                        double lost_ns) {
  if (longer_ns <= 0) return false;
  const std::optional<UnevenLayer>& layer = find_uneven_layer(input);
  if (!layer) return false;
  size_t steps = 0;
  double all_ns = 0, own_ns = 0, since_ns = 0;
  for (const auto& [step, spread] : layer->steps) {
    const double over_ns = spread.over_others_ns();
    all_ns += over_ns;
    own_ns += spread.longest_rank == rank ? over_ns : 0;
    if (since && step < *since) continue;
    ++steps;
    since_ns += spread.longest_rank == rank ? over_ns : 0;
  }
  return steps > 0 && own_ns < kMostOfLonger * all_ns &&
         since_ns >= kMostOfLonger * std::max(longer_ns, lost_ns) * static_cast<double>(steps);
}

DDL_FINDING(
    layer_imbalance, kSpeed, "layers",
    "one layer, or the step as a whole, takes some rank much longer than the mean, perhaps another rank in each step",
    "ranges of layers, step by step; where none stands out, what ranks compute, or their training threads sleep, in a "
    "step against their own mean") {
  const std::optional<UnevenLayer>& found = find_uneven_layer(input);
  if (!found) return uneven_steps(input);
  const UnevenLayer& layer = *found;
  const LayerSaving saving = saving_of(input, layer);
  if (saving.ns < kLayerMinSavingShare * static_cast<double>(input.step_ns)) return {};
  Finding finding;
  finding.subject = layer.name;
  finding.saving_ns = static_cast<int64_t>(saving.ns);
  finding.confidence = layer.others_excess ? "likely" : "maybe";
  finding.sentence =
      fmt::format("layer {} is uneven: in each step it takes the slowest rank {} longer than the mean of {}",
                  layer.name, duration_text(layer.excess_ns), duration_text(layer.mean_ns));
  finding.evidence =
      fmt::format("The slowest is {}; {}.", longest_text(layer.longest, layer.steps.size()),
                  layer.others_excess ? fmt::format("of the other layers the slowest rank takes {} more than the mean",
                                                    percent_text(*layer.others_excess))
                                      : std::string("there is no other layer to compare with"));
  if (const std::string missing = missing_text(input); !missing.empty()) {
    const bool estimated = saving.of_missing_ns > kLeastTold * saving.ns;
    finding.at_least = !estimated;
    finding.evidence +=
        estimated
            ? fmt::format(
                  " {}/step of it are of steps that take longer than the others explain: there {}, was the slowest.",
                  duration_text(saving.of_missing_ns), missing)
            : fmt::format(" Steps in which {}, was the slowest are not counted.", missing);
  }
  finding.evidence_sql = fmt::format(
      "SELECT e.step, p.rank, sum(e.duration_ns - e.mpi_ns) AS compute_ns FROM range_event e JOIN region r ON r.id = e.region JOIN process "
      "p"
      " ON p.id = e.process WHERE p.world = {} AND r.kind = 'layer' AND e.region IN (SELECT id FROM region WHERE layer = (SELECT layer FROM"
      " region WHERE id = {})) GROUP BY e.step, p.rank ORDER BY e.step, compute_ns DESC LIMIT 200",
      input.world, layer.region);
  finding.advice =
      "give every rank the same work in this layer: spread experts or long samples evenly (capacity factor, auxiliary balance loss, "
      "batches "
      "by length), or move other work to the ranks that wait";
  return {finding};
}

}  // namespace ddl
