#include "analyzer/passes/background.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kTrainsShare = 0.01;  // of some second a thread that trains is busy at least
// a training thread makes at most one call itself per so many collectives of background threads
constexpr int64_t kPerOwnCall = 20;

/// Thread ids of those that train, of processes that have another thread.
std::map<int64_t, int64_t> training_tids(SQLite::Database& db) {
  std::map<int64_t, int64_t> tids;
  Query row(db, R"(
    SELECT p.id, coalesce((SELECT t.tid FROM step s JOIN thread t ON t.process = s.process AND t.thread = s.thread WHERE s.process = p.id LIMIT 1),
                          (SELECT CAST(f.value AS INTEGER) FROM process_fact f WHERE f.process = p.id AND f.key = 'training_thread'),
                          p.pid)
    FROM process p
    WHERE p.rank IS NOT NULL AND (p.ended <> 'imported' OR EXISTS (SELECT 1 FROM op WHERE name LIKE 'gloo::%')))");
  while (row.next()) tids[row.integer(0)] = row.integer(1);
  Query threads(db, "SELECT process, tid FROM thread");
  std::map<int64_t, int64_t> candidates;
  while (threads.next()) {
    const auto tid = tids.find(threads.integer(0));
    if (tid != tids.end() && tid->second != threads.integer(1)) candidates.insert(*tid);
  }
  return candidates;
}

/// Has the process's first thread, which opened no step, done anything in any second in which it was sampled? A job
/// that hangs does nothing for long.
bool is_busy(SQLite::Database& db, int64_t process) {
  Query row(db, R"(
    SELECT max(cpu_ns) - min(cpu_ns), max(at_ns) - min(at_ns)
    FROM thread_sample
    WHERE process = ?
    GROUP BY at_ns / 1000000000)");
  for (row.bind(process); row.next();)
    if (row.real(1) > 0 && row.real(0) >= kTrainsShare * row.real(1)) return true;
  return false;
}

void find_coordination(SQLite::Database& db, const Catalog& catalog) {
  Query rows(db, R"(
    SELECT e.id, e.comm, e.seq, e.op, d.name, r.name, e.bytes
    FROM event e
    JOIN background_process b ON b.process = e.process
    JOIN op o ON o.id = e.op
    LEFT JOIN datatype d ON d.id = e.datatype
    LEFT JOIN reduction r ON r.id = e.reduction
    WHERE e.kind = 1 AND e.seq IS NOT NULL AND e.comm IS NOT NULL AND e.thread IS NOT b.thread AND o.name NOT LIKE 'gloo::%'
    ORDER BY e.comm, e.seq)");
  Query insert(db, "INSERT INTO coordination (event) VALUES (?)");
  bool more = rows.next();
  while (more) {
    const int64_t comm = rows.integer(1), seq = rows.integer(2);
    std::vector<int64_t> events;
    int lowest = 1, highest = -1;
    do {
      const int vote =
          coordination_vote(catalog.operation(rows.integer(3)).op_class, rows.is_null(4) ? "" : rows.text(4),
                            rows.is_null(5) ? "" : rows.text(5), rows.integer(6));
      lowest = std::min(lowest, vote);
      highest = std::max(highest, vote);
      events.push_back(rows.integer(0));
      more = rows.next();
    } while (more && rows.integer(1) == comm && rows.integer(2) == seq);
    if (lowest < 0 || highest < 1) continue;
    for (const int64_t event : events) insert.run(event);
  }
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A call that python/ddl_hooks tells of, which the training thread makes itself: a message of Gloo, or the barrier
/// that is made of them.
bool is_told(const Operation& operation) {
  return operation.name.starts_with("gloo::") &&
         (operation.op_class == OpClass::kSend || operation.op_class == OpClass::kReceive ||
          operation.op_class == OpClass::kCompletion || operation.name == "gloo::monitored_barrier");
}

}  // namespace

int coordination_vote(OpClass op_class, std::string_view datatype, std::string_view reduction, int64_t bytes) {
  constexpr int64_t kRequestBytes = 1 << 20, kWordBytes = 64;
  if (op_class == OpClass::kBarrier ||
      is_one_of(reduction, {"MPI_LAND", "MPI_BAND", "MPI_LOR", "MPI_BOR", "MPI_LXOR", "MPI_BXOR"}))
    return 1;
  const bool rooted = op_class == OpClass::kAllToRoot || op_class == OpClass::kRootToAll;
  if (rooted && datatype == "MPI_BYTE" && bytes <= kRequestBytes) return 1;
  // Counters of an evaluation are small integers too, but summed; what Horovod registers (process sets) is compared by
  // its least and largest.
  const bool compares = datatype == "MPI_INT" && is_one_of(reduction, {"MPI_MIN", "MPI_MAX"});
  if (!reduction.empty() && !compares) return bytes == 0 ? 0 : -1;
  const bool integers = is_one_of(datatype, {"MPI_CHAR", "MPI_SHORT", "MPI_INT", "MPI_UNSIGNED", "MPI_LONG",
                                             "MPI_UNSIGNED_LONG", "MPI_LONG_LONG", "MPI_UNSIGNED_LONG_LONG"});
  if (integers && bytes <= kWordBytes) return 1;
  return bytes == 0 ? 0 : -1;
}

std::map<int64_t, BackgroundProcess> find_background(SQLite::Database& db, const Catalog& catalog) {
  std::map<int64_t, BackgroundProcess> found;
  const std::map<int64_t, int64_t> candidates = training_tids(db);
  if (candidates.empty()) return found;
  struct Calls {
    int64_t own = 0, own_in_steps = 0, told = 0, others = 0, others_collectives = 0, collectives_in_steps = 0;
    std::optional<int64_t> thread;
    int64_t first_event = INT64_MAX, last_event = -1;
  };
  std::map<int64_t, Calls> calls;
  for (const auto& [process, tid] : candidates) {
    Query thread(db, "SELECT thread FROM thread WHERE process = ? AND tid = ?");
    thread.bind(process, tid);
    if (thread.next()) calls[process].thread = thread.integer(0);
  }
  Query rows(db,
             "SELECT process, thread, op, kind, count(*), min(id), max(id), count(step) FROM event WHERE kind < 3"
             " GROUP BY process, thread, op, kind");
  while (rows.next()) {
    if (!candidates.contains(rows.integer(0))) continue;
    Calls& of_process = calls[rows.integer(0)];
    of_process.first_event = std::min(of_process.first_event, rows.integer(5));
    of_process.last_event = std::max(of_process.last_event, rows.integer(6));
    const Operation& operation = catalog.operation(rows.integer(2));
    if (operation.op_class == OpClass::kLifecycle || operation.op_class == OpClass::kCommunicator ||
        operation.op_class == OpClass::kOther || operation.on_device)
      continue;
    if (rows.integer(3) != 1) continue;
    if (of_process.thread == rows.integer(1)) {
      (is_told(operation) ? of_process.told : of_process.own) += rows.integer(4);
      if (!is_told(operation)) of_process.own_in_steps += rows.integer(7);
    } else {
      of_process.others += rows.integer(4);
      if (operation.numbered) of_process.others_collectives += rows.integer(4);
      if (operation.numbered) of_process.collectives_in_steps += rows.integer(7);
    }
  }
  Query insert(db, "INSERT INTO background_process (process, thread, sampled) VALUES (?, ?, ?)");
  for (const auto& [process, of_process] : calls) {
    // A barrier at the start of a script is not yet a job that communicates itself: in a short run it is many a call,
    // so that steps tell where others communicate in them. Calls of a helper that polls for messages are many, and say
    // nothing of who communicates: only collectives count.
    const bool by_steps = of_process.collectives_in_steps > 0;
    const int64_t own = by_steps ? of_process.own_in_steps : of_process.own;
    const int64_t collectives = by_steps ? of_process.collectives_in_steps : of_process.others_collectives;
    if (of_process.others == 0 || own * kPerOwnCall > collectives) continue;
    // What is told beside them is the training thread's own communication; where nothing else is communicated (the
    // pipeline of a job that has set up its groups), it is all there is.
    Query marks(db, "SELECT 1 FROM step WHERE process = ? LIMIT 1");
    const bool in_steps = marks.bind(process).next();
    if (of_process.told > 0 && (in_steps ? of_process.collectives_in_steps == 0
                                         : of_process.told > of_process.others_collectives * kPerOwnCall))
      continue;
    Query samples(db, "SELECT 1 FROM thread_sample WHERE process = ? LIMIT 1");
    const bool sampled = samples.bind(process).next();
    if (!in_steps && sampled && !is_busy(db, process)) continue;
    insert.run(process, of_process.thread, sampled);
    found[process] = {of_process.thread, sampled, of_process.first_event, of_process.last_event};
  }
  if (!found.empty()) find_coordination(db, catalog);
  return found;
}

}  // namespace ddl
