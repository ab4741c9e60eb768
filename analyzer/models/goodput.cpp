#include "analyzer/models/goodput.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "analyzer/findings/job_end.h"
#include "analyzer/findings/pauses.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {

const std::array<WallPartName, kWallParts> kWallPartNames = {{{"start_up", "start-up"},
                                                              {"warm_up", "warm-up and compilation"},
                                                              {"productive", "productive steps"},
                                                              {"waiting", "waiting in steps"},
                                                              {"loading", "loading data"},
                                                              {"checkpoints", "checkpoints"},
                                                              {"stalls", "stalls"},
                                                              {"lost", "lost steps"},
                                                              {"between", "between steps"},
                                                              {"shut_down", "shut-down"},
                                                              {"down", "between runs"}}};

namespace {

constexpr const char* kFinished = "finished";
constexpr int64_t kMostApartNs = 2'000'000'000;  // what the clocks of a launcher and of its job may disagree by

std::optional<int64_t> meta_number(SQLite::Database& db, const char* key) {
  Query row(db, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ? AND value IS NOT NULL");
  row.bind(std::string(key));
  return row.next() ? std::optional(row.integer(0)) : std::nullopt;
}

/// One start of the job. Worlds that overlap in time are together, a job and those that it spawned: whatever runs
/// beside another one is not its restart.
struct Start {
  std::vector<std::pair<int64_t, int64_t>> workers;  ///< process.id, its world
  std::set<int64_t> worlds;
  size_t unranked = 0;
  int64_t start_ns = 0, end_ns = 0;
};

std::string ids_of(const Start& start) {
  std::vector<int64_t> ids;
  for (const auto& [id, world] : start.workers) ids.push_back(id);
  return fmt::format("{}", fmt::join(ids, ", "));
}

/// Without steps in the whole recording, all ranks are workers. A process without a rank is a world of its own.
std::vector<Start> starts_of(SQLite::Database& db) {
  Query row(
      db,
      "SELECT id, world, min(start_ns) OVER unit, max(end_ns) OVER unit, rank IS NULL FROM process p WHERE EXISTS (SELECT 1 FROM step WHERE process = p.id)"
      " OR (NOT EXISTS (SELECT 1 FROM step) AND (rank IS NOT NULL OR NOT EXISTS (SELECT 1 FROM process WHERE rank IS NOT NULL)))"
      " WINDOW unit AS (PARTITION BY world, iif(rank IS NULL, id, 0)) ORDER BY 3, id");
  std::vector<Start> starts;
  while (row.next()) {
    const int64_t start_ns = row.integer(2), end_ns = row.integer(3);
    if (starts.empty() || start_ns >= starts.back().end_ns) starts.push_back({{}, {}, 0, start_ns, end_ns});
    Start& start = starts.back();
    start.workers.emplace_back(row.integer(0), row.integer(1));
    start.worlds.insert(row.integer(1));
    start.unranked += row.integer(4) != 0;
    start.end_ns = std::max(start.end_ns, end_ns);
  }
  return starts;
}

/// The job's end tells of the last start as well, of the others only their processes do; `all`: it is the only one.
std::string how_it_ended(SQLite::Database& db, const Start& start, bool last, bool all, bool& failed) {
  const JobEnd end = last ? job_end(db) : JobEnd{};
  const auto exit_code = last ? meta_number(db, "exit_code") : std::nullopt;
  Query lost(db, fmt::format("SELECT count(*) FROM process WHERE ended IN ('lost', 'aborted') AND ({} OR id IN ({}))",
                             all ? 1 : 0, ids_of(start)));
  const int64_t lost_processes = lost.next() ? lost.integer(0) : 0;
  Query left(db, fmt::format("SELECT 1 FROM process WHERE ended = 'exited' AND id IN ({})", ids_of(start)));
  failed = end.signal != 0 || exit_code.value_or(0) != 0 || (!exit_code && lost_processes > 0);
  std::string text = end.signal != 0              ? fmt::format("killed by {}", signal_name(end.signal))
                     : exit_code.value_or(0) != 0 ? fmt::format("exit code {}", *exit_code)
                     : failed ? fmt::format("{} ended abnormally", lost_processes == 1 ? "a process" : "some processes")
                     : !last && left.next() ? "exited"  // its launcher's code was not recorded
                                            : kFinished;
  Query blamed(
      db,
      fmt::format(
          "SELECT sentence FROM finding WHERE id IN ('missing_rank', 'mismatched_calls', 'killed_rank') AND ({} OR world"
          " IN ({})) ORDER BY position LIMIT 1",
          all ? 1 : 0, fmt::join(start.worlds, ", ")));
  if (failed && blamed.next()) text += ": " + blamed.text(0);
  return text;
}

std::vector<Span> ranges_of(Query& query, int64_t process) {
  std::vector<Span> spans;
  query.bind(process);
  while (query.next()) spans.push_back({query.integer(0), query.integer(0) + query.integer(1)});
  return spans;
}

std::string ranges_sql(std::string_view which) {
  return fmt::format(
      "SELECT start_ns, duration_ns FROM range_event WHERE process = ? AND region IN (SELECT id FROM region WHERE {})"
      " ORDER BY start_ns",
      which);
}

/// How much of stretches of time lies in spans, in one pass over both.
class Cursor {
 public:
  explicit Cursor(std::vector<Span> spans) {
    for (const Span& span : spans) {  // made disjoint
      if (!spans_.empty() && span.start_ns <= spans_.back().end_ns) {
        spans_.back().end_ns = std::max(spans_.back().end_ns, span.end_ns);
      } else {
        spans_.push_back(span);
      }
    }
  }
  /// Calls must come with rising `from_ns`.
  double overlap(int64_t from_ns, int64_t to_ns) {
    while (next_ < spans_.size() && spans_[next_].end_ns <= from_ns) ++next_;
    double sum_ns = 0;
    for (size_t i = next_; i < spans_.size() && spans_[i].start_ns < to_ns; ++i)
      sum_ns += static_cast<double>(
          std::max<int64_t>(0, std::min(to_ns, spans_[i].end_ns) - std::max(from_ns, spans_[i].start_ns)));
    return sum_ns;
  }

 private:
  std::vector<Span> spans_;
  size_t next_ = 0;
};

/// Steps of a run that were done in vain.
struct Lost {
  std::set<int64_t> numbers;
  std::string by;
};

std::set<int64_t> steps_of_all(const RunTimes& run) {
  std::map<std::pair<int64_t, int64_t>, size_t> seen;  // by world and number
  std::map<int64_t, size_t> workers;                   // of a world, that have steps
  for (const WorkerTimes& worker : run.workers) {
    workers[worker.world] += !worker.steps.empty();
    for (const StepSpan& step : worker.steps) ++seen[{worker.world, step.number}];
  }
  std::set<int64_t> steps;
  for (const auto& [step, count] : seen)
    if (count >= workers[step.first]) steps.insert(step.second);
  return steps;
}

std::optional<int64_t> first_step(const RunTimes& run) {
  std::optional<int64_t> first;
  for (const WorkerTimes& worker : run.workers)
    for (const StepSpan& step : worker.steps) first = std::min(first.value_or(step.number), step.number);
  return first;
}

Lost lost_steps(const RunTimes& run, const RunTimes* next) {
  Lost lost;
  const std::set<int64_t> steps = steps_of_all(run);
  const auto own_first = first_step(run), next_first = next != nullptr ? first_step(*next) : std::nullopt;
  if (own_first && next_first && *next_first > *own_first) {  // the program's own numbers go on
    lost.numbers = {steps.lower_bound(*next_first), steps.end()};
    if (!lost.numbers.empty()) lost.by = "numbers";
    return lost;
  }
  // what follows is another job, or the same once more
  if (!run.failed && (next == nullptr || run.ended_by == kFinished)) return lost;
  // The last checkpoint that was finished holds what the rank that wrote it had done: others may have ended the same
  // step a little later.
  const WorkerTimes* saver = nullptr;
  int64_t saved_ns = INT64_MIN;
  for (const WorkerTimes& worker : run.workers)
    for (const Span& checkpoint : worker.checkpoints)
      if (checkpoint.end_ns > saved_ns) saved_ns = checkpoint.end_ns, saver = &worker;
  if (saver == nullptr && next == nullptr) return lost;  // nobody knows whether it would have gone on from somewhere
  std::set<int64_t> kept;
  if (saver != nullptr)
    for (const StepSpan& step : saver->steps)
      if (step.end_ns <= saved_ns) kept.insert(step.number);
  std::set_difference(steps.begin(), steps.end(), kept.begin(), kept.end(),
                      std::inserter(lost.numbers, lost.numbers.end()));
  if (!lost.numbers.empty()) lost.by = saver == nullptr ? "no checkpoint" : "checkpoint";
  return lost;
}

using Parts = std::array<double, kWallParts>;

/// Takes up to `wanted` from what is left.
void take(double wanted, double& left, double& into) {
  const double taken = std::clamp(wanted, 0.0, left);
  left -= taken;
  into += taken;
}

Parts parts_of(const WorkerTimes& worker, const RunTimes& run, const Lost& lost, double median_step_ns) {
  Parts parts{};
  const int64_t begin_ns = -run.offset_ns, end_ns = begin_ns + run.wall_ns;
  Cursor stalls(run.stalls), checkpoints(worker.checkpoints), loading(worker.loading), compiling(worker.compiling);
  int64_t at_ns = begin_ns;
  // What lies outside of steps.
  const auto outside = [&](int64_t to_ns, WallPart part) {
    to_ns = std::clamp(to_ns, at_ns, end_ns);
    double left = static_cast<double>(to_ns - at_ns);
    take(stalls.overlap(at_ns, to_ns), left, parts[kStalls]);
    take(checkpoints.overlap(at_ns, to_ns), left, parts[kCheckpoints]);
    take(loading.overlap(at_ns, to_ns), left, parts[kLoading]);
    parts[part] += left;
    at_ns = to_ns;
  };
  size_t index = 0;
  for (const StepSpan& step : worker.steps) {
    outside(step.start_ns, index == 0 ? kStartUp : kBetween);
    const int64_t to_ns = std::clamp(step.end_ns, at_ns, end_ns);
    double left = static_cast<double>(to_ns - at_ns);
    take(stalls.overlap(at_ns, to_ns), left, parts[kStalls]);
    if (lost.numbers.contains(step.number)) {
      parts[kLost] += left;
    } else {
      take(checkpoints.overlap(at_ns, to_ns), left, parts[kCheckpoints]);
      take(loading.overlap(at_ns, to_ns), left, parts[kLoading]);
      take(compiling.overlap(at_ns, to_ns), left, parts[kWarmUp]);
      take(step.wait_ns, left, parts[kWaitingPart]);
      if (static_cast<int64_t>(index) < run.warmup) take(left - median_step_ns, left, parts[kWarmUp]);
      parts[kProductive] += left;
    }
    at_ns = to_ns;
    ++index;
  }
  if (worker.open_step_ns) {  // it never ended: in vain as well
    outside(*worker.open_step_ns, index == 0 ? kStartUp : kBetween);
    outside(std::max(worker.end_ns, at_ns), kLost);
  }
  outside(end_ns, index == 0 && !worker.open_step_ns ? kStartUp : kShutDown);
  return parts;
}

double median_productive_ns(const RunTimes& run) {
  std::vector<double> own;
  for (const WorkerTimes& worker : run.workers)
    for (const StepSpan& step : worker.steps)
      own.push_back(static_cast<double>(step.end_ns - step.start_ns) - step.wait_ns);
  if (own.empty()) return 0;
  std::nth_element(own.begin(), own.begin() + static_cast<ptrdiff_t>(own.size() / 2), own.end());
  return own[own.size() / 2];
}

}  // namespace

std::vector<RunTimes> read_run_times(SQLite::Database& db, const std::string& name) {
  const auto epoch = meta_number(db, "epoch_realtime_ns");
  if (!epoch)
    throw Error(fmt::format("{} does not say when it ran, so it cannot be compared with other runs", name),
                "leave it out", ExitCode::kDataMissing);
  Query span(db, "SELECT min(start_ns), max(end_ns) FROM process");
  if (!span.next() || span.is_null(0))
    throw Error(fmt::format("{} holds no process", name), "leave it out; ddl report loss says what is missing",
                ExitCode::kDataMissing);
  const int64_t first_ns = *epoch + span.integer(0), last_ns = *epoch + span.integer(1);
  const auto started = meta_number(db, "started_realtime_ns"), ended = meta_number(db, "ended_realtime_ns");

  Query warmup(db, "SELECT warmup FROM steady_world WHERE world = ?");
  Query stalls(
      db,
      "SELECT since_ns, coalesce(resumed_ns, ?3) FROM stall WHERE kind = 'stall' AND since_ns >= ?1 AND since_ns < ?2 ORDER BY since_ns");
  Query steps(
      db,
      "SELECT s.step, s.start_ns, s.duration_ns, w.wait_ns, s.measured FROM step s JOIN process p ON p.id = s.process LEFT JOIN steady_wait w ON w.world ="
      " p.world AND w.step = s.step AND w.rank = p.rank AND s.measured WHERE s.process = ? ORDER BY s.start_ns");
  Query waits(db, "SELECT step, wait_ns FROM step_part WHERE process = ? AND wait_ns IS NOT NULL");
  Query checkpoints(db, ranges_sql(kCheckpointRanges)), loading(db, ranges_sql(kInputRanges)),
      compiling(db, ranges_sql(kCompilationRanges));
  Query last_sign(db, "SELECT end_ns FROM process WHERE id = ?");

  std::vector<Start> starts = starts_of(db);
  if (starts.empty()) starts.emplace_back();
  std::vector<RunTimes> runs;
  for (size_t i = 0; i < starts.size(); ++i) {
    const Start& start = starts[i];
    const bool last = i + 1 == starts.size(), all = starts.size() == 1;
    RunTimes& run = runs.emplace_back();
    run.recording = name;
    run.name = all ? name : fmt::format("{} #{}", name, i + 1);
    run.worlds = start.worlds;
    run.unranked = start.unranked;
    // The command is there before its first process, and ends after its last one. What lies between two
    // starts is neither's.
    const int64_t begin_ns = i == 0 ? first_ns : *epoch + start.start_ns,
                  end_ns = last ? last_ns : *epoch + start.end_ns;
    run.start_realtime_ns =
        i == 0 && started && *started <= begin_ns + kMostApartNs ? std::min(*started, begin_ns) : begin_ns;
    const int64_t end_realtime_ns =
        last && ended && *ended >= end_ns - kMostApartNs ? std::max(*ended, end_ns) : end_ns;
    run.wall_ns = end_realtime_ns - run.start_realtime_ns;
    run.offset_ns = *epoch - run.start_realtime_ns;
    run.ended_by = how_it_ended(db, start, last, all, run.failed);
    if (warmup.bind(start.worlds.empty() ? 0 : *start.worlds.begin()).next()) run.warmup = warmup.integer(0);

    stalls.bind(i == 0 ? INT64_MIN : start.start_ns, last ? INT64_MAX : starts[i + 1].start_ns, end_ns - *epoch);
    while (stalls.next()) run.stalls.push_back({stalls.integer(0), std::max(stalls.integer(0), stalls.integer(1))});
    if (!run.stalls.empty() && run.failed)
      run.stalls.back().end_ns = std::max(run.stalls.back().end_ns, end_realtime_ns - *epoch);

    for (const auto& [id, world] : start.workers) {
      WorkerTimes worker;
      worker.world = world;
      if (last_sign.bind(id).next()) worker.end_ns = last_sign.integer(0);
      std::map<int64_t, double> wait;
      waits.bind(id);
      while (waits.next()) wait[waits.integer(0)] = waits.real(1);
      steps.bind(id);
      while (steps.next()) {
        if (steps.is_null(2)) {
          worker.open_step_ns = steps.integer(1);
          continue;
        }
        const auto known = steps.integer(4) != 0 ? wait.find(steps.integer(0)) : wait.end();
        const double wait_ns = !steps.is_null(3) ? steps.real(3) : known != wait.end() ? known->second : 0;
        run.waiting_known &= !steps.is_null(3) || known != wait.end() || start.workers.size() == 1;
        worker.steps.push_back({steps.integer(0), steps.integer(1), steps.integer(1) + steps.integer(2), wait_ns});
      }
      worker.checkpoints = ranges_of(checkpoints, id);
      worker.loading = ranges_of(loading, id);
      worker.compiling = ranges_of(compiling, id);
      run.workers.push_back(std::move(worker));
    }
  }
  return runs;
}

Goodput goodput_of(std::vector<RunTimes> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const RunTimes& a, const RunTimes& b) { return a.start_realtime_ns < b.start_realtime_ns; });
  Goodput goodput;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunTimes& run = runs[i];
    const RunTimes* next = i + 1 < runs.size() ? &runs[i + 1] : nullptr;
    const Lost lost = lost_steps(run, next);
    const double median_ns = median_productive_ns(run);
    RunGoodput one;
    one.name = run.name;
    one.ended_by = run.ended_by;
    one.start_realtime_ns = run.start_realtime_ns;
    one.wall_ns = run.wall_ns;
    one.workers = std::max<size_t>(1, run.workers.size());
    one.worlds = run.worlds.size();
    one.unranked = run.unranked;
    one.recording = run.recording;
    one.steps = static_cast<int64_t>(steps_of_all(run).size());
    one.lost_steps = static_cast<int64_t>(lost.numbers.size());
    one.lost_by = lost.by;
    for (const WorkerTimes& worker : run.workers) {
      const Parts parts = parts_of(worker, run, lost, median_ns);
      for (size_t p = 0; p < kWallParts; ++p) one.parts[p] += parts[p] / static_cast<double>(run.workers.size());
    }
    if (run.workers.empty()) one.parts[kStartUp] = static_cast<double>(run.wall_ns);
    for (size_t p = 0; p < kWallParts; ++p) goodput.parts[p] += one.parts[p];
    goodput.steps += one.steps;
    goodput.lost_steps += one.lost_steps;
    double lasts_ns = static_cast<double>(run.wall_ns);
    if (next != nullptr) {
      const int64_t down_ns = next->start_realtime_ns - run.start_realtime_ns - run.wall_ns;
      if (down_ns < -std::min(kMostApartNs, run.wall_ns / 2))
        throw Error(
            fmt::format("{} and {} ran at the same time: they are not restarts of one job", run.name, next->name),
            "give one job's runs", ExitCode::kUsage);
      goodput.parts[kDown] += static_cast<double>(std::max<int64_t>(0, down_ns));
      lasts_ns += static_cast<double>(std::max<int64_t>(0, down_ns));
    }
    goodput.wall_ns += lasts_ns;
    goodput.worker_ns += lasts_ns * static_cast<double>(one.workers);
    goodput.runs.push_back(std::move(one));
  }
  return goodput;
}

}  // namespace ddl::models
