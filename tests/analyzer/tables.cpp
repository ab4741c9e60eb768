#include "tests/analyzer/tables.h"

#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "analyzer/analyze.h"

namespace ddl::test {
namespace {

std::string schema() {
  std::ifstream file(DDL_SOURCE_DIR "/store/schema.sql");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct KnownOp {
  const char* op_class;
  bool nonblocking;
};
const std::map<std::string, KnownOp> kOps = {
    {"MPI_Init", {"lifecycle", false}},
    {"unknown#99", {"unknown", false}},
    {"MPI_Allreduce", {"all_to_all", false}},
    {"MPI_Allgather", {"all_to_all", false}},
    {"MPI_Allgatherv", {"all_to_all", false}},
    {"MPI_Alltoall", {"all_to_all", false}},
    {"MPI_Alltoallv", {"all_to_all", false}},
    {"MPI_Reduce_scatter", {"all_to_all", false}},
    {"MPI_Barrier", {"barrier", false}},
    {"MPI_Bcast", {"root_to_all", false}},
    {"MPI_Scatter", {"root_to_all", false}},
    {"MPI_Reduce", {"all_to_root", false}},
    {"MPI_Gather", {"all_to_root", false}},
    {"MPI_Scan", {"scan", false}},
    {"MPI_Comm_dup", {"communicator", false}},
    {"MPI_Iallreduce", {"all_to_all", true}},
    {"MPI_Ibcast", {"root_to_all", true}},
    {"MPI_Wait", {"completion", false}},
    {"MPI_Waitall", {"completion", false}},
    {"MPI_Waitany", {"completion", false}},
    {"MPI_Test", {"completion", false}},
    {"MPI_Cancel", {"request_start", false}},
    {"MPI_Send", {"send", false}},
    {"MPI_Ssend", {"send", false}},
    {"MPI_Bsend", {"send", false}},
    {"MPI_Isend", {"send", true}},
    {"MPI_Send_init", {"send", false}},
    {"MPI_Recv", {"receive", false}},
    {"MPI_Irecv", {"receive", true}},
    {"MPI_Recv_init", {"receive", false}},
    {"MPI_Mrecv", {"receive", false}},
    {"MPI_Sendrecv", {"send_receive", false}},
    {"MPI_Isendrecv", {"send_receive", true}},
    {"MPI_Probe", {"probe", false}},
    {"MPI_Iprobe", {"probe", false}},
    {"MPI_Mprobe", {"probe", false}},
    {"MPI_Improbe", {"probe", false}},
    {"MPI_Win_lock", {"rma_sync", false}},
    {"MPI_Accumulate", {"one_sided", false}},
    {"MPI_Win_unlock", {"rma_sync", false}},
    {"ncclAllReduce", {"all_to_all", false}},
};

}  // namespace

Tables::Tables(int64_t ranks, int64_t hosts)
    : db_(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE), ranks_(ranks) {
  db_.exec(schema());
  for (int64_t h = 1; h <= hosts; ++h) {
    SQLite::Statement host(db_,
                           "INSERT INTO host VALUES (?1, ?2, 'boot' || ?1, 'tsc', 1e9, 0, 0, 0, ?3, 'collectives')");
    host.bind(1, h);
    host.bind(2, "node" + std::to_string(h));
    if (hosts == 1) host.bind(3, 0.0);  // else: not known
    host.exec();
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    SQLite::Statement process(
        db_,
        "INSERT INTO process (id, world, rank, world_size, host, pid, start_ns, end_ns, init_ns, finalize_ns, ended, clock,"
        " keep_level, spool, spool_bytes) VALUES (?, 0, ?, ?, ?, ?, 0, 0, 0, NULL, 'finalized', 'tsc', 0, 's', 0)");
    process.bind(1, rank + 1);
    process.bind(2, rank);
    process.bind(3, ranks);
    process.bind(4, 1 + rank * hosts / ranks);
    process.bind(5, 1000 + rank);
    process.exec();
    db_.exec("INSERT INTO thread VALUES (" + std::to_string(rank + 1) + ", 0, " + std::to_string(1000 + rank) +
             ", NULL)");
  }
  db_.exec("INSERT INTO region VALUES (0, NULL, 'none', '', NULL, NULL)");
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  communicator("MPI_COMM_WORLD", all);
}

int64_t Tables::communicator(const std::string& label, const std::vector<int64_t>& members) {
  const int64_t id = 1 + integer("SELECT count(*) FROM communicator");
  SQLite::Statement insert(db_,
                           "INSERT INTO communicator (id, world, uid, label, size, kind) VALUES (?, 0, ?, ?, ?, ?)");
  insert.bind(1, id);
  insert.bind(2, id);
  insert.bind(3, label);
  insert.bind(4, static_cast<int64_t>(members.size()));
  insert.bind(5, id == 1 ? "world" : "intra");
  insert.exec();
  for (size_t i = 0; i < members.size(); ++i) {
    SQLite::Statement member(db_, "INSERT INTO communicator_member VALUES (?, 0, ?, ?)");
    member.bind(1, id);
    member.bind(2, static_cast<int64_t>(i));
    member.bind(3, members[i]);
    member.exec();
  }
  return id;
}

int64_t Tables::intercommunicator(const std::string& label, const std::vector<int64_t>& first_group,
                                  const std::vector<int64_t>& second_group) {
  const int64_t id = communicator(label, first_group);
  exec("UPDATE communicator SET kind = 'inter', size = " + std::to_string(first_group.size() + second_group.size()) +
       " WHERE id = " + std::to_string(id));
  for (size_t i = 0; i < second_group.size(); ++i) {
    exec("INSERT INTO communicator_member VALUES (" + std::to_string(id) + ", 1, " + std::to_string(i) + ", " +
         std::to_string(second_group[i]) + ")");
  }
  return id;
}

int64_t Tables::op(const std::string& name) {
  SQLite::Statement find(db_, "SELECT id FROM op WHERE name = ?");
  find.bind(1, name);
  if (find.executeStep()) return find.getColumn(0).getInt64();
  const KnownOp& known = kOps.at(name);
  SQLite::Statement insert(db_, "INSERT INTO op (name, class, nonblocking) VALUES (?, ?, ?)");
  insert.bind(1, name);
  insert.bind(2, known.op_class);
  insert.bind(3, known.nonblocking ? 1 : 0);
  insert.exec();
  return db_.getLastInsertRowid();
}

void Tables::add(const Row& row) {
  const int64_t op_id = op(row.op);
  SQLite::Statement insert(
      db_,
      "INSERT INTO event (id, process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes, peer, tag)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, next_event_++);
  insert.bind(2, row.rank + 1);
  insert.bind(3, row.thread);
  insert.bind(4, row.request ? 2 : 1);
  insert.bind(5, op_id);
  if (row.comm != 0) insert.bind(6, row.comm);
  if (row.seq) insert.bind(7, *row.seq);
  if (row.step) insert.bind(8, *row.step);
  insert.bind(9, row.enter_ns);
  insert.bind(10, row.leave_ns - row.enter_ns);
  insert.bind(11, row.bytes);
  if (row.peer) insert.bind(12, *row.peer);
  if (row.tag) insert.bind(13, *row.tag);
  insert.exec();
  if (!row.request) profile(row, op_id, kOps.at(row.op).nonblocking);
  SQLite::Statement end(db_, "UPDATE process SET end_ns = max(end_ns, ?) WHERE id = ?");
  end.bind(1, row.leave_ns);
  end.bind(2, row.rank + 1);
  end.exec();
}

void Tables::profile(const Row& row, int64_t op_id, bool) {
  SQLite::Statement insert(db_, "INSERT INTO profile VALUES (?, ?, ?, 0, NULL, 0, 1, ?, ?, NULL, NULL, 0, NULL)");
  insert.bind(1, row.rank + 1);
  insert.bind(2, op_id);
  if (row.comm != 0) insert.bind(3, row.comm);
  insert.bind(4, row.bytes);
  insert.bind(5, row.leave_ns - row.enter_ns);
  insert.exec();
}

void Tables::step(int64_t rank, int64_t number, int64_t begin_ns, int64_t end_ns, int64_t mpi_ns) {
  SQLite::Statement insert(
      db_,
      "INSERT INTO step SELECT ?1, 0, ?2, ?3, ?4, ?5, NOT EXISTS (SELECT 1 FROM step WHERE process = ?1 AND step = ?2)");
  insert.bind(1, rank + 1);
  insert.bind(2, number);
  insert.bind(3, begin_ns);
  insert.bind(4, end_ns - begin_ns);
  insert.bind(5, mpi_ns);
  insert.exec();
}

void Tables::value(int64_t rank, int64_t number, const std::string& name, double value) {
  SQLite::Statement insert(db_, "INSERT INTO value VALUES (?, ?, 0, ?, ?)");
  insert.bind(1, rank + 1);
  insert.bind(2, number);
  insert.bind(3, name);
  insert.bind(4, value);
  insert.exec();
}

void Tables::open_call(int64_t rank, const std::string& name, int64_t comm, std::optional<int64_t> seq,
                       int64_t start_ns, std::optional<int64_t> step) {
  SQLite::Statement insert(db_, "INSERT INTO open_call VALUES (?, 0, ?, ?, ?, 0, NULL, ?, ?, 0, NULL, NULL)");
  insert.bind(1, rank + 1);
  insert.bind(2, op(name));
  if (comm != 0) insert.bind(3, comm);
  if (seq) insert.bind(4, *seq);
  if (step) insert.bind(5, *step);
  insert.bind(6, start_ns);
  insert.exec();
}

void Tables::ended(int64_t rank, const std::string& how, int64_t end_ns) {
  SQLite::Statement update(db_, "UPDATE process SET ended = ?, end_ns = ? WHERE id = ?");
  update.bind(1, how);
  update.bind(2, end_ns);
  update.bind(3, rank + 1);
  update.exec();
}

void Tables::meta(const std::string& key, const std::string& text) {
  SQLite::Statement insert(db_, "INSERT INTO meta VALUES (?, ?)");
  insert.bind(1, key);
  insert.bind(2, text);
  insert.exec();
}

void Tables::allreduce(int64_t seq, const std::vector<int64_t>& enter_ns, int64_t xfer_ns, int64_t bytes,
                       std::optional<int64_t> step) {
  const int64_t leave_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + xfer_ns;
  for (size_t rank = 0; rank < enter_ns.size(); ++rank) {
    Row row;
    row.rank = static_cast<int64_t>(rank);
    row.enter_ns = enter_ns[rank];
    row.leave_ns = leave_ns;
    row.bytes = bytes;
    row.seq = seq;
    row.step = step;
    add(row);
  }
}

void Tables::analyze() {
  db_.exec(
      "CREATE TEMP TABLE sorted AS SELECT * FROM event ORDER BY process, thread, start_ns, id;"
      "DELETE FROM event;"
      "UPDATE temp.sorted SET id = rowid;"
      "INSERT INTO event SELECT * FROM temp.sorted;"
      "DROP TABLE temp.sorted");
  ddl::analyze(db_);
}

double Tables::number(const std::string& sql) { return db_.execAndGet(sql).getDouble(); }
int64_t Tables::integer(const std::string& sql) { return db_.execAndGet(sql).getInt64(); }
std::string Tables::text(const std::string& sql) { return db_.execAndGet(sql).getString(); }
bool Tables::is_null(const std::string& sql) { return db_.execAndGet(sql).isNull(); }

std::vector<int64_t> Tables::integers(const std::string& sql) {
  std::vector<int64_t> values;
  SQLite::Statement rows(db_, sql);
  while (rows.executeStep()) values.push_back(rows.getColumn(0).getInt64());
  return values;
}

std::optional<double> Tables::metric(const std::string& id) {
  const SQLite::Column value = db_.execAndGet("SELECT value FROM metric WHERE world = 0 AND id = '" + id + "'");
  return value.isNull() ? std::nullopt : std::optional(value.getDouble());
}

std::string Tables::why(const std::string& id) {
  return text("SELECT coalesce(why, '') FROM metric WHERE world = 0 AND id = '" + id + "'");
}

std::vector<std::string> Tables::findings() {
  std::vector<std::string> ids;
  SQLite::Statement rows(db_, "SELECT id FROM finding ORDER BY position");
  while (rows.executeStep()) ids.push_back(rows.getColumn(0).getString());
  return ids;
}

}  // namespace ddl::test
