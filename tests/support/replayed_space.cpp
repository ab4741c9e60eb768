#include "tests/support/replayed_space.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "analyzer/statistics.h"
#include "autotuner/predict.h"

namespace ddl::testing {
namespace {

constexpr const char* kDefaultFusionMb = "64";
constexpr size_t kEta = 3;

// In the order of their first appearance, but for the default, which comes first.
void put(std::vector<std::string>& values, const std::string& value, bool first) {
  if (std::find(values.begin(), values.end(), value) != values.end()) return;
  values.insert(first ? values.begin() : values.end(), value);
}

}  // namespace

ReplayedSpace::ReplayedSpace(const std::filesystem::path& file, Rounds rounds) {
  std::ifstream stream(file);
  std::vector<std::string> algorithms, fusions;
  std::map<std::pair<std::string, std::string>, std::vector<double>> rows;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string mark, algorithm, fusion;
    words >> mark >> algorithm >> fusion;
    if (mark != "RAW") continue;
    put(algorithms, algorithm, algorithm == tune::kDefaultAlgorithm);
    put(fusions, fusion, fusion == kDefaultFusionMb);
    std::vector<double>& row = rows[{algorithm, fusion}];
    double ms = 0;
    for (size_t round = 0; words >> ms; ++round)
      if (round >= rounds.first && (round - rounds.first) % rounds.every == 0) row.push_back(ms * 1e-3);
  }
  if (rows.empty() || rows.size() != algorithms.size() * fusions.size()) throw std::runtime_error(file.string() + ": no measured space");
  space_ =
      std::make_unique<tune::Space>(std::vector<tune::Tunable>{{tune::kAlgorithm, algorithms, false}, {tune::kBucketMb, fusions, false}});
  for (size_t point = 0; point < space_->size(); ++point) {
    seconds_.push_back(rows[{space_->value(point, tune::kAlgorithm), space_->value(point, tune::kBucketMb)}]);
    if (seconds_.back().empty() || seconds_.back().size() != seconds_[0].size())
      throw std::runtime_error(file.string() + ": not as many times of each point");
    std::vector<double> times = seconds_.back();
    medians_.push_back(median_of(times));
  }
  best_ = *std::min_element(medians_.begin(), medians_.end());
}

std::optional<tune::Outcome> ReplayedBench::measure(size_t round, tune::Stage, size_t point) {
  if (left_ == 0) return std::nullopt;
  --left_;
  if (round_ != round) {
    recorded_ = random_() % space_.rounds();
    times_.assign(space_.space().size(), 0);
  }
  round_ = round;
  return tune::Outcome{space_.seconds(point, (recorded_ + times_[point]++) % space_.rounds()), ""};
}

tune::SearchResult tune_replayed(const ReplayedSpace& space, uint64_t seed, size_t trials) {
  ReplayedBench bench(space, seed, trials);
  const tune::Trial first = {0, tune::Stage::kCalibrate, 0, *bench.measure(0, tune::Stage::kCalibrate, 0)};
  return tune::search(space.space(), std::vector<double>(space.space().size(), 0.0), std::vector<bool>(space.space().size(), true), {first},
                      bench, {.seed = seed});
}

size_t halve_replayed(const ReplayedSpace& space, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<size_t> field(space.space().size());
  for (size_t point = 0; point < field.size(); ++point) field[point] = point;
  std::vector<std::vector<double>> times(field.size());
  for (size_t repeats = 1; field.size() > 1; repeats *= kEta) {
    for (size_t i = 0; i < repeats; ++i) {
      const size_t round = random() % space.rounds();
      for (const size_t point : field) times[point].push_back(space.seconds(point, round));
    }
    std::vector<double> median(times.size());
    for (const size_t point : field) {
      std::vector<double> seen = times[point];
      median[point] = median_of(seen);
    }
    std::sort(field.begin(), field.end(), [&](size_t a, size_t b) { return median[a] < median[b]; });
    field.resize(std::max<size_t>(1, field.size() / kEta));
  }
  return field[0];
}

}  // namespace ddl::testing
