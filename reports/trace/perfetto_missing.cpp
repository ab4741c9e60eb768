// What is not in the trace, in the trace: ranks that left nothing, processes that did not end as they should, calls
// that never returned, losses of the recording.

#include <map>

#include "reports/trace/lanes.h"
#include "reports/trace/perfetto_tracks.h"

namespace ddl::reports {
namespace {

/// Loss rows as instants at the end of their rank, or of the run.
void write_losses(PerfettoTracks& tracks, const RunView& run) {
  std::map<int64_t, const TraceProcess*> by_rank;
  int64_t last_ns = 0;
  for (const TraceProcess& p : tracks.processes) {
    if (p.rank) by_rank[*p.rank] = &p;
    last_ns = std::max(last_ns, p.end_ns);
  }
  std::map<int64_t, TrackId> track_of;  // by process; 0: the run
  const auto track = [&](const TraceProcess* p) {
    TrackId& known = track_of[p ? p->id : 0];
    if (known == kNoTrack)
      known = tracks.packets.track(p ? tracks.process_tracks.at(p->id) : kNoTrack, "missing data",
                                   PerfettoTracks::order(TrackGroup::kMissing));
    return known;
  };
  Query row(tracks.db, "SELECT rank, kind, count, note FROM loss WHERE world IS NULL OR world = ? ORDER BY rank, kind");
  row.bind(run.world);
  while (row.next()) {
    const auto found = row.is_null(0) ? by_rank.end() : by_rank.find(row.integer(0));
    if (!row.is_null(0) && found == by_rank.end()) continue;  // of a rank that was not asked for
    const TraceProcess* p = found == by_rank.end() ? nullptr : found->second;
    const std::string name = row.text(1);
    TraceEvent event{.category = "missing", .name = name};
    add_argument(event.arguments, {"count"}, row, 2);
    add_argument(event.arguments, {"note", true}, row, 3);
    tracks.packets.instant(track(p), p ? p->end_ns : last_ns, event);
  }
  for (const TraceProcess& p : tracks.processes)
    if (p.ended == "lost" || p.ended == "aborted") {
      const std::string name =
          p.ended == "lost" ? "lost: killed, crashed, left by _exit, or still running" : "aborted: MPI_Abort";
      tracks.packets.instant(track(&p), p.end_ns, {.category = "missing", .name = name});
    }
}

void write_open_calls(PerfettoTracks& tracks) {
  Query row(
      tracks.db,
      "SELECT t.process, o.name, x.start_ns, p.end_ns, x.thread, x.step, r.layer, c.label, x.seq, x.bytes, x.peer FROM"
      " temp.trace_process t CROSS JOIN open_call x ON x.process = t.process JOIN process p ON p.id = x.process JOIN op o ON o.id = "
      "x.op JOIN region r ON"
      " r.id = x.region LEFT JOIN communicator c ON c.id = x.comm WHERE " +
          in_window("x") + " ORDER BY t.process, x.start_ns");
  constexpr ArgumentColumn kArguments[] = {{"thread"}, {"step"},  {"layer", true}, {"comm", true},
                                           {"seq"},    {"bytes"}, {"peer"}};
  std::optional<Lanes> lanes;
  for (int64_t process = 0; row.next();) {
    if (row.integer(0) != process) {
      process = row.integer(0);
      lanes.emplace(tracks.packets, tracks.process_tracks.at(process), "calls that never returned",
                    PerfettoTracks::order(TrackGroup::kMissing, 1));
    }
    const std::string name = row.text(1);
    TraceEvent event{.category = "open_call", .name = name};
    for (int i = 0; const ArgumentColumn& argument : kArguments) add_argument(event.arguments, argument, row, 4 + i++);
    lanes->add(row.integer(2), std::max(row.integer(2), row.integer(3)), event);
  }
}

}  // namespace

void write_missing_process(PerfettoTracks& tracks, int64_t number, const std::string& name) {
  int64_t last_ns = 0;
  for (const TraceProcess& p : tracks.processes) last_ns = std::max(last_ns, p.end_ns);
  const TrackId process = tracks.packets.process(number, name, {});
  const TrackId track = tracks.packets.track(process, "missing data", PerfettoTracks::order(TrackGroup::kMissing));
  tracks.packets.begin(track, 0, {.category = "missing", .name = "nothing was recorded"});
  tracks.packets.end(track, last_ns);
}

void write_missing(PerfettoTracks& tracks, const RunView& run) {
  write_losses(tracks, run);
  write_open_calls(tracks);
}

}  // namespace ddl::reports
