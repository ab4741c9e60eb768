#include "analyzer/models/rank_saving.h"

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analyzer/models/replay_imported.h"
#include "analyzer/models/what_if.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kSurelyBehind = 0.05;  // of a saving, that may be lost to transfers behind the calls

using Durations = std::vector<double>;

/// What is hidden behind computing takes no time.
Durations step_seconds(const RunReplay& run, Durations durations) {
  for (const Replay::Op op : run.hidden) durations[op] = 0;
  return run.replay.step_seconds(durations);
}

struct ReplayOfSteps {
  RunReplay run;
  Durations recorded_s;  ///< by step
  bool bounded = false;  ///< ranks left no record
};

/// Nothing: it comes out otherwise than the steps did, or there is none. May throw ddl::Error as well.
std::optional<ReplayOfSteps> replay_steps(SQLite::Database& db, int64_t world, const Regions& within,
                                          const std::optional<SmallCalls>& small) {
  std::optional<ImportedReplay> imported = imported_replay(db, world);
  // no ranges or communicators belong to what it replays
  if (imported && (small || !within.empty())) return std::nullopt;
  ReplayOfSteps result{imported ? std::move(imported->run) : replay_run(db, world, within, small), {}};
  result.recorded_s = step_seconds(result.run, result.run.replay.recorded());
  Query missing(db, "SELECT 1 FROM steady_world WHERE world = ? AND bounded");
  const double mean_s = std::accumulate(result.recorded_s.begin(), result.recorded_s.end(), 0.0) /
                        static_cast<double>(result.recorded_s.size());
  const double off = mean_s / result.run.recorded_step_s - 1;
  result.bounded = missing.bind(world).next();
  if (std::abs(off) > kFarFromRecorded && !result.bounded) return std::nullopt;
  return result;
}

/// Mean over the steps from `since` on of what they take less if they go otherwise; `times`: so many steps' samples
/// are in one of those.
std::optional<double> mean_saving(const ReplayOfSteps& replayed, std::optional<int64_t> since, const Durations& other_s,
                                  double times = 1) {
  const std::vector<int64_t>& steps = replayed.run.replay.steps();
  double saved_s = 0, count = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (since && steps[s] < *since) continue;
    saved_s += replayed.recorded_s[s] - other_s[s] / times;
    ++count;
  }
  return count > 0 ? std::optional(saved_s / count) : std::nullopt;
}

/// ReplayedSaving::unexplained_s. A rank without a record makes all others wait inside a collective, in the steps in
/// which it comes last; if these are fewer than half, the median step tells what else the replay is short of.
double unexplained_seconds(SQLite::Database& db, int64_t world, const ReplayOfSteps& replayed) {
  std::map<int64_t, double> longest_s;
  Query rows(db, "SELECT step, longest_ns / 1e9 FROM steady_step WHERE world = ? AND annotated");
  for (rows.bind(world); rows.next();) longest_s[rows.integer(0)] = rows.real(1);
  Durations short_s;
  const std::vector<int64_t>& steps = replayed.run.replay.steps();
  for (size_t s = 0; s < steps.size(); ++s)
    if (const auto step = longest_s.find(steps[s]); step != longest_s.end())
      short_s.push_back(step->second - replayed.recorded_s[s]);
  if (short_s.empty()) return 0;
  const double mean_s = std::accumulate(short_s.begin(), short_s.end(), 0.0) / static_cast<double>(short_s.size());
  return std::max(0.0, mean_s - median_of(short_s));
}

std::optional<ReplayedSaving> saving_by(SQLite::Database& db, int64_t world, const Regions& within,
                                        std::optional<int64_t> since,
                                        const std::function<Durations(const RunReplay&)>& otherwise,
                                        bool RunReplay::*bound, double times = 1) {
  try {
    const std::optional<ReplayOfSteps> replayed = replay_steps(db, world, within, {});
    if (!replayed) return std::nullopt;
    const RunReplay& run = replayed->run;
    const auto saved_s = mean_saving(*replayed, since, step_seconds(run, otherwise(run)), times);
    if (!saved_s) return std::nullopt;
    const double unexplained_s = replayed->bounded && !since ? unexplained_seconds(db, world, *replayed) : 0;
    return ReplayedSaving{*saved_s, run.*bound || run.undefined_waits, unexplained_s};
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// One call for all of a rank's on a communicator in a step, in the place of the last one.
Durations fused(const RunReplay& run, const std::map<int64_t, double>& fused_s) {
  Durations durations = run.replay.recorded();
  const std::vector<ReplayOp>& ops = run.replay.ops();
  std::set<int64_t> seen;  // communicators of a rank's step, whose last calls come first
  for (size_t i = run.small.size(); i-- > 0;) {
    const ReplayOp& op = ops[run.small[i].op];
    if (i + 1 < run.small.size()) {
      const ReplayOp& after = ops[run.small[i + 1].op];
      if (after.rank != op.rank || after.step != op.step) seen.clear();
    }
    const int64_t comm = run.small[i].comm;
    durations[run.small[i].op] = seen.insert(comm).second ? fused_s.at(comm) : 0;
  }
  return durations;
}

}  // namespace

double seconds_saved(const RunReplay& run, const std::vector<double>& durations) {
  const Durations recorded_s = step_seconds(run, run.replay.recorded()), other_s = step_seconds(run, durations);
  const auto sum = [](const Durations& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); };
  return (sum(recorded_s) - sum(other_s)) / static_cast<double>(recorded_s.size());
}

std::optional<ReplayedSaving> saving_without(SQLite::Database& db, int64_t world, const std::vector<int64_t>& ranks,
                                             std::optional<int64_t> since) {
  return saving_by(
      db, world, {}, since, [&](const RunReplay& run) { return healthy_ranks(run.replay, ranks); },
      &RunReplay::nonblocking);
}

std::optional<ReplayedSaving> saving_of_even_layer(SQLite::Database& db, int64_t world, const std::string& layer) {
  return saving_by(
      db, world, regions_of_layer(db, layer), {},
      [](const RunReplay& run) { return even_layer(run.replay, run.within_s); }, &RunReplay::nonblocking_messages);
}

std::optional<ReplayedSaving> saving_of_twice_the_batch(SQLite::Database& db, int64_t world) {
  return saving_by(
      db, world, regions_of_samples(db), {},
      [](const RunReplay& run) { return larger_batch(run.replay, 2, run.within_s); }, &RunReplay::nonblocking, 2);
}

std::optional<FusedSaving> saving_of_fused(SQLite::Database& db, int64_t world, const SmallCalls& calls) {
  try {
    const std::optional<ReplayOfSteps> replayed = replay_steps(db, world, {}, calls);
    if (!replayed || replayed->run.small.empty()) return std::nullopt;
    Durations durations = fused(replayed->run, calls.fused_s);
    const std::optional<double> least_s = mean_saving(*replayed, {}, step_seconds(replayed->run, durations));
    for (const Replay::Op op : replayed->run.unawaited) durations[op] = 0;
    const std::optional<double> most_s = mean_saving(*replayed, {}, step_seconds(replayed->run, durations));
    if (!least_s || !most_s) return std::nullopt;
    return FusedSaving{*most_s, *most_s - *least_s > kSurelyBehind * *most_s};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace ddl::models
