#include "analyzer/passes/background.h"

#include <algorithm>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kTrainsShare = 0.01;  // of its time a thread that trains is busy at least

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

/// Has the process's first thread, which opened no step, done anything while it was sampled?
bool is_busy(SQLite::Database& db, int64_t process) {
  Query row(db, R"(
    SELECT max(cpu_ns) - min(cpu_ns), max(at_ns) - min(at_ns)
    FROM thread_sample
    WHERE process = ?)");
  row.bind(process);
  return row.next() && row.real(1) > 0 && row.real(0) >= kTrainsShare * row.real(1);
}

void find_coordination(SQLite::Database& db) {
  db.exec(R"(
    INSERT INTO coordination (event)
    WITH candidate AS (
      SELECT e.id, e.comm, e.seq,
             CASE
               WHEN r.name IN ('MPI_LAND', 'MPI_BAND', 'MPI_LOR', 'MPI_BOR', 'MPI_LXOR', 'MPI_BXOR') OR o.class = 'barrier' THEN 1
               WHEN d.name = 'MPI_BYTE' AND o.class IN ('all_to_root', 'root_to_all') AND e.bytes <= 1048576 THEN 1
               WHEN d.name IN ('MPI_CHAR', 'MPI_SHORT', 'MPI_INT', 'MPI_UNSIGNED', 'MPI_LONG', 'MPI_UNSIGNED_LONG', 'MPI_LONG_LONG',
                               'MPI_UNSIGNED_LONG_LONG', 'MPI_INT32_T', 'MPI_UINT32_T', 'MPI_INT64_T', 'MPI_UINT64_T') AND e.bytes <= 64 THEN 1
               WHEN e.bytes = 0 THEN 0
               ELSE -1
             END AS coordinates
      FROM event e
      JOIN background_process b ON b.process = e.process
      JOIN op o ON o.id = e.op
      LEFT JOIN datatype d ON d.id = e.datatype
      LEFT JOIN reduction r ON r.id = e.reduction
      WHERE e.kind = 1 AND e.seq IS NOT NULL AND e.comm IS NOT NULL AND e.thread IS NOT b.thread AND o.name NOT LIKE 'gloo::%'
    ), instance AS (
      SELECT comm, seq
      FROM candidate
      GROUP BY comm, seq
      HAVING min(coordinates) >= 0 AND max(coordinates) = 1
    )
    SELECT c.id
    FROM candidate c
    JOIN instance i ON i.comm = c.comm AND i.seq = c.seq
    ORDER BY c.id)");
}

}  // namespace

std::map<int64_t, BackgroundProcess> find_background(SQLite::Database& db, const Catalog& catalog) {
  std::map<int64_t, BackgroundProcess> found;
  const std::map<int64_t, int64_t> candidates = training_tids(db);
  if (candidates.empty()) return found;
  struct Calls {
    int64_t own = 0, others = 0;
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
             "SELECT process, thread, op, kind, count(*), min(id), max(id) FROM event WHERE kind < 3 GROUP BY process, thread, op, kind");
  while (rows.next()) {
    if (!candidates.contains(rows.integer(0))) continue;
    Calls& of_process = calls[rows.integer(0)];
    of_process.first_event = std::min(of_process.first_event, rows.integer(5));
    of_process.last_event = std::max(of_process.last_event, rows.integer(6));
    const Operation& operation = catalog.operation(rows.integer(2));
    if (operation.op_class == OpClass::kLifecycle || operation.op_class == OpClass::kCommunicator ||
        operation.op_class == OpClass::kOther || operation.on_device)
      continue;
    if (rows.integer(3) == 1) (of_process.thread == rows.integer(1) ? of_process.own : of_process.others) += rows.integer(4);
  }
  Query insert(db, "INSERT INTO background_process (process, thread, sampled) VALUES (?, ?, ?)");
  for (const auto& [process, of_process] : calls) {
    if (of_process.others == 0 || of_process.own > 0) continue;
    Query marks(db, "SELECT 1 FROM step WHERE process = ? LIMIT 1");
    Query samples(db, "SELECT 1 FROM thread_sample WHERE process = ? LIMIT 1");
    const bool sampled = samples.bind(process).next();
    if (!marks.bind(process).next() && sampled && !is_busy(db, process)) continue;
    insert.run(process, of_process.thread, sampled);
    found[process] = {of_process.thread, sampled, of_process.first_event, of_process.last_event};
  }
  if (!found.empty()) find_coordination(db);
  return found;
}

}  // namespace ddl
