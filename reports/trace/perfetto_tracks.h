// What the parts of the Perfetto export share: where packets go, and the order of a rank's tracks. Each part reads one
// kind of table once, rank by rank.
#pragma once

#include <map>
#include <string>

#include "analyzer/query.h"
#include "reports/trace/perfetto_packets.h"
#include "reports/trace/selection.h"

namespace ddl::reports {

/// Groups of a rank's tracks from the top; within one by thread, stream or counter.
enum class TrackGroup { kMissing, kSteps, kRanges, kCompute, kCalls, kRequests, kNccl, kGpu, kCounters };

struct PerfettoTracks {
  SQLite::Database& db;
  PerfettoPackets& packets;
  const std::vector<TraceProcess>& processes;
  std::map<int64_t, TrackId> process_tracks;  ///< by process.id
  std::function<void(int64_t)> rows_done;     ///< for progress

  static int order(TrackGroup group, int64_t number = 0) {
    constexpr int kMost = 100'000;
    return static_cast<int>(group) * kMost + static_cast<int>(number % kMost);
  }
  /// "thread 2 (dataloader)"
  std::string thread_name(int64_t process, int64_t thread) const;
};

// In the order of the file.
void write_steps(PerfettoTracks& tracks);                        // perfetto_ranges.cpp
void write_ranges(PerfettoTracks& tracks);                       // perfetto_ranges.cpp
void write_compute(PerfettoTracks& tracks);                      // perfetto_calls.cpp
void write_calls(PerfettoTracks& tracks);                        // perfetto_calls.cpp
void write_gpu(PerfettoTracks& tracks);                          // perfetto_gpu.cpp
void write_counters(PerfettoTracks& tracks);                     // perfetto_counters.cpp
void write_missing(PerfettoTracks& tracks, const RunView& run);  // perfetto_missing.cpp
/// A process that left nothing; `number` as of PerfettoPackets::process().
void write_missing_process(PerfettoTracks& tracks, int64_t number, const std::string& name);  // perfetto_missing.cpp

/// A column that becomes an argument, where it is not NULL.
struct ArgumentColumn {
  const char* name;
  bool is_text = false;
};
void add_argument(Arguments& arguments, const ArgumentColumn& argument, const Query& row, int column);

}  // namespace ddl::reports
