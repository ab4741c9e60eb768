// A collective with members without a record is slow for one of two reasons: its network, or a late member that nothing
// is known of (specification.md J7). Tells the two apart, as far as possible.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

/// Margin for upper bounds against a threshold: one that is hardly above it shows nothing.
constexpr double kClearBound = 1.25;

/// How much longer one of a communicator's collectives takes in each step, and what it moves.
struct LongerTransfer {
  double longer_ns = 0;
  double bytes = 0;
};

/// Most of it is in proportion to the bytes of each collective, as where a network is slow; a rank that comes late does
/// so to the first of them.
bool is_in_proportion_to_bytes(const std::vector<LongerTransfer>& collectives);

/// Ranks that are late to collectives beside ranks without a record: one cause delays both.
class LateNeighbours {
 public:
  explicit LateNeighbours(const FindingInput& input);

  /// A rank in another communicator of a member without a record costs its waiters most of `longer_ns` over the whole
  /// run.
  bool has_any(const CommunicatorInfo& communicator, double longer_ns) const;

 private:
  struct Waited {
    int64_t communicator;
    double ns;  ///< longest wait of one rank for one of its members
  };
  std::map<int64_t, std::vector<Waited>> of_missing_;  ///< by rank without a record
};

}  // namespace ddl
