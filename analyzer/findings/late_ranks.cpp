#include "analyzer/findings/late_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/passes/axes.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinThrottled = 0.1;  // share of the samples

/// Whose value is that of all of `ranks`, and of no other rank.
std::optional<int64_t> only_theirs(const std::map<int64_t, int64_t>& values, const std::vector<int64_t>& ranks) {
  const auto own = values.find(ranks.front());
  if (ranks.size() < 2 || own == values.end()) return std::nullopt;
  std::vector<int64_t> alike;
  for (const auto& [rank, value] : values)
    if (value == own->second) alike.push_back(rank);
  return alike == ranks && alike.size() < values.size() ? std::optional(own->second) : std::nullopt;
}

std::map<int64_t, int64_t> hosts_of(const FindingInput& input) {
  std::map<int64_t, int64_t> hosts;
  for (const auto& [id, process] : input.catalog.processes)
    if (process.world == input.world && process.rank >= 0) hosts[process.rank] = process.host;
  return hosts;
}

struct SharedPlace {
  std::string axis;
  int64_t place = 0;
};

/// On an axis that has a name; the shape of communicators alone says nothing of what their members have to do.
std::optional<SharedPlace> shared_place(const FindingInput& input, const std::vector<int64_t>& ranks) {
  Query axes(
      input.db,
      "SELECT DISTINCT a.axis FROM communicator_axis a JOIN communicator c ON c.id = a.communicator WHERE c.world = ?"
      " AND a.source <> 'shape' ORDER BY a.axis LIKE '%pipeline%' DESC, a.axis");
  for (axes.bind(input.world); axes.next();) {
    const std::map<int64_t, int64_t> places = places_on_axis(input.db, input.world, axes.text(0));
    const bool all =
        std::ranges::all_of(hosts_of(input), [&](const auto& rank) { return places.contains(rank.first); });
    if (const auto place = only_theirs(places, ranks); all && place) return SharedPlace{axes.text(0), *place};
  }
  const std::map<int64_t, int64_t> stages = stages_of(input);  // that nobody named
  const bool all = std::ranges::all_of(hosts_of(input), [&](const auto& rank) { return stages.contains(rank.first); });
  if (const auto stage = only_theirs(stages, ranks); all && stage) return SharedPlace{"pipeline", *stage};
  return std::nullopt;
}

bool is_pipeline(const SharedPlace& shared) { return shared.axis.find("pipeline") != std::string::npos; }

/// What samples of its node's health say. Sentences, each with a blank before it; empty if nothing was sampled or all
/// was well. Network counters count only where several hosts talk.
std::string health_evidence(SQLite::Database& db, int64_t world, int64_t rank) {
  std::string text;
  Query throttled(
      db,
      "SELECT v.device, v.throttled, v.samples, (SELECT t.most FROM v_node t WHERE t.node = v.node AND t.device = v.device"
      " AND t.name = 'temperature_celsius') FROM v_node v WHERE v.name = 'throttle_reasons' AND v.throttled >= ?1"
      " AND v.node = (SELECT host FROM process WHERE world = ?2 AND rank = ?3) ORDER BY v.throttled DESC, v.device");
  throttled.bind(kMinThrottled, world, rank);
  while (throttled.next()) {
    text += fmt::format(" Its host slowed {} down in {:.0f}% of {} samples{}.", throttled.text(0),
                        100 * throttled.real(1), throttled.integer(2),
                        throttled.is_null(3) ? "" : fmt::format(" (up to {:.0f} C)", throttled.real(3)));
  }
  Query lost(
      db,
      "SELECT device, name, growth FROM v_node WHERE growth > 0 AND (name LIKE '%_errors' OR name LIKE '%_dropped' OR name = 'link_downed')"
      " AND (SELECT count(*) FROM host) > 1 AND node = (SELECT host FROM process WHERE world = ?1 AND rank = ?2) ORDER BY device, name");
  lost.bind(world, rank);
  while (lost.next())
    text += fmt::format(" {} of its host counted {:.0f} {} during the run.", lost.text(0), lost.real(2), lost.text(1));
  return text;
}

/// Whether the other ranks on its host compute longer than those elsewhere too. Empty if there are no such ranks.
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
    SELECT s.rank, avg(min(s.compute_ns, s.duration_ns - s.exposed_ns - coalesce(s.input_ns, 0)))
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
    return fmt::format(" The other ranks on its host compute longer too ({}, elsewhere {}): it is the host.",
                       duration_text(there_ns), duration_text(elsewhere_ns));
  return " The other ranks on its host do not compute longer than those elsewhere.";
}

}  // namespace

std::map<int64_t, int64_t> stages_of(const FindingInput& input) {
  std::map<int64_t, int64_t> stages;
  Query rows(
      input.db,
      "SELECT p.rank, l.stage FROM pipeline l JOIN process p ON p.id = l.process WHERE p.world = ? AND p.rank IS NOT NULL");
  for (rows.bind(input.world); rows.next();) stages[rows.integer(0)] = rows.integer(1);
  if (!stages.empty()) return stages;
  Query named(
      input.db,
      "SELECT 1 FROM communicator_axis a JOIN communicator c ON c.id = a.communicator WHERE c.world = ? AND a.source <> 'shape' AND"
      " a.axis = 'pipeline'");
  return named.bind(input.world).next() ? places_on_axis(input.db, input.world, "pipeline") : stages;
}

std::string those(const FindingInput& input, const std::vector<int64_t>& ranks) {
  if (ranks.size() == 1) return rank_on_host(input.catalog, input.world, ranks.front());
  if (only_theirs(hosts_of(input), ranks))
    return fmt::format("all {} ranks on {}", ranks.size(),
                       input.catalog.process_of(input.world, ranks.front())->host_name);
  const auto shared = shared_place(input, ranks);
  if (!shared) return ranks_text(ranks);
  const std::string of = is_pipeline(*shared) ? fmt::format("of pipeline stage {}", shared->place)
                                              : fmt::format("at place {} of axis '{}'", shared->place, shared->axis);
  return fmt::format("all {} ranks {} ({})", ranks.size(), of, ranks_text(ranks));
}

std::optional<std::string> uneven_work_advice(const FindingInput& input, const std::vector<int64_t>& ranks) {
  if (only_theirs(hosts_of(input), ranks)) return std::nullopt;
  const auto shared = shared_place(input, ranks);
  if (!shared) return std::nullopt;
  if (is_pipeline(*shared))
    return fmt::format("give stage {} less to do: fewer layers, or a more even cut of the network", shared->place);
  return fmt::format(
      "see whether what is at place {} of axis '{}' gets more work than the rest: longer sequences, larger parts",
      shared->place, shared->axis);
}

std::string late_advice(const FindingInput& input, const std::vector<int64_t>& ranks) {
  if (auto uneven = uneven_work_advice(input, ranks)) return *uneven;
  const bool host = ranks.size() > 1 && only_theirs(hosts_of(input), ranks);
  return fmt::format(
      "see what else runs on the host{} of {} (cores, clocks, other load), and whether {} more work than the others",
      ranks.size() == 1 || host ? "" : "s", ranks_text(ranks),
      ranks.size() == 1 ? "it gets"
      : host            ? "its ranks get"
                        : "they get");
}

std::string health_of(const FindingInput& input, const std::vector<int64_t>& ranks) {
  if (ranks.size() == 1)
    return same_host_evidence(input, ranks.front()) + health_evidence(input.db, input.world, ranks.front());
  const std::map<int64_t, int64_t> hosts = hosts_of(input);
  std::map<int64_t, int64_t> first;  // rank by host
  for (const int64_t rank : ranks)
    if (const auto host = hosts.find(rank); host != hosts.end()) first.try_emplace(host->second, rank);
  std::string text;
  for (const auto& [host, rank] : first) {
    const std::string health = health_evidence(input.db, input.world, rank);
    if (!health.empty()) text += first.size() == 1 ? health : fmt::format(" Rank {}:{}", rank, health);
  }
  return text;
}

}  // namespace ddl
