// A virtual job, ingested and analyzed, beside what the generator knows to be true of it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/analyze.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/run_directory.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {

/// A virtual job on disk, and its analyzed store.
struct Analyzed {
  explicit Analyzed(const SyntheticRun& job) : truth(job.write(folder.path())), db(open()) { ddl::analyze(db); }

  SQLite::Database open() const {
    const RunDirectory directory = find_run(folder.path().string());
    ingest(directory);
    return open_store(directory.store, Access::kReadWrite);
  }
  int64_t integer(const std::string& sql) { return db.execAndGet(sql).getInt64(); }
  std::string text(const std::string& sql) { return db.execAndGet(sql).getString(); }
  std::vector<std::string> findings() {
    std::vector<std::string> ids;
    SQLite::Statement rows(db, "SELECT id FROM finding ORDER BY position");
    while (rows.executeStep()) ids.push_back(rows.getColumn(0).getString());
    return ids;
  }

  ScratchFolder folder;
  Truth truth;
  SQLite::Database db;
};

using Ids = std::vector<std::string>;

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Every finished step's partition, to the nanosecond.
inline void expect_steps(Analyzed& run) {
  SQLite::Statement row(
      run.db, "SELECT compute_ns, exposed_ns, wait_ns, duration_ns, start_ns FROM v_step WHERE rank = ? AND step = ?");
  for (const StepTruth& step : run.truth.steps) {
    row.reset();
    row.bind(1, step.rank);
    row.bind(2, static_cast<int64_t>(step.step));
    ASSERT_TRUE(row.executeStep()) << "step " << step.step << " rank " << step.rank;
    EXPECT_EQ(row.getColumn(0).getInt64(), step.compute_ns) << "step " << step.step << " rank " << step.rank;
    EXPECT_EQ(row.getColumn(1).getInt64(), step.exposed_ns) << "step " << step.step << " rank " << step.rank;
    EXPECT_EQ(row.getColumn(2).getInt64(), step.wait_ns) << "step " << step.step << " rank " << step.rank;
    EXPECT_EQ(row.getColumn(3).getInt64(), step.duration_ns);
  }
  EXPECT_EQ(run.integer("SELECT count(*) FROM step_part"), static_cast<int64_t>(run.truth.steps.size()));
}

}  // namespace ddl::test
