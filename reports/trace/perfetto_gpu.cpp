// What GPUs did: a track per device and stream for kernels, another one for copies.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "reports/trace/lanes.h"
#include "reports/trace/perfetto_tracks.h"

namespace ddl::reports {
namespace {

struct ActivityKind {
  int64_t kind;  ///< gpu_event.kind
  const char* category;
  const char* track;  ///< behind the name of the stream
  int order;
};
constexpr ActivityKind kActivities[] = {{1, "kernel", "", 0},
                                        {2, "memcpy", " copies", 1},
                                        {3, "memset", " copies", 1},
                                        {4, "sync", " synchronisation", 3},
                                        {5, "overhead", " overhead of tracing", 4},
                                        {6, "graph", " graphs", 2},
                                        {7, "nccl_timer", " collectives as NCCL timed them", 5}};
constexpr int kOrders = 6;

const ActivityKind& activity(int64_t kind) {
  for (const ActivityKind& known : kActivities)
    if (known.kind == kind) return known;
  return kActivities[4];
}

std::string stream_name(const Query& row, int device, int stream) {
  std::string name = row.is_null(device) ? "GPU" : fmt::format("GPU {}", row.integer(device));
  if (!row.is_null(stream)) name += fmt::format(" stream {}", row.integer(stream));
  return name;
}

}  // namespace

void write_gpu(PerfettoTracks& tracks) {
  Query row(tracks.db, R"(
    SELECT t.process, g.kind, n.name, iif(g.kind = 1 AND (g.comm IS NOT NULL OR n.class = 'communication'), 1, 0), g.device, g.stream,
           g.start_ns, g.duration_ns, g.step, r.layer, r.phase, g.bytes, g.copy, g.source, g.destination, g.peer_device, g.correlation,
           g.graph_node, c.label, g.seq, g.launch_ns
    FROM temp.trace_process t CROSS JOIN gpu_event g ON g.process = t.process
         JOIN gpu_name n ON n.id = g.name
         JOIN region r ON r.id = g.region
         LEFT JOIN communicator c ON c.id = g.comm
    WHERE )" + in_window("g") +
                           " ORDER BY t.process, g.start_ns, g.duration_ns DESC, g.id");
  enum GpuColumn { kKind = 1, kName, kIsCommunication, kDevice, kStream, kStart, kDuration, kFirstArgument };
  constexpr ArgumentColumn kArguments[] = {{"step"},        {"layer", true},  {"phase", true},       {"bytes"},
                                           {"copy", true},  {"source", true}, {"destination", true}, {"peer_device"},
                                           {"correlation"}, {"graph_node"},   {"comm", true},        {"seq"},
                                           {"launch_ns"}};
  std::map<std::tuple<int64_t, int64_t, int>, Lanes> lanes;  // of one process; -1: of no device, or no stream
  for (int64_t process = 0; row.next(); tracks.rows_done(1)) {
    if (row.integer(0) != process) lanes.clear();
    process = row.integer(0);
    const ActivityKind& a = activity(row.integer(kKind));
    const int64_t device = row.maybe_integer(kDevice).value_or(-1), stream = row.maybe_integer(kStream).value_or(-1);
    const std::tuple key(device, stream, a.order);
    auto found = lanes.find(key);
    if (found == lanes.end()) {
      const int order = PerfettoTracks::order(TrackGroup::kGpu, ((device + 1) * 64 + (stream + 1)) * kOrders + a.order);
      found = lanes
                  .try_emplace(key, tracks.packets, tracks.process_tracks.at(process),
                               stream_name(row, kDevice, kStream) + a.track, order)
                  .first;
    }
    TraceEvent event{.category = row.integer(kIsCommunication) != 0 ? "communication_kernel" : a.category};
    const std::string name = row.text(kName);
    event.name = name;
    for (int i = 0; const ArgumentColumn& argument : kArguments)
      add_argument(event.arguments, argument, row, kFirstArgument + i++);
    found->second.add(row.integer(kStart), row.integer(kStart) + row.integer(kDuration), event);
  }
}

}  // namespace ddl::reports
