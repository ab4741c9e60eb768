// The part of ImportedRun::finish() that concerns GPUs: what they did finds the call that launched it, and kernels of
// collectives find each other across ranks. Those whose communicator the trace does not tell get one by
// inferred_communicators.cpp, or are left out.
//
// Traces do not number collectives. The kernels of one communicator run in the order of their launches, which is the
// same on all its ranks; but a profiler may have begun on one rank before a collective and on the other behind it. So
// they are counted step by step, where all ranks begin at the same place: the k-th of a step is the k-th on every rank.
// What was launched before the first step, and steps in which the ranks show different numbers of collectives, stay
// without a number.
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <tuple>

#include "store/import/columns.h"
#include "store/import/imported_run.h"
#include "store/import/kernel_names.h"

namespace ddl::store {

namespace {

std::optional<int64_t> if_not_zero(uint32_t value) { return value != 0 ? std::optional<int64_t>(value) : std::nullopt; }

bool is_numbered(OpClass op_class) {
  return op_class == OpClass::kAllToAll || op_class == OpClass::kRootToAll || op_class == OpClass::kAllToRoot ||
         op_class == OpClass::kBarrier;
}

}  // namespace

/// What GPUs did, each with the call that launched it.
void ImportedRun::join_launches() {
  launch_records_->sort();
  gpu_->sort();
  launched_.emplace();
  const LaunchRecord* next = launch_records_->next();
  std::optional<LaunchRecord> launch;
  std::optional<std::pair<uint32_t, int64_t>> told;  // by the device: process, correlation
  while (const GpuRecord* const gpu = gpu_->next()) {
    if (gpu->is_of_call && told == std::pair(gpu->process, gpu->correlation)) continue;
    told.emplace(gpu->process, gpu->correlation);
    const auto is_before = [&](const LaunchRecord& l) {
      return std::tie(l.process, l.correlation) < std::tie(gpu->process, gpu->correlation);
    };
    const auto is_of = [&](const LaunchRecord& l) {
      return l.process == gpu->process && l.correlation == gpu->correlation;
    };
    while (next != nullptr && is_before(*next)) next = launch_records_->next();
    if (launch && !is_of(*launch)) launch.reset();
    // Among two calls with one correlation id (a function of the runtime and that of the driver in it) the outer
    // counts.
    for (; next != nullptr && is_of(*next); next = launch_records_->next())
      if (!launch || next->duration_ns > launch->duration_ns) launch = *next;
    LaunchedRecord record{
        *gpu, static_cast<uint32_t>(processes_[gpu->process].id), launch && gpu->correlation != 0, {}};
    if (record.is_launched) record.launch = *launch;
    launched_->add(record);
  }
  launch_records_.reset();
  gpu_.reset();
}

void ImportedRun::place_gpu(MadeRows& made) {
  db_.exec(
      // stream: a number of the process's own for device, context and stream. nccl_range: in which it was launched, if
      // that told what it is. unmatched: 1: why it gets no number is counted elsewhere: the ranks of its inferred
      // communicator show different sequences in the step, or it carries a message
      "CREATE TEMP TABLE kernel_collective(event INTEGER PRIMARY KEY, process, comm, op, step, bucket, start, duration, thread, region,"
      " payload, datatype, algorithm, protocol, stream, nccl_range, unmatched)");
  RowBuffer insert(
      made,
      "INSERT INTO gpu_event SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, NULL, c16, c17, c18, NULL,"
      " c19, c20, NULL FROM made_rows");
  Insert insert_collective(
      db_, "INSERT INTO temp.kernel_collective VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  std::vector<OpClass> classes(ops_.size() + 1);
  for (const auto& [name, op] : ops_) classes[static_cast<size_t>(op.id)] = op.op_class;
  std::vector<int64_t> sizes(communicators_.size() + 1);  // by communicator.id
  for (const Communicator& c : communicators_) sizes[static_cast<size_t>(c.id)] = c.size;
  std::unordered_map<uint32_t, uint32_t> gpu_names;  // by name
  std::map<int64_t, uint64_t> without_launch;        // by process
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t>, int64_t> streams;
  uint64_t untold = 0, contradicted = 0, messages = 0;
  // By one clock the whole of a run without steps may be matched as if it were one: who does not belong together is
  // seen by how collectives end.
  const bool is_one_step = is_one_clock() && std::all_of(processes_.begin(), processes_.end(),
                                                         [](const Process& p) { return p.steps.empty(); });
  // Two ranks can exchange messages with each other only.
  const bool is_pair = order_.size() == 2 && world_size_ == 2 && is_one_clock();
  std::optional<int64_t> pair;
  int64_t event = 0;  // gpu_event.id
  launched_->sort();
  while (const LaunchedRecord* const row = launched_->next()) {
    const GpuRecord& g = row->gpu;
    const LaunchRecord& l = row->launch;
    const auto if_set = [](int64_t value, bool is_set) { return is_set ? std::optional(value) : std::nullopt; };
    const Process& p = processes_[g.process];
    const auto kind = static_cast<DeviceKind>(g.kind);
    uint32_t& gpu_name = gpu_names[g.name];
    if (gpu_name == 0)
      gpu_name = gpu_names_.id(kind == DeviceKind::kKernel ? GpuNames::readable(*names_[g.name]) : *names_[g.name]);
    const std::optional<int64_t> device = if_set(g.device, g.has_device), context = if_set(g.context, g.has_context),
                                 stream_number = if_set(g.stream, g.has_stream);
    const std::optional<int64_t> launch_ns = if_set(l.start_ns, row->is_launched);
    const std::optional<int64_t> step = launch_ns ? if_set(l.step, l.has_step) : step_at(g.process, g.start_ns);
    const std::optional<int64_t> thread = if_set(l.thread, row->is_launched);
    if (!launch_ns && kind != DeviceKind::kOverhead && launches_ > 0) ++without_launch[*p.told.rank];
    std::optional<int64_t> op = if_not_zero(g.op), comm = communicator_id(g.comm),
                           payload = if_set(g.payload, g.has_payload), datatype = if_not_zero(g.datatype), range;
    bool is_contradicted = false;
    if (g.is_nccl && !comm && l.op != 0) {
      // Names tell less than ranges: an all-to-all is made of messages.
      is_contradicted = op && *op != l.op;
      range = l.range;
      op = l.op;
      comm = if_not_zero(l.comm);
      payload = if_set(l.bytes, l.has_bytes);
      datatype = if_not_zero(l.datatype);
    }
    if (is_contradicted) comm.reset();
    const bool may_exchange =
        is_pair && g.is_nccl && !comm && (!op || classes[static_cast<size_t>(*op)] == OpClass::kDeviceMessage);
    const bool is_exchange = may_exchange && parse_nccl_kernel(*names_[g.name]).is_exchange;
    if (is_exchange) {
      if (!pair) pair = add_inferred_communicator("pair (inferred)", 2);
      comm = pair;
    }
    insert.row(++event, p.id, g.kind, gpu_name, device, context, stream_number, l.region, step, thread,
               g.start_ns + p.shift_ns, g.duration_ns, if_set(g.bytes, g.has_bytes), text_of(g.copy), text_of(g.source),
               text_of(g.destination), g.correlation, if_set(g.graph_node, g.has_graph_node), comm,
               launch_ns ? std::optional(*launch_ns + p.shift_ns) : std::nullopt,
               if_set(l.duration_ns, row->is_launched));
    if (!g.is_nccl || is_exchange) continue;
    const OpClass op_class = op ? classes[static_cast<size_t>(*op)] : OpClass::kOther;
    const bool is_message = op_class == OpClass::kDeviceMessage;
    // Which of two ranks' belong together the analyzer finds out (analyzer/passes/kernel_arrivals.h).
    if (is_message && !is_contradicted && !(comm && sizes[static_cast<size_t>(*comm)] == 2)) ++messages;
    if (!comm && (!op || is_contradicted || is_message)) {
      if (!op || is_contradicted) ++(!op ? untold : contradicted);
      continue;
    }
    // Steps and what lies between them, in their order.
    const int64_t moment_ns = launch_ns.value_or(g.start_ns);
    const auto after = std::upper_bound(p.steps.begin(), p.steps.end(), moment_ns,
                                        [](int64_t ns, const Step& s) { return ns < s.start_ns; });
    std::optional<int64_t> bucket;
    if (is_numbered(op_class)) {
      if (after != p.steps.begin() && (after - 1)->counted_begin_ns == (after - 1)->start_ns)
        bucket = (after - 1)->number;
      if (is_one_step) bucket = 0;
    }
    const std::tuple stream(static_cast<size_t>(g.process), device.value_or(-1), context.value_or(-1),
                            stream_number.value_or(-1));
    const auto [number, is_new] = streams.try_emplace(stream, static_cast<int64_t>(streams.size()));
    if (is_new) nccl_streams_.push_back(stream_number);
    insert_collective.row(event, p.id, comm, *op, step, bucket, g.start_ns + p.shift_ns, g.duration_ns,
                          thread.value_or(0), l.region, payload, datatype, text_of(g.algorithm).text,
                          text_of(g.protocol).text, number->second, range, is_message ? 1 : 0);
  }
  insert.flush();
  launched_.reset();
  db_.exec(
      "INSERT INTO stream_wait SELECT p.id, w.context, w.stream, w.correlation, w.on_context, w.on_stream, w.on_correlation"
      " FROM temp.stage_wait w JOIN temp.stage_process p ON p.stage = w.process");
  for (const auto& [rank, count] : without_launch) {
    losses_.add(
        {0, rank}, "gpu_launches", count,
        "GPU activities whose launching call was not recorded: they are outside every layer, and their step is that of their begin");
  }
  losses_.add(
      {}, "nccl_kernels", untold,
      "kernels of NCCL of which neither the name nor a range around the launch tells what they carry out: no collectives");
  losses_.add(
      {}, "nccl_kernels", contradicted,
      "kernels of NCCL that by their names are other collectives than the range around their launch says: no collectives");
  losses_.add(
      {}, "nccl_kernels", messages,
      "kernels of NCCL that carry messages whose peers the trace does not tell (older than PyTorch 2.5, or several in one kernel): no messages");
}

void ImportedRun::number_collectives() {
  // How many there are in each step, if all ranks agree.
  std::map<std::pair<int64_t, int64_t>, std::optional<int64_t>> counts;  // by communicator and step
  SQLite::Statement counted(
      db_,
      "SELECT process, comm, bucket, count(*) FROM temp.kernel_collective WHERE bucket IS NOT NULL GROUP BY process, comm, bucket");
  while (counted.executeStep()) {
    const int64_t count = counted.getColumn(3).getInt64();
    const auto [entry, is_new] =
        counts.try_emplace({counted.getColumn(1).getInt64(), counted.getColumn(2).getInt64()}, count);
    if (!is_new && entry->second != count) entry->second.reset();
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> before;
  std::map<int64_t, int64_t> sums;
  for (const auto& [key, count] : counts) {
    before[key] = sums[key.first];
    sums[key.first] += count.value_or(0);
  }
  std::map<std::string, int64_t> numbers;
  SQLite::Statement rows(
      db_,
      "SELECT event, process, comm, op, step, bucket, start, duration, thread, region, payload, datatype, algorithm,"
      " protocol, unmatched FROM temp.kernel_collective ORDER BY process, comm, start, event");
  const auto maybe = [&](int column) { return maybe_integer(rows, column); };
  const auto text = [&](int column) { return maybe_text(rows, column); };
  Insert insert(
      db_,
      "INSERT INTO event(process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes, datatype)"
      " VALUES (?, ?, 4, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_nccl(
      db_,
      "INSERT INTO nccl_collective VALUES (last_insert_rowid(), 'kernel', ?, ?, NULL, 1, ?, ?, 0, 1, 1, NULL, NULL, NULL, NULL)");
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
    insert.row(process, rows.getColumn(8).getInt64(), rows.getColumn(3).getInt64(), comm, seq,
               rows.getColumn(9).getInt64(), maybe(4), start_ns, duration_ns, maybe(10), maybe(11));
    insert_nccl.row(text(12), text(13), start_ns, duration_ns);
    ++events_;
  }
  losses_.add(
      {}, "nccl_kernels", unnumbered,
      "kernels of NCCL outside annotated steps, in steps whose number came before, or where ranks show different numbers of them: which belong "
      "together is not known");
  db_.exec("DROP TABLE temp.kernel_collective");
}

}  // namespace ddl::store
