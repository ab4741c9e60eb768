#include "analyzer/models/rank_saving.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "analyzer/models/replay_imported.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/models/what_if.h"
#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {
namespace {

using OtherDurations = std::function<std::vector<double>(const RunReplay&)>;

std::optional<ReplayedSaving> saving_by(SQLite::Database& db, int64_t world, const std::optional<std::string>& layer,
                                        std::optional<int64_t> since, const OtherDurations& otherwise, bool RunReplay::*bound) {
  Query background(db, "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ?");
  if (background.bind(world).next()) return std::nullopt;  // its calls are not those that the ranks wait in
  try {
    std::optional<ImportedReplay> imported = imported_replay(db, world);
    if (imported && layer) return std::nullopt;  // no ranges of layers belong to what it replays
    const RunReplay run = imported ? std::move(imported->run) : replay_run(db, world, layer);
    const auto step_seconds = [&](std::vector<double> durations) {
      for (const Replay::Op op : run.hidden) durations[op] = 0;
      return run.replay.step_seconds(durations);
    };
    const std::vector<double> recorded = step_seconds(run.replay.recorded()), other = step_seconds(otherwise(run));
    Query missing(db, "SELECT 1 FROM steady_world WHERE world = ? AND bounded");
    const double mean_s = std::accumulate(recorded.begin(), recorded.end(), 0.0) / static_cast<double>(recorded.size());
    const double off = mean_s / run.recorded_step_s - 1;
    if (std::abs(off) > kFarFromRecorded && !missing.bind(world).next()) return std::nullopt;
    const std::vector<int64_t>& steps = run.replay.steps();
    double saved_s = 0, count = 0;
    for (size_t s = 0; s < steps.size(); ++s) {
      if (since && steps[s] < *since) continue;
      saved_s += recorded[s] - other[s];
      ++count;
    }
    return count > 0 ? std::optional(ReplayedSaving{saved_s / count, run.*bound}) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<ReplayedSaving> saving_without(SQLite::Database& db, int64_t world, const std::vector<int64_t>& ranks,
                                             std::optional<int64_t> since) {
  return saving_by(
      db, world, {}, since, [&](const RunReplay& run) { return healthy_ranks(run.replay, ranks); }, &RunReplay::nonblocking);
}

std::optional<ReplayedSaving> saving_of_even_layer(SQLite::Database& db, int64_t world, const std::string& layer) {
  return saving_by(
      db, world, layer, {}, [](const RunReplay& run) { return even_layer(run.replay, run.layer_s); }, &RunReplay::nonblocking_messages);
}

}  // namespace ddl::models
