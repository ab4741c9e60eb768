// What the analyzer knows about a collective operation: how to read its size, its bus bandwidth factor and who waits
// for whom (specification.md "Waiting", "Bandwidths").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/format.h"

namespace ddl {

/// How S, the size of the whole operation as nccl-tests counts it, follows from the members' send payloads.
enum class SizeRule {
  kUnknown,  ///< no S
  kZero,     ///< moves no user data
  kSame,     ///< every member's payload is S
  kSum,      ///< S is the sum over the members: needs all of them
  kEach,     ///< the same, but every member's payload is as large: one tells it
  kLargest,  ///< S is the payload of the busiest member: needs all of them
  kRoot,     ///< S is what the root sends
};

/// busbw = algbw * factor.
enum class BusRule { kNone, kOne, kAllReduce /* 2(n-1)/n */, kShare /* (n-1)/n */ };

/// Which members wait for which.
enum class WaitRule {
  kNone,       ///< not defined (scans, neighbourhoods)
  kSymmetric,  ///< no member leaves before all have entered: W1 to W3
  kLateRoot,   ///< the others wait for the root: W9
  kEarlyRoot,  ///< the root waits for the last (W8), the others for that or a late root (W12)
};

struct Operation {
  std::string name;
  OpClass op_class = OpClass::kOther;
  bool nonblocking = false;
  SizeRule size = SizeRule::kUnknown;
  BusRule bus = BusRule::kNone;
  WaitRule wait = WaitRule::kNone;
  /// No member can leave before the last one entered, whatever the counts: leaving earlier violates the clock
  /// condition.
  bool strict = false;
  /// NCCL: the call enqueues it, a device does it.
  bool on_device = false;
  /// Every call takes the next sequence number of its communicator.
  bool numbered = false;
  /// Has no number, completes no message, and may wait for another rank all the same: one-sided communication,
  /// what synchronises windows, and what makes or ends communicators of other ranks than those of the one that
  /// it is called with.
  bool waits_unnumbered = false;
};

/// `class_name` as in table `op`.
Operation describe_operation(std::string name, std::string_view class_name, bool nonblocking);

/// Factor of `rule` on a communicator of `ranks`; nothing where it is not defined (one rank, barriers).
std::optional<double> bus_factor(BusRule rule, int64_t ranks);

}  // namespace ddl
