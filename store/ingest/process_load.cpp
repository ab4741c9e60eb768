#include "store/ingest/process_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/names.h"
#include "store/ingest/device.h"
#include "store/ingest/gpu_facts.h"
#include "store/ingest/record_stream.h"
#include "store/text.h"

namespace ddl::store {

namespace {

constexpr uint64_t kMaxRecords = 1ull << 48;  // what a damaged counter may claim

// All columns in the order of the table: SQLite then does not copy each of them once more.
constexpr const char* kInsertEvents =
    "INSERT INTO event(id, process, thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, tag, datatype,"
    " reduction) SELECT NULL, ?1, thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, tag, datatype, reduction"
    " FROM spool_records";
constexpr const char* kInsertRanges =
    "INSERT INTO range_event(process, thread, region, step, start_ns, duration_ns, mpi_ns, seq, op_id) "
    "SELECT ?1, thread, region, step, start_ns, duration_ns, mpi_ns, tag, peer FROM spool_records";
constexpr const char* kInsertCounters =
    "INSERT INTO counter_event(process, thread, region, step, start_ns, duration_ns, counter, value) "
    "SELECT ?1, thread, region, step, start_ns, duration_ns, op, bytes FROM spool_records";
constexpr const char* kInsertValues =
    "INSERT INTO value(process, step, time_ns, name, value) SELECT ?1, step, start_ns, name, number FROM spool_records";

template <size_t N>
int64_t known_code(const NamedCode (&names)[N], uint32_t code) {
  return std::any_of(std::begin(names), std::end(names), [&](const NamedCode& named) { return named.code == code; })
             ? code
             : 0;
}

std::optional<int64_t> step_of(StepIndex::Cursor& steps, uint64_t ticks) {
  const auto step = steps.at(ticks);
  return step ? std::optional(static_cast<int64_t>(*step)) : std::nullopt;
}

/// Peers below zero are MPI's special values or "none".
std::optional<int64_t> peer_of(const Record& r) { return r.peer >= 0 ? std::optional<int64_t>(r.peer) : std::nullopt; }

/// The columns that a call has in table event and in open_call.
void describe_call(const Record& r, ProcessTables& tables, StepIndex::Cursor& steps, SpoolRow& row) {
  const ProcessContexts::Entry context = tables.context(r.context);
  row.op = tables.op(record_op(r.word));
  row.comm = tables.comm(r.comm);
  row.region = context.region;
  row.site = context.site;
  row.step = step_of(steps, r.start_ticks);
  row.start_ns = tables.clock().time_ns(r.start_ticks);
  row.bytes = static_cast<int64_t>(payload_bytes(r.payload));
  row.peer = peer_of(r);
  const Operation& operation = tables.operation(static_cast<uint32_t>(row.op));
  // The instance of a non-blocking collective is its request. MPI_COMM_SELF is another communicator on each rank, but
  // one row in the store.
  const bool is_instance =
      operation.is_collective() && operation.nonblocking == (record_kind(r.word) == RecordKind::kRequest);
  row.seq = is_instance && row.comm != 0 && !tables.is_self(static_cast<uint32_t>(row.comm)) ? r.sequence : 0;
  row.tag = operation.is_message() ? std::optional<int64_t>(static_cast<int32_t>(r.sequence)) : std::nullopt;
}

/// Columns seq and op_id of range_event come from tag and peer.
void describe_numbers(const RangeNumbers& numbers, SpoolRow& row) {
  row.tag = numbers.has_seq ? std::optional(static_cast<int64_t>(numbers.seq)) : std::nullopt;
  row.peer = numbers.has_op_id ? std::optional(static_cast<int64_t>(numbers.op_id)) : std::nullopt;
}

/// Rows of the tables event, range_event and value from the stream of records.
class RecordRows : public RowSource {
 public:
  RecordRows(RecordStream& stream, const Timeline& timeline, ProcessTables& tables,
             const std::function<void(uint64_t)>& step_done)
      : stream_(stream), steps_(timeline.step_index), tables_(tables), step_done_(step_done) {}

  bool next(SpoolRow& row) override {
    const Record* r = stream_.next();
    if (stream_.bytes_read() != reported_) {
      step_done_(stream_.bytes_read() - reported_);
      reported_ = stream_.bytes_read();
    }
    if (!r) {
      reported_ = 0;
      return false;
    }
    const ProcessClock& clock = tables_.clock();
    row.thread = stream_.thread();
    switch (record_kind(r->word)) {
      case RecordKind::kRange:
        row.region = tables_.context(r->context).region;
        row.step = step_of(steps_, r->start_ticks);
        row.start_ns = clock.time_ns(r->start_ticks);
        row.mpi_ns = clock.span_ns(r->payload);
        describe_numbers(range_numbers(*r), row);
        break;
      case RecordKind::kCounter:
        row.region = tables_.context(r->context).region;
        row.step = step_of(steps_, r->start_ticks);
        row.start_ns = clock.time_ns(r->start_ticks);
        row.op = record_op(r->word);
        row.bytes = static_cast<int64_t>(r->payload);
        break;
      case RecordKind::kValue:
        row.step = step_of(steps_, r->start_ticks);
        row.start_ns = clock.time_ns(r->start_ticks);
        row.name = &tables_.string(r->context);
        row.number = std::bit_cast<double>(r->payload);
        break;
      default:
        describe_call(*r, tables_, steps_, row);
        row.kind = record_kind(r->word) == RecordKind::kRequest ? 2 : record_op(r->word) >= kFirstNcclOp ? 3 : 1;
        row.datatype = known_code(kDatatypeNames, payload_datatype(r->payload));
        row.reduction = known_code(kReductionNames, payload_reduction(r->payload));
    }
    row.duration_ns = clock.duration_ns(row.start_ns, r->start_ticks, record_duration_ticks(r->word));
    return true;
  }

 private:
  RecordStream& stream_;
  StepIndex::Cursor steps_;
  ProcessTables& tables_;
  const std::function<void(uint64_t)>& step_done_;
  uint64_t reported_ = 0;
};

void write_steps(MadeRows& made, const Timeline& timeline, const ProcessTables& tables) {
  const ProcessClock& clock = tables.clock();
  size_t number = 0;
  made.insert_each("INSERT INTO step SELECT c0, c1, c2, c3, c4, c5, c6 FROM made_rows", timeline.steps,
                   [&](MadeRow& row, const Step& step) {
                     std::optional<int64_t> duration_ns, mpi_ns;
                     if (step.duration_ticks) {
                       duration_ns = clock.duration_ns(step.start_ticks, *step.duration_ticks);
                       mpi_ns = clock.span_ns(step.mpi_ticks);
                     }
                     row.set(tables.process(), step.thread, step.number, clock.time_ns(step.start_ticks), duration_ns,
                             mpi_ns, timeline.step_index.is_measured(number++));
                   });
}

void write_open_calls(Statements& db, const Timeline& timeline, ProcessTables& tables) {
  Insert insert(db, "INSERT INTO open_call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const auto id_or_null = [](int64_t id) { return id ? std::optional(id) : std::nullopt; };
  StepIndex::Cursor steps(timeline.step_index);
  for (const auto& [thread, record] : timeline.open_calls) {
    SpoolRow row;
    describe_call(record, tables, steps, row);
    // A waiting call names the collective it waits for (docs/decisions/0006).
    if (tables.operation(static_cast<uint32_t>(row.op)).op_class == OpClass::kCompletion && row.comm != 0)
      row.seq = record.sequence;
    insert.row(tables.process(), thread, row.op, id_or_null(row.comm), id_or_null(row.seq), row.region,
               id_or_null(row.site), row.step, row.start_ns, row.bytes, row.peer, row.tag);
  }
}

std::optional<std::string> take_fact(const ProcessTables& tables, const std::string& key) {
  std::optional<std::string> value;
  for (const auto& [name, text] : tables.facts()) {
    if (name == key) value = text;
  }
  return value;
}

/// Facts "counter.N" say NAME|SOURCE|WHY.
void write_counters(Statements& db, const ProcessTables& tables) {
  Insert insert(db, "INSERT OR IGNORE INTO counter VALUES (?, ?, ?, ?, ?)");
  const auto text_or_null = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
  for (uint32_t number = 0; number < kMaxCounters; ++number) {
    const auto fact = take_fact(tables, fmt::format("counter.{}", number));
    const size_t first = fact ? fact->find('|') : std::string::npos;
    const size_t second = first != std::string::npos ? fact->find('|', first + 1) : first;
    if (second == std::string::npos) continue;
    insert.row(tables.process(), number, fact->substr(0, first),
               text_or_null(fact->substr(first + 1, second - first - 1)), text_or_null(fact->substr(second + 1)));
  }
}

void write_samples(Statements& db, const ProcessTables& tables) {
  Insert insert(db, "INSERT INTO node_sample VALUES (?, ?, ?, ?, ?)");
  for (const ProcessTables::Sample& sample : tables.samples()) {
    if (!std::isfinite(sample.value)) continue;  // damage
    insert.row(tables.process(), tables.clock().time_ns(sample.ticks), tables.string(sample.device),
               tables.string(sample.name), sample.value);
  }
}

const char* how_it_ended(const FileHeader& header, bool became_other) {
  if (header.flags & kMpiAborted) return "aborted";
  if (header.flags & kMpiFinalized) return "finalized";
  if (header.flags & kExited) return "exited";
  return became_other ? "exec" : "lost";
}

const char* thread_level_name(int32_t level) {
  constexpr const char* kNames[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED",
                                    "MPI_THREAD_MULTIPLE"};
  return level >= 0 && level < 4 ? kNames[level] : nullptr;
}

/// The process's own row, its facts and threads, and the losses that its header and its end tell of.
void write_process(Statements& db, RunTables& run, const Scan& scan, const SpoolReader& reader, int64_t host,
                   uint64_t newest_ticks, const ProcessTables& tables) {
  const FileHeader& header = reader.header();
  const ProcessClock& clock = tables.clock();
  const Place& place = tables.place();
  const int64_t start_ns = clock.time_ns(header.begin.ticks);
  const int64_t end_ns = std::max(start_ns, clock.time_ns(std::max(newest_ticks, header.latest.ticks)));
  const auto moment = [&](uint64_t ticks) { return ticks ? std::optional(clock.time_ns(ticks)) : std::nullopt; };
  const std::string ended = how_it_ended(header, scan.became_other);
  const auto text_or_null = [](const char* text) { return text ? std::optional<std::string>(text) : std::nullopt; };
  Insert insert(db, "INSERT INTO process VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.row(
      tables.process(), *place.world, place.rank, scan.world_size > 0 ? std::optional(scan.world_size) : std::nullopt,
      host, header.pid, start_ns, end_ns, moment(header.mpi_init_leave_ticks), moment(header.mpi_finalize_enter_ticks),
      ended, header.flags & kMpiAborted ? std::optional(header.abort_code) : std::nullopt,
      text_or_null(thread_level_name(header.thread_level)), scan.clock.kind == ClockKind::kTsc ? "tsc" : "monotonic",
      header.keep_level, clock.span_ns(header.overhead_ticks), take_fact(tables, "exe"), take_fact(tables, "command"),
      scan.file_name, reader.file_bytes());

  Insert insert_fact(db, "INSERT INTO process_fact VALUES (?, ?, ?)");
  for (const auto& [key, value] : tables.facts()) {
    if (key == "gpu.until") {
      insert_fact.row(tables.process(), key, fmt::format("{}", clock.time_ns(handed_over_ticks(value))));
    } else if (key != "exe" && key != "command" && !key.starts_with("counter.")) {
      insert_fact.row(tables.process(), key, value);
    }
  }
  if (const std::string version = clean_text(fixed_text(header.library_version)); !version.empty())
    insert_fact.row(tables.process(), "library_version", version);
  Insert insert_thread(db, "INSERT INTO thread VALUES (?, ?, ?, ?)");
  for (const auto& [number, thread] : tables.threads()) {
    insert_thread.row(tables.process(), number, thread.tid,
                      thread.name.empty() ? std::nullopt : std::optional(thread.name));
  }

  if (ended == "lost") {
    run.losses.add(
        place, "killed", 1,
        fmt::format(
            "process without a sign of its end: killed, crashed, left by _exit or exec, or still running; last sign of "
            "life {:.3f} s after the run began",
            static_cast<double>(end_ns) * 1e-9));
  }
  run.losses.add_counters(place, header);
  for (const auto& [key, value] : tables.facts()) {
    if (key == "gpu.off") run.losses.add(place, "gpu_tracing", 1, "process whose GPUs were not traced: " + value);
    if (key == "gpu.until") {
      run.losses.add(
          place, "gpu_tracing", 1,
          fmt::format("process whose GPUs were traced until {:.3f} s after the run began: then {} used CUPTI itself",
                      static_cast<double>(clock.time_ns(handed_over_ticks(value))) * 1e-9, handed_over_to(value)));
    }
    if (key == "gpu.missing")
      run.losses.add(place, "gpu_tracing", 1, "process whose GPUs were traced without " + value);
  }
  uint64_t not_kept = 0;  // what the log did not take went to the rings
  for (const SpoolChunk& ring : reader.chunks(ChunkKind::kRing))
    not_kept += std::min(ring.header.ring_written, kMaxRecords);
  run.losses.add(
      place, "not_kept", not_kept,
      "events outside the window, or left out because the log was full or recording them cost more than the budget; the profile "
      "counts their calls");
  if (!clock.line.rate_known)
    run.losses.add(place, "clock", 1,
                   "process whose ticks could not be measured against a clock: its times assume 1 tick = 1 ns");
}

}  // namespace

Timeline decode_spool(const Scan& scan) {
  scan.reader->acquire();
  return read_timeline(*scan.reader);
}

uint64_t load_process(Statements& db, SpoolTable& spool_table, MadeRows& made, RunTables& run, const Scan& scan,
                      const Timeline& timeline, int64_t process, int64_t host, const Place& place,
                      const ProcessClock& clock, const std::function<void(uint64_t bytes)>& step_done) {
  const SpoolReader& reader = *scan.reader;
  std::vector<Skip> skips = reader.skipped();
  ProcessTables tables(run, scan, process, place, clock);
  tables.read(reader, skips);
  load_profile(db, made, reader, tables, skips);
  skips.insert(skips.end(), timeline.skips.begin(), timeline.skips.end());
  write_steps(made, timeline, tables);
  write_open_calls(db, timeline, tables);

  RecordStream stream(reader, timeline);
  const std::function<void(uint64_t)> silent = [](uint64_t) {};
  const auto pull = [&](const char* sql, uint32_t kinds, const std::function<void(uint64_t)>& progress) -> int64_t {
    if (!timeline.has(kinds)) return 0;
    RecordRows rows(stream, timeline, tables, progress);
    stream.rewind(kinds);
    return spool_table.pull(rows, sql, process);
  };
  const int64_t events = pull(kInsertEvents, bit(RecordKind::kCall) | bit(RecordKind::kRequest), step_done);
  pull(kInsertRanges, bit(RecordKind::kRange), silent);
  pull(kInsertCounters, bit(RecordKind::kCounter), silent);
  pull(kInsertValues, bit(RecordKind::kValue), silent);

  load_training_thread(db, stream, tables);
  const uint64_t device_ticks = load_device(db, run, reader, stream, timeline, tables, skips);
  run.nccl.read(db.db, run, stream, timeline, tables);

  write_gpus(db, host, tables);
  write_counters(db, tables);
  write_samples(db, tables);
  write_process(db, run, scan, reader, host, std::max(timeline.newest_ticks, device_ticks), tables);
  if (reader.header_damaged())
    run.losses.add(
        place, kDamagedHeader, kPageBytes,
        fmt::format("bytes of {} that are damaged: its header says what cannot be; what it counts as lost is not known",
                    scan.file_name));
  run.losses.add_skips(place, scan.file_name, skips);
  run.losses.add(place, "abandoned_calls", timeline.abandoned,
                 "calls that were entered and never left although their thread went on; they are in no table");
  run.losses.add(place, "undescribed", tables.unresolved(),
                 "references to a range, call site or communicator that the spool does not describe");
  scan.reader->release();
  return static_cast<uint64_t>(events);
}

}  // namespace ddl::store
