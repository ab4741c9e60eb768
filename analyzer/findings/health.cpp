#include "analyzer/findings/health.h"

#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinThrottled = 0.1;  // share of the samples

}  // namespace

std::string health_evidence(SQLite::Database& db, int64_t world, int64_t rank) {
  std::string text;
  Query throttled(db,
                  "SELECT v.device, v.throttled, v.samples, (SELECT t.most FROM v_node t WHERE t.node = v.node AND t.device = v.device"
                  " AND t.name = 'temperature_celsius') FROM v_node v WHERE v.name = 'throttle_reasons' AND v.throttled >= ?1"
                  " AND v.node = (SELECT host FROM process WHERE world = ?2 AND rank = ?3) ORDER BY v.throttled DESC, v.device");
  throttled.bind(kMinThrottled, world, rank);
  while (throttled.next()) {
    text += fmt::format(" Its host slowed {} down in {:.0f}% of {} samples{}.", throttled.text(0), 100 * throttled.real(1),
                        throttled.integer(2), throttled.is_null(3) ? "" : fmt::format(" (up to {:.0f} C)", throttled.real(3)));
  }
  Query lost(
      db,
      "SELECT device, name, growth FROM v_node WHERE growth > 0 AND (name LIKE '%_errors' OR name LIKE '%_dropped' OR name = 'link_downed')"
      " AND (SELECT count(*) FROM host) > 1 AND node = (SELECT host FROM process WHERE world = ?1 AND rank = ?2) ORDER BY device, name");
  lost.bind(world, rank);
  while (lost.next()) text += fmt::format(" {} of its host counted {:.0f} {} during the run.", lost.text(0), lost.real(2), lost.text(1));
  return text;
}

std::string same_host_evidence(const FindingInput& input, int64_t rank) {
  constexpr double kTheHost = 0.5;     // of the rank's lead: with so much of it the others there are slow too
  constexpr double kLeastLead = 0.01;  // of what ranks elsewhere compute: less is chance
  const ProcessInfo* own = input.catalog.process_of(input.world, rank);
  if (own == nullptr) return {};
  double own_ns = 0;
  std::vector<double> there, elsewhere;
  Query rows(input.db, R"(
    SELECT p.rank, avg(g.compute_ns * 1.0 / g.windows)
    FROM steady_gpu g
    JOIN process p ON p.id = g.process
    JOIN steady_world w ON w.world = p.world AND w.waits_by = 'device'
    WHERE p.world = ?1 AND p.rank IS NOT NULL
    GROUP BY p.rank
    UNION ALL
    SELECT s.rank, avg(s.compute_ns - coalesce(s.input_ns, 0))
    FROM steady_part s
    JOIN steady_world w ON w.world = s.world AND w.waits_by <> 'device'
    WHERE s.world = ?1
    GROUP BY s.rank)");
  rows.bind(input.world);
  while (rows.next()) {
    const ProcessInfo* process = input.catalog.process_of(input.world, rows.integer(0));
    if (process == nullptr) continue;
    if (rows.integer(0) == rank) {
      own_ns = rows.real(1);
    } else {
      (process->host == own->host ? there : elsewhere).push_back(rows.real(1));
    }
  }
  if (there.empty() || elsewhere.empty()) return {};
  const double there_ns = median_of(there), elsewhere_ns = median_of(elsewhere);
  if (own_ns - elsewhere_ns < kLeastLead * elsewhere_ns) return {};
  if (there_ns - elsewhere_ns > kTheHost * (own_ns - elsewhere_ns))
    return fmt::format(" The other ranks on its host compute longer too ({}, elsewhere {}): it is the host.", duration_text(there_ns),
                       duration_text(elsewhere_ns));
  return " The other ranks on its host do not compute longer than those elsewhere.";
}

}  // namespace ddl
