#include "analyzer/passes/steady_steps.h"

#include <set>
#include <vector>

#include "analyzer/query.h"

namespace ddl {
namespace {

struct WorldSteps {
  std::set<int64_t> ranks;             // that recorded any step
  std::map<int64_t, int64_t> seen_by;  // step -> number of ranks
};

std::map<int64_t, WorldSteps> count_ranks(SQLite::Database& db) {
  std::map<int64_t, WorldSteps> worlds;
  Query worlds_with_ranks(db, "SELECT DISTINCT world FROM process WHERE rank IS NOT NULL");
  while (worlds_with_ranks.next()) worlds[worlds_with_ranks.integer(0)];
  Query rows(db, "SELECT p.world, p.rank, t.step FROM step_part t JOIN process p ON p.id = t.process WHERE p.rank IS NOT NULL");
  while (rows.next()) {
    WorldSteps& world = worlds[rows.integer(0)];
    world.ranks.insert(rows.integer(1));
    ++world.seen_by[rows.integer(2)];
  }
  return worlds;
}

void select(SQLite::Database& db, int64_t world, const WorldSteps& steps, SteadySteps& result) {
  const auto all = static_cast<int64_t>(steps.ranks.size());
  std::vector<int64_t> complete;
  for (const auto& [step, ranks] : steps.seen_by) {
    if (ranks == all) complete.push_back(step);
  }
  result.incomplete = static_cast<int64_t>(steps.seen_by.size() - complete.size());
  result.annotated = !complete.empty();
  result.warmup = static_cast<int64_t>(complete.size()) > kMinStepsForWarmup ? kWarmupSteps : 0;
  result.used = static_cast<int64_t>(complete.size()) - result.warmup;
  Query insert(db, "INSERT INTO temp.steady_number VALUES (?, ?)");
  for (auto step = complete.begin() + result.warmup; step != complete.end(); ++step) insert.run(world, *step);
}

}  // namespace

std::map<int64_t, SteadySteps> select_steady_steps(SQLite::Database& db) {
  db.exec(
      "CREATE TEMP TABLE steady_number (world INTEGER, step INTEGER, PRIMARY KEY (world, step)) WITHOUT ROWID;"
      "CREATE TEMP TABLE steady_part ("
      "  world INTEGER, step INTEGER, rank INTEGER, annotated INTEGER, duration_ns INTEGER, compute_ns INTEGER, comm_ns INTEGER, "
      "exposed_ns INTEGER,"
      "  wait_ns INTEGER, xfer_ns INTEGER, why TEXT, input_ns INTEGER, bubble_ns INTEGER, staged INTEGER, sigma_ns REAL,"
      "  PRIMARY KEY (world, step, rank)) "
      "WITHOUT ROWID;"
      "CREATE TEMP TABLE steady_step ("
      "  world INTEGER, step INTEGER, annotated INTEGER, ranks INTEGER, duration_ns INTEGER, compute_ns INTEGER, comm_ns INTEGER, "
      "exposed_ns INTEGER,"
      "  wait_ns INTEGER, xfer_ns INTEGER, longest_ns INTEGER, longest_exposed_ns INTEGER, why TEXT, input_ns INTEGER, bubble_ns INTEGER,"
      "  staged INTEGER, staged_ns INTEGER, sigma_ns REAL, staged_sigma_ns REAL, PRIMARY KEY (world, step)) WITHOUT ROWID");

  std::map<int64_t, SteadySteps> result;
  for (const auto& [world, steps] : count_ranks(db)) {
    SteadySteps& steady = result[world];
    select(db, world, steps, steady);
    Query inferred(db, "SELECT 1 FROM inferred_steps i JOIN process p ON p.id = i.process WHERE p.world = ? LIMIT 1");
    inferred.bind(world);
    steady.inferred = steady.annotated && inferred.next();
    if (steady.annotated) continue;
    Query whole_runs(db,
                     "INSERT OR IGNORE INTO temp.steady_part SELECT p.world, 0, p.rank, 0, t.duration_ns, t.compute_ns, t.comm_ns, "
                     "t.exposed_ns, t.wait_ns, t.xfer_ns, t.why, NULL, NULL, 0, t.sigma_ns"
                     " FROM rank_part t JOIN process p ON p.id = t.process WHERE p.world = ? AND p.rank IS NOT NULL");
    whole_runs.run(world);
  }
  db.exec(
      "INSERT OR IGNORE INTO temp.steady_part SELECT p.world, t.step, p.rank, 1, t.compute_ns + t.exposed_ns + t.idle_ns, t.compute_ns, "
      "t.comm_ns, t.exposed_ns,"
      "  t.wait_ns, t.xfer_ns, t.why, t.input_ns, t.bubble_ns, l.process IS NOT NULL, t.sigma_ns"
      " FROM step_part t JOIN process p ON p.id = t.process LEFT JOIN pipeline l ON l.process = t.process JOIN temp.steady_number n ON "
      "n.world = p.world AND n.step = t.step"
      " WHERE p.rank IS NOT NULL;"
      "INSERT INTO temp.steady_step SELECT world, step, max(annotated), count(*), sum(duration_ns), sum(compute_ns),"
      "  iif(count(comm_ns) = count(*), sum(comm_ns), NULL), sum(exposed_ns), iif(count(wait_ns) = count(*), sum(wait_ns), NULL),"
      "  iif(count(xfer_ns) = count(*), sum(xfer_ns), NULL), max(duration_ns), max(exposed_ns), max(why),"
      "  iif(count(input_ns) = count(*), sum(input_ns), NULL), iif(count(bubble_ns) = sum(staged), sum(bubble_ns), NULL),"
      "  sum(staged), sum(staged * duration_ns), iif(count(sigma_ns) = count(*), sum(sigma_ns), NULL),"
      "  iif(count(iif(staged, sigma_ns, NULL)) = sum(staged), sum(staged * sigma_ns), NULL) FROM temp.steady_part GROUP BY "
      "world, step;"
      "CREATE TEMP TABLE steady_rank AS SELECT s.world, s.rank, (SELECT p.host FROM process p WHERE p.world = s.world AND p.rank = s.rank)"
      " AS host, sum(s.duration_ns) AS duration_ns, sum(s.compute_ns) AS compute_ns, sum(s.exposed_ns) AS exposed_ns,"
      " iif(count(s.wait_ns) = count(*), sum(s.wait_ns), NULL) AS wait_ns, max(s.why) AS why, sum(s.sigma_ns) AS sigma_ns"
      " FROM temp.steady_part s GROUP BY s.world, s.rank");
  return result;
}

}  // namespace ddl
