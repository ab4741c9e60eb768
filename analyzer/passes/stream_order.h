// What an operation of a GPU waits for on other streams, by the events between them (table stream_wait).
//
// A stream does what it is given in the order of the calls, which CUPTI numbers. What a stream was told to wait for since its last
// operation holds up the next one: the last operation that the other stream had been given before the event, and what that stream waited
// for in turn.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/passes/device_partition.h"

namespace ddl {

class StreamOrder {
 public:
  using Stream = std::pair<int64_t, int64_t>;  ///< CUDA context, number

  StreamOrder(SQLite::Database& db, int64_t process);
  bool empty() const { return waits_.empty(); }
  void add(const Stream& stream, int64_t call, int64_t end_ns, DeviceClass device_class);
  /// Unset: for nothing, or what is done last of it is not a collective and no copy.
  std::optional<Awaited> awaited(const Stream& stream, int64_t call) const;

 private:
  struct Done {
    int64_t end_ns;
    DeviceClass device_class;
  };
  struct Wait {
    Stream on;
    int64_t before_call;
  };
  /// Adds what `stream` was told to wait for after the last operation that it was given before `call`, the latest first and not without
  /// end; returns that operation.
  const Done* last_before(const Stream& stream, int64_t call, std::vector<Wait>& waits) const;

  std::map<Stream, std::map<int64_t, Done>> done_;        ///< by call: the one that ended last
  std::map<Stream, std::multimap<int64_t, Wait>> waits_;  ///< by call
};

}  // namespace ddl
