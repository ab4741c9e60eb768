// What a reader of Kineto's traces expects (store/import/kineto.cpp says what ours reads):
//
//   distributedInfo   rank, world_size, and the process groups: one for each communicator, under its number
//   ProfilerStep#N    steps; phases are user annotations, layers modules of Python, operators cpu_op
//   cuda_runtime      the launching calls; the store knows when, not which function it was: the usual one for the kind
//                     of activity is named
//   kernel, gpu_*     pid is the device, tid the stream; "correlation" leads to the launch. Kernels of NCCL say what
//                     collective they carry
//   out
//
// Kineto has nothing for calls of MPI: they are of category "mpi", requests in flight of "mpi_request", with the field
// names of its collectives, which other programs pass over.
#include "reports/trace/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/query.h"
#include "core/number.h"
#include "core/range_names.h"
#include "reports/trace/json_text.h"
#include "store/import/kernel_names.h"

namespace ddl::reports {
namespace {

constexpr size_t kKinetoBufferBytes = 1 << 16;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kMostListed = 64;  // members of a group beside each of its kernels; distributedInfo lists all

/// Events of one file.
class KinetoFile {
 public:
  KinetoFile(SQLite::Database& db, const TraceProcess& process, int64_t rank, const Sink& sink)
      : db_(db), process_(process), rank_(rank), sink_(sink) {}

  void write(int64_t epoch_ns, int64_t world_size) {
    number_threads();
    write_head(epoch_ns, world_size);
    write_names();
    write_steps();
    write_ranges();
    write_calls();
    write_launches();
    write_gpu();
    buffer_ += "\n]}\n";
    sink_(buffer_);
  }

 private:
  // Two threads never share a number, and the process does not share one with a device.
  void number_threads() {
    constexpr int64_t kSmallest = 1024, kOurs = 1'000'000'000;
    pid_ = process_.pid >= kSmallest ? process_.pid : kOurs + rank_;
    std::set<int64_t> used;
    Query row(db_, "SELECT thread, tid, name FROM thread WHERE process = ? ORDER BY thread");
    row.bind(process_.id);
    while (row.next()) {
      int64_t tid = row.integer(1);
      if (tid <= 0 || !used.insert(tid).second) tid = kOurs + row.integer(0);
      threads_[row.integer(0)] = {tid, row.text(2)};
    }
  }

  void write_head(int64_t epoch_ns, int64_t world_size) {
    std::string devices;
    Query gpu(db_, "SELECT device, name FROM gpu WHERE process = ? ORDER BY device");
    gpu.bind(process_.id);
    while (gpu.next()) {
      JsonObject device;
      device.integer("id", gpu.integer(0));
      if (!gpu.is_null(1)) device.text("name", gpu.text(1));
      devices += (devices.empty() ? "" : ", ") + device.str();
    }
    JsonObject head;
    head.integer("schemaVersion", 1).raw("deviceProperties", "[" + devices + "]");
    head.raw("distributedInfo", distributed_info(world_size)).text("displayTimeUnit", "ms");
    if (epoch_ns != 0) head.integer("baseTimeNanoseconds", epoch_ns);
    buffer_ = head.str();
    buffer_.pop_back();
    buffer_ += ", \"traceEvents\": [";
  }

  std::string distributed_info(int64_t world_size) {
    std::string groups;
    int64_t count = 0;
    bool nccl = false;
    Query group(
        db_,
        "SELECT c.id, c.label, c.size, c.kind = 'nccl' FROM communicator c WHERE c.kind IN ('world', 'intra', 'nccl') AND EXISTS"
        " (SELECT 1 FROM communicator_member m WHERE m.communicator = c.id AND m.rank = ?1) AND c.world = (SELECT world FROM process"
        " WHERE id = ?2) ORDER BY c.id");
    group.bind(rank_, process_.id);
    for (; group.next(); ++count) {
      const bool of_nccl = group.integer(3) != 0;
      nccl = nccl || of_nccl;
      JsonObject config;
      config.text("pg_name", group.text(0))
          .text("pg_desc", group.text(1))
          .text("backend_config", of_nccl ? "cuda:nccl" : "cpu:mpi");
      config.integer("pg_size", group.integer(2)).raw("ranks", "[" + ranks_of(group.integer(0)) + "]");
      groups += (groups.empty() ? "" : ", ") + config.str();
    }
    JsonObject info;
    info.text("backend", nccl ? "nccl" : "mpi").integer("rank", rank_).integer("world_size", world_size);
    info.integer("pg_count", count).raw("pg_config", "[" + groups + "]");
    Query version(db_, "SELECT value FROM process_fact WHERE process = ? AND key = 'nccl'");
    version.bind(process_.id);
    if (version.next()) info.text("nccl_version", version.text(0));
    return info.str();
  }

  void write_names() {
    const auto metadata = [&](const char* what, int64_t tid, std::string_view name) {
      JsonObject event, args;
      event.text("ph", "M").text("name", what).integer("pid", pid_).integer("tid", tid);
      add(event.raw("args", args.text("name", name).str()));
    };
    metadata("process_name", 0, fmt::format("rank {} on {}", rank_, process_.host));
    for (const auto& [number, thread] : threads_)
      if (!thread.name.empty()) metadata("thread_name", thread.tid, thread.name);
  }

  void write_steps() {
    Query row(
        db_,
        "SELECT s.thread, s.step, s.start_ns, s.duration_ns FROM temp.trace_process t CROSS JOIN step s ON s.process = t.process WHERE"
        " t.process = ? AND s.duration_ns IS NOT NULL AND (t.first_step IS NULL OR (s.measured AND s.step BETWEEN t.first_step AND t.last_step))"
        " ORDER BY s.start_ns");
    row.bind(process_.id);
    while (row.next())
      on_thread("user_annotation", fmt::format("ProfilerStep#{}", row.integer(1)), row.integer(0), row.integer(2),
                row.integer(3), {});
  }

  void write_ranges() {
    Query row(
        db_,
        "SELECT thread, kind, name, start_ns, duration_ns, seq FROM temp.trace_range WHERE process = ? ORDER BY start_ns, "
        "duration_ns DESC, id DESC");
    row.bind(process_.id);
    while (row.next()) {
      const std::string kind = row.text(1);
      std::string name = row.text(2);
      const char* category = "cpu_op";
      JsonObject args;
      if (kind == "layer") {
        category = "python_function";
        name = "nn.Module: " + name;
      } else if (kind == "phase") {
        category = "user_annotation";
        // Names that everybody takes for a phase, or one that says so.
        const RangeName read = parse_range_name(name.data(), name.size(), nullptr);
        if (static_cast<ContextKind>(read.kind) != ContextKind::kPhase ||
            std::string_view(read.text, read.length) != name)
          name = "phase:" + name;
      } else if (!row.is_null(5)) {
        args.integer("Sequence number", row.integer(5));
      }
      on_thread(category, name, row.integer(0), row.integer(3), row.integer(4), args);
    }
  }

  void write_calls() {
    Query row(
        db_,
        "SELECT e.thread, e.kind, o.name, e.start_ns, e.duration_ns, e.bytes, e.seq, e.peer, e.tag, c.id, c.label, c.size, k.wait_ns,"
        " k.xfer_ns FROM temp.trace_process t CROSS JOIN event e ON e.process = t.process JOIN op o ON o.id = e.op LEFT JOIN communicator c"
        " ON c.id = e.comm LEFT JOIN collective k ON k.event = e.id WHERE t.process = ? AND e.kind IN (1, 2) AND " +
            in_window("e") + " ORDER BY e.start_ns, e.duration_ns DESC");
    constexpr const char* kNumbers[] = {"bytes", "seq", "peer", "tag"};
    row.bind(process_.id);
    while (row.next()) {
      JsonObject args;
      for (int i = 0; const char* name : kNumbers) {
        const int column = 5 + i++;
        if (!row.is_null(column)) args.integer(name, row.integer(column));
      }
      if (!row.is_null(9))
        args.text("Process Group Name", row.text(9))
            .text("Process Group Description", row.text(10))
            .integer("Group size", row.integer(11));
      if (!row.is_null(12)) args.integer("wait_ns", row.integer(12)).integer("xfer_ns", row.integer(13));
      on_thread(row.integer(1) == 1 ? "mpi" : "mpi_request", row.text(2), row.integer(0), row.integer(3),
                row.integer(4), args);
    }
  }

  void write_launches() {
    Query row(
        db_,
        "SELECT g.thread, g.correlation, g.launch_ns, g.launch_duration_ns, min(g.kind), max(g.graph_node IS NOT NULL), min(g.stream "
        "IS NULL) FROM"
        " temp.trace_process t CROSS JOIN gpu_event g ON g.process = t.process WHERE t.process = ? AND g.launch_ns IS NOT NULL AND"
        " g.correlation <> 0 AND g.kind <= 4 AND " +
            in_window("g") + " GROUP BY g.correlation, g.launch_ns ORDER BY g.launch_ns");
    row.bind(process_.id);
    while (row.next()) {
      const bool graph = row.integer(5) != 0;
      const char* name = graph ? "cudaGraphLaunch" : "cudaLaunchKernel";
      if (row.integer(4) == 2) name = "cudaMemcpyAsync";
      if (row.integer(4) == 3) name = "cudaMemsetAsync";
      if (row.integer(4) == 4) name = row.integer(6) != 0 ? "cudaDeviceSynchronize" : "cudaStreamSynchronize";
      JsonObject args;
      args.integer("correlation", row.integer(1));
      const int64_t thread = row.maybe_integer(0).value_or(0), start_ns = row.integer(2);
      on_thread("cuda_runtime", name, thread, start_ns, row.maybe_integer(3).value_or(0), args);
      if (row.integer(4) != 4) arrow("s", row.integer(1), pid_, tid_of(thread), start_ns);
    }
  }

  void write_gpu() {
    // For a kernel that carried out several collectives at once Kineto cannot say which: it stays a kernel.
    Query row(
        db_,
        "SELECT g.kind, n.name, g.start_ns, g.duration_ns, g.device, g.context, g.stream, g.correlation, g.graph_node, g.bytes, g.copy,"
        " g.source, g.destination, g.launch_ns IS NOT NULL, o.name, c.id, c.label, c.size, e.bytes, e.datatype, k.wait_ns, k.xfer_ns,"
        " w.on_context, w.on_stream, w.on_correlation, w.context FROM "
        "temp.trace_process t"
        " CROSS JOIN gpu_event g ON g.process = t.process JOIN gpu_name n ON n.id = g.name LEFT JOIN event e ON g.kind = 1 AND g.comm IS "
        "NOT NULL AND"
        " e.process = g.process AND e.start_ns = g.start_ns AND e.kind = 4 AND e.comm = g.comm AND EXISTS (SELECT 1 FROM nccl_collective x"
        " WHERE x.event = e.id AND x.source = 'kernel' AND x.fused = 1 AND x.comm_rank IS g.comm_rank) LEFT JOIN op o ON o.id = e.op LEFT "
        "JOIN communicator c ON c.id = "
        "e.comm"
        " LEFT JOIN collective k ON k.event = e.id LEFT JOIN stream_wait w ON g.kind = 4 AND w.process = g.process"
        " AND w.correlation = g.correlation AND w.stream = g.stream WHERE t.process = ? AND g.kind <= 5 AND " +
            in_window("g") + " ORDER BY g.start_ns, g.duration_ns DESC, g.id");
    row.bind(process_.id);
    while (row.next()) {
      JsonObject args;
      constexpr std::pair<const char*, int> kNumbers[] = {{"device", 4},      {"context", 5},       {"stream", 6},
                                                          {"correlation", 7}, {"graph node id", 8}, {"bytes", 9}};
      for (const auto& [name, column] : kNumbers)
        if (!row.is_null(column)) args.integer(name, row.integer(column));
      if (!row.is_null(14)) describe_collective(row, args);
      if (!row.is_null(22)) {
        args.integer("context", row.integer(25));
        if (row.integer(22) != row.integer(25)) args.integer("wait_on_context", row.integer(22));
        args.integer("wait_on_stream", row.integer(23)).integer("wait_on_cuda_event_record_corr_id", row.integer(24));
      }
      const char* category = "kernel";
      std::string name = row.text(1);
      switch (row.integer(0)) {
        case 2:
          category = "gpu_memcpy";
          name = fmt::format("Memcpy {} ({} -> {})", row.text(10), memory(row.text(11)), memory(row.text(12)));
          break;
        case 3:
          category = "gpu_memset";
          name = fmt::format("Memset ({})", memory(row.text(12)));
          break;
        case 4:
          category = "cuda_sync";
          name = without_frame(name, "[CUDA synchronisation: ");
          break;
        case 5:
          category = "overhead";
          name = without_frame(name, "[CUPTI overhead: ");
          break;
        default:
          break;
      }
      const int64_t device = row.maybe_integer(4).value_or(-1), stream = row.maybe_integer(6).value_or(0);
      JsonObject event;
      event.text("ph", "X").text("cat", category).text("name", name).integer("pid", device).integer("tid", stream);
      event.microseconds("ts", row.integer(2)).microseconds("dur", row.integer(3)).raw("args", args.str());
      add(event);
      if (row.integer(13) != 0 && row.integer(7) != 0 && row.integer(0) < 4)
        arrow("f", row.integer(7), device, stream, row.integer(2));
    }
  }

  void describe_collective(const Query& row, JsonObject& args) {
    const store::TorchCollective* collective = store::find_torch_collective_of(row.text(14));
    if (collective == nullptr) return;
    // a group of nobody knows whom: in the format only a name of NCCL's tells such a kernel
    if (row.is_null(17)) return;
    store::TorchTypeName type = store::find_torch_type_of(static_cast<uint32_t>(row.integer(19)));
    const int64_t bytes = row.integer(18), size = std::max<int64_t>(1, row.integer(17));
    if (type.bytes == 0 || bytes % type.bytes != 0) type = {"Byte", 1};
    const int64_t sent = bytes / type.bytes;
    const int64_t received = collective->op == "ncclAllGather"       ? sent * size
                             : collective->op == "ncclReduceScatter" ? sent / size
                                                                     : sent;
    args.text("Collective name", collective->name);
    if (!row.is_null(18))
      args.integer("In msg nelems", sent).integer("Out msg nelems", received).text("dtype", type.name);
    args.text("Process Group Name", row.text(15))
        .text("Process Group Description", row.text(16))
        .integer("Group size", size);
    if (const std::string& ranks = ranks_of(row.integer(15)); size <= kMostListed && !ranks.empty())
      args.text("Process Group Ranks", "[" + ranks + "]");
    if (!row.is_null(20)) args.integer("wait_ns", row.integer(20)).integer("xfer_ns", row.integer(21));
  }

  /// "0, 1, 2"; empty: not known.
  const std::string& ranks_of(int64_t communicator) {
    const auto [known, is_new] = ranks_.try_emplace(communicator);
    if (is_new) {
      Query member(db_, "SELECT rank FROM communicator_member WHERE communicator = ? ORDER BY comm_rank");
      member.bind(communicator);
      while (member.next()) known->second += fmt::format("{}{}", known->second.empty() ? "" : ", ", member.integer(0));
    }
    return known->second;
  }

  static std::string memory(std::string name) {
    if (name.empty()) return "Unknown";
    if (name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return name;
  }

  static std::string without_frame(const std::string& name, std::string_view frame) {
    return name.starts_with(frame) && name.ends_with(']') ? name.substr(frame.size(), name.size() - frame.size() - 1)
                                                          : name;
  }

  int64_t tid_of(int64_t thread) const {
    const auto known = threads_.find(thread);
    return known != threads_.end() ? known->second.tid : thread;
  }

  void on_thread(std::string_view category, std::string_view name, int64_t thread, int64_t start_ns,
                 int64_t duration_ns, const JsonObject& args) {
    JsonObject event;
    event.text("ph", "X").text("cat", category).text("name", name).integer("pid", pid_).integer("tid", tid_of(thread));
    event.microseconds("ts", start_ns).microseconds("dur", duration_ns);
    if (!args.empty()) event.raw("args", args.str());
    add(event);
  }

  /// From a launch to what it launched.
  void arrow(const char* end, int64_t correlation, int64_t pid, int64_t tid, int64_t time_ns) {
    JsonObject event;
    event.text("ph", end)
        .integer("id", correlation)
        .integer("pid", pid)
        .integer("tid", tid)
        .microseconds("ts", time_ns);
    event.text("cat", "ac2g").text("name", "ac2g");
    if (*end == 'f') event.text("bp", "e");
    add(event);
  }

  void add(const JsonObject& event) {
    buffer_ += std::exchange(first_, false) ? "\n" : ",\n";
    buffer_ += event.str();
    if (buffer_.size() < kKinetoBufferBytes) return;
    sink_(buffer_);
    buffer_.clear();
  }

  struct Thread {
    int64_t tid;
    std::string name;
  };
  SQLite::Database& db_;
  const TraceProcess& process_;
  int64_t rank_;
  const Sink& sink_;
  int64_t pid_ = 0;
  std::map<int64_t, Thread> threads_;
  std::map<int64_t, std::string> ranks_;  ///< by communicator.id
  std::string buffer_;
  bool first_ = true;
};

}  // namespace

KinetoTraces::KinetoTraces(const RunView& run, const TraceRequest& request)
    : run_(run), processes_(select_processes(run, request)) {
  std::erase_if(processes_, [](const TraceProcess& p) { return p.ended == "exec"; });
  // A program without MPI has no ranks: they are numbered behind those that have one.
  int64_t next = 0;
  for (TraceProcess& p : processes_) {
    if (!p.rank) p.rank = next;
    next = *p.rank + 1;
  }
  epoch_ns_ = number_in<int64_t>(run.meta("epoch_realtime_ns")).value_or(0);
  // Ranges have no index by process, and are read process by process.
  run.db.exec(
      "DROP TABLE IF EXISTS temp.trace_range;"
      "CREATE TEMP TABLE trace_range AS SELECT e.rowid AS id, e.process, e.thread, r.kind, r.name, e.start_ns, e.duration_ns, e.seq FROM "
      "range_event e JOIN"
      " temp.trace_process t ON t.process = e.process JOIN region r ON r.id = e.region WHERE " +
      in_window("e") + "; CREATE INDEX temp.trace_range_process ON trace_range(process, start_ns)");
}

std::string KinetoTraces::file_name(size_t trace) const {
  const TraceProcess& p = processes_[trace];
  std::string host;
  for (const char c : p.host.substr(0, 100)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || (c == '.' && !host.empty());
    host += plain ? c : '_';
  }
  return fmt::format("{}_{}.{}.pt.trace.json", host.empty() ? "host" : host, *p.rank, epoch_ns_ / kNsPerMs);
}

void KinetoTraces::write(size_t trace, const Sink& sink) const {
  const TraceProcess& p = processes_[trace];
  KinetoFile(run_.db, p, *p.rank, sink).write(epoch_ns_, std::max<int64_t>(run_.expected_ranks, *p.rank + 1));
}

}  // namespace ddl::reports
