// Background threads communicate, and nobody looked at the threads that train: what is outside their calls is
// not computing there.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {

DDL_FINDING(unseen_training, kTrust, "",
            "background threads communicate, and the computing of the training threads is unknown",
            "samples of the training threads, which are missing") {
  Query row(input.db, R"(
    SELECT count(*), total(b.sampled = 0)
    FROM background_process b
    JOIN process p ON p.id = b.process
    WHERE p.world = ?)");
  row.bind(input.world);
  Query off(
      input.db,
      "SELECT 1 FROM process_fact f JOIN process p ON p.id = f.process WHERE p.world = ? AND f.key = 'threads.off' LIMIT 1");
  off.bind(input.world);
  if (!row.next() || row.real(1) == 0) return {};
  Finding finding;
  finding.sentence = "background threads communicate, and what the training threads did meanwhile was not recorded";
  finding.confidence = "sure";
  finding.evidence = fmt::format(
      "{:.0f} of {} such ranks have no samples of their training thread: what they computed, and how long they waited, is "
      "not known.",
      row.real(1), row.integer(0));
  finding.evidence_sql = fmt::format(
      "SELECT p.rank, b.thread, b.sampled FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = {} ORDER BY p.rank",
      input.world);
  finding.advice =
      off.next()
          ? "record with the collector 'threads' (it is on unless --collectors leaves it out)"
          : "record more steps with this version of ddl: samples begin with the collectives of a background thread";
  return {finding};
}

}  // namespace ddl
