#include "analyzer/findings/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "analyzer/findings/contention.h"
#include "analyzer/findings/shared.h"
#include "analyzer/parallel_reads.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

struct Found {
  Finding finding;
  const FindingRow* row;
  int64_t world;
  double of_ns;  ///< what the saving is a share of; 0: not known
  bool bounded;  ///< ranks left no record, and it is a matter of speed

  std::optional<double> share() const {
    return finding.saving_ns && of_ns > 0 ? std::optional(static_cast<double>(*finding.saving_ns) / of_ns)
                                          : std::nullopt;
  }
};

int64_t typical_step_ns(SQLite::Database& db, int64_t world, bool annotated) {
  Query query(db, annotated ? "SELECT value FROM metric WHERE id = 'step_time' AND world = ?"
                            : "SELECT max(longest_ns) FROM steady_step WHERE world = ?");
  query.bind(world);
  return query.next() ? static_cast<int64_t>(query.real(0)) : 0;
}

/// The mean of the steps that savings are over: these are means as well. That of the rank whose steps take longest
/// together: where ranks meet in some steps only, a sum of each step's longest is more than the run took. Of runs
/// without steps the run.
double mean_step_ns(SQLite::Database& db, int64_t world, bool annotated, std::optional<int64_t> since) {
  const char* sql = !annotated ? "SELECT max(longest_ns) FROM steady_step WHERE world = ?1 AND ?2 = ?2"
                    : since    ? R"(
    SELECT max(duration_ns) / (SELECT count(*) FROM steady_step WHERE world = ?1 AND step >= ?2)
    FROM (SELECT total(duration_ns) AS duration_ns FROM steady_part WHERE world = ?1 AND step >= ?2 GROUP BY rank))"
                               : R"(
    SELECT max(duration_ns) * 1.0 / (SELECT count(*) FROM steady_step WHERE world = ?1)
    FROM steady_rank WHERE world = ?1 AND ?2 = ?2)";
  Query query(db, sql);
  query.bind(world, since.value_or(0));
  return query.next() ? query.real(0) : 0;
}

/// What is known of a world whose ranks did not all leave a record.
struct Coverage {
  std::string evidence;  ///< what a saving rests on; empty: all ranks
  bool bounded = false;  ///< waiting is known from below (specification.md J7)
};

Coverage read_coverage(SQLite::Database& db, int64_t world) {
  Query row(db,
            "SELECT ranks, world_size, bounded FROM steady_world WHERE world = ? AND (bounded OR ranks < world_size)");
  if (!row.bind(world).next()) return {};
  const bool bounded = row.integer(2) != 0;
  return {fmt::format(" Known of {} of {} ranks{}.", row.integer(0), row.integer(1),
                      bounded ? ": waiting is a lower bound (estimator lower_bound), transfer an upper one" : ""),
          bounded};
}

/// Column saving_bound. `bounded`: the saving rests on waiting that is known from below.
std::optional<std::string> bound_of(const Finding& finding, bool bounded) {
  if (!finding.saving_ns || (!finding.at_most && !finding.at_least.value_or(bounded))) return std::nullopt;
  return finding.at_most ? "upper" : "lower";
}

/// The saving may be next to nothing.
bool is_far_bound(const Finding& finding) { return finding.at_most && !finding.mostly; }

/// Up to before the first one that the lack of CPUs it tells of may explain.
void put_contention_first(std::vector<Found>& found, const std::map<int64_t, Contention>& contentions) {
  for (auto told = found.begin(); told != found.end(); ++told) {
    if (!Contention::is_told_by(told->row->id)) continue;
    const auto explained = std::find_if(found.begin(), told, [&](const Found& other) {
      const std::optional<double> share = other.share();
      return other.world == told->world && share &&
             contentions.at(told->world).may_explain(told->finding.ranks, other.row->id, other.finding, *share);
    });
    std::rotate(explained, told, told + 1);
  }
}

/// In which order the finders are asked: the one that takes as long as all others together would go on
/// alone if it came late.
std::vector<size_t> longest_first(const std::vector<const FindingRow*>& rows) {
  std::vector<size_t> turns(rows.size());
  std::iota(turns.begin(), turns.end(), size_t{0});
  std::stable_partition(turns.begin(), turns.end(), [&](size_t i) { return rows[i]->id == "straggler"; });
  return turns;
}

/// Three significant digits.
std::string rounded(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

}  // namespace

std::map<int64_t, std::string> store_findings(SQLite::Database& db, const Catalog& catalog,
                                              const std::map<int64_t, SteadySteps>& steady, InputRanges& inputs,
                                              std::map<int64_t, LayerSpreads> layers, unsigned threads) {
  std::vector<Found> found;
  std::map<int64_t, std::string> doubts;
  std::map<int64_t, Contention> contentions;
  for (const auto& [world, steps] : steady) {
    const Coverage coverage = read_coverage(db, world);
    const Contention& contention = contentions.try_emplace(world, db, world).first->second;
    const int64_t step_ns = typical_step_ns(db, world, steps.annotated);
    SharedAnswers shared;
    shared.layers = std::move(layers[world]);
    for (const bool speed : {false, true}) {
      if (speed && doubts.contains(world)) continue;
      std::vector<const FindingRow*> rows;
      for (const FindingRow& row : finding_rows())
        if ((row.kind == FindingKind::kSpeed) == speed) rows.push_back(&row);
      std::vector<std::vector<Finding>> findings(rows.size());
      const std::vector<size_t> turns = longest_first(rows);
      read_in_parallel(
          db, threads, rows.size(), [&, world = world, &steps = steps](size_t i, SQLite::Database& connection) {
            findings[turns[i]] =
                rows[turns[i]]->find({connection, catalog, world, steps, step_ns, coverage.bounded, shared, inputs});
          });
      for (size_t i = 0; i < rows.size(); ++i) {
        for (Finding& finding : findings[i]) {
          if (speed && finding.saving_ns) finding.evidence += coverage.evidence;
          if (rows[i]->kind == FindingKind::kTrust) doubts.try_emplace(world, finding.sentence);
          const double of_ns =
              finding.saving_ns ? mean_step_ns(db, world, steps.annotated, finding.since) + finding.before_ns : 0;
          Found& added =
              found.emplace_back(Found{std::move(finding), rows[i], world, of_ns, coverage.bounded && speed});
          if (const std::optional<double> share = added.share())
            added.finding.evidence += contention.evidence(rows[i]->id, added.finding, *share);
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.row->kind != b.row->kind) return a.row->kind < b.row->kind;
    const bool a_far = is_far_bound(a.finding), b_far = is_far_bound(b.finding);
    if (a_far != b_far) return b_far;
    const bool a_maybe = a_far && a.finding.confidence == "maybe", b_maybe = b_far && b.finding.confidence == "maybe";
    if (a_maybe != b_maybe) return b_maybe;
    return a.finding.saving_ns.value_or(0) > b.finding.saving_ns.value_or(0);
  });
  put_contention_first(found, contentions);
  std::map<int64_t, size_t> of_world;

  Query insert(
      db,
      "INSERT INTO finding (position, id, sentence, world, rank, saving_ns, share_ratio, saving_bound, confidence, evidence, evidence_sql,"
      " try) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Query insert_about(db, "INSERT INTO finding_about (position, subject, since) VALUES (?, ?, ?)");
  int64_t position = 0;
  for (const Found& f : found) {
    if (++of_world[f.world] > kMaxFindings) continue;
    const Finding& finding = f.finding;
    insert.run(++position, f.row->id, finding.sentence, f.world, finding.rank, finding.saving_ns, f.share(),
               bound_of(finding, f.bounded), finding.confidence, finding.evidence,
               finding.evidence_sql.empty() ? std::nullopt : std::optional(finding.evidence_sql), finding.advice);
    insert_about.run(position, finding.subject, finding.since);
  }
  return doubts;
}

double mean_step_ns(const FindingInput& input) {
  return mean_step_ns(input.db, input.world, input.steps.annotated, std::nullopt);
}

size_t world_size(const FindingInput& input) {
  Query size(input.db, "SELECT world_size FROM steady_world WHERE world = ?");
  size.bind(input.world);
  return size.next() ? static_cast<size_t>(size.integer(0)) : 0;
}

double recorded_steps(const FindingInput& input) {
  Query count(
      input.db,
      "SELECT count(DISTINCT t.step) FROM step_part t JOIN process p ON p.id = t.process WHERE p.world = ? AND t.comm_ns IS NOT NULL");
  count.bind(input.world);
  return count.next() ? count.real(0) : 0;
}

std::string duration_text(double ns) {
  const double size = std::abs(ns);
  if (size >= 0.9995e9) return rounded(ns / 1e9) + " s";
  if (size >= 0.9995e6) return rounded(ns / 1e6) + " ms";
  if (size >= 999.5) return rounded(ns / 1e3) + " us";
  return fmt::format("{:.0f} ns", ns);
}

std::string duration_text(int64_t ns) { return duration_text(static_cast<double>(ns)); }

std::string bytes_text(double bytes) {
  constexpr double kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kMiB * kKiB;
  if (bytes >= 999.5 * kMiB) return rounded(bytes / kGiB) + " GiB";
  if (bytes >= 999.5 * kKiB) return rounded(bytes / kMiB) + " MiB";
  if (bytes >= kKiB) return rounded(bytes / kKiB) + " KiB";
  return fmt::format("{:.0f} B", bytes);
}

std::string rate_text(double bytes_per_second) {
  if (bytes_per_second >= 999.5e6) return rounded(bytes_per_second / 1e9) + " GB/s";
  if (bytes_per_second >= 999.5e3) return rounded(bytes_per_second / 1e6) + " MB/s";
  return rounded(bytes_per_second / 1e3) + " kB/s";
}

std::string percent_text(double ratio) {
  return fmt::format("{:.{}f}%", ratio * 100, std::abs(ratio) < 0.0995 ? 1 : 0);
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  constexpr size_t kShown = 4;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  const size_t shown = ranks.size() <= kShown ? ranks.size() - 1 : kShown - 1;
  const std::string first =
      fmt::format("ranks {}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return ranks.size() <= kShown ? fmt::format("{} and {}", first, ranks.back())
                                : fmt::format("{} and {} more", first, ranks.size() - shown);
}

std::string missing_text(const FindingInput& input, const std::vector<int64_t>& ranks) {
  std::vector<int64_t> missing;
  for (const int64_t rank : ranks)
    if (input.catalog.is_unrecorded(input.world, rank)) missing.push_back(rank);
  if (missing.empty()) return "";
  return fmt::format("{}{}, which left no record", missing.size() == 1 ? "" : "one of ", ranks_text(missing));
}

std::string missing_text(const FindingInput& input) {
  const std::set<int64_t>& missing = input.catalog.unrecorded_ranks(input.world);
  return missing_text(input, {missing.begin(), missing.end()});
}

void bound_by_missing(const FindingInput& input, Finding& finding, const std::vector<int64_t>& ranks) {
  if (!input.bounded) return;
  Query row(
      input.db,
      fmt::format(
          "SELECT avg(exposed_ns - coalesce(wait_ns, 0)) FROM steady_wait WHERE world = ? AND step >= ? AND rank IN ({})",
          fmt::join(ranks, ", ")));
  const double inside_ns = row.bind(input.world, finding.since.value_or(INT64_MIN)).next() ? row.real(0) : 0;
  finding.at_most = true;
  finding.mostly = 2 * inside_ns <= static_cast<double>(finding.saving_ns.value_or(0));
  if (finding.mostly) return;
  finding.evidence += fmt::format(
      " {} inside calls for {}{} {} after the others had come: where {}, is later still, less is saved.",
      ranks.size() == 1 ? "It is" : "They are", duration_text(inside_ns), input.steps.annotated ? "/step" : "",
      ranks.size() == 1 ? "itself" : "themselves", missing_text(input));
}

std::string rank_on_host(const Catalog& catalog, int64_t world, int64_t rank) {
  const ProcessInfo* process = catalog.process_of(world, rank);
  if (process == nullptr || process->host_name.empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({})", rank, process->host_name);
}

}  // namespace ddl
