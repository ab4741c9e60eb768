// The input of ddl scaling: recorded runs, or the rows of a CSV table.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/pop_scaling.h"
#include "analyzer/models/scaling.h"
#include "analyzer/results_lint.h"
#include "cli/options.h"

namespace ddl::cli {

struct ScalingInput {
  std::string worker, result;  ///< "rank", "throughput"
  std::vector<models::ScalingPoint> points;
  std::vector<Stated> stated;                    ///< by point
  std::map<std::string, models::PopFacts> pop;   ///< of runs, by the label of their points
  std::optional<models::RecordedScale> largest;  ///< of runs: the largest
  std::string no_fit;                            ///< why `largest` has no fit
};

// Both throw ddl::Error: options that exclude each other (usage), and data that the runs or the table lack.

/// The words of `options` name runs.
ScalingInput scaling_from_runs(const VerbOptions& options);
ScalingInput scaling_from_csv(const std::string& file, const VerbOptions& options);

/// --NAME KEY=VALUE,KEY=VALUE. Throws ddl::Error (usage).
std::map<std::string, std::string> pairs_option(const VerbOptions& options, const char* name);

}  // namespace ddl::cli
