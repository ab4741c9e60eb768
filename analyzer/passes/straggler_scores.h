// Straggler scores of sections (specification.md R1, R2, after NVRx): how long the parts of a step take on each rank,
// against the fastest rank and against the rank's own best time. Sections are annotated layers; phases if there are
// none, the whole step if there are neither. Time in MPI does not count: there the others wait for the straggler.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/passes/layer_spreads.h"

namespace ddl {

constexpr int kScoreWindows = 5;  ///< parts of the steady steps whose medians are compared for R2

/// One section of one rank.
struct SectionTimes {
  double median_ns = 0;
  double total_ns = 0;
  std::vector<double> window_medians_ns;  ///< in the order of time; windows without a run of the section are left out
};

struct SectionScore {
  std::optional<double> relative;    ///< R1; nothing: no section that all ranks have
  std::optional<double> individual;  ///< R2; nothing: no section in two windows
};

/// `sections[rank][section]`. Sections that some rank lacks do not count for `relative`.
std::map<int64_t, SectionScore> score_sections(const std::map<int64_t, std::map<int64_t, SectionTimes>>& sections);

/// Fills `section_score`; needs `steady_number`, `step_part` and `range_event`, whose rows are grouped by process.
/// Returns what the ranges of layers say beside the scores, by world: who wants to know it need not read them again.
std::map<int64_t, LayerSpreads> score_sections(SQLite::Database& db);

}  // namespace ddl
