#include "reports/trace/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::reports {
namespace {

bool is_wanted(const TraceRequest& request, const std::optional<int64_t>& rank) {
  return request.ranks.empty() || (rank && std::binary_search(request.ranks.begin(), request.ranks.end(), *rank));
}

[[noreturn]] void refuse_steps(const RunView& run, const TraceRequest::Steps& steps) {
  Query known(run.db,
              "SELECT min(s.step), max(s.step) FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?");
  known.bind(run.world);
  known.next();
  throw Error(fmt::format("no step from {} to {} was recorded", steps.first, steps.last),
              known.is_null(0) ? "the run has no steps: leave --steps out"
                               : fmt::format("recorded steps are {} to {}", known.integer(0), known.integer(1)),
              ExitCode::kDataMissing);
}

}  // namespace

std::vector<TraceProcess> select_processes(const RunView& run, const TraceRequest& request) {
  std::vector<TraceProcess> processes;
  Query row(
      run.db,
      "SELECT p.id, p.rank, h.name, p.ended, p.pid, p.start_ns, p.end_ns, p.init_ns, p.finalize_ns, p.keep_level, h.sigma_ns"
      " FROM process p JOIN host h ON h.id = p.host WHERE p.world = ? ORDER BY p.rank IS NULL, p.rank, p.id");
  row.bind(run.world);
  while (row.next()) {
    TraceProcess p{.id = row.integer(0),
                   .rank = row.maybe_integer(1),
                   .host = row.text(2),
                   .ended = row.text(3),
                   .pid = row.integer(4),
                   .start_ns = row.integer(5),
                   .end_ns = row.integer(6),
                   .init_ns = row.maybe_integer(7),
                   .finalize_ns = row.maybe_integer(8),
                   .keep_level = row.integer(9),
                   .sigma_ns = row.maybe_real(10)};
    if (is_wanted(request, p.rank)) processes.push_back(std::move(p));
  }
  if (!request.ranks.empty() && request.ranks.back() >= std::max<int64_t>(1, run.expected_ranks))
    throw Error(fmt::format("there is no rank {}", request.ranks.back()),
                fmt::format("the run has {} ranks, from 0", run.expected_ranks), ExitCode::kUsage);

  if (processes.empty())
    throw Error("none of these ranks left a recording", "ddl report loss says who is missing", ExitCode::kDataMissing);

  run.db.exec(R"(
    DROP TABLE IF EXISTS temp.trace_process;
    CREATE TEMP TABLE trace_process (
      process INTEGER PRIMARY KEY, first_step INTEGER, last_step INTEGER, begin_ns INTEGER, end_ns INTEGER))");
  Query insert(run.db, R"(
    INSERT INTO temp.trace_process
    SELECT ?1, ?2, ?3, min(start_ns), max(start_ns + coalesce(duration_ns, ?4 - start_ns))
    FROM step
    WHERE process = ?1 AND measured AND step BETWEEN ?2 AND ?3)");
  Query insert_all(run.db, "INSERT INTO temp.trace_process VALUES (?, NULL, NULL, NULL, NULL)");
  for (const TraceProcess& p : processes) {
    if (request.steps)
      insert.run(p.id, request.steps->first, request.steps->last, p.end_ns);
    else
      insert_all.run(p.id);
  }
  Query any(run.db, "SELECT 1 FROM temp.trace_process WHERE begin_ns IS NOT NULL");
  if (request.steps && !any.next()) refuse_steps(run, *request.steps);
  return processes;
}

std::string in_window(const std::string& table, const std::string& time) {
  return fmt::format(
      "(t.first_step IS NULL OR {0}.step BETWEEN t.first_step AND t.last_step OR"
      " ({0}.step IS NULL AND {0}.{1} >= t.begin_ns AND {0}.{1} < t.end_ns))",
      table, time);
}

std::vector<int64_t> missing_ranks(const RunView& run, const TraceRequest& request) {
  std::set<int64_t> recorded;
  Query row(run.db, "SELECT rank FROM process WHERE world = ? AND rank IS NOT NULL");
  row.bind(run.world);
  while (row.next()) recorded.insert(row.integer(0));
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < run.expected_ranks; ++rank)
    if (!recorded.contains(rank) && is_wanted(request, rank)) missing.push_back(rank);
  return missing;
}

}  // namespace ddl::reports
