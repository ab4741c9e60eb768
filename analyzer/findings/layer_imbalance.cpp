// One layer that takes some rank much longer than the others, in every step perhaps another one: experts that get more tokens than others,
// samples of unlike length. Whoever is longest makes all others wait. A rank that is slow in all its layers is a straggler and not meant
// here: a layer must stand out against the others.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/each_row.h"
#include "analyzer/findings/findings.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kLayerMinSavingShare = 0.03;  // of the step
constexpr double kMinExcess = 0.1;             // longest against the mean of the ranks
constexpr double kStandsOut = 2;               // against the excess of the other layers
constexpr size_t kLayerMinSteps = 5;

/// A layer in one step, over the ranks.
struct Spread {
  double longest_ns = 0, sum_ns = 0;
  int64_t ranks = 0, longest_rank = -1;
};

struct Layer {
  int64_t region = 0;  ///< one of those with its name
  std::map<int64_t, Spread> steps;
  double excess_ns = 0;  ///< longest less mean, mean over the steps
  double mean_ns = 0;
  std::vector<std::pair<size_t, int64_t>> longest;  ///< in how many steps a rank was, most first

  double excess() const { return mean_ns > 0 ? excess_ns / mean_ns : 0; }
};

std::map<std::string, Layer> read_layers(const FindingInput& input) {
  std::map<std::string, Layer> layers;
  std::unordered_map<int64_t, Layer*> layer_of;  // by region
  Query regions(input.db, "SELECT id, layer FROM region WHERE kind = 'layer'");
  while (regions.next()) layer_of[regions.integer(0)] = &layers[regions.text(1)];
  std::unordered_set<int64_t> steady;
  Query numbers(input.db, "SELECT step FROM steady_number WHERE world = ?");
  for (numbers.bind(input.world); numbers.next();) steady.insert(numbers.integer(0));

  struct Own {
    Layer* layer;
    int64_t step;
    double ns;
  };
  std::vector<Own> of_process;
  int64_t process = 0, rank = -1;  // no rank: another world's, or none
  const auto close = [&] {
    std::stable_sort(of_process.begin(), of_process.end(),
                     [](const Own& a, const Own& b) { return std::pair(a.layer, a.step) < std::pair(b.layer, b.step); });
    for (auto own = of_process.begin(); own != of_process.end();) {
      const auto [layer, step, first_ns] = *own;
      double ns = 0;
      for (; own != of_process.end() && own->layer == layer && own->step == step; ++own) ns += own->ns;
      Spread& spread = layer->steps[step];
      spread.sum_ns += ns;
      ++spread.ranks;
      if (ns > spread.longest_ns) {
        spread.longest_ns = ns;
        spread.longest_rank = rank;
      }
    }
    of_process.clear();
  };
  // Rows lie by process already: one process's layers and steps are in memory at a time, and one row per layer and step for all of them.
  EachRow rows(input.db, "process, region, step, duration_ns - mpi_ns", "range_event WHERE step IS NOT NULL");
  rows.run([&](const RowValues& range) {
    if (range.integer(0) != process) {
      close();
      process = range.integer(0);
      const ProcessInfo& info = input.catalog.process(process);
      rank = info.world == input.world ? info.rank : -1;
    }
    const auto layer = rank < 0 ? layer_of.end() : layer_of.find(range.integer(1));
    if (layer == layer_of.end() || !steady.contains(range.integer(2))) return;
    of_process.push_back({layer->second, range.integer(2), range.real(3)});
    layer->second->region = range.integer(1);
  });
  close();
  std::erase_if(layers, [](const auto& layer) { return layer.second.steps.empty(); });
  for (auto& [name, layer] : layers) {
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
    std::stable_sort(layer.longest.begin(), layer.longest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  }
  return layers;
}

/// "rank 7 in 20 of 27 steps, rank 6 in 7".
std::string longest_text(const Layer& layer) {
  constexpr size_t kShown = 3;
  std::string text;
  size_t left = layer.steps.size();
  for (size_t i = 0; i < std::min(kShown, layer.longest.size()); ++i) {
    const auto& [steps, rank] = layer.longest[i];
    text += i == 0 ? fmt::format("rank {} in {} of {} steps", rank, steps, left) : fmt::format(", rank {} in {}", rank, steps);
  }
  for (size_t i = 0; i < std::min(kShown, layer.longest.size()); ++i) left -= layer.longest[i].first;
  if (const size_t more = layer.longest.size() - std::min(kShown, layer.longest.size()); more > 0)
    text += fmt::format(" and {} more in {}", more, left);
  return text;
}

}  // namespace

DDL_FINDING(layer_imbalance, kSpeed, "layers", "one layer takes some rank much longer than the mean, perhaps another rank in each step",
            "ranges of layers, step by step") {
  if (!input.steps.annotated) return {};
  const std::map<std::string, Layer> layers = read_layers(input);
  const auto worst =
      std::max_element(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.second.excess_ns < b.second.excess_ns; });
  if (worst == layers.end() || worst->second.steps.size() < kLayerMinSteps) return {};
  const Layer& layer = worst->second;
  std::vector<double> others;
  for (const auto& [name, other] : layers) {
    if (name != worst->first) others.push_back(other.excess());
  }
  // No more can be won than what ranks spend inside MPI.
  const double saving_ns = std::min(layer.excess_ns, models::metric_of(input.db, input.world, "exposed_comm_mean").value_or(0));
  if (saving_ns < kLayerMinSavingShare * static_cast<double>(input.step_ns) || layer.excess() < kMinExcess ||
      (!others.empty() && layer.excess() < kStandsOut * median_of(others)))
    return {};

  Finding finding;
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.confidence = others.empty() ? "maybe" : "likely";
  finding.sentence = fmt::format("layer {} is uneven: in each step it takes the slowest rank {} longer than the mean of {}", worst->first,
                                 duration_text(layer.excess_ns), duration_text(layer.mean_ns));
  finding.evidence = fmt::format(
      "The slowest is {}; {}.", longest_text(layer),
      others.empty() ? std::string("there is no other layer to compare with")
                     : fmt::format("of the other layers the slowest rank takes {} more than the mean", percent_text(median_of(others))));
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
