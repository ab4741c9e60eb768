// Many small collectives in every step where one larger one would do: their time is latency, and fusing
// them pays it once.
//
// What it would save is estimated from the job's own times. Blocking: calls times median transfer, minus the transfer
// of one fused call: a line between the largest small one and the smallest recorded collective that is at least as
// large; if there is none, a line through two sizes; if all have one size, the time of one of them and that of the
// bytes where large ones are slowest in this job. If there are none either, one of them is the least that the call
// takes, and the saving says "at most" where that matters: the call takes no more than in proportion to the bytes, with
// everything below kFlatBytes counted as costing the same, nor than large non-blocking ones take at most. Non-blocking:
// transfer times are upper bounds, so only the time inside the posting calls counts. Never more than the exposed
// transfer of the step. Of blocking ones the step is then replayed with that one call (specification.md J8): what else
// goes on beside them, non-blocking transfers above all, does not end sooner. Runs without steps are left alone: there
// is no telling what could be fused. Communicators of one axis are fused together, in one replay.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "analyzer/findings/findings.h"
#include "analyzer/models/rank_saving.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kSmallBytes = 64 * 1024;
constexpr double kFlatBytes = 4096;  // below this the transfer time hardly depends on the size on any network
constexpr double kMinCallsPerStep = 8;
constexpr double kSmallMinSavingShare = 0.02;  // of the step
constexpr double kClearlyMore = 0.05;          // of the saving, by which more bytes may lessen it

/// Small collectives of one operation on one communicator, per step.
struct Small {
  int64_t op = 0;
  int64_t comm = 0;
  std::string axis;  ///< empty: unknown
  double calls = 0;
  double bytes = 0;
  double xfer_ns = 0;
  double largest_bytes = 0;
  double largest_xfer_ns = 0;
  bool nonblocking = false;
};

/// Groups that are called at least kMinCallsPerStep times a step.
std::vector<Small> small_groups(const FindingInput& input, double steps) {
  std::vector<Small> result;
  Query groups(
      input.db,
      "SELECT op, comm, bytes, g.step_instances, coalesce(t.xfer_ns, g.xfer_ns * 1.0 / g.split_calls), g.upper_bound, a.axis"
      " FROM collective_group g LEFT JOIN group_transfer t USING (world, op, comm, bytes)"
      " LEFT JOIN communicator_axis a ON a.communicator = g.comm"
      " WHERE world = ? AND bytes > 0 AND bytes <= ? AND g.step_instances > 0 AND g.xfer_ns > 0 ORDER BY op, comm, bytes");
  groups.bind(input.world, kSmallBytes);
  while (groups.next()) {
    if (result.empty() || result.back().op != groups.integer(0) || result.back().comm != groups.integer(1)) {
      Small& first = result.emplace_back();
      first.op = groups.integer(0);
      first.comm = groups.integer(1);
      first.nonblocking = groups.integer(5) != 0;
      if (!groups.is_null(6)) first.axis = groups.text(6);
    }
    Small& small = result.back();
    const double calls = groups.real(3) / steps;
    small.largest_bytes = groups.real(2);
    small.largest_xfer_ns = groups.real(4);
    small.calls += calls;
    small.bytes += calls * small.largest_bytes;
    small.xfer_ns += calls * small.largest_xfer_ns;
  }
  std::erase_if(result, [](const Small& small) { return small.calls < kMinCallsPerStep; });
  return result;
}

/// Small collectives of one operation on all communicators of an axis. Fusing those of one communicator alone would
/// save little: the ranks of the others still pay for theirs, and all meet in the next collective of the whole world.
using Family = std::vector<Small>;

/// In the order of their first communicators.
std::vector<Family> families(std::vector<Small> groups) {
  std::vector<Family> result;
  std::map<std::tuple<int64_t, bool, std::string, int64_t>, size_t> known;
  for (Small& small : groups) {
    const int64_t by_itself = small.axis.empty() ? small.comm : 0;
    const auto [place, is_new] = known.try_emplace({small.op, small.nonblocking, small.axis, by_itself}, result.size());
    if (is_new) result.emplace_back();
    result[place->second].push_back(std::move(small));
  }
  return result;
}

/// What large reductions that go on behind computing take on the same communicator, at most: the shortest was
/// under way no longer.
std::optional<double> behind_computing_ns_per_byte(const FindingInput& input, const Small& small) {
  Query least(
      input.db,
      "SELECT min(g.min_ns * 1.0 / g.bytes) FROM collective_group g JOIN op o ON o.id = g.op JOIN op s ON s.id = ?"
      " WHERE g.world = ? AND g.comm = ? AND g.bytes > ? AND g.upper_bound"
      " AND lower(o.name) LIKE '%allreduce%' AND lower(s.name) LIKE '%allreduce%'");
  least.bind(small.op, input.world, small.comm, kSmallBytes);
  return least.next() ? least.maybe_real(0) : std::nullopt;
}

/// Transfer time of one call with all the bytes.
struct FusedCall {
  double ns = 0, most_ns = 0;  ///< the second is larger where nothing tells what more bytes cost
  bool measured = false;       ///< calls as large were
};

FusedCall fused_call(const FindingInput& input, const Small& small) {
  const auto exactly = [](double ns, bool measured) { return FusedCall{ns, ns, measured}; };
  std::vector<std::pair<double, double>> known;  // bytes, transfer time
  Query sizes(input.db,
              "SELECT bytes, xfer_ns FROM group_transfer WHERE world = ? AND op = ? AND comm = ? ORDER BY bytes");
  sizes.bind(input.world, small.op, small.comm);
  while (sizes.next()) known.emplace_back(sizes.real(0), sizes.real(1));
  const auto larger = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first >= small.bytes; });
  if (larger != known.end()) {
    const double share = (small.bytes - small.largest_bytes) / std::max(1.0, larger->first - small.largest_bytes);
    return exactly(small.largest_xfer_ns + share * (larger->second - small.largest_xfer_ns), true);
  }
  if (known.size() >= 2 && small.largest_bytes > known.front().first) {  // a latency and a time per byte
    const double ns_per_byte =
        std::max(0.0, (small.largest_xfer_ns - known.front().second) / (small.largest_bytes - known.front().first));
    return exactly(small.largest_xfer_ns + ns_per_byte * (small.bytes - small.largest_bytes), false);
  }
  Query slowest(input.db, "SELECT max(xfer_ns / bytes) FROM group_transfer WHERE world = ? AND op = ? AND bytes > ?");
  slowest.bind(input.world, small.op, kSmallBytes);
  if (slowest.next() && !slowest.is_null(0))
    return exactly(small.largest_xfer_ns + slowest.real(0) * small.bytes, false);
  double most_ns = small.largest_xfer_ns * std::max(1.0, small.bytes / std::max(small.largest_bytes, kFlatBytes));
  if (const auto ns_per_byte = behind_computing_ns_per_byte(input, small))
    most_ns = std::min(most_ns, small.largest_xfer_ns + *ns_per_byte * small.bytes);
  return {small.largest_xfer_ns, most_ns, false};
}

/// Mean time inside a posting call, by communicator.
std::map<int64_t, double> posts_ns(const FindingInput& input, int64_t op) {
  std::map<int64_t, double> result;
  Query post(input.db,
             "SELECT f.comm, sum(f.time_ns) * 1.0 / sum(f.calls) FROM profile f JOIN process p ON p.id = f.process"
             " WHERE p.world = ? AND f.op = ? GROUP BY f.comm");
  for (post.bind(input.world, op); post.next();) result[post.integer(0)] = post.real(1);
  return result;
}

/// Share of the step; includes waiting where waiting is not known.
double exposed_xfer_ns(const FindingInput& input) {
  const std::optional<double> known = models::metric_of(input.db, input.world, "exposed_xfer");
  return known ? *known : models::metric_of(input.db, input.world, "exposed_comm_mean").value_or(0);
}

/// What fusing each communicator's calls would save.
struct Fusing {
  double saving_ns = 0;               ///< per step and rank that has such calls, before a replay
  double post_ns = 0;                 ///< inside a posting call; of non-blocking ones
  Small mean;                         ///< of a communicator: calls, bytes, xfer_ns
  FusedCall call;                     ///< mean of the communicators'; measured: all of them were
  std::map<int64_t, double> fused_s;  ///< by communicator
};

Fusing fuse(const FindingInput& input, const Family& family) {
  Fusing result;
  result.call.measured = true;
  std::unordered_set<int64_t> ranks;
  double members = 0, saving_ns = 0;  // of all communicators together
  std::map<int64_t, double> posting_ns;
  if (family.front().nonblocking) posting_ns = posts_ns(input, family.front().op);
  const double part = 1 / static_cast<double>(family.size());
  for (const Small& small : family) {
    const FusedCall call = fused_call(input, small);
    const CommunicatorInfo& communicator = input.catalog.communicators.at(small.comm);
    ranks.insert(communicator.ranks.begin(), communicator.ranks.end());
    const auto size = static_cast<double>(std::max<int64_t>(1, communicator.size));
    members += size;
    saving_ns += size * (small.nonblocking ? (small.calls - 1) * posting_ns[small.comm] : small.xfer_ns - call.ns);
    result.fused_s[small.comm] = call.ns * 1e-9;
    if (small.nonblocking) result.post_ns += part * posting_ns[small.comm];
    result.mean.calls += part * small.calls;
    result.mean.bytes += part * small.bytes;
    result.mean.xfer_ns += part * small.xfer_ns;
    result.call.ns += part * call.ns;
    result.call.most_ns += part * call.most_ns;
    result.call.measured = result.call.measured && call.measured;
  }
  result.saving_ns = saving_ns / (ranks.empty() ? members : static_cast<double>(ranks.size()));
  return result;
}

/// "MPI_COMM_WORLD", "each of 64 groups (tp#0 and others of the axis 'tensor')".
std::string communicators_text(const FindingInput& input, const Family& family) {
  const std::string& label = input.catalog.communicators.at(family.front().comm).label;
  if (family.size() == 1) return label;
  return fmt::format("each of {} groups ({} and others of the axis '{}')", family.size(), label, family.front().axis);
}

}  // namespace

DDL_FINDING(small_collectives, kSpeed, "collectives", "many small collectives where one would do",
            "calls x transfer against one call with all bytes, between measured sizes") {
  const double steps = recorded_steps(input);
  if (!input.steps.annotated || steps == 0) return {};
  const double least_ns = kSmallMinSavingShare * static_cast<double>(input.step_ns);
  std::vector<Finding> findings;
  for (const Family& family : families(small_groups(input, steps))) {
    const Small& first = family.front();
    const Fusing fusing = fuse(input, family);
    const double by_rule_ns = std::min(exposed_xfer_ns(input), fusing.saving_ns);
    if (by_rule_ns < least_ns) continue;
    std::optional<models::FusedSaving> replayed;
    if (!first.nonblocking)
      replayed = models::saving_of_fused(input.db, input.world, {first.op, kSmallBytes, fusing.fused_s});
    const double saving_ns = replayed ? replayed->seconds * 1e9 : by_rule_ns;
    if (saving_ns < least_ns) continue;

    const std::string name = input.catalog.operation(first.op).name;
    const FusedCall& one = fusing.call;
    Finding finding;
    finding.subject =
        fmt::format("{} {}", name, first.axis.empty() ? input.catalog.communicators.at(first.comm).label : first.axis);
    finding.saving_ns = static_cast<int64_t>(saving_ns);
    const bool by_bytes = !first.nonblocking && one.most_ns - one.ns > kClearlyMore * saving_ns;
    finding.at_most = by_bytes || (replayed && replayed->at_most);
    finding.confidence = one.measured && !first.nonblocking && !finding.at_most ? "likely" : "maybe";
    finding.sentence =
        fmt::format("{:.0f} small {} per step on {} could be fused: {} on average", fusing.mean.calls, name,
                    communicators_text(input, family), bytes_text(fusing.mean.bytes / fusing.mean.calls));
    if (first.nonblocking) {
      finding.evidence = fmt::format("Posting each takes {}; together they carry {}.", duration_text(fusing.post_ns),
                                     bytes_text(fusing.mean.bytes));
    } else {
      finding.evidence = fmt::format(
          "They transfer for {}/step, {} each, waiting not counted; one call with their {} would take {} ({}).",
          duration_text(fusing.mean.xfer_ns), duration_text(fusing.mean.xfer_ns / fusing.mean.calls),
          bytes_text(fusing.mean.bytes), fmt::format("{}{}", by_bytes ? "no less than " : "", duration_text(one.ns)),
          one.measured ? "between them and this job's larger ones"
          : by_bytes   ? "the time of one of them: the cost of more bytes is unknown"
                       : "estimated from their own times");
    }
    if (replayed && replayed->at_most)
      finding.evidence +=
          " Non-blocking transfers ran beside them, and no rank was seen to wait for their end: the saving may be smaller.";
    finding.evidence_sql = fmt::format(
        "SELECT op, comm, bytes, count(*) AS calls, avg(xfer_ns) AS mean_xfer_ns FROM v_collective WHERE world = {} AND op = '{}' AND step "
        "IS NOT NULL"
        " GROUP BY op, comm, bytes ORDER BY calls DESC",
        input.world, name);
    finding.advice =
        "collect the tensors in one buffer and reduce it at once (larger buckets: --bucket-mb, bucket_cap_mb in PyTorch DDP, "
        "HOROVOD_FUSION_THRESHOLD)";
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace ddl
