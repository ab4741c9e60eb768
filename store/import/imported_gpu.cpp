// The part of ImportedRun::finish() that concerns GPUs: what they did finds the call that launched it, and kernels of collectives find each
// other across ranks. Those whose communicator the trace does not tell get one by inferred_communicators.cpp, or are left out.
//
// Traces do not number collectives. The kernels of one communicator run in the order of their launches, which is the same on all its ranks;
// but a profiler may have begun on one rank before a collective and on the other behind it. So they are counted step by step, where all
// ranks begin at the same place: the k-th of a step is the k-th on every rank. What was launched before the first step, and steps in which
// the ranks show different numbers of collectives, stay without a number.
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <set>

#include "store/import/columns.h"
#include "store/import/imported_run.h"
#include "store/import/kernel_names.h"

namespace ddl::store {

namespace {

bool is_numbered(OpClass op_class) {
  return op_class == OpClass::kAllToAll || op_class == OpClass::kRootToAll || op_class == OpClass::kAllToRoot ||
         op_class == OpClass::kBarrier;
}

}  // namespace

void ImportedRun::place_gpu() {
  db_.exec(
      // stream: a number of the process's own for device, context and stream. nccl_range: in which it was launched, if that told what it is.
      // unmatched: 1: in a step in which the ranks of its inferred communicator show different sequences
      "CREATE TEMP TABLE kernel_collective(event INTEGER PRIMARY KEY, process, comm, op, step, bucket, start, duration, thread, region,"
      " payload, datatype, algorithm, protocol, stream, nccl_range, unmatched)");
  Insert insert(db_, "INSERT INTO gpu_event VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, NULL, ?, ?, NULL)");
  Insert insert_collective(
      db_, "INSERT INTO temp.kernel_collective VALUES (last_insert_rowid(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)");
  SQLite::Statement rows(
      db_,
      "SELECT g.process, g.kind, g.name, g.device, g.context, g.stream, g.start, g.duration, g.bytes, g.copy, g.source, g.destination,"
      " g.correlation, g.graph_node, g.op, g.comm, g.payload, g.datatype, g.algorithm, g.protocol, l.thread, l.region, l.step, l.start,"
      " l.duration, g.nccl, l.nccl_range, l.op, l.comm, l.bytes, l.datatype FROM temp.stage_gpu g JOIN temp.stage_process p ON p.stage = g.process"
      " LEFT JOIN temp.launch l ON l.process = g.process AND l.correlation = g.correlation AND g.correlation <> 0"
      " ORDER BY p.id, g.start, g.duration DESC");
  const auto maybe = [&](int column) { return maybe_integer(rows, column); };
  const auto text = [&](int column) { return maybe_text(rows, column); };
  std::vector<OpClass> classes(ops_.size() + 1);
  for (const auto& [name, op] : ops_) classes[static_cast<size_t>(op.id)] = op.op_class;
  std::unordered_map<uint32_t, uint32_t> gpu_names;  // by name
  std::map<int64_t, uint64_t> without_launch;        // by process
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t>, int64_t> streams;
  uint64_t untold = 0, contradicted = 0, messages = 0;
  // By one clock the whole of a run without steps may be matched as if it were one: who does not belong together is seen by how collectives end.
  const bool is_one_step =
      is_one_clock() && std::all_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.steps.empty(); });
  // Two ranks can exchange messages with each other only.
  const bool is_pair = order_.size() == 2 && world_size_ == 2 && is_one_clock();
  std::optional<int64_t> pair;
  while (rows.executeStep()) {
    const auto process = static_cast<size_t>(rows.getColumn(0).getInt64());
    const Process& p = processes_[process];
    const auto kind = static_cast<DeviceKind>(rows.getColumn(1).getInt());
    const uint32_t name = rows.getColumn(2).getUInt();
    uint32_t& gpu_name = gpu_names[name];
    if (gpu_name == 0) gpu_name = gpu_names_.id(kind == DeviceKind::kKernel ? GpuNames::readable(*names_[name]) : *names_[name]);
    const int64_t start_ns = rows.getColumn(6).getInt64(), duration_ns = rows.getColumn(7).getInt64();
    const std::optional<int64_t> launch_ns = maybe(23);
    const std::optional<int64_t> step = launch_ns ? maybe(22) : step_at(process, start_ns);
    const std::optional<int64_t> thread = maybe(20);
    const int64_t region = maybe(21).value_or(0);
    if (!launch_ns && kind != DeviceKind::kOverhead && launches_ > 0) ++without_launch[*p.told.rank];
    std::optional<int64_t> op = maybe(14), comm = communicator_id(maybe(15).value_or(0)), payload = maybe(16), datatype = maybe(17), range;
    const bool is_nccl = rows.getColumn(25).getInt() != 0;
    bool is_contradicted = false;
    if (is_nccl && !comm && maybe(27)) {
      // Names tell less than ranges: an all-to-all is made of messages.
      is_contradicted = op && op != maybe(27);
      range = maybe(26);
      op = maybe(27);
      comm = maybe(28);
      payload = maybe(29);
      datatype = maybe(30);
    }
    if (is_contradicted) comm.reset();
    const bool may_exchange = is_pair && is_nccl && !comm && (!op || classes[static_cast<size_t>(*op)] == OpClass::kDeviceMessage);
    const bool is_exchange = may_exchange && parse_nccl_kernel(*names_[name]).is_exchange;
    if (is_exchange) {
      if (!pair) pair = add_inferred_communicator("pair (inferred)", 2);
      comm = pair;
    }
    insert.row(p.id, static_cast<uint32_t>(kind), gpu_name, maybe(3), maybe(4), maybe(5), region, step, thread, start_ns + p.shift_ns,
               duration_ns, maybe(8), text(9), text(10), text(11), rows.getColumn(12).getInt64(), maybe(13), comm,
               launch_ns ? std::optional(*launch_ns + p.shift_ns) : std::nullopt, maybe(24));
    if (!is_nccl || is_exchange) continue;
    const OpClass op_class = op ? classes[static_cast<size_t>(*op)] : OpClass::kOther;
    if (!comm && (!op || is_contradicted || op_class == OpClass::kDeviceMessage)) {
      ++(!op ? untold : is_contradicted ? contradicted : messages);
      continue;
    }
    // Steps and what lies between them, in their order.
    const int64_t moment_ns = launch_ns.value_or(start_ns);
    const auto after =
        std::upper_bound(p.steps.begin(), p.steps.end(), moment_ns, [](int64_t ns, const Step& s) { return ns < s.start_ns; });
    std::optional<int64_t> bucket;
    if (is_numbered(op_class)) {
      if (after != p.steps.begin()) bucket = (after - 1)->number;
      if (is_one_step) bucket = 0;
    }
    const std::tuple stream(process, maybe(3).value_or(-1), maybe(4).value_or(-1), maybe(5).value_or(-1));
    const auto [number, is_new] = streams.try_emplace(stream, static_cast<int64_t>(streams.size()));
    if (is_new) nccl_streams_.push_back(maybe(5));
    insert_collective.row(p.id, comm, *op, step, bucket, start_ns + p.shift_ns, duration_ns, thread.value_or(0), region, payload, datatype,
                          text(18), text(19), number->second, range);
  }
  db_.exec(
      "INSERT INTO stream_wait SELECT p.id, w.context, w.stream, w.correlation, w.on_context, w.on_stream, w.on_correlation"
      " FROM temp.stage_wait w JOIN temp.stage_process p ON p.stage = w.process");
  for (const auto& [rank, count] : without_launch) {
    losses_.add(
        {0, rank}, "gpu_launches", count,
        "GPU activities whose launching call was not recorded: they are outside every layer, and their step is that of their begin");
  }
  losses_.add({}, "nccl_kernels", untold,
              "kernels of NCCL of which neither the name nor a range around the launch tells what they carry out: no collectives");
  losses_.add({}, "nccl_kernels", contradicted,
              "kernels of NCCL that by their names are other collectives than the range around their launch says: no collectives");
  losses_.add({}, "nccl_kernels", messages, "kernels of NCCL that carry messages whose peers the trace does not tell: no messages");
}

void ImportedRun::number_collectives() {
  // How many there are in each step, if all ranks agree.
  std::map<std::pair<int64_t, int64_t>, std::optional<int64_t>> counts;  // by communicator and step
  SQLite::Statement counted(
      db_, "SELECT process, comm, bucket, count(*) FROM temp.kernel_collective WHERE bucket IS NOT NULL GROUP BY process, comm, bucket");
  while (counted.executeStep()) {
    const int64_t count = counted.getColumn(3).getInt64();
    const auto [entry, is_new] = counts.try_emplace({counted.getColumn(1).getInt64(), counted.getColumn(2).getInt64()}, count);
    if (!is_new && entry->second != count) entry->second.reset();
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> before;
  std::map<int64_t, int64_t> sums;
  for (const auto& [key, count] : counts) {
    before[key] = sums[key.first];
    sums[key.first] += count.value_or(0);
  }
  std::map<std::string, int64_t> numbers;
  SQLite::Statement rows(db_,
                         "SELECT event, process, comm, op, step, bucket, start, duration, thread, region, payload, datatype, algorithm,"
                         " protocol, unmatched FROM temp.kernel_collective ORDER BY process, comm, start, event");
  const auto maybe = [&](int column) { return maybe_integer(rows, column); };
  const auto text = [&](int column) { return maybe_text(rows, column); };
  Insert insert(db_,
                "INSERT INTO event(process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes, datatype)"
                " VALUES (?, ?, 4, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_nccl(
      db_, "INSERT INTO nccl_collective VALUES (last_insert_rowid(), 'kernel', ?, ?, NULL, 1, ?, ?, 0, 1, 1, NULL, NULL, NULL, NULL)");
  Insert update(db_, "UPDATE gpu_event SET seq = ?2 WHERE id = ?1");
  uint64_t unnumbered = 0;
  std::tuple<int64_t, int64_t, int64_t> current{0, 0, 0};
  int64_t ordinal = 0;
  while (rows.executeStep()) {
    const int64_t process = rows.getColumn(1).getInt64(), comm = rows.getColumn(2).getInt64();
    const std::optional<int64_t> bucket = maybe(5);
    std::optional<int64_t> seq;
    if (bucket && counts[{comm, *bucket}]) {
      const std::tuple now(process, comm, *bucket);
      if (now != current) ordinal = 0;
      current = now;
      seq = before[{comm, *bucket}] + ++ordinal;
      update.row(rows.getColumn(0).getInt64(), *seq);
    } else if (rows.getColumn(14).getInt() == 0) {
      ++unnumbered;
    }
    const int64_t start_ns = rows.getColumn(6).getInt64(), duration_ns = rows.getColumn(7).getInt64();
    insert.row(process, rows.getColumn(8).getInt64(), rows.getColumn(3).getInt64(), comm, seq, rows.getColumn(9).getInt64(), maybe(4),
               start_ns, duration_ns, maybe(10), maybe(11));
    insert_nccl.row(text(12), text(13), start_ns, duration_ns);
    ++events_;
  }
  losses_.add({}, "nccl_kernels", unnumbered,
              "kernels of NCCL outside annotated steps, in steps where ranks show different numbers of them, or of messages: which belong "
              "together is not known");
  db_.exec("DROP TABLE temp.kernel_collective");
}

}  // namespace ddl::store
