#include "analyzer/passes/steady_steps.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/passes/instance.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

// The first process counts where two have the same rank because one became another program.
constexpr const char* kWholeRuns = R"(
  INSERT OR IGNORE INTO steady_part (world, step, rank, annotated, duration_ns, compute_ns, comm_ns, exposed_ns, wait_ns, xfer_ns, why, staged, sigma_ns)
  SELECT p.world, 0, p.rank, 0, t.duration_ns, t.compute_ns, t.comm_ns, t.exposed_ns, t.wait_ns, t.xfer_ns, t.why, 0, t.sigma_ns
  FROM rank_part t
  JOIN process p ON p.id = t.process
  WHERE p.world = ? AND p.rank IS NOT NULL AND (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank))";

constexpr const char* kSteadyParts = R"(
  INSERT OR IGNORE INTO steady_part
    (world, step, rank, annotated, duration_ns, compute_ns, comm_ns, exposed_ns, wait_ns, xfer_ns, why, input_ns, bubble_ns, staged, sigma_ns)
  SELECT p.world, t.step, p.rank, 1, t.compute_ns + t.exposed_ns + t.idle_ns, t.compute_ns, t.comm_ns, t.exposed_ns, t.wait_ns, t.xfer_ns, t.why,
         t.input_ns, t.bubble_ns, l.process IS NOT NULL, t.sigma_ns
  FROM step_part t
  JOIN process p ON p.id = t.process
  JOIN steady_number n ON n.world = p.world AND n.step = t.step
  LEFT JOIN pipeline l ON l.process = t.process
  WHERE p.rank IS NOT NULL AND (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank))";

constexpr const char* kSteadySteps = R"(
  INSERT INTO steady_step
    (world, step, annotated, ranks, duration_ns, compute_ns, comm_ns, exposed_ns, wait_ns, xfer_ns, longest_ns, longest_exposed_ns, why, input_ns,
     bubble_ns, staged, staged_ns, sigma_ns, staged_sigma_ns)
  SELECT world, step, max(annotated), count(*), sum(duration_ns), sum(compute_ns),
         iif(count(comm_ns) = count(*), sum(comm_ns), NULL),
         sum(exposed_ns),
         iif(count(wait_ns) = count(*), sum(wait_ns), NULL),
         iif(count(xfer_ns) = count(*), sum(xfer_ns), NULL),
         max(duration_ns), max(exposed_ns), max(why),
         iif(count(input_ns) = count(*), sum(input_ns), NULL),
         iif(count(bubble_ns) = sum(staged), sum(bubble_ns), NULL),
         sum(staged), sum(staged * duration_ns),
         iif(count(sigma_ns) = count(*), sum(sigma_ns), NULL),
         iif(count(iif(staged, sigma_ns, NULL)) = sum(staged), sum(staged * sigma_ns), NULL)
  FROM steady_part
  GROUP BY world, step)";

constexpr const char* kSteadyRanks = R"(
  INSERT INTO steady_rank (world, rank, host, duration_ns, compute_ns, exposed_ns, wait_ns, why, sigma_ns)
  SELECT s.world, s.rank,
         (SELECT p.host FROM process p WHERE p.world = s.world AND p.rank = s.rank),
         sum(s.duration_ns), sum(s.compute_ns), sum(s.exposed_ns),
         iif(count(s.wait_ns) = count(*), sum(s.wait_ns), NULL),
         max(s.why), sum(s.sigma_ns)
  FROM steady_part s
  GROUP BY s.world, s.rank)";

// The first step counts where a process used a number twice: min() takes the end from its row. total(), for a process
// with a damaged clock is decades away in each of its steps, and a sum of integers that overflows ends the analysis.
constexpr const char* kJobWindows = R"(
  WITH part AS (
    SELECT p.world, s.step, min(s.start_ns) AS begin_ns, s.start_ns + s.duration_ns AS end_ns
    FROM step s
    JOIN process p ON p.id = s.process AND p.rank IS NOT NULL
    JOIN steady_number n ON n.world = p.world AND n.step = s.step
    WHERE s.duration_ns IS NOT NULL
    GROUP BY s.process, s.step
    UNION ALL
    SELECT p.world, 0, coalesce(p.init_ns, p.start_ns), coalesce(p.finalize_ns, p.end_ns)
    FROM process p
    WHERE p.rank IS NOT NULL AND p.world NOT IN (SELECT world FROM steady_number)
  ), whole AS (
    SELECT world, max(end_ns) - min(begin_ns) AS duration_ns
    FROM part
    GROUP BY world, step
  )
  SELECT world, CAST(total(max(duration_ns, 0)) AS INTEGER), count(*)
  FROM whole
  GROUP BY world)";

constexpr const char* kCoverage = R"(
  UPDATE steady_world
  SET ranks = (SELECT count(*) FROM steady_rank r WHERE r.world = steady_world.world),
      world_size = (SELECT max(max(coalesce(p.world_size, 0)), count(DISTINCT p.rank)) FROM process p WHERE p.world = steady_world.world),
      bounded = EXISTS (SELECT 1 FROM steady_rank r WHERE r.world = steady_world.world AND r.wait_ns IS NOT NULL AND r.why = 'PARTIAL_RANKS'))";

struct WorldSteps {
  std::map<int64_t, std::vector<int64_t>> steps_of;  // of each rank that recorded any
  std::map<int64_t, int64_t> seen_by;                // step -> number of ranks

  /// As if the rank had left no record.
  void leave_out(int64_t rank) {
    for (const int64_t step : steps_of[rank]) --seen_by[step];
    steps_of.erase(rank);
  }
  int64_t complete() const {
    const auto all = static_cast<int64_t>(steps_of.size());
    return std::count_if(seen_by.begin(), seen_by.end(), [&](const auto& step) { return step.second == all; });
  }
};

std::map<int64_t, WorldSteps> count_ranks(SQLite::Database& db) {
  std::map<int64_t, WorldSteps> worlds;
  Query worlds_with_ranks(db, "SELECT DISTINCT world FROM process WHERE rank IS NOT NULL");
  while (worlds_with_ranks.next()) worlds[worlds_with_ranks.integer(0)];
  // A killed process's last steps, of which its GPUs' records were not handed over any more, are steps that it lacks.
  Query rows(db, R"(
    WITH unseen AS (
      SELECT s.process, s.step
      FROM step s
      JOIN process p ON p.id = s.process AND p.ended = 'lost'
      WHERE s.process IN (SELECT process FROM gpu_part) AND (s.process, s.step) NOT IN (SELECT process, step FROM gpu_part WHERE step IS NOT NULL)
    )
    SELECT p.world, p.rank, t.step
    FROM step_part t
    JOIN process p ON p.id = t.process
    WHERE p.rank IS NOT NULL AND (t.process, t.step) NOT IN (SELECT process, step FROM unseen))");
  while (rows.next()) {
    WorldSteps& world = worlds[rows.integer(0)];
    std::vector<int64_t>& steps = world.steps_of[rows.integer(1)];
    steps.push_back(rows.integer(2));
    ++world.seen_by[rows.integer(2)];
  }
  return worlds;
}

/// Damaged records say nothing of waiting. Among those that stop early the shortest are left out as long as what is
/// left, ranks times steps, grows by it.
std::vector<int64_t> leave_out_torn(const Catalog& catalog, int64_t world, WorldSteps& steps) {
  std::vector<int64_t> left_out, short_ones;
  for (const int64_t rank : catalog.unrecorded_ranks(world)) {
    const ProcessInfo* process = catalog.process_of(world, rank);
    if (process == nullptr) continue;
    (process->damaged ? left_out : short_ones).push_back(rank);
  }
  for (const int64_t rank : left_out) steps.leave_out(rank);
  const auto length = [&](int64_t rank) { return steps.steps_of.contains(rank) ? steps.steps_of.at(rank).size() : 0; };
  std::stable_sort(short_ones.begin(), short_ones.end(), [&](int64_t a, int64_t b) { return length(a) < length(b); });
  const auto known = [](const WorldSteps& w) { return static_cast<int64_t>(w.steps_of.size()) * w.complete(); };
  WorldSteps trial = steps;
  int64_t most = known(steps);
  size_t best = 0;
  for (size_t i = 0; i < short_ones.size(); ++i) {
    trial.leave_out(short_ones[i]);
    if (const int64_t now = known(trial); now > most) {
      most = now;
      best = i + 1;
    }
  }
  for (size_t i = 0; i < best; ++i) {
    steps.leave_out(short_ones[i]);
    left_out.push_back(short_ones[i]);
  }
  return left_out;
}

void select(SQLite::Database& db, int64_t world, const WorldSteps& steps, SteadySteps& result) {
  const auto all = static_cast<int64_t>(steps.steps_of.size());
  std::vector<int64_t> complete;
  for (const auto& [step, ranks] : steps.seen_by) {
    if (ranks == all) complete.push_back(step);
  }
  result.incomplete = static_cast<int64_t>(steps.seen_by.size() - complete.size());
  result.annotated = !complete.empty();
  result.warmup = static_cast<int64_t>(complete.size()) > kMinStepsForWarmup ? kWarmupSteps : 0;
  result.used = static_cast<int64_t>(complete.size()) - result.warmup;
  Query insert(db, "INSERT INTO steady_number (world, step) VALUES (?, ?)");
  for (auto step = complete.begin() + result.warmup; step != complete.end(); ++step) insert.run(world, *step);
}

/// Table `timed_step`. Ranks without any step, and damaged or torn ones, are not expected to end any.
void select_timed_steps(SQLite::Database& db, const std::map<int64_t, SteadySteps>& steady) {
  std::map<int64_t, std::map<int64_t, std::pair<int64_t, int64_t>>> worlds;  // step -> ranks, longest
  std::map<int64_t, int64_t> ranks_of;
  Query rows(db, R"(
    SELECT p.world, p.rank, s.step, s.duration_ns
    FROM step s
    JOIN process p ON p.id = s.process
    WHERE p.world IN (SELECT q.world FROM background_process b JOIN process q ON q.id = b.process)
      AND p.rank IS NOT NULL AND s.measured AND s.duration_ns IS NOT NULL AND (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank)
    ORDER BY p.world, p.rank)");
  for (std::optional<std::pair<int64_t, int64_t>> last; rows.next();) {
    const std::pair rank(rows.integer(0), rows.integer(1));
    if (last != rank) ++ranks_of[rank.first];
    last = rank;
    auto& [ranks, longest_ns] = worlds[rank.first][rows.integer(2)];
    ++ranks;
    longest_ns = std::max(longest_ns, rows.integer(3));
  }
  Query insert(db, "INSERT INTO timed_step (world, step, longest_ns, warmup) VALUES (?, ?, ?, ?)");
  for (auto& [world, steps] : worlds) {
    std::erase_if(steps, [&](const auto& step) { return step.second.first != ranks_of[world]; });
    const auto complete = static_cast<int64_t>(steps.size());
    const SteadySteps& sampled = steady.at(world);
    if (complete <= sampled.used + sampled.warmup) continue;
    const int64_t warmup = complete > kMinStepsForWarmup ? kWarmupSteps : 0;
    for (auto step = std::next(steps.begin(), warmup); step != steps.end(); ++step)
      insert.run(world, step->first, step->second.second, warmup);
  }
}

}  // namespace

std::map<int64_t, SteadySteps> select_steady_steps(SQLite::Database& db, const Catalog& catalog) {
  std::map<int64_t, SteadySteps> result;
  Query insert_world(
      db,
      "INSERT INTO steady_world (world, annotated, inferred, used, warmup, incomplete, ranks, world_size, bounded)"
      " VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)");
  Query insert_torn(db, "INSERT INTO torn_rank (world, rank) VALUES (?, ?)");
  Query whole_run(db, kWholeRuns);
  std::map<int64_t, WorldSteps> worlds = count_ranks(db);
  for (auto& [world, steps] : worlds) {
    for (const int64_t rank : leave_out_torn(catalog, world, steps)) insert_torn.run(world, rank);
    SteadySteps& steady = result[world];
    select(db, world, steps, steady);
    Query inferred(db, "SELECT 1 FROM inferred_steps i JOIN process p ON p.id = i.process WHERE p.world = ? LIMIT 1");
    inferred.bind(world);
    steady.inferred = steady.annotated && inferred.next();
    insert_world.run(world, steady.annotated, steady.inferred, steady.used, steady.warmup, steady.incomplete);
    if (!steady.annotated) whole_run.run(world);
  }
  db.exec(kSteadyParts);
  db.exec(kSteadySteps);
  db.exec(kSteadyRanks);
  db.exec(kCoverage);
  select_timed_steps(db, result);
  return result;
}

void sum_job_windows(SQLite::Database& db, const Catalog& catalog) {
  std::map<int64_t, ClockSpread> clocks;  // by world
  for (const auto& [id, process] : catalog.processes)
    if (process.rank >= 0) clocks[process.world].add(catalog.clock_of(process));
  Query windows(db, kJobWindows);
  Query insert(db, "INSERT INTO job_window (world, duration_ns, sigma_ns, why) VALUES (?, ?, ?, ?)");
  while (windows.next()) {
    const int64_t world = windows.integer(0), duration_ns = windows.integer(1);
    std::optional<double> sigma_ns = clocks[world].sigma_ns();
    if (sigma_ns) *sigma_ns *= windows.real(2);
    const bool trusted =
        sigma_ns && (*sigma_ns == 0 || *sigma_ns < kTrustedSigmaShare * static_cast<double>(duration_ns));
    if (!trusted) sigma_ns.reset();
    insert.run(world, trusted ? std::optional(duration_ns) : std::nullopt, sigma_ns,
               name_of(trusted ? Why::kNone : Why::kClockUntrusted));
  }
}

}  // namespace ddl
