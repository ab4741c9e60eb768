#include "reports/run_view.h"

#include <fmt/format.h>

#include <cmath>

#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::reports {
namespace {

std::optional<int64_t> scalar(SQLite::Database& db, std::string_view sql, int64_t world) {
  Query query(db, sql);
  query.bind(world);
  return query.next() ? query.maybe_integer(0) : std::nullopt;
}

}  // namespace

RunView::RunView(SQLite::Database& database, std::optional<int64_t> wanted_world) : db(database) {
  Query by_world(
      db,
      "SELECT world, count(DISTINCT rank), max(world_size) FROM process WHERE rank IS NOT NULL GROUP BY world ORDER BY 2 DESC, 1");
  worlds = 0;
  bool found = false;
  while (by_world.next()) {
    ++worlds;
    if (found || (wanted_world && *wanted_world != by_world.integer(0))) continue;
    found = true;
    world = by_world.integer(0);
    ranks = by_world.integer(1);
    expected_ranks = by_world.integer(2);
  }
  if (worlds == 0) {
    Query without_ranks(db, "SELECT min(world) FROM process");
    if (!without_ranks.next() || without_ranks.is_null(0))
      throw Error("the run holds no process", "its spools could not be read: see ddl report loss",
                  ExitCode::kDataMissing);
    world = without_ranks.integer(0);
    worlds = 1;
    found = !wanted_world || *wanted_world == world;
  }
  if (!found)
    throw Error(fmt::format("the run has no world {}", *wanted_world),
                fmt::format("its worlds are 0 to {}", worlds - 1), ExitCode::kUsage);
  hosts = scalar(db,
                 ranks > 0 ? "SELECT count(DISTINCT host) FROM process WHERE world = ? AND rank IS NOT NULL"
                           : "SELECT count(DISTINCT host) FROM process WHERE world = ?",
                 world)
              .value_or(0);
  all_steps =
      scalar(db, "SELECT count(DISTINCT s.step) FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?",
             world)
          .value_or(0);

  Query basis(db, "SELECT annotated, inferred, warmup FROM steady_world WHERE world = ?");
  basis.bind(world);
  if (basis.next()) {
    has_steps = basis.integer(0) != 0;
    inferred_steps = basis.integer(1) != 0;
    warmup_steps = basis.integer(2);
  }
  facts = read_facts(db, world);
  steps = facts.step.used;
}

std::string RunView::meta(std::string_view key) const {
  Query query(db, "SELECT value FROM meta WHERE key = ?");
  query.bind(key);
  return query.next() ? query.text(0) : std::string();
}

std::optional<double> RunView::clock_sigma_ns() const {
  Query variance(
      db,
      "SELECT sum(sigma_ns * sigma_ns), count(*) = count(sigma_ns) FROM (SELECT DISTINCT boot_id, offset_ns, sigma_ns FROM host"
      " WHERE id IN (SELECT host FROM process WHERE world = ?) ORDER BY sigma_ns IS NOT NULL, sigma_ns DESC LIMIT 2)");
  variance.bind(world);
  if (!variance.next() || variance.integer(1) == 0 || variance.is_null(0)) return std::nullopt;
  return std::sqrt(variance.real(0));
}

bool RunView::negotiates() const {
  Query row(db, "SELECT 1 FROM negotiation n JOIN process p ON p.id = n.process WHERE p.world = ? LIMIT 1");
  return row.bind(world).next();
}

std::string RunView::verdict() const {
  return meta(world == 0 ? "verdict.text" : fmt::format("verdict.{}.text", world));
}

}  // namespace ddl::reports
