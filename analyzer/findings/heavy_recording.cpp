// The recording itself takes so much time that the numbers tell of it and not of the job.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kHeavy = 0.05;  // of the ranks' time

}  // namespace

DDL_FINDING(heavy_recording, kTrust, "", "recording took more than 5 % of the ranks' time", "the processes' own estimates") {
  double overhead_ns = 0, duration_ns = 0, worst = 0;
  int64_t processes = 0;
  Query row(input.db,
            "SELECT id, overhead_ns, end_ns - start_ns FROM process WHERE world = ? AND rank IS NOT NULL AND overhead_ns IS NOT NULL");
  for (row.bind(input.world); row.next();) {
    const ProcessInfo& process = input.catalog.process(row.integer(0));
    const double longest_ns = row.real(2) * static_cast<double>(std::max<int64_t>(1, process.threads));
    if (process.damaged || row.real(1) > longest_ns) continue;  // its estimate may be damaged, too
    overhead_ns += row.real(1);
    duration_ns += row.real(2);
    if (row.real(2) > 0) worst = std::max(worst, row.real(1) / row.real(2));
    ++processes;
  }
  if (duration_ns <= 0 || overhead_ns < kHeavy * duration_ns) return {};
  Finding finding;
  finding.sentence = fmt::format("recording took {} of the ranks' time: the numbers tell more of it than of the job",
                                 percent_text(overhead_ns / duration_ns));
  finding.confidence = "likely";
  finding.evidence = fmt::format("As {} processes themselves estimated it; {} in the worst of them.", processes, percent_text(worst));
  finding.evidence_sql = fmt::format(
      "SELECT rank, host, overhead_ns, duration_ns, overhead_ns * 1.0 / duration_ns AS share FROM v_rank WHERE world = {} ORDER BY share "
      "DESC",
      input.world);
  finding.advice =
      "record less: ddl record --steps A:B for a window, fewer --collectives, no ranges around what takes microseconds; then look again";
  return {finding};
}

}  // namespace ddl
