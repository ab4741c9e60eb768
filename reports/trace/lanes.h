// Slices of one thread or stream as tracks. Slices of a track may nest but not partly overlap: those that would go to
// another track of the same name.
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

/// Independent things in sequence: calls, kernels, requests. One inside another goes to another track too.
class Lanes {
 public:
  Lanes(PerfettoPackets& packets, TrackId parent, std::string name, int order)
      : packets_(packets), parent_(parent), name_(std::move(name)), order_(order) {}

  /// In order of begin. `parts`: in order, within the slice.
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

/// Ranges, which are meant to nest.
class NestedLanes {
 public:
  NestedLanes(PerfettoPackets& packets, TrackId parent, std::string name, int order)
      : packets_(packets), parent_(parent), name_(std::move(name)), order_(order) {}

  /// In order of begin, the longest first where several begin together.
  void add(int64_t begin_ns, int64_t end_ns, const TraceEvent& event);
  /// Ends all: call it once, at the end.
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
