// Ranks' use of one kind of collective: an operation on a communicator with a size.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tui/job.h"

namespace ddl::tui {

struct CollectiveUse {
  uint32_t op = kNone;    ///< Job::operations
  uint32_t comm = kNone;  ///< Job::communicators
  int64_t bytes = -1;     ///< of the whole operation; -1: unknown
  int64_t instances = 0;
  int64_t calls = 0;
  int64_t time_ns = 0;  ///< sums over members
  int64_t split_calls = 0;
  int64_t wait_ns = 0;
  bool nonblocking = false;
  /// if background threads make the job's MPI calls, they only agree on what to move by it
  bool coordination = false;
  std::vector<double> transfer_ns;  ///< one per instance, see collective_groups.h

  bool is_same_kind(const CollectiveUse& other) const {
    return op == other.op && comm == other.comm && bytes == other.bytes && coordination == other.coordination;
  }
  void add(const CollectiveUse& more);
};

struct Bandwidth {
  double algbw = 0, busbw = 0;  ///< bytes per second
};
/// From the median transfer; nothing for operations without one (barriers, one rank), and for non-blocking ones, whose
/// transfer is only bounded from above.
std::optional<Bandwidth> bandwidth_of(const Job& job, const CollectiveUse& use);

}  // namespace ddl::tui
