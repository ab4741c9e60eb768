#include "autotuner/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "core/error.h"
#include "core/number.h"

namespace ddl::tune {
namespace {

std::optional<double> number(const std::string& text) {
  const auto value = number_in<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// Empty unless all are numbers.
std::vector<size_t> ranks_of(const std::vector<std::string>& values) {
  std::vector<double> numbers;
  for (const std::string& value : values) {
    const std::optional<double> one = number(value);
    if (!one) return {};
    numbers.push_back(*one);
  }
  std::vector<size_t> order(values.size()), ranks(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return ranks;
}

}  // namespace

Space::Space(std::vector<Tunable> tunables) : tunables_(std::move(tunables)) {
  if (tunables_.empty())
    throw Error("there is nothing to tune", "ddl tune --help shows how to name a tunable", ExitCode::kUsage);
  std::set<std::string> names;
  for (const Tunable& tunable : tunables_) {
    if (!names.insert(tunable.name).second)
      throw Error(fmt::format("tunable {} is given twice", tunable.name), "", ExitCode::kUsage);
    if (tunable.values.empty())
      throw Error(fmt::format("tunable {} has no values", tunable.name), "", ExitCode::kUsage);
    std::set<std::string> seen;
    for (const std::string& value : tunable.values)
      if (!seen.insert(value).second)
        throw Error(fmt::format("tunable {} has the value {} twice", tunable.name, value), "", ExitCode::kUsage);
    strides_.push_back(size_);
    if (tunable.values.size() > kMostPoints / size_)
      throw Error(fmt::format("more than {} combinations to tune", kMostPoints),
                  "give fewer values with --tunable NAME=A,B,...", ExitCode::kUsage);
    size_ *= tunable.values.size();
    ranks_.push_back(ranks_of(tunable.values));
  }
}

bool Space::has(const std::string& name) const {
  return std::any_of(tunables_.begin(), tunables_.end(), [&](const Tunable& tunable) { return tunable.name == name; });
}

const std::string& Space::value(size_t point, const std::string& name) const {
  for (size_t i = 0; i < tunables_.size(); ++i)
    if (tunables_[i].name == name) return value(point, i);
  throw std::out_of_range(name);
}

size_t Space::with(size_t point, size_t tunable, size_t value_index_now) const {
  return point + strides_[tunable] * value_index_now - strides_[tunable] * value_index(point, tunable);
}

double Space::distance(size_t tunable, size_t value_a, size_t value_b) const {
  if (ranks_[tunable].empty()) return value_a == value_b ? 0 : 1;
  return std::abs(static_cast<double>(ranks_[tunable][value_a]) - static_cast<double>(ranks_[tunable][value_b]));
}

std::string Space::words(size_t point) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < tunables_.size(); ++i) parts.push_back(tunables_[i].name + "=" + value(point, i));
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace ddl::tune
