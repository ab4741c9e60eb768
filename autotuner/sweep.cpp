#include "autotuner/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/statistics.h"
#include "autotuner/paired.h"
#include "core/error.h"
#include "core/number.h"

namespace ddl::tune {
namespace {

const SweptAlgorithm kDefault{"default", 0}, kDefaultAgain{"default_again", 0};
constexpr std::string_view kOpenMpi = "openmpi:";
constexpr std::string_view kHeading = "# allreduce 1 ";

template <typename Number>
Number number(std::string_view word, size_t line) {
  const auto value = number_in<Number>(word);
  if (!value) throw Error(fmt::format("sweep of the algorithms, line {}: invalid number '{}'", line, word));
  return *value;
}

std::vector<std::string_view> fields_of(std::string_view text, char sign) {
  std::vector<std::string_view> words;
  for (size_t begin = 0;;) {
    const size_t end = text.find(sign, begin);
    words.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return words;
    begin = end + 1;
  }
}

// `ranks=4 nodes=2 library="Open MPI v4.1.4" datatype=float op=sum`
void read_heading(std::string_view line, size_t number_of_line, Sweep& sweep) {
  const auto word = [&](std::string_view key) {
    const size_t at = line.find(key);
    const std::string_view rest = at == std::string_view::npos ? "" : line.substr(at + key.size());
    return rest.substr(0, rest.find(' '));
  };
  sweep.ranks = number<int64_t>(word("ranks="), number_of_line);
  sweep.nodes = number<int64_t>(word("nodes="), number_of_line);
  if (const size_t at = line.find("library=\""); at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + 9);
    sweep.library = rest.substr(0, rest.find('"'));
  }
}

struct Pairs {
  std::vector<double> first, second;
};

// Only rounds that have both.
Pairs pairs(const std::map<int64_t, double>& first, const std::map<int64_t, double>& second) {
  Pairs result;
  for (const auto& [round, seconds] : first) {
    const auto other = second.find(round);
    if (other == second.end()) continue;
    result.first.push_back(seconds);
    result.second.push_back(other->second);
  }
  return result;
}

const std::map<int64_t, double>* rounds_of(const Sweep& sweep, const SweptAlgorithm& algorithm, int64_t bytes) {
  const auto swept = sweep.seconds.find(algorithm);
  if (swept == sweep.seconds.end()) return nullptr;
  const auto rounds = swept->second.find(bytes);
  return rounds == swept->second.end() ? nullptr : &rounds->second;
}

SweptAlgorithm fastest(const Sweep& sweep, int64_t bytes, const std::map<std::string, int64_t>& ids) {
  const auto* base = rounds_of(sweep, kDefault, bytes);
  const auto* again = rounds_of(sweep, kDefaultAgain, bytes);
  if (base == nullptr || again == nullptr) return kDefault;
  const Pairs same = pairs(*base, *again);
  const PairedRatio noise = compare(same.first, same.second);
  SweptAlgorithm best = kDefault;
  double most = 1;
  for (const auto& [algorithm, sizes] : sweep.seconds) {
    const auto rounds = sizes.find(bytes);
    if (rounds == sizes.end() || algorithm_value(algorithm).empty() ||
        !ids.contains(algorithm.name.substr(kOpenMpi.size())))
      continue;
    const Pairs both = pairs(*base, rounds->second);
    const PairedRatio ratio = compare(both.first, both.second);
    const double doubt = std::max(noise.ratio, 1 / noise.ratio);
    if (ratio.lo > 1 && ratio.ratio > doubt && ratio.ratio > most) best = algorithm, most = ratio.ratio;
  }
  return best;
}

}  // namespace

Sweep read_sweep(std::string_view text) {
  Sweep sweep;
  size_t number_of_line = 0;
  for (std::string_view line : fields_of(text, '\n')) {
    ++number_of_line;
    if (line.starts_with(kHeading)) read_heading(line, number_of_line, sweep);
    if (line.empty() || line[0] == '#' || line.starts_with("algorithm,")) continue;
    const std::vector<std::string_view> words = fields_of(line, ',');
    if (words.size() != 5)
      throw Error(
          fmt::format("sweep of the algorithms, line {}: 5 columns expected, {} found", number_of_line, words.size()));
    const double seconds = number<double>(words[4], number_of_line);
    if (!(seconds > 0) || !std::isfinite(seconds))
      throw Error(fmt::format("sweep of the algorithms, line {}: invalid time", number_of_line));
    sweep.seconds[{std::string(words[0]), number<int64_t>(words[1], number_of_line)}]
                 [number<int64_t>(words[2], number_of_line)][number<int64_t>(words[3], number_of_line)] = seconds;
  }
  if (!sweep.seconds.contains(kDefault)) throw Error("the sweep of the algorithms has no times for the default");
  return sweep;
}

Curve curve_of(const Sweep& sweep, const SweptAlgorithm& algorithm) {
  Curve curve;
  const auto swept = sweep.seconds.find(algorithm);
  if (swept == sweep.seconds.end()) return curve;
  for (const auto& [bytes, rounds] : swept->second) {
    std::vector<double> values;
    for (const auto& [round, seconds] : rounds) values.push_back(seconds);
    curve.add(static_cast<double>(bytes), median_of(values));
  }
  return curve;
}

std::string algorithm_value(const SweptAlgorithm& algorithm) {
  if (!algorithm.name.starts_with(kOpenMpi)) return "";
  const std::string name = algorithm.name.substr(kOpenMpi.size());
  return algorithm.segment_bytes > 0 ? name + ":" + short_bytes(algorithm.segment_bytes) : name;
}

std::vector<AllreduceRule> rules_of(const Sweep& sweep, const std::map<std::string, int64_t>& ids) {
  std::vector<AllreduceRule> rules;
  bool helps = false;
  SweptAlgorithm before;
  int64_t bytes_before = 0;
  for (const auto& [bytes, rounds] : sweep.seconds.at(kDefault)) {
    const SweptAlgorithm now = fastest(sweep, bytes, ids);
    if (rules.empty() || now != before) {
      const int64_t from =
          rules.empty()
              ? 0
              : static_cast<int64_t>(std::sqrt(static_cast<double>(bytes_before) * static_cast<double>(bytes)));
      const bool is_default = now == kDefault;
      const std::string name = is_default ? "ignore" : now.name.substr(kOpenMpi.size());
      rules.push_back({from, is_default ? 0 : ids.at(name), name, now.segment_bytes});
      helps = helps || !is_default;
    }
    before = now;
    bytes_before = bytes;
  }
  return helps ? rules : std::vector<AllreduceRule>{};
}

Curve curve_of(const Sweep& sweep, const std::vector<AllreduceRule>& rules) {
  Curve curve;
  const Curve base = curve_of(sweep, kDefault);
  for (const auto& [bytes, seconds] : base.points()) {
    const auto after = std::find_if(rules.begin(), rules.end(), [&, size = bytes](const AllreduceRule& rule) {
      return static_cast<double>(rule.from_bytes) > size;
    });
    double time = seconds;
    if (after != rules.begin() && std::prev(after)->algorithm != 0) {
      const AllreduceRule& rule = *std::prev(after);
      const Curve own =
          curve_of(sweep, SweptAlgorithm{std::string(kOpenMpi) + rule.algorithm_name, rule.segment_bytes});
      if (!own.empty()) time = own.seconds(bytes);
    }
    curve.add(bytes, time);
  }
  return curve;
}

std::string short_bytes(int64_t bytes) {
  if (bytes > 0 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes > 0 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::format("{}", bytes);
}

int64_t bytes_of(const std::string& word) {
  std::string_view unit = word;
  const auto value = take_number<int64_t>(unit);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : -1;
  if (!value || shift < 0 || *value < 0 || *value > (int64_t{1} << 40))
    throw Error(fmt::format("invalid number of bytes '{}'", word), "such as 65536, 64K or 1M", ExitCode::kUsage);
  return *value << shift;
}

}  // namespace ddl::tune
