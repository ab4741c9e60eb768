#include "analyzer/passes/stream_order.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/query.h"

namespace ddl {
namespace {

struct Done {
  int64_t end_ns = INT64_MIN;
  DeviceClass device_class = DeviceClass::kCompute;
};

struct StreamState {
  Done last;                  ///< of what it was given
  int64_t last_call = 0;      ///< 0: nothing yet
  std::optional<Done> since;  ///< what it was told to wait for behind that: what is over last
  const Done& over() const { return since && since->end_ns > last.end_ns ? *since : last; }
};

}  // namespace

StreamOrder::StreamOrder(SQLite::Database& db, const GpuNameClasses& names, int64_t process) {
  // An event that is recorded behind the call that waits for it holds up nothing.
  Query records(
      db,
      "SELECT on_correlation, on_context, on_stream, rowid FROM stream_wait WHERE process = ? AND on_correlation < correlation"
      " ORDER BY on_correlation");
  Query waits(
      db,
      "SELECT correlation, context, stream, rowid FROM stream_wait WHERE process = ? AND on_correlation < correlation"
      " ORDER BY correlation");
  bool has_record = records.bind(process).next(), has_wait = waits.bind(process).next();
  if (!has_wait) return;
  Query operations(
      db,
      "SELECT correlation, context, stream, start_ns + duration_ns, kind, comm IS NOT NULL, name FROM gpu_event"
      " WHERE process = ? AND kind IN (1, 2, 3) AND duration_ns > 0 AND correlation <> 0 ORDER BY correlation");
  std::vector<StreamState> states;
  const auto number_of = [&](int64_t context, int64_t stream) {
    const uint32_t number = streams_.try_emplace({context, stream}, static_cast<uint32_t>(states.size())).first->second;
    if (number == states.size()) states.emplace_back();
    return number;
  };
  std::unordered_map<int64_t, Done> recorded;  // by the row of stream_wait, until the stream waits
  const auto record = [&] {
    recorded[records.integer(3)] = states[number_of(records.integer(1), records.integer(2))].over();
    has_record = records.next();
  };
  const auto wait = [&] {
    const auto done = recorded.find(waits.integer(3));
    std::optional<Done>& since = states[number_of(waits.integer(1), waits.integer(2))].since;
    if (done->second.end_ns != INT64_MIN && (!since || done->second.end_ns > since->end_ns)) since = done->second;
    recorded.erase(done);
    has_wait = waits.next();
  };
  operations.bind(process);
  while (operations.next()) {
    const int64_t call = operations.integer(0);
    for (;;) {
      if (has_record && records.integer(0) <= call && (!has_wait || records.integer(0) <= waits.integer(0))) {
        record();
      } else if (has_wait && waits.integer(0) <= call) {
        wait();
      } else {
        break;
      }
    }
    const uint32_t stream = number_of(operations.integer(1), operations.integer(2));
    StreamState& state = states[stream];
    Done done{operations.integer(3), DeviceClass::kCompute};
    if (operations.integer(4) != 1) {
      done.device_class = DeviceClass::kCopy;
    } else if (operations.integer(5) != 0 || names.communicates(operations.integer(6))) {
      done.device_class = DeviceClass::kCommunication;
    }
    if (call == state.last_call) {  // several things that one call launched
      if (done.end_ns > state.last.end_ns) state.last = done;
      continue;
    }
    if (state.since && state.since->device_class != DeviceClass::kCompute)
      held_up_.push_back({call, state.since->end_ns, stream, state.since->device_class == DeviceClass::kCopy});
    state = {done, call, std::nullopt};
  }
}

std::optional<Awaited> StreamOrder::awaited(const Stream& stream, int64_t call) const {
  const auto number = streams_.find(stream);
  if (number == streams_.end()) return std::nullopt;
  auto found =
      std::lower_bound(held_up_.begin(), held_up_.end(), call, [](const HeldUp& h, int64_t c) { return h.call < c; });
  for (; found != held_up_.end() && found->call == call; ++found)
    if (found->stream == number->second) return Awaited{found->end_ns, found->is_copy};
  return std::nullopt;
}

GpuNameClasses::GpuNameClasses(SQLite::Database& db) {
  Query rows(db,
             "SELECT id, class = 'communication', name LIKE '%stream wait%' FROM gpu_name WHERE id >= 0 ORDER BY id");
  while (rows.next()) {
    bits_.resize(static_cast<size_t>(rows.integer(0)) + 1);
    bits_.back() =
        static_cast<uint8_t>((rows.integer(1) != 0 ? kCommunicates : 0) | (rows.integer(2) != 0 ? kStreamWait : 0));
  }
}

}  // namespace ddl
