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

struct Rows {
  std::vector<std::string> names;
  std::map<std::vector<std::string>, std::vector<double>> ms;  ///< of the values of a point
  std::vector<std::vector<std::string>> order;                 ///< of the file; the default first
  std::vector<double> default_again_ms;
};

Rows read_rows(const std::filesystem::path& file) {
  Rows rows;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::vector<std::string> values;
    std::string word;
    if (line.starts_with("tunables ")) {
      for (words >> word; words >> word;) rows.names.push_back(word);
      continue;
    }
    const bool raw = line.starts_with("RAW ");
    if (raw) {
      rows.names = {tune::kAlgorithm, tune::kBucketMb};
      values.resize(2);
      words >> word >> values[0] >> values[1];
    } else if (line.find(" : ") != std::string::npos) {
      while (words >> word && word != ":") values.push_back(word);
    } else {
      continue;
    }
    const bool again = !rows.order.empty() && values == rows.order.front();
    std::vector<double>& times = again ? rows.default_again_ms : rows.ms[values];
    for (double ms = 0; words >> ms;) times.push_back(ms);
    if (again) continue;
    const bool first = raw && values == std::vector<std::string>{tune::kDefaultAlgorithm, kDefaultFusionMb};
    rows.order.insert(first ? rows.order.begin() : rows.order.end(), values);
  }
  return rows;
}

}  // namespace

ReplayedSpace::ReplayedSpace(const std::filesystem::path& file, Rounds rounds) {
  const Rows rows = read_rows(file);
  std::vector<tune::Tunable> tunables;
  for (size_t i = 0; i < rows.names.size(); ++i) {
    tune::Tunable& tunable = tunables.emplace_back(tune::Tunable{rows.names[i], {}, false});
    for (const auto& values : rows.order)
      if (values.size() == rows.names.size() &&
          std::find(tunable.values.begin(), tunable.values.end(), values[i]) == tunable.values.end())
        tunable.values.push_back(values[i]);
  }
  if (rows.order.empty()) throw std::runtime_error(file.string() + ": no measured space");
  space_ = std::make_unique<tune::Space>(tunables);
  if (space_->size() != rows.order.size())
    throw std::runtime_error(file.string() + ": not every point was measured once");
  for (size_t point = 0; point < space_->size(); ++point) {
    std::vector<std::string> values;
    for (size_t i = 0; i < tunables.size(); ++i) values.push_back(space_->value(point, i));
    const auto row = rows.ms.find(values);
    std::vector<double>& seconds = seconds_.emplace_back();
    if (row != rows.ms.end())
      for (size_t round = rounds.first; round < row->second.size(); round += rounds.every)
        seconds.push_back(row->second[round] * 1e-3);
    if (seconds.empty() || seconds.size() != seconds_[0].size())
      throw std::runtime_error(file.string() + ": not as many times of each point");
    std::vector<double> times = seconds;
    medians_.push_back(median_of(times));
  }
  for (size_t round = rounds.first; round < rows.default_again_ms.size(); round += rounds.every)
    default_again_.push_back(rows.default_again_ms[round] * 1e-3);
  if (!default_again_.empty() && default_again_.size() != seconds_[0].size())
    throw std::runtime_error(file.string() + ": not as many times of the default again");
  best_ = *std::min_element(medians_.begin(), medians_.end());
}

double ReplayedSpace::seconds(size_t point, size_t round, size_t time) const {
  if (point == 0 && time == 1 && !default_again_.empty()) return default_again_[round];
  return seconds_[point][(round + time) % rounds()];
}

std::optional<tune::Outcome> ReplayedBench::measure(size_t round, tune::Stage, size_t point) {
  if (left_ == 0) return std::nullopt;
  --left_;
  if (round_ != round) {
    recorded_ = random_() % space_.rounds();
    times_.assign(space_.space().size(), 0);
  }
  round_ = round;
  return tune::Outcome{space_.seconds(point, recorded_, times_[point]++), ""};
}

tune::SearchResult tune_replayed(const ReplayedSpace& space, uint64_t seed, size_t trials) {
  ReplayedBench bench(space, seed, trials);
  const tune::Trial first = {0, tune::Stage::kCalibrate, 0, *bench.measure(0, tune::Stage::kCalibrate, 0)};
  return tune::search(space.space(), std::vector<double>(space.space().size(), 0.0),
                      std::vector<bool>(space.space().size(), true), {first}, bench, {.seed = seed});
}

}  // namespace ddl::testing
