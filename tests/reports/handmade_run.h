// A run written down as SQL: known numbers in every table that a report reads, without recorder, ingest or analyzer.
#pragma once

#include <SQLiteCpp/Database.h>

#include "reports/run_view.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {

/// Two ranks on one host, 12 steps of 100 ms (5 of them warm-up). In every step rank 1 computes 90 ms and rank 0 60 ms;
/// rank 0 waits 30 ms for it and both transfer 10 ms.
class HandmadeRun {
 public:
  HandmadeRun();
  SQLite::Database& db() { return db_; }

 private:
  ScratchFolder folder_;
  SQLite::Database db_;
};

/// No table, only the schema.
class EmptyRun {
 public:
  EmptyRun();
  SQLite::Database& db() { return db_; }

 private:
  ScratchFolder folder_;
  SQLite::Database db_;
};

/// For what a test wrote into `step_part` and `rank_part`: selects the steady steps, as an analysis does, and reads
/// the rest as it is.
reports::RunView view_of(SQLite::Database& db);

}  // namespace ddl::test
