// A trace in Perfetto's format, packet by packet: tracks, slices, instants, counters. Field numbers are those of
// Perfetto's public protos/perfetto/trace/*.proto; nothing of it is linked.
//
// All packets form one sequence. Names are interned: the first packet with a name spells it out, later ones
// give its number. Memory grows with the different names. Texts are cleaned to UTF-8 without control
// characters. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "reports/csv.h"
#include "reports/trace/protobuf.h"

namespace ddl::reports {

using TrackId = uint64_t;
constexpr TrackId kNoTrack = 0;

struct Argument {
  std::string_view name;
  std::variant<int64_t, double, std::string> value;
};
using Arguments = std::vector<Argument>;

struct TraceEvent {
  std::string_view category = {};
  std::string_view name = {};
  bool name_is_unique = false;  ///< "step 17": not worth interning
  Arguments arguments = {};
  uint64_t flow = 0;  ///< events with the same one are joined by arrows; 0: none
};

class PerfettoPackets {
 public:
  /// `origin_ns`: the earliest time that will be written; becomes 0. `realtime_ns`: Unix time of time 0; 0: not known.
  PerfettoPackets(Sink sink, int64_t origin_ns, int64_t realtime_ns);

  /// In display order. `number` is unique and above 0.
  TrackId process(int64_t number, std::string_view name, const std::vector<std::string>& labels);
  /// `order` among the tracks of its parent.
  TrackId track(TrackId parent, std::string_view name, int order);
  /// `unit`: of the values; the viewer knows "bytes" and "ns".
  TrackId counter(TrackId parent, std::string_view name, std::string_view unit, int order);

  void begin(TrackId track, int64_t time_ns, const TraceEvent& event);
  void end(TrackId track, int64_t time_ns);
  void instant(TrackId track, int64_t time_ns, const TraceEvent& event);
  void count(TrackId track, int64_t time_ns, std::variant<int64_t, double> value);

  void flush();

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Names = std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>>;

  uint64_t intern(Names& names, uint32_t field, std::string_view text);
  Message& event(TrackId track, int type);
  void describe(const TraceEvent& event);
  void write_event(int64_t time_ns);
  void write_packet(Message& packet);

  Sink sink_;
  int64_t origin_ns_;
  TrackId next_track_ = 1;
  int next_process_ = 0;
  bool begun_ = false;
  Names categories_, names_, argument_names_;
  Message event_, interned_, packet_;  // kept for the next
  std::string buffer_;
};

}  // namespace ddl::reports
