// A rank that computes longer because its experts get more data than others': slow it is not. That it gets more is told
// by the bytes of all-to-alls, that it computes longer for it by the line of computing over bytes
// (passes/waited_for.h).
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/late_ranks.h"
#include "analyzer/findings/waited_for.h"

namespace ddl {

DDL_FINDING(uneven_experts, kSpeed, "late",
            "a rank's experts get more data than others', and all ranks wait for its longer computing: uneven "
            "data, not a slow rank",
            "bytes of all-to-alls, rank by rank, and the line of computing over them; the GPUs that wait least") {
  const auto found = waited_for(input, "data");
  if (!found || !found->own_bytes || !found->others_bytes) return {};
  const bool one = found->ranks.size() == 1;
  Finding finding = describe(input, *found);
  finding.sentence = fmt::format(
      "uneven data, not slow: {} send{} {} in all-to-alls per step{}, others {}, and {} GPU{} compute{} {} for it, others {}",
      those(input, found->ranks), one ? "s" : "", bytes_text(*found->own_bytes),
      found->since_step ? fmt::format(" since step {}", *found->since_step) : "", bytes_text(*found->others_bytes),
      one ? "its" : "their", one ? "" : "s", one ? "s" : "", duration_text(found->own_ns),
      duration_text(found->others_ns));
  finding.evidence_sql = fmt::format(
      "SELECT axis, op, rank, calls, bytes, mean_ratio, wait_ns FROM v_traffic WHERE world = {} AND lower(op) LIKE '%alltoall%'"
      " ORDER BY axis, op, bytes DESC LIMIT 200",
      input.world);
  finding.advice =
      "give the experts the same work: an auxiliary balance loss, a capacity factor, more experts per rank, popular ones on ranks of their "
      "own or several times over";
  return {finding};
}

}  // namespace ddl
