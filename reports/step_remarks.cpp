#include "reports/step_remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "reports/format.h"

namespace ddl::reports {
namespace {

/// Steps after the last one of a rank that ended its training before the others (Join of uneven inputs), or was ended.
/// Not those that a rank did and did not keep.
int64_t add_steps_of_some(const RunView& run, int64_t unknown, std::string& remark) {
  std::vector<int64_t> ranks;
  std::set<int64_t> counts;
  int64_t last = INT64_MAX;
  Query row(run.db, R"(
    WITH done AS (
      SELECT p.rank, count(DISTINCT s.step) AS steps, max(s.step) AS last
      FROM process p
      JOIN step s ON s.process = p.id AND s.duration_ns IS NOT NULL
      WHERE p.world = ?1 AND p.rank IS NOT NULL
      GROUP BY p.rank)
    SELECT rank, steps, last
    FROM done
    WHERE last < (SELECT max(last) FROM done) AND rank NOT IN (
      SELECT rank FROM loss WHERE world = ?1 AND rank IS NOT NULL AND kind IN ('not_kept', 'records', 'threads', 'torn_spool', 'damaged_header'))
    ORDER BY rank)");
  for (row.bind(run.world); row.next();) {
    ranks.push_back(row.integer(0));
    counts.insert(row.integer(1));
    last = std::min(last, row.integer(2));
  }
  if (ranks.empty()) return 0;
  Query later(run.db,
              "SELECT count(DISTINCT s.step) FROM step s JOIN process p ON p.id = s.process"
              " WHERE p.world = ? AND p.rank IS NOT NULL AND s.duration_ns IS NOT NULL AND s.step > ?");
  later.bind(run.world, last);
  const int64_t count = later.next() ? std::min(unknown, later.integer(0)) : 0;
  if (count <= 0) return 0;
  remark += fmt::format("; {} of {} left out: {} {} made {}", count, run.all_steps,
                        ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks),
                        counts.size() == 1 ? fmt::format("{} only", plural(*counts.begin(), "step")) : "fewer steps");
  return count;
}

/// Steps that ended and do not count, besides the first ones: some rank has no record of them, or nobody knows what its
/// training thread did.
std::string unknown_steps(const RunView& run) {
  std::string remark;
  Query row(run.db, R"(
    SELECT count(DISTINCT s.step), EXISTS (SELECT 1 FROM background_process b JOIN process q ON q.id = b.process WHERE q.world = ?1)
    FROM step s
    JOIN process p ON p.id = s.process
    WHERE p.world = ?1 AND p.rank IS NOT NULL AND s.duration_ns IS NOT NULL)");
  row.bind(run.world);
  const StepFacts& step = run.facts.step;
  const int64_t counted = step.timed > 0 ? step.timed + step.timed_warmup : run.steps + run.warmup_steps;
  int64_t unknown = row.next() ? row.integer(0) - counted : 0;
  if (unknown > 0) unknown -= add_steps_of_some(run, unknown, remark);
  const bool sampled = row.integer(1) != 0 && step.timed == 0;
  if (unknown > 0)
    remark += fmt::format("; {} of {} left out: not {} on every rank", unknown, run.all_steps,
                          sampled ? "sampled" : "recorded");
  if (step.timed > 0)
    remark += fmt::format("; where the time goes is known of {}: the others were not sampled on every rank",
                          run.has_steps ? fmt::format("{} of {}", run.steps + run.warmup_steps, run.all_steps)
                                        : fmt::format("none of {}", run.all_steps));
  return remark;
}

/// What hooked steps are, where that is not plain.
std::string hooked_steps(const RunView& run) {
  Query row(
      run.db,
      "SELECT f.value FROM process_fact f JOIN process p ON p.id = f.process WHERE p.world = ? AND f.key = 'torch.steps' LIMIT 1");
  row.bind(run.world);
  return row.next() ? "; " + row.text(0) : "";
}

constexpr double kMostOfRun = 0.8;      // steps that are less of the run do not tell where its time went
constexpr double kWorthTelling = 0.05;  // of the run
constexpr size_t kMostInOne = 16;       // inferred steps that may be one of the job
constexpr size_t kLeastTurns = 5;       // of so many
constexpr double kClearlyLonger = 2;    // computing of the one that begins it against the others
constexpr double kNearlyAll = 0.9;      // of the turns

struct LongerTurn {
  size_t every = 0;
  double ns = 0, others_ns = 0;  ///< medians
};

/// Every k-th inferred step computes longer than the k - 1 behind it, as a step of k equal collectives would.
/// The least such k.
std::optional<LongerTurn> longer_turn(const std::vector<double>& compute_ns) {
  for (size_t k = 2; k <= kMostInOne && k * kLeastTurns <= compute_ns.size(); ++k) {
    for (size_t first = 0; first < k; ++first) {
      std::vector<double> own, others;
      size_t turns = 0, clear = 0;
      for (size_t i = first; i + k <= compute_ns.size(); i += k) {
        const double longest = *std::max_element(compute_ns.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                                 compute_ns.begin() + static_cast<std::ptrdiff_t>(i + k));
        own.push_back(compute_ns[i]);
        others.insert(others.end(), compute_ns.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      compute_ns.begin() + static_cast<std::ptrdiff_t>(i + k));
        ++turns;
        clear += compute_ns[i] > kClearlyLonger * longest;
      }
      if (turns < kLeastTurns || static_cast<double>(clear) < kNearlyAll * static_cast<double>(turns)) continue;
      return LongerTurn{k, median_of(own), median_of(others)};
    }
  }
  return std::nullopt;
}

/// Where all collectives are alike, nothing in them tells how many a step of the job has: what is computed
/// between them may.
std::string inferred_steps(const RunView& run) {
  if (!run.inferred_steps) return "";
  std::string text = "; inferred: the job marks no steps, its collectives repeat";
  Query alike(run.db,
              "SELECT max(i.period) FROM inferred_steps i JOIN process p ON p.id = i.process WHERE p.world = ?");
  alike.bind(run.world);
  if (!alike.next() || alike.is_null(0) || alike.integer(0) != 1) return text;
  std::vector<double> compute_ns;
  Query row(
      run.db,
      "SELECT compute_ns FROM steady_wait WHERE world = ?1 AND rank = (SELECT min(rank) FROM steady_wait WHERE world = ?1) ORDER BY step");
  for (row.bind(run.world); row.next();) compute_ns.push_back(row.real(0));
  text += "; how many is ambiguous: all collectives are alike, and ";
  const auto turn = longer_turn(compute_ns);
  if (!turn) return text + "a step of the job may hold several";
  const char* th = turn->every == 2 ? "nd" : turn->every == 3 ? "rd" : "th";
  return text + fmt::format("before every {}{} {} are computed, before the others {}: a step of the job may hold {}",
                            turn->every, th, duration_text(turn->ns), duration_text(turn->others_ns), turn->every);
}

/// How much of the run the steps are where that is not most of it, and when the rest was, on the rank of which they
/// are most. Not of runs whose record lacks steps.
std::string beside_steps(const RunView& run) {
  Query row(run.db, R"(
    WITH own AS (
      SELECT coalesce(p.init_ns, p.start_ns) AS begin_ns, coalesce(p.finalize_ns, p.end_ns) AS end_ns, min(s.start_ns) AS first_ns,
             max(s.start_ns + s.duration_ns) AS last_ns, sum(s.duration_ns) AS steps_ns
      FROM process p
      JOIN step s ON s.process = p.id AND s.duration_ns IS NOT NULL
      WHERE p.world = ?1 AND p.rank IS NOT NULL AND p.ended <> 'imported'
      GROUP BY p.id)
    SELECT end_ns - begin_ns, steps_ns, first_ns - begin_ns, last_ns - first_ns - steps_ns, end_ns - last_ns
    FROM own
    WHERE NOT EXISTS (
      SELECT 1 FROM loss WHERE world = ?1 AND kind IN ('not_kept', 'records', 'threads', 'torn_spool', 'damaged_header'))
    ORDER BY steps_ns * 1.0 / nullif(end_ns - begin_ns, 0) DESC LIMIT 1)");
  row.bind(run.world);
  if (!row.next()) return "";
  const double run_ns = row.real(0), steps_ns = row.real(1);
  if (steps_ns <= 0 || steps_ns >= kMostOfRun * run_ns) return "";
  std::string rest;
  const auto tell = [&](int column, const char* where) {
    if (row.real(column) < kWorthTelling * run_ns) return;
    rest += fmt::format("{} {} {}", rest.empty() ? ":" : ",", duration_text(row.real(column)), where);
  };
  tell(2, "before them");
  tell(3, "between them");
  tell(4, "behind them");
  return fmt::format("; all steps are {} of the run's {}{}", duration_text(steps_ns), duration_text(run_ns), rest);
}

}  // namespace

std::string step_remarks(const RunView& run) {
  return unknown_steps(run) + inferred_steps(run) + hooked_steps(run) + beside_steps(run);
}

}  // namespace ddl::reports
