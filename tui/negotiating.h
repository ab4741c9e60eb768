// What a running rank whose MPI calls come from a background thread reports about its training thread, and about what
// it has ready for the others (specification.md J2): enough to tell, when no data moves any more, who does not come.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/format.h"
#include "store/ingest/clocks.h"

namespace ddl::tui {

struct Negotiating {
  struct Sample {
    uint64_t at_ticks, busy_ns, spun_ticks;  ///< sums since the thread began; busy: on a CPU or ready for one
  };
  std::deque<Sample> samples;  ///< of the last second and a bit, oldest first
  /// code of kBlockingCalls, if asked in the last two seconds; 0: not asked, or none of them
  uint32_t sleeps_in = 0;
  uint64_t asked_ticks = 0;  ///< when

  std::optional<uint32_t> ready_bits;  ///< in its last word
  /// lists to rank 0 of more than `least_bytes`: number of the gather, bytes
  std::deque<std::pair<uint32_t, uint64_t>> sent;
  std::deque<uint32_t> least_sent;  ///< numbers of the last gathers to which it sent `least_bytes`
  std::deque<uint32_t> moved_in;    ///< numbers of the last collectives that moved data
  /// number of the first gather from which on they are whole; 0: there was none
  uint32_t sent_since = 0, least_sent_since = 0;
  /// that it ever sent: a list without requests, unless another rank sent less
  uint64_t least_bytes = UINT64_MAX;
  /// end of the first and of the last that moved data since `since_ticks`; 0: none did
  uint64_t first_moved_ticks = 0, moved_ticks = 0;
  uint64_t moved = 0;  ///< how many
  /// the first sample that was read: what came before it may have been left out
  uint64_t since_ticks = 0;

  void take_sample(const Record& r, const store::ProcessClock& clock);
  /// Rank 0 gathers requests of `bytes` from this one.
  void take_request(uint32_t sequence, uint64_t bytes);
  void take_data(uint32_t sequence, uint64_t end_ticks);
};

/// RequestedBytes of each, from when on all of them are known; nothing for those that send none.
std::vector<std::optional<int64_t>> open_requests(const std::vector<const Negotiating*>& ranks);

}  // namespace ddl::tui
