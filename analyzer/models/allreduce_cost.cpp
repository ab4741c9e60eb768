#include "analyzer/models/allreduce_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ddl::models {
namespace {

double floor_log2(int64_t n) { return static_cast<double>(std::bit_width(static_cast<uint64_t>(n)) - 1); }
double ceil_log2(int64_t n) { return n <= 1 ? 0 : floor_log2(n - 1) + 1; }
/// (p-1)/p
double rest(int64_t p) { return static_cast<double>(p - 1) / static_cast<double>(p); }

Work rabenseifner(int64_t p, double n) { return {2 * floor_log2(p), 2 * rest(p) * n, rest(p) * n}; }
Work ring(int64_t p, double n) { return {2 * static_cast<double>(p - 1), 2 * rest(p) * n, rest(p) * n}; }

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"parameter_server", "tree", "butterfly", "rabenseifner", "ring"};
  return kNames[static_cast<size_t>(algorithm)];
}

Work& Work::operator+=(const Work& other) {
  messages += other.messages;
  moved_bytes += other.moved_bytes;
  reduced_bytes += other.reduced_bytes;
  return *this;
}

double Work::seconds(const Link& link) const {
  return messages * link.alpha_s + moved_bytes * link.beta_s_per_byte + reduced_bytes * link.gamma_s_per_byte;
}

Work allreduce_work(Algorithm algorithm, int64_t ranks, double n) {
  if (ranks <= 1) return {};
  const double p = static_cast<double>(ranks);
  const int64_t power = int64_t{1} << static_cast<int>(floor_log2(ranks));
  Work work;
  switch (algorithm) {
    case Algorithm::kParameterServer:
      return {2 * p, 2 * p * n, p * n};
    case Algorithm::kTree: {
      const double rounds = ceil_log2(ranks);
      return {2 * rounds, 2 * rounds * n, rounds * n};
    }
    case Algorithm::kRing:
      return ring(ranks, n);
    case Algorithm::kButterfly:
      work = {floor_log2(power), floor_log2(power) * n, floor_log2(power) * n};
      break;
    case Algorithm::kRabenseifner:
      work = rabenseifner(power, n);
      break;
  }
  if (power != ranks) work += {2, 2 * n, n};
  return work;
}

double allreduce_seconds(Algorithm algorithm, int64_t ranks, double bytes, const Link& link) {
  return allreduce_work(algorithm, ranks, bytes).seconds(link);
}

double multi_ring_seconds(const std::vector<Dimension>& dimensions, double bytes) {
  double seconds = 0;
  for (const Dimension& dimension : dimensions) {
    seconds += ring(dimension.ranks, bytes).seconds(dimension.link);
    bytes /= static_cast<double>(dimension.ranks);
  }
  return seconds;
}

double leader_seconds(const std::vector<Dimension>& tiers, double bytes) {
  // Reduce and broadcast along a binomial tree are together what the tree allreduce is.
  double seconds = allreduce_seconds(Algorithm::kRing, tiers.back().ranks, bytes, tiers.back().link);
  for (size_t tier = 0; tier + 1 < tiers.size(); ++tier)
    seconds += allreduce_seconds(Algorithm::kTree, tiers[tier].ranks, bytes, tiers[tier].link);
  return seconds;
}

double lower_bound_seconds(int64_t ranks, double bytes, const Link& link) {
  if (ranks <= 1) return 0;
  return std::max(2 * rest(ranks) * bytes * link.beta_s_per_byte, link.alpha_s * std::log2(static_cast<double>(ranks)));
}

double butterfly_to_rabenseifner_bytes(int64_t ranks, const Link& link) {
  const double lg = floor_log2(ranks);
  const double gain = link.beta_s_per_byte * (lg - 2 * rest(ranks)) + link.gamma_s_per_byte * (lg - rest(ranks));
  return gain > 0 ? link.alpha_s * lg / gain : std::numeric_limits<double>::infinity();
}

}  // namespace ddl::models
