// The operations on other streams that a GPU operation waits for, by the events between them (table stream_wait).
//
// A stream works in the order of the calls, which CUPTI numbers. Waits that a stream was given since its last operation
// hold up the next one: until the last operation that the other stream had been given before the event, and those that
// this one waited for in turn. Memory grows with the operations held up, not with all of them.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/passes/device_partition.h"

namespace ddl {

/// Kinds of the names in gpu_event, by number: passes that read millions of events do not ask for the text of each.
class GpuNameClasses {
 public:
  explicit GpuNameClasses(SQLite::Database& db);
  /// By the name: it is a kernel that communicates.
  bool communicates(int64_t name) const { return has(name, kCommunicates); }
  /// A synchronisation that holds up a stream, and no host.
  bool is_stream_wait(int64_t name) const { return has(name, kStreamWait); }

 private:
  enum Bit : uint8_t { kCommunicates = 1, kStreamWait = 2 };
  bool has(int64_t name, Bit bit) const {
    return static_cast<uint64_t>(name) < bits_.size() && (bits_[static_cast<size_t>(name)] & bit);
  }
  std::vector<uint8_t> bits_;  ///< by gpu_name.id, which begin with 1
};

class StreamOrder {
 public:
  using Stream = std::pair<int64_t, int64_t>;  ///< CUDA context, number

  StreamOrder(SQLite::Database& db, const GpuNameClasses& names, int64_t process);
  bool empty() const { return held_up_.empty(); }
  /// Unset: for nothing, or what is done last of it is not a collective and no copy.
  std::optional<Awaited> awaited(const Stream& stream, int64_t call) const;

 private:
  struct HeldUp {
    int64_t call;
    int64_t end_ns;
    uint32_t stream;
    bool is_copy;
  };
  std::map<Stream, uint32_t> streams_;
  std::vector<HeldUp> held_up_;  ///< by call
};

}  // namespace ddl
