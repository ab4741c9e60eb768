// The steps of one process after the other that were seen to end.
#pragma once

#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyzer/query.h"

namespace ddl {

struct ProcessStep {
  int64_t thread = 0, step = 0;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t mpi_ns = 0;  ///< 0: not known
};

class ProcessSteps {
 public:
  explicit ProcessSteps(SQLite::Database& db)
      : rows_(
            db,
            "SELECT thread, step, start_ns, duration_ns, mpi_ns FROM step WHERE process = ? AND duration_ns IS NOT NULL") {
  }

  /// By begin. Valid until the next call.
  const std::vector<ProcessStep>& of(int64_t process) {
    steps_.clear();
    for (rows_.bind(process); rows_.next();)
      steps_.push_back({rows_.integer(0), rows_.integer(1), rows_.integer(2), rows_.integer(2) + rows_.integer(3),
                        rows_.integer(4)});
    // They lie by number, which is the order of time nearly always: SQLite would sort them for each process.
    const auto earlier = [](const ProcessStep& a, const ProcessStep& b) { return a.begin_ns < b.begin_ns; };
    if (!std::is_sorted(steps_.begin(), steps_.end(), earlier)) std::stable_sort(steps_.begin(), steps_.end(), earlier);
    return steps_;
  }

 private:
  Query rows_;
  std::vector<ProcessStep> steps_;
};

}  // namespace ddl
