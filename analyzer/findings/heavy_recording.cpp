// The recording itself takes so much time that the numbers tell of it and not of the job.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kHeavy = 0.05;  // of the ranks' time

}  // namespace

DDL_FINDING(heavy_recording, kTrust, "", "recording took more than 5 % of the ranks' time", "what the processes themselves estimated") {
  Query row(
      input.db,
      "SELECT sum(overhead_ns) * 1.0 / nullif(sum(end_ns - start_ns), 0), max(overhead_ns * 1.0 / nullif(end_ns - start_ns, 0)), count(*)"
      " FROM process WHERE world = ? AND rank IS NOT NULL AND overhead_ns IS NOT NULL");
  row.bind(input.world);
  if (!row.next() || row.real(0) < kHeavy) return {};
  Finding finding;
  finding.sentence =
      fmt::format("recording took {} of the ranks' time: the numbers tell more of it than of the job", percent_text(row.real(0)));
  finding.confidence = "likely";
  finding.evidence =
      fmt::format("As {} processes themselves estimated it; {} in the worst of them.", row.integer(2), percent_text(row.real(1)));
  finding.evidence_sql = fmt::format(
      "SELECT rank, host, overhead_ns, duration_ns, overhead_ns * 1.0 / duration_ns AS share FROM v_rank WHERE world = {} ORDER BY share "
      "DESC",
      input.world);
  finding.advice =
      "record less: ddl record --steps A:B for a window, fewer --collectives, no ranges around what takes microseconds; then look again";
  return {finding};
}

}  // namespace ddl
