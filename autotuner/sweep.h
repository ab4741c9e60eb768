// The output of bin/allreduce: times of every allreduce algorithm by size, measured within one launch; and the
// rules that follow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autotuner/predict.h"
#include "autotuner/tuned.h"

namespace ddl::tune {

/// One algorithm with its segment size.
struct SweptAlgorithm {
  std::string name;  ///< as printed: "default", "openmpi:ring", "tree"
  int64_t segment_bytes = 0;
  auto operator<=>(const SweptAlgorithm&) const = default;
};

struct Sweep {
  int64_t ranks = 0, nodes = 0;
  std::string library;
  /// Seconds by algorithm, bytes and round.
  std::map<SweptAlgorithm, std::map<int64_t, std::map<int64_t, double>>> seconds;
};

/// Throws ddl::Error with the line's number if `text` is not output of bin/allreduce, or lacks the default's times.
Sweep read_sweep(std::string_view text);

/// Medians over the rounds.
Curve curve_of(const Sweep& sweep, const SweptAlgorithm& algorithm);

/// Value of tunable `algorithm` for an algorithm of Open MPI: "ring", "segmented_ring:128K"; empty for any other.
std::string algorithm_value(const SweptAlgorithm& algorithm);

/// For each size Open MPI's fastest algorithm where it clearly beats the default (by the 95 % interval of the ratios
/// within rounds, and by more than the default differed from itself); elsewhere the default. `ids`: the library's
/// numbers of its algorithms by name. Ascending from 0 bytes, with a rule where the choice changes: at the geometric
/// mean of two measured sizes. Empty: the default everywhere.
std::vector<AllreduceRule> rules_of(const Sweep& sweep, const std::map<std::string, int64_t>& ids);

/// The predicted times with these rules.
Curve curve_of(const Sweep& sweep, const std::vector<AllreduceRule>& rules);

/// "128K", "1M", "100": bytes with the largest binary unit that divides them; and back. Throws ddl::Error
/// (kUsage) on other words.
std::string short_bytes(int64_t bytes);
int64_t bytes_of(const std::string& word);

}  // namespace ddl::tune
