#include "analyzer/findings/missing_member.h"

#include <algorithm>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kMostOfExcess = 0.5;
constexpr double kTooFewBytes = 0.05;  // against the largest: what it takes is latency

}  // namespace

bool is_in_proportion_to_bytes(const std::vector<LongerTransfer>& collectives) {
  double largest = 0, bytes = 0, longer_ns = 0;
  for (const LongerTransfer& one : collectives) largest = std::max(largest, one.bytes);
  double least_per_byte = 0;
  for (const LongerTransfer& one : collectives) {
    longer_ns += one.longer_ns;
    if (one.bytes <= kTooFewBytes * largest) continue;
    const double per_byte = one.longer_ns / one.bytes;
    least_per_byte = bytes == 0 ? per_byte : std::min(least_per_byte, per_byte);
    bytes += one.bytes;
  }
  return bytes > 0 && least_per_byte * bytes >= kMostOfExcess * longer_ns;
}

LateNeighbours::LateNeighbours(const FindingInput& input) {
  if (!input.bounded) return;
  std::map<int64_t, double> waited_ns;  // by rank that was late, directly
  Query rows(input.db, "SELECT late, max(wait_ns) FROM blame WHERE world = ? GROUP BY late");
  for (rows.bind(input.world); rows.next();) waited_ns[rows.integer(0)] = rows.real(1);
  for (const auto& [id, communicator] : input.catalog.communicators) {
    if (communicator.world != input.world || communicator.kind == "world") continue;
    double longest_ns = 0;
    for (const int64_t rank : communicator.ranks)
      if (const auto late = waited_ns.find(rank); late != waited_ns.end())
        longest_ns = std::max(longest_ns, late->second);
    for (const int64_t rank : communicator.ranks)
      if (longest_ns > 0 && input.catalog.is_unrecorded(input.world, rank))
        of_missing_[rank].push_back({id, longest_ns});
  }
}

bool LateNeighbours::has_any(const CommunicatorInfo& communicator, double longer_ns) const {
  return std::any_of(communicator.ranks.begin(), communicator.ranks.end(), [&](int64_t rank) {
    const auto missing = of_missing_.find(rank);
    return missing != of_missing_.end() &&
           std::any_of(missing->second.begin(), missing->second.end(), [&](const Waited& waited) {
             return waited.communicator != communicator.id && waited.ns >= kMostOfExcess * longer_ns;
           });
  });
}

}  // namespace ddl
