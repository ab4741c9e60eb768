// A network that is slower than this job itself has seen it: the same collective, of the same size, on another
// communicator that serves the same axis and spans as many hosts; or on the same communicator in earlier steps.
// Transfer times only: waiting for a late rank is not the network's. What that costs GPUs says a replay of their steps
// (models/replay_gpus.h). Where there is none, no more is won than what their computing does not hide: transfers on the
// axis while nothing computes, against those of ranks that use other communicators, or against earlier steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/change_points.h"
#include "analyzer/findings/crowding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/missing_member.h"
#include "analyzer/models/replay_gpus.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kSlower = 1.2;               // times the transfer elsewhere
constexpr double kLinkMinSavingShare = 0.03;  // of the step
constexpr double kLinkMinInstances = 10;
constexpr size_t kLinkMinSteps = 5;  // before a change, and after it
constexpr double kSlowerThanBefore = 1.05;
constexpr double kClearRise = 4;      // against the scatter of single steps
constexpr double kUsualBytes = 0.05;  // so much more or less

/// Ranks that left nothing are on hosts of their own if all others are.
int64_t hosts_of(const FindingInput& input, const CommunicatorInfo& communicator) {
  std::set<int64_t> hosts;
  size_t known = 0;
  for (const int64_t rank : communicator.ranks) {
    const ProcessInfo* process = input.catalog.process_of(input.world, rank);
    if (process == nullptr) continue;
    hosts.insert(process->host);
    ++known;
  }
  return static_cast<int64_t>(hosts.size() == known ? communicator.ranks.size() : hosts.size());
}

std::string hosts_text(const FindingInput& input, const CommunicatorInfo& communicator) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names;
  for (const int64_t rank : communicator.ranks) {
    const ProcessInfo* process = input.catalog.process_of(input.world, rank);
    if (process != nullptr && std::find(names.begin(), names.end(), process->host_name) == names.end())
      names.push_back(process->host_name);
  }
  std::string text = fmt::format(
      "{}",
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())), ", "));
  return names.size() > kShown ? fmt::format("{} and {} more", text, names.size() - kShown) : text;
}

std::string axis_text(const std::string& axis) { return axis.empty() ? "" : fmt::format("; on the axis '{}'", axis); }

/// A GPU's transfers on an axis while nothing computes, mean of the steady steps from `first` to before `last`; of
/// ranks that tell it.
std::map<int64_t, double> exposed_transfers(const FindingInput& input, const std::string& axis,
                                            int64_t first = INT64_MIN, int64_t last = INT64_MAX) {
  std::map<int64_t, double> exposed_ns;
  Query rows(
      input.db,
      "SELECT p.rank, avg(a.exposed_ns - a.exposed_wait_ns) FROM gpu_axis_part a JOIN process p ON p.id = a.process"
      " JOIN steady_number n ON n.world = p.world AND n.step = a.step WHERE p.world = ?1 AND a.axis = ?2 AND a.step >= ?3 AND a.step < ?4"
      " AND p.rank IS NOT NULL GROUP BY p.rank HAVING count(a.exposed_wait_ns) = count(*)");
  rows.bind(input.world, axis, first, last);
  while (rows.next()) exposed_ns[rows.integer(0)] = rows.real(1);
  return exposed_ns;
}

/// Mean of the members; nothing: some of them do not tell it.
std::optional<double> mean_of(const std::map<int64_t, double>& exposed_ns, const CommunicatorInfo& communicator) {
  double sum_ns = 0;
  for (const int64_t rank : communicator.ranks) {
    const auto known = exposed_ns.find(rank);
    if (known == exposed_ns.end()) return std::nullopt;
    sum_ns += known->second;
  }
  return communicator.ranks.empty() ? std::nullopt
                                    : std::optional(sum_ns / static_cast<double>(communicator.ranks.size()));
}

/// No more than what the members do not hide, and the others do not have.
double limited_by_others(const std::map<int64_t, double>& exposed_ns, const CommunicatorInfo& communicator,
                         double saving_ns) {
  const std::optional<double> own_ns = mean_of(exposed_ns, communicator);
  std::vector<double> others;
  for (const auto& [rank, ns] : exposed_ns)
    if (!communicator.comm_rank.contains(rank)) others.push_back(ns);
  return own_ns && !others.empty() ? std::min(saving_ns, std::max(0.0, *own_ns - median_of(others))) : saving_ns;
}

/// No more than what the members hide less than before.
double limited_by_before(const FindingInput& input, const CommunicatorInfo& communicator, const std::string& axis,
                         int64_t change, double saving_ns) {
  const std::optional<double> before_ns = mean_of(exposed_transfers(input, axis, INT64_MIN, change), communicator),
                              after_ns = mean_of(exposed_transfers(input, axis, change), communicator);
  return before_ns && after_ns ? std::min(saving_ns, std::max(0.0, *after_ns - *before_ns)) : saving_ns;
}

/// What was found, its saving by the rule, and what the network's transfers would take of their time without the fault.
struct SlowNetwork {
  Finding finding;
  int64_t comm = 0;
  models::TransferFactor factor;
  std::optional<int64_t> since;  ///< step
};

/// Sets the saving to that of a replay. Where GPUs wait and their steps cannot be replayed, the rule's is an upper
/// bound.
void replay(const FindingInput& input, SlowNetwork& slow) {
  Query by_device(input.db, "SELECT 1 FROM steady_world WHERE world = ? AND waits_by = 'device'");
  if (!by_device.bind(input.world).next()) return;
  std::optional<double> seconds;
  if (input.steps.annotated)
    seconds = models::saving_of_transfers(input.db, input.catalog, input.world, slow.comm, slow.factor, slow.since);
  if (seconds) {
    slow.finding.saving_ns = static_cast<int64_t>(*seconds * 1e9);
  } else {
    slow.finding.at_most = true;
    slow.finding.evidence +=
        " The saving is at most that: the steps cannot be replayed, and others may be waited for as well.";
  }
}

// ------------------------------------------------------------------------------------------ against like communicators

/// By communicator; no entry: none that is known.
std::map<int64_t, std::string> axes(SQLite::Database& db) {
  std::map<int64_t, std::string> axis_of;
  for (Query row(db, "SELECT communicator, axis FROM communicator_axis"); row.next();)
    axis_of.emplace(row.integer(0), row.text(1));
  return axis_of;
}

/// One operation of one size on one communicator.
struct Usage {
  int64_t comm = 0;
  double xfer_ns = 0;  ///< median of an instance
  double instances = 0, per_step = 0;
  double busbw = 0;
  bool bounded = false;        ///< xfer_ns is an upper bound
  std::vector<int64_t> sizes;  ///< it stands for, in bytes
};

/// Sizes whose logarithms to this base have the same whole part are alike. Experts get a few more tokens, or fewer, in
/// each step, so that no size occurs on two communicators.
constexpr double kAlikeSizes = 1.1;  // less than kSlower: nothing is slow by its size alone
int64_t alike_sizes(int64_t bytes) {
  return static_cast<int64_t>(std::log(static_cast<double>(bytes)) / std::log(kAlikeSizes));
}
double middle_of_alike(int64_t number) { return std::pow(kAlikeSizes, static_cast<double>(number) + 0.5); }

/// Value and weight; reordered.
double median_by_weight(std::vector<std::pair<double, double>>& values) {
  std::sort(values.begin(), values.end());
  double left = 0;
  for (const auto& [value, weight] : values) left += weight / 2;
  for (const auto& [value, weight] : values)
    if ((left -= weight) <= 0) return value;
  return values.back().first;
}

double mean_size(const Usage& usage) {
  return std::accumulate(usage.sizes.begin(), usage.sizes.end(), 0.0) / static_cast<double>(usage.sizes.size());
}

/// Several sizes that are alike on one communicator, as one of the middle size.
Usage as_one(const std::vector<const Usage*>& usages) {
  Usage one;
  std::vector<std::pair<double, double>> xfer_ns, busbw;
  for (const Usage* u : usages) {
    const int64_t bytes = u->sizes.front();
    one.comm = u->comm;
    one.instances += u->instances;
    one.per_step += u->per_step;
    one.bounded |= u->bounded;
    one.sizes.push_back(bytes);
    xfer_ns.emplace_back(u->xfer_ns * middle_of_alike(alike_sizes(bytes)) / static_cast<double>(bytes), u->instances);
    busbw.emplace_back(u->busbw, u->instances);
  }
  one.xfer_ns = median_by_weight(xfer_ns);
  one.busbw = median_by_weight(busbw);
  return one;
}

/// What may be compared: operation, bytes (alike_sizes()), members, hosts, axis.
using LikeKey = std::tuple<int64_t, int64_t, int64_t, int64_t, std::string>;

/// Usages of one size on several communicators; and of sizes that are alike, where there is no other communicator
/// of the same size.
std::vector<std::pair<LikeKey, std::vector<Usage>>> comparable_usages(
    const std::map<LikeKey, std::vector<Usage>>& by_size) {
  std::vector<std::pair<LikeKey, std::vector<Usage>>> comparable;
  std::map<LikeKey, std::map<int64_t, std::vector<const Usage*>>> alone;  // by communicator
  for (const auto& [key, usages] : by_size) {
    std::vector<Usage> often;
    for (const Usage& usage : usages)
      if (usage.instances >= kLinkMinInstances) often.push_back(usage);
    if (often.size() >= 2) {
      comparable.emplace_back(key, std::move(often));
      continue;
    }
    LikeKey alike = key;
    std::get<1>(alike) = alike_sizes(std::get<1>(key));
    for (const Usage& usage : usages) alone[alike][usage.comm].push_back(&usage);
  }
  for (const auto& [key, by_comm] : alone) {
    std::vector<Usage> often;
    for (const auto& [comm, usages] : by_comm)
      if (Usage one = as_one(usages); one.instances >= kLinkMinInstances) often.push_back(std::move(one));
    if (often.size() >= 2) comparable.emplace_back(key, std::move(often));
  }
  return comparable;
}

struct Slow {
  int64_t comm = 0;
  double saving_ns = 0;
  /// by operation and bytes: the time elsewhere against its own
  std::map<std::pair<int64_t, int64_t>, double> factors;
  double worst_ns = 0;  ///< of one operation and size, the one that costs most
  int64_t op = 0;
  std::vector<int64_t> sizes;  ///< of that one, in bytes
  double xfer_ns = 0, elsewhere_ns = 0, busbw = 0, elsewhere_busbw = 0;
  size_t others = 0;
  std::string axis;
  bool bounded = false;  ///< of some of its transfers an upper bound is known
};

/// Median of `sorted` without one of its values, `value`; there are at least two.
double median_without(const std::vector<double>& sorted, double value) {
  const size_t own = static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
  const auto other = [&](size_t k) { return sorted[k < own ? k : k + 1]; };
  const size_t others = sorted.size() - 1;
  const double middle = other(others / 2);
  if (others % 2 == 1) return middle;
  const double below = other(others / 2 - 1);
  return below + (middle - below) / 2;
}

std::map<int64_t, Slow> slower_than_others(const FindingInput& input) {
  const double steps = std::max(1.0, recorded_steps(input));
  const std::map<int64_t, std::string> axis_of = axes(input.db);
  std::map<LikeKey, std::vector<Usage>> by_size;
  std::map<int64_t, int64_t> hosts;  // by communicator
  Query groups(
      input.db,
      "SELECT op, bytes, comm, t.xfer_ns, g.instances, g.step_instances, coalesce(t.busbw, 0), t.bounded FROM group_transfer t"
      " JOIN collective_group g USING (world, op, comm, bytes) WHERE world = ? ORDER BY op, bytes, comm");
  groups.bind(input.world);
  while (groups.next()) {
    const CommunicatorInfo& communicator = input.catalog.communicators.at(groups.integer(2));
    const double instances = input.steps.annotated ? groups.real(5) : groups.real(4);
    const double per_step = input.steps.annotated ? instances / steps : instances;
    const auto axis = axis_of.find(communicator.id);
    const auto [known_hosts, is_new] = hosts.try_emplace(communicator.id, 0);
    if (is_new) known_hosts->second = hosts_of(input, communicator);
    by_size[{groups.integer(0), groups.integer(1), communicator.size, known_hosts->second,
             axis == axis_of.end() ? "" : axis->second}]
        .push_back({communicator.id,
                    groups.real(3),
                    instances,
                    per_step,
                    groups.real(6),
                    groups.integer(7) != 0,
                    {groups.integer(1)}});
  }
  std::map<int64_t, Slow> slow;
  std::map<int64_t, std::vector<LongerTransfer>> collectives;  // of those whose transfers are bounded
  for (const auto& [key, usages] : comparable_usages(by_size)) {
    std::vector<double> xfer_ns, busbw;
    for (const Usage& usage : usages) {
      xfer_ns.push_back(usage.xfer_ns);
      busbw.push_back(usage.busbw);
    }
    std::sort(xfer_ns.begin(), xfer_ns.end());
    std::sort(busbw.begin(), busbw.end());
    for (const Usage& usage : usages) {
      const double elsewhere_ns = median_without(xfer_ns, usage.xfer_ns);
      if (usage.bounded)
        collectives[usage.comm].push_back(
            {usage.per_step * (usage.xfer_ns - elsewhere_ns), usage.per_step * mean_size(usage)});
      if (usage.xfer_ns < kSlower * elsewhere_ns) continue;
      Slow& s = slow[usage.comm];
      s.comm = usage.comm;
      const double excess_ns = usage.per_step * (usage.xfer_ns - elsewhere_ns);
      s.saving_ns += excess_ns;
      for (const int64_t bytes : usage.sizes) s.factors[{std::get<0>(key), bytes}] = elsewhere_ns / usage.xfer_ns;
      s.bounded |= usage.bounded;
      if (excess_ns <= s.worst_ns) continue;
      s.worst_ns = excess_ns;
      s.op = std::get<0>(key);
      s.sizes = usage.sizes;
      s.xfer_ns = usage.xfer_ns;
      s.elsewhere_ns = elsewhere_ns;
      s.busbw = usage.busbw;
      s.elsewhere_busbw = median_without(busbw, usage.busbw);
      s.others = usages.size() - 1;
      s.axis = std::get<4>(key);
    }
  }
  const LateNeighbours late(input);
  std::erase_if(slow, [&](const auto& one) {
    const CommunicatorInfo& communicator = input.catalog.communicators.at(one.first);
    return one.second.bounded && (!is_in_proportion_to_bytes(collectives[one.first]) ||
                                  late.has_any(communicator, one.second.saving_ns * steps));
  });
  std::map<std::string, std::map<int64_t, double>> exposed_ns;  // by axis and rank
  for (auto& [comm, s] : slow) {
    const auto [known, is_new] = exposed_ns.try_emplace(s.axis);
    if (is_new) known->second = exposed_transfers(input, s.axis);
    s.saving_ns = limited_by_others(known->second, input.catalog.communicators.at(comm), s.saving_ns);
  }
  return slow;
}

/// By number.
models::TransferFactor factor_of(const FindingInput& input, const Slow& slow) {
  std::map<int64_t, double> factors;
  Query numbers(
      input.db,
      "SELECT e.seq, e.op, k.bytes FROM event e JOIN collective k ON k.event = e.id WHERE e.comm = ? AND e.seq IS NOT NULL");
  numbers.bind(slow.comm);
  while (numbers.next())
    if (const auto known = slow.factors.find({numbers.integer(1), numbers.integer(2)}); known != slow.factors.end())
      factors.emplace(numbers.integer(0), known->second);
  return [factors = std::move(factors)](int64_t number) {
    const auto known = factors.find(number);
    return known == factors.end() ? 1 : known->second;
  };
}

SlowNetwork describe(const FindingInput& input, const Slow& slow, size_t more) {
  const CommunicatorInfo& communicator = input.catalog.communicators.at(slow.comm);
  const std::string op = input.catalog.operation(slow.op).name;
  const auto [least, most] = std::minmax_element(slow.sizes.begin(), slow.sizes.end());
  const std::string size = *least == *most ? bytes_text(static_cast<double>(*least))
                                           : fmt::format("{} to {}", bytes_text(static_cast<double>(*least)),
                                                         bytes_text(static_cast<double>(*most)));
  Finding finding;
  finding.subject = communicator.label;
  finding.saving_ns = static_cast<int64_t>(slow.saving_ns);
  finding.at_most = slow.bounded;
  finding.confidence = slow.others >= 2 && !slow.bounded ? "likely" : "maybe";
  finding.sentence =
      fmt::format("the network of {} is slow{}: {} of {} moves at {} there, at {} on {}", communicator.label,
                  slow.bounded ? fmt::format(", or {}, is late", missing_text(input, communicator.ranks)) : "", op,
                  size, rate_text(slow.busbw), rate_text(slow.elsewhere_busbw),
                  slow.others == 1 ? "the other communicator like it" : fmt::format("{} others like it", slow.others));
  finding.evidence =
      fmt::format("Waiting not counted it takes {} instead of {} (bus bandwidths above){}; members: {} on {}{}.",
                  duration_text(slow.xfer_ns), duration_text(slow.elsewhere_ns), axis_text(slow.axis),
                  ranks_text(communicator.ranks), hosts_text(input, communicator),
                  more == 0 ? std::string() : fmt::format("; {} more communicators are slow", more));
  finding.evidence_sql = fmt::format(
      "SELECT comm, op, avg(bytes) AS mean_bytes, count(*) AS calls, avg(xfer_ns) AS mean_xfer_ns, avg(wait_ns) AS mean_wait_ns FROM v_collective"
      " WHERE world = {} AND op = '{}' AND bytes BETWEEN {} AND {} GROUP BY comm ORDER BY mean_xfer_ns DESC",
      input.world, op, *least, *most);
  finding.advice =
      "check the links of these hosts (ibstat, ethtool -S, nvidia-smi nvlink -s, errors in ddl report's node section), their NUMA binding "
      "and "
      "which interface they use (--mca btl_tcp_if_include, UCX_NET_DEVICES, NCCL_SOCKET_IFNAME)";
  return {std::move(finding), slow.comm, factor_of(input, slow), std::nullopt};
}

// ----------------------------------------------------------------------------------------------- against earlier steps

struct StepTransfer {
  int64_t step = 0;
  double xfer_ns = 0;
  double bytes = 0;
  std::vector<LongerTransfer> bounded;  ///< its collectives, where upper bounds are all that is known of them
};

/// The communicator's transfer by step, of the steps that move about the usual number of bytes: experts get a few
/// tokens more or less. All of them bounded, or none: a rank whose record ends may have been late before.
std::vector<StepTransfer> transfers_of(const FindingInput& input, int64_t comm) {
  std::vector<StepTransfer> steps;
  std::vector<double> bytes;
  Query rows(
      input.db,
      "SELECT t.step, t.xfer_ns, t.bytes, t.bounded FROM comm_step t JOIN steady_number n ON n.world = ?1 AND n.step = t.step"
      " WHERE t.comm = ?2 ORDER BY t.step, t.rowid");
  for (rows.bind(input.world, comm); rows.next();) {
    if (steps.empty() || steps.back().step != rows.integer(0)) steps.push_back({rows.integer(0), 0, 0, {}});
    StepTransfer& step = steps.back();
    step.xfer_ns += rows.real(1);
    step.bytes += rows.real(2);
    if (rows.integer(3) != 0) step.bounded.push_back({rows.real(1), rows.real(2)});
  }
  const auto bounded =
      std::count_if(steps.begin(), steps.end(), [](const StepTransfer& s) { return !s.bounded.empty(); });
  const bool most = 2 * bounded > static_cast<std::ptrdiff_t>(steps.size());
  std::erase_if(steps, [most](const StepTransfer& s) { return s.bounded.empty() == most; });
  if (steps.empty()) return steps;
  for (const StepTransfer& s : steps) bytes.push_back(s.bytes);
  const double usual = median_of(bytes);
  std::erase_if(steps, [&](const StepTransfer& s) { return std::abs(s.bytes - usual) > kUsualBytes * usual; });
  return steps;
}

struct Typical {
  double median_ns = 0;
  double scatter_ns = 0;  ///< median distance from it
};

Typical typical_of(const std::vector<StepTransfer>& steps, size_t first, size_t last) {
  std::vector<double> values;
  for (size_t i = first; i < last; ++i) values.push_back(steps[i].xfer_ns);
  Typical typical;
  typical.median_ns = median_of(values);
  for (double& value : values) value = std::abs(value - typical.median_ns);
  typical.scatter_ns = median_of(values);
  return typical;
}

/// Each collective of a step against what it took before; of steps that have as many as the one in which it changed.
std::vector<LongerTransfer> longer_than_before(const std::vector<StepTransfer>& steps, size_t change) {
  std::vector<LongerTransfer> longer = steps[change].bounded;
  for (size_t c = 0; c < longer.size(); ++c) {
    std::vector<double> before_ns, after_ns;
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].bounded.size() == longer.size())
        (i < change ? before_ns : after_ns).push_back(steps[i].bounded[c].longer_ns);
    longer[c].longer_ns = before_ns.empty() ? 0 : median_of(after_ns) - median_of(before_ns);
  }
  return longer;
}

/// Where the means differ most; 0: nowhere do they rise, or there are too few steps.
size_t find_change(const std::vector<StepTransfer>& steps) {
  std::vector<double> xfer_ns;
  for (const StepTransfer& s : steps) xfer_ns.push_back(s.xfer_ns);
  return rise_at(xfer_ns, kLinkMinSteps, 1);
}

std::optional<SlowNetwork> slower_than_before(const FindingInput& input) {
  std::optional<SlowNetwork> worst;
  const std::map<int64_t, std::string> axis_of = axes(input.db);
  const LateNeighbours late(input);
  for (const auto& [id, communicator] : input.catalog.communicators) {
    if (communicator.world != input.world || communicator.size < 2) continue;
    const std::vector<StepTransfer> steps = transfers_of(input, id);
    const size_t change = find_change(steps);
    if (change == 0) continue;
    const Typical before = typical_of(steps, 0, change), after = typical_of(steps, change, steps.size());
    const double longer_ns = after.median_ns - before.median_ns;
    const auto is_worst_so_far = [&](double saving_ns) {
      return saving_ns >= kLinkMinSavingShare * static_cast<double>(input.step_ns) &&
             (!worst || saving_ns > static_cast<double>(*worst->finding.saving_ns));
    };
    if (after.median_ns < kSlowerThanBefore * before.median_ns ||
        longer_ns < kClearRise * std::max(before.scatter_ns, after.scatter_ns) || !is_worst_so_far(longer_ns))
      continue;
    const bool bounded = !steps[change].bounded.empty();
    if (bounded && (!is_in_proportion_to_bytes(longer_than_before(steps, change)) ||
                    late.has_any(communicator, longer_ns * static_cast<double>(steps.size() - change))))
      continue;
    const auto axis = axis_of.find(id);
    const double saving_ns = axis == axis_of.end()
                                 ? longer_ns
                                 : limited_by_before(input, communicator, axis->second, steps[change].step, longer_ns);
    if (!is_worst_so_far(saving_ns)) continue;
    Finding finding;
    finding.subject = communicator.label;
    finding.saving_ns = static_cast<int64_t>(saving_ns);
    finding.at_most = bounded;
    finding.confidence = bounded ? "maybe" : "likely";
    finding.sentence = fmt::format(
        "the network of {} became slow at step {}{}: its collectives transfer for {}{}/step, before for {}/step",
        communicator.label, steps[change].step,
        bounded ? fmt::format(", or {}, late", missing_text(input, communicator.ranks)) : "", bounded ? "at most " : "",
        duration_text(after.median_ns), duration_text(before.median_ns));
    finding.evidence = fmt::format(
        "Medians of {} steps before and {} from then on that move as many bytes, waiting not counted{}; members: {} on {}.",
        change, steps.size() - change, axis_text(axis == axis_of.end() ? "" : axis->second),
        ranks_text(communicator.ranks), hosts_text(input, communicator));
    finding.evidence_sql = fmt::format(
        "SELECT step, avg(xfer_ns) AS mean_xfer_ns, avg(wait_ns) AS mean_wait_ns, count(*) AS calls FROM v_collective WHERE world = {}"
        " AND comm = (SELECT label FROM communicator WHERE id = {}) GROUP BY step ORDER BY step",
        input.world, id);
    finding.advice =
        "look at what changed on these hosts then: a link that fell back to a lower rate or collects errors, another job on the same "
        "network, "
        "a checkpoint being written";
    worst = {std::move(finding), id, [factor = before.median_ns / after.median_ns](int64_t) { return factor; },
             steps[change].step};
  }
  return worst;
}

}  // namespace

/// The more telling of both: medians over all steps do not tell what was slow in a part of them.
DDL_FINDING(slow_link, kSpeed, "busbw",
            "a communicator's network is slower than on others like it (operation, bytes, members, hosts), or than "
            "it was in earlier steps",
            "transfer times, waiting not counted") {
  if (is_crowded(input)) return {};
  const std::map<int64_t, Slow> slow = slower_than_others(input);
  const auto worst = std::max_element(
      slow.begin(), slow.end(), [](const auto& a, const auto& b) { return a.second.saving_ns < b.second.saving_ns; });
  std::optional<SlowNetwork> found = input.steps.annotated ? slower_than_before(input) : std::nullopt;
  const auto is_slow = [&](double saving_ns) {
    return saving_ns >= kLinkMinSavingShare * static_cast<double>(input.step_ns);
  };
  if (worst != slow.end() && is_slow(worst->second.saving_ns) &&
      (!found || worst->second.saving_ns > static_cast<double>(*found->finding.saving_ns)))
    found = describe(input, worst->second, slow.size() - 1);
  if (!found) return {};
  found->finding.since = found->since;
  replay(input, *found);
  if (!is_slow(static_cast<double>(*found->finding.saving_ns))) return {};
  return {std::move(found->finding)};
}

}  // namespace ddl
