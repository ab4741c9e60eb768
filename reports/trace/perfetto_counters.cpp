// Numbers over time: counters of steps, values that the program reported, the health of nodes.
#include <fmt/format.h>

#include "reports/trace/perfetto_tracks.h"

namespace ddl::reports {
namespace {

std::string_view unit_of(std::string_view name) {
  for (const std::string_view unit : {"bytes_per_second", "bytes", "ns", "watts", "celsius", "mhz", "ratio"})
    if (name.ends_with(unit)) return unit;
  return {};
}

/// Rows come track by track; a new one begins where one of the first two columns changes.
class CounterTracks {
 public:
  CounterTracks(PerfettoTracks& tracks, int64_t first_order) : tracks_(tracks), order_(first_order) {}

  TrackId track(int64_t process, const std::string& name) {
    if (process == process_ && name == name_) return track_;
    order_ = process == process_ ? order_ + 1 : order_;
    process_ = process;
    name_ = name;
    return track_ = tracks_.packets.counter(tracks_.process_tracks.at(process), name, unit_of(name),
                                            PerfettoTracks::order(TrackGroup::kCounters, order_));
  }

 private:
  PerfettoTracks& tracks_;
  int64_t order_, process_ = 0;
  std::string name_;
  TrackId track_ = kNoTrack;
};

/// What a counter grew by in each step stands from the step's begin to its end.
void write_step_counters(PerfettoTracks& tracks) {
  Query row(
      tracks.db,
      "SELECT t.process, c.name, e.start_ns, e.duration_ns, e.value FROM temp.trace_process t CROSS JOIN counter_event e ON e.process ="
      " t.process JOIN region r ON r.id = e.region AND r.kind = 'step' JOIN counter c ON c.process = e.process AND c.number = e.counter"
      " WHERE t.first_step IS NULL OR e.step BETWEEN t.first_step AND t.last_step ORDER BY t.process, e.counter, e.start_ns");
  CounterTracks counters(tracks, 0);
  while (row.next()) {
    const TrackId track = counters.track(row.integer(0), row.text(1) + " per step");
    tracks.packets.count(track, row.integer(2), row.integer(4));
    tracks.packets.count(track, row.integer(2) + row.integer(3), int64_t{0});
  }
}

void write_values(PerfettoTracks& tracks) {
  Query row(
      tracks.db,
      "SELECT t.process, v.name, v.time_ns, v.value FROM temp.trace_process t CROSS JOIN value v ON v.process = t.process"
      " WHERE " +
          in_window("v", "time_ns") + " ORDER BY t.process, v.value IS NULL, v.name, v.time_ns");
  CounterTracks counters(tracks, 10'000);
  TrackId marks = kNoTrack;
  for (int64_t process = 0; row.next();) {
    const std::string name = row.text(1);
    if (!row.is_null(3)) {
      tracks.packets.count(counters.track(row.integer(0), name), row.integer(2), row.real(3));
      continue;
    }
    if (row.integer(0) != process) {
      process = row.integer(0);
      marks = tracks.packets.track(tracks.process_tracks.at(process), "marks",
                                   PerfettoTracks::order(TrackGroup::kCounters, 19'999));
    }
    tracks.packets.instant(marks, row.integer(2), {.category = "mark", .name = name});
  }
}

void write_node_samples(PerfettoTracks& tracks) {
  Query row(
      tracks.db,
      "SELECT t.process, s.device, s.name, s.time_ns, s.value FROM temp.trace_process t CROSS JOIN node_sample s ON s.process = t.process"
      " WHERE t.first_step IS NULL OR (s.time_ns >= t.begin_ns AND s.time_ns < t.end_ns) ORDER BY t.process, s.device, s.name,"
      " s.time_ns");
  CounterTracks counters(tracks, 20'000);
  while (row.next())
    tracks.packets.count(counters.track(row.integer(0), fmt::format("{} {}", row.text(1), row.text(2))), row.integer(3),
                         row.real(4));
}

}  // namespace

void write_counters(PerfettoTracks& tracks) {
  write_step_counters(tracks);
  write_values(tracks);
  write_node_samples(tracks);
}

}  // namespace ddl::reports
