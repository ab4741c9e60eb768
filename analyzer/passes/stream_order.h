// What an operation of a GPU waits for on other streams, by the events between them (table stream_wait).
//
// A stream does what it is given in the order of the calls, which CUPTI numbers. What a stream was told to wait for since its last
// operation holds up the next one: the last operation that the other stream had been given before the event, and what that stream waited
// for in turn. Memory grows with the operations that were held up so, not with all of them.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/passes/device_partition.h"
#include "analyzer/passes/gpu_name_classes.h"

namespace ddl {

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
