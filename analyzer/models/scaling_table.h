// Scaling results in a CSV file: somebody's published table, or what a script collected.
//
//   size        gpus | accelerators | ranks | workers, and nodes if known
//   result      speedup | throughput | images_per_s | samples_per_s | tokens_per_s | time_s | time_min (the same work in less time)
//               | step_s | step_ms (with global_batch or local_batch)
//   if known    global_batch or local_batch; epoch_s beside a time: how much of it the hardware answers for;
//               efficiency: as quoted, is
//   checked;
//               columns series, platform, model tell series apart; and what results_lint.h asks for
// A column may end in _printed. Numbers are as certain as their last digit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/csv_table.h"
#include "analyzer/models/scaling.h"
#include "analyzer/results_lint.h"

namespace ddl::models {

struct ScalingTable {
  std::string worker;  ///< "GPU", "rank", ...
  std::string result;  ///< column of the results
  std::vector<ScalingPoint> points;
  std::vector<Stated> stated;  ///< of each point
};

/// The columns that `names` below may name.
std::vector<std::string> scaling_column_names();

/// `names`: other columns for the names above. Throws ddl::Error for columns that are missing, and for values
/// with file and line.
ScalingTable read_scaling_table(const CsvTable& csv, const std::map<std::string, std::string>& names = {});

}  // namespace ddl::models
