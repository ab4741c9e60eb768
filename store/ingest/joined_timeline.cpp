// What Horovod's own timeline says of a recorded job (`ddl record --horovod-timeline`), joined with the calls that were
// recorded: the names of the tensors that each collective moved, and when each rank had them ready. Tables
// horovod_operation and horovod_ready; the region of such a collective becomes the layer that its tensors name.
//
// Each operation of the timeline holds the call that moved its data (MPI_ALLREDUCE around MPI_Allreduce) on rank 0,
// whose clock both tell: it is the next call of that name and as many bytes, within 1 ms. The timeline's date is known
// to about that; the median distance of the pairs then puts its times on the axis of the run.
#include "store/ingest/run_facts.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "store/import/horovod_timeline.h"
#include "store/import/input_file.h"
#include "store/insert.h"
#include "store/text.h"

namespace ddl::store {
namespace {

constexpr int64_t kDateErrorNs = 1'000'000;

struct Moved {
  std::string call;  ///< MPI_ALLREDUCE
  int64_t start_ns, end_ns;
};

struct TimelineOperation {
  std::shared_ptr<const HorovodBatch> batch;
  std::optional<Moved> moved;
  std::optional<std::pair<int64_t, int64_t>> instance;  ///< communicator and number
};

class ReadTimeline : public HorovodTimeline {
 public:
  std::vector<TimelineOperation> operations;
  int64_t epoch_ns = 0;

 private:
  void on_epoch(int64_t unix_ns) override { epoch_ns = unix_ns; }
  void on_activity(HorovodBatch& batch, const HorovodRange& range, int64_t end_ns) override {
    if (range.name.starts_with("MPI_")) moved_[&batch] = {range.name, range.start_ns, end_ns};
  }
  void on_batch(const std::shared_ptr<HorovodBatch>& batch) override {
    TimelineOperation operation{batch, {}, {}};
    if (const auto moved = moved_.extract(batch.get())) operation.moved = moved.mapped();
    operations.push_back(std::move(operation));
  }

  std::map<const HorovodBatch*, Moved> moved_;  ///< of batches that are not complete
};

/// Rank 0 of the world that ran when the timeline began; 0: there is none.
int64_t writer_of(SQLite::Database& db, int64_t began_ns) {
  SQLite::Statement row(
      db, "SELECT id FROM process WHERE rank = 0 ORDER BY start_ns <= ?1 AND end_ns >= ?1 DESC, id LIMIT 1");
  row.bind(1, began_ns);
  return row.executeStep() ? row.getColumn(0).getInt64() : 0;
}

/// Finds the call of each operation; returns what has to be added to times of the timeline on the axis.
int64_t find_calls(SQLite::Database& db, int64_t process, int64_t began_ns,
                   std::vector<TimelineOperation>& operations) {
  SQLite::Statement row(
      db,
      "SELECT o.name, e.comm, e.seq, e.start_ns, e.duration_ns, e.bytes FROM event e JOIN op o ON o.id = e.op"
      " WHERE e.process = ? AND e.kind = 1 AND e.seq IS NOT NULL AND e.comm IS NOT NULL ORDER BY e.start_ns");
  row.bind(1, process);
  struct Call {
    std::string name;
    int64_t comm, seq, start_ns, end_ns, bytes;
  };
  std::vector<Call> calls;
  while (row.executeStep()) {
    const int64_t start_ns = row.getColumn(3).getInt64();
    calls.push_back({row.getColumn(0).getString(), row.getColumn(1).getInt64(), row.getColumn(2).getInt64(), start_ns,
                     start_ns + row.getColumn(4).getInt64(),
                     row.getColumn(5).isNull() ? -1 : row.getColumn(5).getInt64()});
  }
  std::vector<TimelineOperation*> in_order;
  for (TimelineOperation& operation : operations)
    if (operation.moved) in_order.push_back(&operation);
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const auto* a, const auto* b) { return a->moved->start_ns < b->moved->start_ns; });
  std::vector<int64_t> apart_ns;
  size_t next = 0;
  for (TimelineOperation* operation : in_order) {
    const int64_t from_ns = began_ns + operation->moved->start_ns - kDateErrorNs,
                  to_ns = began_ns + operation->moved->end_ns + kDateErrorNs;
    while (next < calls.size() && calls[next].start_ns < from_ns) ++next;
    for (size_t i = next; i < calls.size() && calls[i].end_ns <= to_ns; ++i) {
      const bool is_sized = operation->batch->bytes && operation->batch->op->op_class == OpClass::kAllToAll &&
                            operation->moved->call == "MPI_ALLREDUCE";
      if (strcasecmp(calls[i].name.c_str(), operation->moved->call.c_str()) != 0 ||
          (is_sized && calls[i].bytes != *operation->batch->bytes))
        continue;
      operation->instance = {calls[i].comm, calls[i].seq};
      apart_ns.push_back(calls[i].start_ns - began_ns - operation->moved->start_ns);
      next = i + 1;
      break;
    }
  }
  if (apart_ns.empty()) return began_ns;
  std::nth_element(apart_ns.begin(), apart_ns.begin() + static_cast<std::ptrdiff_t>(apart_ns.size() / 2),
                   apart_ns.end());
  return began_ns + apart_ns[apart_ns.size() / 2];
}

}  // namespace

void join_horovod_timeline(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Regions& regions,
                           Losses& losses) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(run.horovod_timeline(), ignored))) return;
  ReadTimeline timeline;
  try {
    InputFile file(run.horovod_timeline(), {}, NamedBy::kFolder);
    read_json(file, kTraceEvents, timeline);
  } catch (const Error& error) {
    losses.add({}, "horovod_timeline", 1,
               fmt::format("what follows in the timeline of Horovod is not joined: {}", error.what()));
  }
  const int64_t began_ns = timeline.epoch_ns - clocks.epoch_realtime_ns;
  const int64_t writer = writer_of(db, began_ns);
  if (writer == 0) return;
  const int64_t offset_ns = find_calls(db, writer, began_ns, timeline.operations);
  Insert insert(db, "INSERT INTO horovod_operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_ready(db, "INSERT INTO horovod_ready VALUES (?, ?, ?)");
  db.exec(
      "CREATE TEMP TABLE named_instance (comm INTEGER, seq INTEGER, region INTEGER, PRIMARY KEY (comm, seq)) WITHOUT ROWID");
  Insert name(db, "INSERT INTO named_instance VALUES (?, ?, ?)");
  int64_t id = 0;
  uint64_t alone = 0;
  for (const TimelineOperation& operation : timeline.operations) {
    const HorovodBatch& batch = *operation.batch;
    const auto instance = operation.instance;
    const std::string label = clean_name(batch.label);
    insert.row(++id, batch.op->name, label, batch.tensors.size(), batch.bytes, batch.start_ns + offset_ns,
               batch.end_ns + offset_ns, instance ? std::optional(instance->first) : std::nullopt,
               instance ? std::optional(instance->second) : std::nullopt);
    for (const auto& [rank, ready_ns] : batch.ready_ns) insert_ready.row(id, rank, ready_ns + offset_ns);
    if (instance) name.row(instance->first, instance->second, regions.region(0, ContextKind::kLayer, label));
    alone += instance ? 0 : 1;
  }
  // What the program named itself stays.
  db.exec(
      "UPDATE event SET region = n.region FROM named_instance n"
      " WHERE event.kind = 1 AND event.region = 0 AND n.comm = event.comm AND n.seq = event.seq;"
      "DROP TABLE named_instance");
  losses.add({}, "horovod_operations", alone,
             "operations of Horovod's timeline whose data no recorded call moved: they have no layer");
}

}  // namespace ddl::store
