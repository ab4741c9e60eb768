// Rows per second into SQLite: our ingest of a recorded run against what SQLite itself takes for the same table on
// the same machine.
//
//   ingest RUN [ROUNDS]
//
// prints "way rows cpu_ns_per_row" for each way and round, the ways in turns:
//   ingest     the run's spools -> store, indices included
//   vtab       INSERT INTO event SELECT from a virtual table that makes the same rows from nothing
//   indexed    the same, with the indices that the store has on them
//   prepared   the same rows by one prepared INSERT, bound and stepped once a row
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/ingest/run_facts.h"
#include "store/ingest/spool_table.h"

namespace {

using namespace ddl;
namespace fs = std::filesystem;

constexpr const char* kColumns =
    "process, thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, tag, datatype, reduction";

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/// Rows like those of a job that does nothing but MPI_Allreduce.
class Rows : public store::RowSource {
 public:
  Rows(int64_t count, bool numbered) : count_(count), numbered_(numbered) {}
  bool next(store::SpoolRow& row) override {
    if (made_ == count_) return false;
    row.thread = 0;
    row.kind = 1;
    row.op = 3;
    row.comm = 1;
    ++made_;
    if (numbered_) row.seq = made_;
    row.region = 0;
    row.site = 1;
    row.start_ns = made_ * 60;
    row.duration_ns = 30 + made_ % 16;
    row.bytes = 4;
    row.datatype = 14;
    row.reduction = 3;
    return true;
  }

 private:
  int64_t count_;
  bool numbered_;
  int64_t made_ = 0;
};

void by_vtab(SQLite::Database& db, int64_t rows, bool numbered) {
  const std::string sql =
      std::string("INSERT INTO event(") + kColumns +
      ") SELECT ?1, thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, tag, datatype,"
      " reduction FROM spool_records";
  Statements statements(db);
  store::SpoolTable table(statements);
  Rows source(rows, numbered);
  SQLite::Transaction transaction(db);
  table.pull(source, sql.c_str(), 1);
  transaction.commit();
}

void by_indexed_vtab(SQLite::Database& db, int64_t rows, bool numbered) {
  store::create_event_order(db);
  by_vtab(db, rows, numbered);
  store::create_indices(db);
}

void by_prepared(SQLite::Database& db, int64_t rows, bool numbered) {
  Rows source(rows, numbered);
  SQLite::Transaction transaction(db);
  SQLite::Statement insert(
      db, std::string("INSERT INTO event(") + kColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  store::SpoolRow row;
  while (source.next(row)) {
    insert.bind(1, 1);
    insert.bind(2, row.thread);
    insert.bind(3, row.kind);
    insert.bind(4, row.op);
    insert.bind(5, row.comm);
    insert.bind(6, row.seq);
    insert.bind(7, row.region);
    insert.bind(8, row.site);
    insert.bind(10, row.start_ns);
    insert.bind(11, row.duration_ns);
    insert.bind(12, row.bytes);
    insert.bind(15, row.datatype);
    insert.bind(16, row.reduction);
    insert.exec();
    insert.reset();
  }
  transaction.commit();
}

struct Floor {
  const char* way;
  void (*insert)(SQLite::Database&, int64_t rows, bool numbered);
};
constexpr Floor kFloors[] = {{"vtab", by_vtab}, {"indexed", by_indexed_vtab}, {"prepared", by_prepared}};

template <typename Work>
void measure(const char* way, int64_t rows, Work work) {
  const double begin = cpu_seconds();
  work();
  std::printf("%s %lld %.1f\n", way, static_cast<long long>(rows),
              (cpu_seconds() - begin) * 1e9 / static_cast<double>(rows));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ingest RUN [ROUNDS]\n");
    return 2;
  }
  const RunDirectory directory = find_run(argv[1]);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  const fs::path folder = fs::temp_directory_path() / ("ddl-bench-ingest." + std::to_string(getpid()));
  fs::create_directory(folder);
  const fs::path output = folder / "run.sqlite";
  int64_t rows = 0;
  bool numbered = false;  // collectives of a communicator
  for (int round = 0; round <= rounds; ++round) {
    if (round == 0) {  // how many rows there are, and everything in the page cache
      rows = static_cast<int64_t>(ingest(directory, {.output = output, .progress = {}, .finish = {}}).events);
      numbered =
          open_store(output, Access::kRead).execAndGet("SELECT count(*) FROM event WHERE seq IS NOT NULL").getInt64() >
          rows / 2;
    } else {
      measure("ingest", rows, [&] { ingest(directory, {.output = output, .progress = {}, .finish = {}}); });
      for (const Floor& floor : kFloors) {
        fs::remove(output);
        measure(floor.way, rows, [&] {
          SQLite::Database db = create_store(output);
          floor.insert(db, rows, numbered);
        });
      }
    }
    fs::remove(output);
  }
  fs::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ingest: %s\n", error.what());
    return 1;
  }
}
