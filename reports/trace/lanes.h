// Slices of one thread, stream or the like as tracks. On a track slices may lie inside each other, but must not cut into each other: what
// would goes to a further track of the same name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/trace/perfetto_packets.h"

namespace ddl::reports {

/// A part of a slice, drawn below it.
struct SlicePart {
  std::string_view category, name;
  int64_t begin_ns = 0, end_ns = 0;
};

/// Things that happen one after the other, and each of which is a thing of its own: calls, kernels, requests. One inside another is on
/// another track too.
class Lanes {
 public:
  Lanes(PerfettoPackets& packets, TrackId parent, std::string name, int order)
      : packets_(packets), parent_(parent), name_(std::move(name)), order_(order) {}

  /// In the order of their begins. `parts`: in the order of time, within the slice.
  void add(int64_t begin_ns, int64_t end_ns, const TraceEvent& event, const std::vector<SlicePart>& parts = {});

 private:
  struct Lane {
    TrackId track;
    int64_t end_ns;
  };
  PerfettoPackets& packets_;
  TrackId parent_;
  std::string name_;
  int order_;
  std::vector<Lane> lanes_;
};

/// Ranges, which are meant to lie inside each other.
class NestedLanes {
 public:
  NestedLanes(PerfettoPackets& packets, TrackId parent, std::string name, int order)
      : packets_(packets), parent_(parent), name_(std::move(name)), order_(order) {}

  /// In the order of their begins; of those that begin together, the longest first.
  void add(int64_t begin_ns, int64_t end_ns, const TraceEvent& event);
  /// Ends all: to be called once, behind the last.
  void finish();

 private:
  struct Lane {
    TrackId track;
    std::vector<int64_t> ends_ns;  ///< of what is open, the innermost last
  };
  void close_until(Lane& lane, int64_t time_ns);

  PerfettoPackets& packets_;
  TrackId parent_;
  std::string name_;
  int order_;
  std::vector<Lane> lanes_;
};

}  // namespace ddl::reports
