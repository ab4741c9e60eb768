// What threads did in calls of MPI and NCCL, what was in flight, and what lies between calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "reports/trace/lanes.h"
#include "reports/trace/perfetto_tracks.h"

namespace ddl::reports {
namespace {

enum EventKind { kMpiCall = 1, kRequest = 2, kNcclCall = 3, kNcclOnDevice = 4 };

/// The same for all members of a collective, and (by 64 mixed bits) for no other.
uint64_t flow_of(int64_t comm, int64_t seq) {
  const auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  const uint64_t flow = mix(mix(static_cast<uint64_t>(comm)) ^ static_cast<uint64_t>(seq));
  return flow != 0 ? flow : 1;
}

struct CallWindow {
  int64_t thread = 0, begin_ns = 0, end_ns = 0;
  bool kept = true;
};

/// Where the time outside calls is known to be computing: the steps of a process, or all of it if it has none.
std::vector<CallWindow> windows_of(PerfettoTracks& tracks, const TraceProcess& process) {
  std::vector<CallWindow> windows;
  Query step(tracks.db, R"(
    SELECT s.thread, s.start_ns, s.duration_ns, a.comm_ns IS NOT NULL, s.step
    FROM temp.trace_process t CROSS JOIN step s ON s.process = t.process
         LEFT JOIN step_part a ON a.process = s.process AND a.step = s.step
    WHERE t.process = ? AND s.duration_ns IS NOT NULL AND (t.first_step IS NULL OR s.step BETWEEN t.first_step AND t.last_step)
    ORDER BY s.start_ns)");
  step.bind(process.id);
  for (std::set<int64_t> seen; step.next();)
    if (seen.insert(step.integer(4)).second)
      windows.push_back({step.integer(0), step.integer(1), step.integer(1) + step.integer(2), step.integer(3) != 0});
  if (!windows.empty()) return windows;
  Query whole(tracks.db, R"(
    SELECT r.comm_ns IS NOT NULL
    FROM temp.trace_process t JOIN rank_part r ON r.process = t.process
    WHERE t.process = ?1 AND t.first_step IS NULL AND NOT EXISTS (SELECT 1 FROM step WHERE process = ?1))");
  whole.bind(process.id);
  if (whole.next()) {
    const int64_t begin_ns = process.init_ns.value_or(process.start_ns);
    windows.push_back(
        {0, begin_ns, std::max(begin_ns, process.finalize_ns.value_or(process.end_ns)), whole.integer(0) != 0});
  }
  return windows;
}

/// The gaps between the calls of the threads that open steps.
class ComputeTracks {
 public:
  ComputeTracks(PerfettoTracks& tracks, const TraceProcess& process) : tracks_(tracks), process_(process) {}

  void write() {
    const std::vector<CallWindow> windows = windows_of(tracks_, process_);
    std::set<int64_t> threads;
    for (const CallWindow& w : windows) threads.insert(w.thread);
    for (const int64_t thread : threads) {
      Lanes lanes(tracks_.packets, tracks_.process_tracks.at(process_.id),
                  "compute, " + tracks_.thread_name(process_.id, thread),
                  PerfettoTracks::order(TrackGroup::kCompute, thread));
      Query call(
          tracks_.db,
          "SELECT start_ns, duration_ns FROM event WHERE process = ? AND thread = ? AND kind = 1 ORDER BY start_ns");
      call.bind(process_.id, thread);
      bool more = call.next();
      int64_t done_ns = INT64_MIN;  // no call before it is of interest any more
      for (const CallWindow& w : windows) {
        if (w.thread != thread) continue;
        if (!w.kept) {
          lanes.add(w.begin_ns, w.end_ns, {.category = "missing", .name = "events not kept"});
          continue;
        }
        int64_t now_ns = std::max(w.begin_ns, std::min(done_ns, w.end_ns));
        for (; more && call.integer(0) < w.end_ns; more = call.next()) {
          compute(lanes, now_ns, call.integer(0));
          done_ns = std::max(done_ns, call.integer(0) + call.integer(1));
          now_ns = std::max(now_ns, std::min(done_ns, w.end_ns));
        }
        compute(lanes, now_ns, w.end_ns);
      }
    }
  }

 private:
  static void compute(Lanes& lanes, int64_t begin_ns, int64_t end_ns) {
    if (end_ns > begin_ns) lanes.add(begin_ns, end_ns, {.category = "compute", .name = "compute"});
  }

  PerfettoTracks& tracks_;
  const TraceProcess& process_;
};

/// Waiting comes first in a call, whichever way it was found.
std::vector<SlicePart> parts_of(const Query& row, int64_t start_ns, int64_t end_ns, int wait, int xfer, int method,
                                int message_wait) {
  std::vector<SlicePart> parts;
  if (!row.is_null(wait) && !row.is_null(xfer)) {
    const int64_t turn_ns = start_ns + row.integer(wait);
    if (turn_ns > start_ns) parts.push_back({"wait", "wait", start_ns, turn_ns});
    if (end_ns > turn_ns)
      parts.push_back(
          {"transfer", row.text(method) == "max-post" ? "transfer (upper bound)" : "transfer", turn_ns, end_ns});
  } else if (row.integer(message_wait) > 0) {
    parts.push_back(
        {"message_wait", "wait for the other end", start_ns, std::min(end_ns, start_ns + row.integer(message_wait))});
  }
  return parts;
}

void collect_message_waits(SQLite::Database& db) {
  db.exec(R"(
    DROP TABLE IF EXISTS temp.trace_message_wait;
    CREATE TEMP TABLE trace_message_wait (event INTEGER PRIMARY KEY, wait_ns INTEGER);
    INSERT INTO trace_message_wait
    SELECT call, max(wait_ns)
    FROM (SELECT receive_call AS call, late_sender_wait_ns AS wait_ns FROM message
          UNION ALL SELECT send_call, late_receiver_wait_ns FROM message)
    WHERE call IS NOT NULL AND wait_ns > 0
    GROUP BY call)");
}

/// For whom the others waited, where the waiting was told by who came last: also a rank that is not exported.
void collect_last_ranks(SQLite::Database& db) {
  // Without their types SQLite would compare the columns of the key with those of `event` row by row.
  db.exec(R"(
    DROP TABLE IF EXISTS temp.trace_last;
    CREATE TEMP TABLE trace_last (
      seq INTEGER, comm INTEGER, kind INTEGER, rank INTEGER, start_ns INTEGER, PRIMARY KEY (seq, comm, kind)) WITHOUT ROWID;
    INSERT INTO trace_last
    SELECT e.seq, e.comm, e.kind, p.rank, max(e.start_ns)
    FROM collective k JOIN event e ON e.id = k.event JOIN process p ON p.id = e.process
    WHERE k.wait_method IN ('max-start', 'max-post') AND e.seq IS NOT NULL
      AND ((SELECT max(first_step) FROM temp.trace_process) IS NULL OR e.step IS NULL
           OR e.step BETWEEN (SELECT max(first_step) FROM temp.trace_process) AND (SELECT max(last_step) FROM temp.trace_process))
    GROUP BY e.seq, e.comm, e.kind)");
}

}  // namespace

void write_compute(PerfettoTracks& tracks) {
  // For jobs on GPUs the kernels are the computing; what their threads do between calls is not. Nor is it where
  // background threads make the calls, or where a trace tells what computes.
  Query hidden(tracks.db,
               "SELECT EXISTS (SELECT 1 FROM gpu_event WHERE process = ?1 AND kind = 1) OR"
               " EXISTS (SELECT 1 FROM background_process WHERE process = ?1) OR"
               " EXISTS (SELECT 1 FROM process_fact WHERE process = ?1 AND key = 'computes')");
  for (const TraceProcess& process : tracks.processes)
    if (hidden.bind(process.id); hidden.next() && hidden.integer(0) == 0) ComputeTracks(tracks, process).write();
}

void write_calls(PerfettoTracks& tracks) {
  collect_message_waits(tracks.db);
  collect_last_ranks(tracks.db);
  Query row(tracks.db, fmt::format(R"(
    SELECT t.process, e.thread, e.kind, o.name, e.start_ns, e.duration_ns, k.wait_ns, k.xfer_ns, k.wait_method, w.wait_ns,
           k.event IS NOT NULL, e.comm, e.seq, c.size,
           c.label, e.bytes, e.step, r.layer, r.phase, e.peer, e.tag, k.bytes, k.why,
           n.algorithm, n.protocol, n.channels, n.source, n.fused, k.wait_method, l.rank
    FROM temp.trace_process t CROSS JOIN event e ON e.process = t.process
         JOIN op o ON o.id = e.op
         JOIN region r ON r.id = e.region
         LEFT JOIN communicator c ON c.id = e.comm
         LEFT JOIN collective k ON k.event = e.id
         LEFT JOIN nccl_collective n ON n.event = e.id
         LEFT JOIN temp.trace_message_wait w ON w.event = e.id
         LEFT JOIN temp.trace_last l ON l.seq = e.seq AND l.comm = e.comm AND l.kind = e.kind AND k.wait_ns > 0
    WHERE {}
    ORDER BY t.process, e.start_ns, e.duration_ns DESC, e.id)",
                                   in_window("e")));
  enum CallColumn { kWait = 6, kXfer, kMethod, kMessageWait, kIsCollective, kComm, kSeq, kCommSize, kFirstArgument };
  constexpr ArgumentColumn kArguments[] = {{"comm", true},
                                           {"bytes"},
                                           {"step"},
                                           {"layer", true},
                                           {"phase", true},
                                           {"peer"},
                                           {"tag"},
                                           {"collective_bytes"},
                                           {"why", true},
                                           {"algorithm", true},
                                           {"protocol", true},
                                           {"channels"},
                                           {"source", true},
                                           {"fused"},
                                           {"wait_method", true},
                                           {"last_rank"}};
  std::map<std::pair<TrackGroup, int64_t>, Lanes> lanes;  // of one process
  for (int64_t process = 0; row.next(); tracks.rows_done(1)) {
    if (row.integer(0) != process) lanes.clear();
    process = row.integer(0);
    const int64_t kind = row.integer(2);
    const TrackGroup group = kind == kRequest        ? TrackGroup::kRequests
                             : kind == kNcclOnDevice ? TrackGroup::kNccl
                                                     : TrackGroup::kCalls;
    const int64_t thread = group == TrackGroup::kCalls ? row.integer(1) : 0;
    auto found = lanes.find({group, thread});
    if (found == lanes.end()) {
      const std::string name = group == TrackGroup::kCalls ? "communication, " + tracks.thread_name(process, thread)
                               : group == TrackGroup::kRequests ? "communication in flight"
                                                                : "communication on GPUs";
      found = lanes
                  .try_emplace({group, thread}, tracks.packets, tracks.process_tracks.at(process), name,
                               PerfettoTracks::order(group, thread))
                  .first;
    }
    TraceEvent event{.category = kind == kMpiCall || kind == kRequest ? "mpi" : "nccl"};
    const std::string name = row.text(3);
    event.name = name;
    for (int i = 0; const ArgumentColumn& argument : kArguments)
      add_argument(event.arguments, argument, row, kFirstArgument + i++);
    if (!row.is_null(kSeq)) {
      event.arguments.push_back({"seq", row.integer(kSeq)});
      if (row.integer(kIsCollective) != 0 && row.integer(kCommSize) > 1)
        event.flow = flow_of(row.integer(kComm), row.integer(kSeq));
    }
    const int64_t start_ns = row.integer(4), end_ns = start_ns + row.integer(5);
    const std::vector<SlicePart> parts = parts_of(row, start_ns, end_ns, kWait, kXfer, kMethod, kMessageWait);
    for (const SlicePart& part : parts)
      if (part.category == "wait" || part.category == "transfer")
        event.arguments.push_back({part.category == "wait" ? "wait_ns" : "xfer_ns", part.end_ns - part.begin_ns});
    found->second.add(start_ns, end_ns, event, parts);
  }
}

}  // namespace ddl::reports
