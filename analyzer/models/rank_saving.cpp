#include "analyzer/models/rank_saving.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "analyzer/models/replay_imported.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/models/what_if.h"
#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {

std::optional<RankSaving> saving_without(SQLite::Database& db, int64_t world, const std::vector<int64_t>& ranks,
                                         std::optional<int64_t> since) {
  Query background(db, "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ?");
  if (background.bind(world).next()) return std::nullopt;  // its calls are not those that the ranks wait in
  try {
    std::optional<ImportedReplay> imported = imported_replay(db, world);
    const RunReplay run = imported ? std::move(imported->run) : replay_run(db, world);
    const std::vector<double> recorded = run.replay.step_seconds(run.replay.recorded());
    const std::vector<double> healthy = run.replay.step_seconds(healthy_ranks(run.replay, ranks));
    Query missing(db, "SELECT 1 FROM steady_world WHERE world = ? AND bounded");
    const double mean_s = std::accumulate(recorded.begin(), recorded.end(), 0.0) / static_cast<double>(recorded.size());
    const double off = mean_s / run.recorded_step_s - 1;
    if (std::abs(off) > kFarFromRecorded && !missing.bind(world).next()) return std::nullopt;
    const std::vector<int64_t>& steps = run.replay.steps();
    double saved_s = 0, count = 0;
    for (size_t s = 0; s < steps.size(); ++s) {
      if (since && steps[s] < *since) continue;
      saved_s += recorded[s] - healthy[s];
      ++count;
    }
    return count > 0 ? std::optional(RankSaving{saved_s / count, run.nonblocking}) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace ddl::models
