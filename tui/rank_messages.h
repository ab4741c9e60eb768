// The messages of one rank of a running job, as far as they tell whom a call that waits for several requests waits for
// (live_stall.cpp): what it sent and received on each channel, and what it posted that has not completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "analyzer/passes/message_operation.h"

namespace ddl::tui {

/// To or from one member of a communicator, with one tag.
struct MessageChannel {
  uint32_t comm = 0;  ///< Job::communicators
  int32_t peer = 0;   ///< rank in it; below 0: anybody
  int32_t tag = 0;    ///< below 0: any
  friend auto operator<=>(const MessageChannel&, const MessageChannel&) = default;
};

class RankMessages {
 public:
  struct Posted {
    uint32_t op = 0;  ///< Job::operations
    bool sends = false, receives = false;
    MessageChannel channel;  ///< of an exchange that it sends in: whom it receives from is known when it has
  };

  /// A finished call, or a request: `start_ticks` is when that was posted.
  void take(const MessageOperation& operation, uint32_t op, const MessageChannel& channel, uint64_t start_ticks,
            bool is_request);
  /// Some records are not there, or tell too little: requests that MPI_Start starts, MPI_Cancel.
  void leave_out();

  bool is_whole() const { return whole_; }
  int64_t sent(const MessageChannel& channel) const { return count(sent_, channel); }
  int64_t received(const MessageChannel& channel) const { return count(received_, channel); }
  const std::multimap<uint64_t, Posted>& posted() const { return posted_; }

 private:
  using Counts = std::map<MessageChannel, int64_t>;

  static int64_t count(const Counts& counts, const MessageChannel& channel) {
    const auto found = counts.find(channel);
    return found == counts.end() ? 0 : found->second;
  }
  void add(Counts& counts, const MessageChannel& channel);

  Counts sent_, received_;
  std::multimap<uint64_t, Posted> posted_;  ///< by when
  bool whole_ = true;
};

}  // namespace ddl::tui
