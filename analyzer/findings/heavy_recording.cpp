// The recording itself takes so much time that the numbers tell of it and not of the job.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kHeavy = 0.05;  // of the ranks' time

}  // namespace

DDL_FINDING(heavy_recording, kTrust, "", "recording took more than 5 % of the ranks' time",
            "the processes' own estimates") {
  Query overhead(input.db,
                 "SELECT value FROM metric WHERE id = 'recording_overhead' AND world = ? AND value IS NOT NULL");
  overhead.bind(input.world);
  if (!overhead.next() || overhead.real(0) < kHeavy) return {};
  Finding finding;
  finding.sentence = fmt::format("recording took {} of the ranks' time: the numbers tell more of it than of the job",
                                 percent_text(overhead.real(0)));
  finding.confidence = "likely";
  finding.evidence = "As the processes themselves estimated it.";
  finding.evidence_sql = fmt::format(
      "SELECT rank, host, overhead_ns, duration_ns, overhead_ns * 1.0 / duration_ns AS share FROM v_rank WHERE world = {} ORDER BY share "
      "DESC",
      input.world);
  finding.advice =
      "record less: ddl record --steps A:B for a window, fewer --collectives, no ranges around what takes microseconds; then look again";
  return {finding};
}

}  // namespace ddl
