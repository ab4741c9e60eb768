#include "store/ingest/device.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "store/ingest/stream_waits.h"

namespace ddl::store {

namespace {

struct Launch {
  uint64_t start_ticks;
  uint64_t duration_ticks;
  uint32_t thread;
  uint32_t context;
  uint32_t comm;
  uint32_t sequence;
};

using Launches = std::unordered_map<uint32_t, Launch>;

/// Among two calls with one correlation id (a runtime function and the driver function in it) the outer counts.
Launches read_launches(RecordStream& stream) {
  Launches launches;
  stream.rewind(1u << static_cast<uint32_t>(RecordKind::kLaunch));
  while (const Record* r = stream.next()) {
    const Launch launch = {r->start_ticks, record_duration_ticks(r->word), stream.thread(), r->context, r->comm,
                           r->sequence};
    Launch& known = launches.try_emplace(static_cast<uint32_t>(r->payload), launch).first->second;
    if (launch.duration_ticks > known.duration_ticks) known = launch;
  }
  return launches;
}

/// The meta entries that only devices need.
class DeviceMetas : public MetaVisitor {
 public:
  std::vector<DeviceClockMeta> clocks;
  std::unordered_map<uint64_t, GraphNodeMeta> nodes;

  /// What was captured: copies of copies lead back to it. NULL: nobody saw it.
  const GraphNodeMeta* captured(uint64_t node) const {
    for (size_t steps = 0; steps <= nodes.size(); ++steps) {  // a damaged spool may lead in circles
      const auto found = nodes.find(node);
      if (found == nodes.end()) return nullptr;
      if (found->second.original == 0) return &found->second;
      node = found->second.original;
    }
    return nullptr;
  }

 private:
  void on_device_clock(const DeviceClockMeta& meta) override { clocks.push_back(meta); }
  void on_graph_node(const GraphNodeMeta& meta) override { nodes[meta.node] = meta; }
};

constexpr const char* kCopies[] = {"?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
constexpr const char* kMemories[] = {nullptr, "pageable", "pinned", "device", "array", "managed", "device", "managed"};
constexpr const char* kSynchronizations[] = {"unknown", "event", "stream wait for event", "stream", "context"};

template <size_t N>
const char* name_in(const char* const (&names)[N], uint32_t code) {
  return names[code < N ? code : 0];
}

std::string overhead_name(uint32_t sub) {
  switch (sub) {
    case 0:
      return "[CUPTI overhead: compiling]";
    case 1:
      return "[CUPTI overhead: buffer flush]";
    case 2:
      return "[CUPTI overhead: instrumentation]";
    case 3:
      return "[CUPTI overhead: resources]";
    case 5:
      return "[CUPTI overhead: lazy loading of functions]";
    default:
      return "[CUPTI overhead]";
  }
}

std::string name_of(const DeviceRecord& r, const ProcessTables& tables) {
  const uint32_t sub = device_sub(r.what);
  switch (device_kind(r.what)) {
    case DeviceKind::kMemcpy:
      return std::string("[CUDA memcpy ") + name_in(kCopies, sub) + "]";
    case DeviceKind::kMemset:
      return "[CUDA memset]";
    case DeviceKind::kSynchronize:
      return std::string("[CUDA synchronisation: ") + name_in(kSynchronizations, sub) + "]";
    case DeviceKind::kOverhead:
      return overhead_name(sub);
    case DeviceKind::kGraph:
      return "[CUDA graph launch]";
    default: {
      const std::string& name = tables.string(r.name);
      return name.empty() ? "?" : name;
    }
  }
}

bool is_on_device(DeviceKind kind) { return kind != DeviceKind::kSynchronize && kind != DeviceKind::kOverhead; }
bool has_bytes(DeviceKind kind) { return kind == DeviceKind::kMemcpy || kind == DeviceKind::kMemset; }

template <class T>
std::optional<T> when(bool condition, T value) {
  return condition ? std::optional<T>(value) : std::nullopt;
}

}  // namespace

DeviceClock::DeviceClock(std::vector<DeviceClockMeta> pairs) : pairs_(std::move(pairs)) {
  std::sort(pairs_.begin(), pairs_.end(), [](const auto& a, const auto& b) { return a.device_ns < b.device_ns; });
  // A clock that was set back runs through some moments twice; of those pairs the first counts.
  const auto repeats = [](const auto& a, const auto& b) { return b.device_ns <= a.device_ns || b.ticks <= a.ticks; };
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end(), repeats), pairs_.end());
}

uint64_t DeviceClock::ticks(uint64_t device_ns, const ProcessClock& clock) const {
  auto after = std::upper_bound(pairs_.begin(), pairs_.end(), device_ns,
                                [](uint64_t ns, const auto& pair) { return ns < pair.device_ns; });
  const DeviceClockMeta& near = after == pairs_.begin() ? *after : *(after - 1);
  double ticks_per_ns = 1 / clock.line.ns_per_tick;
  if (after != pairs_.begin() && after != pairs_.end())
    ticks_per_ns =
        static_cast<double>(after->ticks - near.ticks) / static_cast<double>(after->device_ns - near.device_ns);
  const double ns = static_cast<double>(static_cast<int64_t>(device_ns - near.device_ns));
  const double ticks = std::clamp(ns * ticks_per_ns, -9e18, 9e18);
  return near.ticks + static_cast<uint64_t>(std::llround(ticks));
}

uint64_t load_device(Statements& db, RunTables& run, const SpoolReader& reader, RecordStream& stream,
                     const Timeline& timeline, ProcessTables& tables, std::vector<Skip>& skips) {
  const std::vector<SpoolChunk> chunks = reader.chunks(ChunkKind::kDevice);
  if (chunks.empty()) return 0;
  const Launches launches = read_launches(stream);
  DeviceMetas metas;
  reader.read_meta(metas);
  const DeviceClock device_clock(metas.clocks);
  const ProcessClock& clock = tables.clock();
  const auto id_or_null = [](uint32_t id) { return when(id != 0, id); };
  const auto text_or_null = [](const char* text) { return when(text != nullptr, std::string(text ? text : "")); };

  Insert insert(
      db, "INSERT INTO gpu_event VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_phase(db, "INSERT INTO nccl_phase VALUES (last_insert_rowid(), ?, ?)");
  std::unordered_map<uint32_t, uint32_t> kernel_names;  // string id to gpu_name.id
  std::vector<DeviceRecord> records;
  StreamWaits waits;
  uint64_t newest_ticks = 0, without_launch = 0, without_clock = 0;
  for (const SpoolChunk& chunk : chunks) {
    reader.read_device(chunk, records, &skips);
    for (DeviceRecord& r : records) {
      const DeviceKind kind = device_kind(r.what);
      if (waits.add(r)) continue;
      const uint64_t device_ns = r.end - r.start;
      if (device_flags(r.what) & kDeviceTime) {
        if (!device_clock.known()) {
          ++without_clock;
          continue;
        }
        r.start = device_clock.ticks(r.start, clock);
        r.end = std::max(r.start, device_clock.ticks(r.end, clock));
      }
      const bool phases = kind == DeviceKind::kCollective && (device_flags(r.what) & kDevicePhases) != 0;
      const uint64_t initial_sync_ns = r.bytes, final_sync_ns = r.graph_node;
      if (phases) r.graph_node = 0;
      const bool on_device = is_on_device(kind);
      const auto found = launches.find(r.correlation);
      const Launch* launch = found != launches.end() && r.correlation != 0 ? &found->second : nullptr;
      uint32_t context = r.context, comm = r.comm, sequence = r.sequence;
      if (context == kContextOfLaunch) {
        // What is replayed belongs where it was captured, not where the replay was started.
        if (const GraphNodeMeta* node = on_device && r.graph_node != 0 ? metas.captured(r.graph_node) : nullptr) {
          context = node->context;
          comm = node->comm;
          sequence = node->sequence;
        } else if (launch) {
          context = launch->context;
          comm = launch->comm;
          sequence = launch->sequence;
        } else {
          context = 0;
          without_launch += kind != DeviceKind::kOverhead;
        }
      }
      uint32_t name;
      if (kind == DeviceKind::kKernel || kind == DeviceKind::kCollective) {
        uint32_t& known = kernel_names[r.name];
        if (known == 0) known = run.gpu_names.id(GpuNames::readable(name_of(r, tables)));
        name = known;
      } else {
        name = run.gpu_names.id(name_of(r, tables));
      }
      const uint32_t comm_id = tables.comm(comm);
      const uint64_t moment = launch ? launch->start_ticks : r.start;
      const auto step = timeline.step_index.at(moment);
      const bool copy = kind == DeviceKind::kMemcpy;
      insert.row(
          tables.process(), static_cast<uint32_t>(kind), name, when(on_device, r.device),
          when(on_device, r.cuda_context), when(kind != DeviceKind::kOverhead && r.stream != UINT32_MAX, r.stream),
          tables.context(context).region, step ? std::optional(static_cast<int64_t>(*step)) : std::nullopt,
          launch ? std::optional(launch->thread) : std::nullopt, clock.time_ns(r.start),
          // NCCL's timers tell lengths exactly, and their place only as well as its proxy thread was quick.
          kind == DeviceKind::kCollective ? static_cast<int64_t>(device_ns)
                                          : clock.duration_ns(r.start, r.end - r.start),
          when(has_bytes(kind), r.bytes), copy ? text_or_null(name_in(kCopies, device_sub(r.what))) : std::nullopt,
          copy ? text_or_null(name_in(kMemories, device_source(r.what))) : std::nullopt,
          has_bytes(kind) ? text_or_null(name_in(kMemories, device_destination(r.what))) : std::nullopt,
          when(copy && device_sub(r.what) == static_cast<uint32_t>(DeviceCopy::kPtoP), r.name), r.correlation,
          when(on_device && r.graph_node != 0, r.graph_node), id_or_null(comm_id),
          when(comm_id != 0 && sequence != 0, sequence),
          launch ? std::optional(clock.time_ns(launch->start_ticks)) : std::nullopt,
          launch ? std::optional(clock.duration_ns(launch->start_ticks, launch->duration_ticks)) : std::nullopt,
          comm_id != 0 ? tables.comm_rank(comm) : std::nullopt);
      if (phases) insert_phase.row(initial_sync_ns, std::min(final_sync_ns, device_ns));
      newest_ticks = std::max(newest_ticks, r.end);
    }
  }
  waits.write(db, tables.process());
  const Place& place = tables.place();
  run.losses.add(
      place, "gpu_launches", without_launch,
      "GPU activities whose launching call was not recorded: they are outside every layer, and their step is that of their begin");
  run.losses.add(place, "gpu_clock", without_clock,
                 "GPU activities that cannot be placed in time: nothing ties their clock to the run's");
  return newest_ticks;
}

}  // namespace ddl::store
