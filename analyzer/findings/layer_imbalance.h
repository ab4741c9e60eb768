// One layer that takes some rank longer than the others, in every step perhaps another one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/finding.h"
#include "analyzer/passes/layer_spreads.h"

namespace ddl {

struct UnevenLayer {
  std::string name;
  int64_t region = 0;  ///< one of those with its name
  std::map<int64_t, LayerSpread> steps;
  double excess_ns = 0;  ///< longest less mean, mean over the steps
  double mean_ns = 0;
  std::vector<std::pair<size_t, int64_t>> longest;  ///< in how many steps a rank was, most first
  double saving_ns = 0;                             ///< per step
  /// of the other layers, their longest against their mean; nothing: there is none
  std::optional<double> others_excess;

  double excess() const { return mean_ns > 0 ? excess_ns / mean_ns : 0; }
};

/// Nothing: no layer stands out, or its unevenness costs too little.
const std::optional<UnevenLayer>& find_uneven_layer(const FindingInput& input);

/// Whether a rank that computes `longer_ns` longer than the others, and costs them `lost_ns`, from `since` on, only
/// happens to be the one that the uneven layer takes longest in those steps: most of what that layer takes longer, over
/// the run, is on others, and in those steps it makes up most of both. A rank that does not compute longer, but sleeps,
/// is never such a one.
bool is_by_uneven_layer(const FindingInput& input, int64_t rank, std::optional<int64_t> since, double longer_ns,
                        double lost_ns);

}  // namespace ddl
