#include "analyzer/models/code_bytes.h"

#include <algorithm>
#include <cmath>

namespace ddl::models {
namespace {

constexpr double kGroup = 512, kTopOfGroup = 16;

/// Bytes of `values` coded in groups, each with `per_group` bytes beside `per_value` a value.
double grouped(double values, double per_value, double per_group) {
  return std::ceil(values / kGroup) * per_group + std::ceil(values * per_value);
}

double stream_bytes(double values, double ranks, double ratio) {
  double entries = std::ceil(ratio * values), sent = 0;
  for (double met = 1; met < ranks; met *= 2, entries *= 2)
    sent += 4 + (entries > values / 2 ? 4 * values : 8 * entries);
  return sent;
}

}  // namespace

std::vector<CodedLayer> coded_bytes(const GradientLayer& layer, double ranks, double ratio,
                                    std::optional<double> samples) {
  const double n = layer.values, others = ranks - 1, shard = n / ranks;
  const double top_of_group =
      std::floor(n / kGroup) * (4 + 2.5 * kTopOfGroup) +
      (std::fmod(n, kGroup) > 0 ? 4 + std::ceil(2.5 * std::min(std::fmod(n, kGroup), kTopOfGroup)) : 0);
  std::vector<CodedLayer> codes = {
      {"none", 2 * others / ranks * 4 * n, true},
      {"fp16", 2 * others * 2 * shard, false},
      {"q8", 2 * others * grouped(shard, 1, 4), false},
      {"q4", 2 * others * grouped(shard, 0.5, 4), false},
      {"ternary", 2 * others * grouped(shard, 0.25, 4), false},
      {"onebit", 2 * others * grouped(shard, 0.125, 8), false},
      {"topk", others * 8 * std::ceil(ratio * n), false},
      {"top16_q4", others * top_of_group, false},
      {"sparcml", stream_bytes(n, ranks, ratio), false},
  };
  if (samples && layer.factor_values) codes.push_back({"factors", others * 4 * *samples * *layer.factor_values, true});
  return codes;
}

}  // namespace ddl::models
