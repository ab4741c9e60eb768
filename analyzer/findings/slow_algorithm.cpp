// Large collectives that move at a lower bus bandwidth than others of up to twice their size on the same communicator:
// below the bound that f S / busbw says, with the bandwidth that this communicator has shown
// (specification.md "Bandwidths"). With size the latency counts for less, so bandwidth can only rise; where it falls,
// another algorithm or protocol was chosen for that size or operation, and not a good one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/findings/crowding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/missing_member.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kMinBytes = 64 * 1024;
constexpr double kBelowBound = 1.5;                // times the bound
constexpr double kNotLarger = 2;                   // sizes up to so many times its own are compared with
constexpr double kAlgorithmMinSavingShare = 0.03;  // of the step
constexpr double kAlgorithmMinInstances = 10;

struct OperationGroup {
  int64_t op = 0;
  double bytes = 0, instances = 0, xfer_ns = 0, busbw = 0;
  bool bounded = false;  ///< xfer_ns is an upper bound
};

/// In which steps a communicator's collectives of an operation and size are: the first and the last.
using StepSpans = std::map<std::pair<int64_t, double>, std::pair<int64_t, int64_t>>;
StepSpans step_spans(const FindingInput& input, int64_t comm) {
  StepSpans spans;
  Query rows(input.db,
             "SELECT e.op, k.bytes, min(e.step), max(e.step) FROM event e JOIN collective k ON k.event = e.id"
             " WHERE e.comm = ? AND e.step IS NOT NULL AND k.bytes IS NOT NULL GROUP BY e.op, k.bytes");
  for (rows.bind(comm); rows.next();) spans[{rows.integer(0), rows.real(1)}] = {rows.integer(2), rows.integer(3)};
  return spans;
}

/// One came when the other was over: between them the network may have changed (slow_link), as well as the size.
bool are_apart(const StepSpans& spans, const OperationGroup& a, const OperationGroup& b) {
  const auto one = spans.find({a.op, a.bytes}), other = spans.find({b.op, b.bytes});
  return one != spans.end() && other != spans.end() &&
         (one->second.second < other->second.first || other->second.second < one->second.first);
}

/// The highest bandwidth of those that may be compared with it by their size, and by `spans`, if given.
const OperationGroup& fastest_like(const OperationGroup& slow, const std::vector<OperationGroup>& groups,
                                   const StepSpans* spans = nullptr) {
  const OperationGroup* fast = &slow;
  for (const OperationGroup& other : groups)
    if (other.bytes <= kNotLarger * slow.bytes && other.busbw > fast->busbw &&
        !(spans && are_apart(*spans, slow, other)))
      fast = &other;
  return *fast;
}

}  // namespace

DDL_FINDING(slow_algorithm, kSpeed, "busbw",
            "large collectives move at a lower bus bandwidth than smaller ones on the same communicator",
            "transfer times against S f / busbw with the best bandwidth shown there") {
  if (!input.steps.annotated || is_crowded(input)) return {};
  const double steps = std::max(1.0, recorded_steps(input));
  std::map<int64_t, std::vector<OperationGroup>> communicators;
  Query rows(
      input.db,
      "SELECT comm, op, bytes, g.step_instances, t.xfer_ns, t.busbw, t.bounded FROM group_transfer t"
      " JOIN collective_group g USING (world, op, comm, bytes) JOIN op o ON o.id = op WHERE world = ? AND bytes >= ?"
      " AND g.step_instances >= ? AND t.busbw > 0 AND o.class = 'all_to_all' ORDER BY comm, op, bytes");
  rows.bind(input.world, kMinBytes, kAlgorithmMinInstances);
  while (rows.next())
    communicators[rows.integer(0)].push_back(
        {rows.integer(1), rows.real(2), rows.real(3), rows.real(4), rows.real(5), rows.integer(6) != 0});

  struct Worst {
    double saving_ns = 0, excess_ns = 0;
    int64_t comm = 0;
    OperationGroup slow, fast;
  } worst;
  const LateNeighbours late(input);
  for (const auto& [comm, groups] : communicators) {
    Worst here;
    here.comm = comm;
    std::optional<StepSpans> spans;  // reads all events of the communicator: only where something is slow
    for (const OperationGroup& slow : groups) {
      if (fastest_like(slow, groups).busbw < kBelowBound * slow.busbw) continue;
      if (!spans) spans = step_spans(input, comm);
      const OperationGroup& fast = fastest_like(slow, groups, &*spans);
      if (fast.busbw < kBelowBound * slow.busbw) continue;
      const double excess_ns = slow.instances / steps * slow.xfer_ns * (1 - slow.busbw / fast.busbw);
      if (slow.bounded && late.has_any(input.catalog.communicators.at(comm), excess_ns * steps)) continue;
      here.saving_ns += excess_ns;
      if (excess_ns <= here.excess_ns) continue;
      here.excess_ns = excess_ns;
      here.slow = slow;
      here.fast = fast;
    }
    if (here.saving_ns > worst.saving_ns) worst = here;
  }
  if (worst.saving_ns <= kAlgorithmMinSavingShare * static_cast<double>(input.step_ns)) return {};

  const std::string op = input.catalog.operation(worst.slow.op).name;
  const std::string& label = input.catalog.communicators.at(worst.comm).label;
  Finding finding;
  finding.subject = op + " " + label;
  finding.saving_ns = static_cast<int64_t>(worst.saving_ns);
  const bool bounded = worst.slow.bounded;
  finding.at_most = bounded;
  finding.confidence = bounded ? "maybe" : "likely";
  finding.sentence = fmt::format(
      "{} of {} on {} moves at {} of bus bandwidth, {} of {} at {}{}", op, bytes_text(worst.slow.bytes), label,
      rate_text(worst.slow.busbw), input.catalog.operation(worst.fast.op).name, bytes_text(worst.fast.bytes),
      rate_text(worst.fast.busbw),
      bounded
          ? fmt::format(", or {}, is late to it", missing_text(input, input.catalog.communicators.at(worst.comm).ranks))
          : "");
  finding.evidence = fmt::format("It transfers for {}, waiting not counted; at the other's bandwidth it would be {}.",
                                 duration_text(worst.slow.xfer_ns),
                                 duration_text(worst.slow.xfer_ns * worst.slow.busbw / worst.fast.busbw));
  finding.evidence_sql = fmt::format(
      "SELECT o.name AS op, g.bytes, g.instances, t.xfer_ns, t.busbw, t.bounded FROM collective_group g JOIN op o ON o.id = g.op"
      " JOIN group_transfer t USING (world, op, comm, bytes) WHERE g.world = {} AND g.comm = {} AND t.busbw IS NOT NULL ORDER BY g.bytes",
      input.world, worst.comm);
  finding.advice =
      "choose the algorithm by size (coll_tuned_allreduce_algorithm and a rules file, I_MPI_ADJUST_ALLREDUCE, NCCL_ALGO, NCCL_PROTO), or "
      "cut "
      "the buckets to the size that is fast; ddl model allreduce compares algorithms";
  return {finding};
}

}  // namespace ddl
