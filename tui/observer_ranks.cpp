// What every rank of the window did, and where the job's time went.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/statistics.h"
#include "tui/live_stall.h"
#include "tui/observer.h"

namespace ddl::tui {
namespace {

constexpr double kShownCallNs = 5e8;  // calls that last longer than this are named

/// By node: how busy its GPUs are and how full their memory, means. One process of each node says so, with names such
/// as "gpu ID busy_ratio".
std::map<std::string, std::pair<std::optional<double>, std::optional<double>>> gpus_by_node(const Job& job) {
  std::map<std::string, std::pair<std::optional<double>, std::optional<double>>> nodes;
  for (const Rank& rank : job.ranks) {
    double busy = 0, used = 0, total = 0;
    int busy_count = 0;
    for (const auto& [name, value] : rank.counters) {
      if (!name.starts_with("gpu")) continue;
      if (name.ends_with(" busy_ratio")) busy += value, ++busy_count;
      if (name.ends_with(" memory_used_bytes")) used += value;
      if (name.ends_with(" memory_total_bytes")) total += value;
    }
    if (busy_count > 0) nodes[rank.host].first = busy / busy_count;
    if (total > 0) nodes[rank.host].second = used / total;
  }
  return nodes;
}

/// What one rank, or all, did in the steps of the window.
struct Sum {
  int64_t duration_ns = 0, compute_ns = 0, comm_ns = 0, exposed_ns = 0, copy_ns = 0, wait_ns = 0, waiting_ns = 0;
  int64_t steps = 0;
  bool known = true;  ///< the waiting, both

  void add(const RankPart& part) {
    ++steps;
    duration_ns += part.duration_ns;
    compute_ns += part.compute_ns;
    comm_ns += part.comm_ns;
    exposed_ns += part.exposed_ns;
    copy_ns += part.copy_ns;
    wait_ns += part.wait_ns.value_or(0);
    waiting_ns += part.waiting_ns.value_or(0);
    known &= part.wait_ns.has_value() && part.waiting_ns.has_value();
  }
  int64_t overlapped_ns() const { return std::max<int64_t>(0, comm_ns - exposed_ns); }
  Shares shares() const {
    const auto share = [&](int64_t ns) { return static_cast<double>(ns) / static_cast<double>(duration_ns); };
    const int64_t shown_wait_ns = known ? wait_ns : 0;
    Shares shares{};
    shares[kCompute] = share(compute_ns - overlapped_ns());
    shares[kOverlapped] = share(overlapped_ns());
    shares[kTransfer] = share(exposed_ns - shown_wait_ns);
    shares[kWaiting] = share(shown_wait_ns);
    shares[kCopy] = share(copy_ns);
    shares[kIdle] = share(duration_ns - compute_ns - exposed_ns - copy_ns);
    return shares;
  }
};

/// Parts of the job, from 0.
struct Parts {
  std::vector<size_t> of_rank;  ///< as Job::ranks
  size_t count = 1;
};
Parts parts_of(const Job& job, const PartOfRank& part_of_rank) {
  Parts parts{std::vector<size_t>(job.ranks.size(), 0), 1};
  if (part_of_rank.empty()) return parts;
  std::map<int64_t, size_t> numbers;
  for (size_t r = 0; r < job.ranks.size(); ++r)
    parts.of_rank[r] = numbers.try_emplace(part_of_rank.at(job.ranks[r].rank), numbers.size()).first->second;
  parts.count = numbers.size();
  return parts;
}

/// For the ranks of a part.
struct Waits {
  std::vector<int64_t> known;
  size_t ranks = 0;

  void add(std::optional<int64_t> ns) {
    ++ranks;
    if (ns) known.push_back(*ns);
  }
  /// That of the median rank, which nobody knows of a few where most are not known.
  std::optional<int64_t> middle() const {
    return known.empty() || 2 * known.size() < ranks ? std::nullopt : std::optional(upper_median_of(known));
  }
};
using Middles = std::vector<std::optional<int64_t>>;  ///< by part

Middles middles_of(const std::vector<Waits>& waits) {
  Middles middles;
  for (const Waits& of_part : waits) middles.push_back(of_part.middle());
  return middles;
}

/// While the job stalls, as `ddl record` took them.
std::map<int64_t, std::string> stacks_by_rank(const Job& job) {
  std::map<int64_t, std::string> stacks;
  if (!job.told) return stacks;
  for (const StackGroup& group : group_stacks(*job.told)) {
    std::string text = group.stack.empty() ? fmt::format("not known: {}", group.why) : short_stack(group.stack, 12);
    if (!group.inner.empty()) text += fmt::format("; in C: {}", short_stack(group.inner));
    for (const int64_t rank : group.ranks) stacks[rank] = text;
  }
  return stacks;
}

}  // namespace

void Observer::rank_rows(const Job& job, Snapshot& s) const {
  std::vector<Sum> sums(job.ranks.size());
  Sum all;
  const Parts together = parts_of(job, parts_of_ranks_);
  std::vector<Middles> step_middles;  // by step
  for (const FinishedStep* step : window_) {
    std::vector<Waits> of_step(together.count);
    const std::vector<RankPart>& of_ranks = parts(*step);
    for (size_t r = 0; r < of_ranks.size(); ++r) {
      const RankPart& part = of_ranks[r];
      if (!part.is_there()) continue;
      sums[r].add(part);
      all.add(part);
      of_step[together.of_rank[r]].add(part.waiting_ns);
    }
    step_middles.push_back(middles_of(of_step));
  }
  if (s.device_collectives) {  // what its ranks wait for in MPI is not what they wait for
    all.known = false;
    for (Sum& sum : sums) sum.known = false;
  }
  if (all.duration_ns > 0) {
    s.shares = all.shares();
    s.exposed_ratio = static_cast<double>(all.exposed_ns) / static_cast<double>(all.duration_ns);
    if (all.comm_ns > 0 && !s.gpus)
      s.overlap_ratio = static_cast<double>(all.overlapped_ns()) / static_cast<double>(all.comm_ns);
    s.waiting_known = all.known;
  }
  if (by_device_ && all.comm_ns > 0) {
    const auto over = [&](int64_t ns) {
      return ns > 0 ? std::optional(static_cast<double>(all.compute_ns) / static_cast<double>(ns)) : std::nullopt;
    };
    s.gpu_ratios = {over(all.comm_ns), all.known ? over(all.comm_ns - all.waiting_ns) : std::nullopt,
                    over(all.exposed_ns)};
  }
  std::vector<Waits> waits(together.count);
  for (size_t r = 0; r < sums.size(); ++r) {
    if (sums[r].steps > 0)
      waits[together.of_rank[r]].add(sums[r].known ? std::optional(sums[r].waiting_ns / sums[r].steps) : std::nullopt);
  }
  const Middles middle_waits = middles_of(waits);
  const auto works = [](const Waits& of_part) { return of_part.ranks > 0; };  // not those that have ended
  s.parts = std::max(1, static_cast<int32_t>(std::count_if(waits.begin(), waits.end(), works)));

  std::set<std::string> nodes;
  std::map<std::string, int32_t> on_node;
  std::vector<size_t> order(job.ranks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return job.ranks[a].rank < job.ranks[b].rank; });
  const auto node_gpus = gpus_by_node(job);
  const auto stacks = job.ended ? std::map<int64_t, std::string>() : stacks_by_rank(job);
  double overhead_ns = 0, alive_ns = 0;
  for (const size_t r : order) {
    const Rank& rank = job.ranks[r];
    RankRow row;
    row.rank = rank.rank;
    row.node = rank.host;
    row.slot = rank.on_host >= 0 ? rank.on_host : on_node[rank.host]++;
    row.life = rank.life;
    row.lost = rank.lost;
    if (const auto part = parts_of_ranks_.find(rank.rank); part != parts_of_ranks_.end())
      row.part = static_cast<int32_t>(part->second);
    if (rank.newest_ticks > 0)
      row.silent_ns = std::max(0.0, static_cast<double>(job.now_ns - rank.clock.time_ns(rank.newest_ticks)));
    nodes.insert(rank.host);
    s.lost += rank.lost;
    if (rank.newest_ticks > rank.begin_ticks && rank.overhead_known) {
      overhead_ns += static_cast<double>(rank.clock.span_ns(rank.overhead_ticks));
      alive_ns += static_cast<double>(rank.clock.time_ns(rank.newest_ticks) - rank.clock.time_ns(rank.begin_ticks));
    }
    const Sum& sum = sums[r];
    if (sum.steps > 0) {
      const auto mean = [&](int64_t ns) { return static_cast<double>(ns) / static_cast<double>(sum.steps); };
      row.step_ns = mean(sum.duration_ns);
      row.compute_ns = mean(sum.compute_ns);
      row.exposed_ns = mean(sum.exposed_ns);
      row.shares = sum.shares();
      if (sum.known) {
        row.wait_ns = static_cast<double>(sum.wait_ns / sum.steps);
        if (const auto& middle = middle_waits[together.of_rank[r]])
          row.late_ns = static_cast<double>(*middle - sum.waiting_ns / sum.steps);
      }
    } else {  // what its GPUs did is not known; how long its steps took is
      double whole_ns = 0, steps = 0;
      for (const FinishedStep* step : window_) {
        if (r >= step->thread_parts.size() || !step->thread_parts[r].is_there()) continue;
        whole_ns += static_cast<double>(step->thread_parts[r].duration_ns);
        ++steps;
      }
      if (steps > 0) row.step_ns = whole_ns / steps;
    }
    for (size_t i = 0; i < window_.size(); ++i) {
      const std::vector<RankPart>& of_ranks = parts(*window_[i]);
      const bool known = !s.device_collectives && r < of_ranks.size() && of_ranks[r].is_there() &&
                         of_ranks[r].waiting_ns && step_middles[i][together.of_rank[r]];
      row.trend.push_back(
          known ? std::optional(static_cast<double>(*step_middles[i][together.of_rank[r]] - *of_ranks[r].waiting_ns))
                : std::nullopt);
    }
    if (const auto& call = rank.sits_in ? rank.sits_in : rank.polls; call && call->op != kNone) {
      const double since_ns = static_cast<double>(job.now_ns - rank.clock.time_ns(call->start_ticks));
      if (since_ns >= kShownCallNs || job.ended) {
        row.call = (rank.sits_in ? "" : "polls ") + job.operations[call->op].operation.name;
        row.call_ns = std::max(0.0, since_ns);
      }
    }
    if (s.background && !job.ended) {
      if (const auto last = last_second(rank, job.now_ns))
        row.computing_ratio = std::clamp(last->busy - last->spun, 0.0, 1.0);
    }
    if (const auto stack = stacks.find(rank.rank); stack != stacks.end()) row.stack = stack->second;
    if (const auto gpus = node_gpus.find(rank.host); gpus != node_gpus.end()) {
      row.gpu_ratio = gpus->second.first;
      row.memory_ratio = gpus->second.second;
    }
    s.ranks.push_back(std::move(row));
  }
  s.nodes = static_cast<int32_t>(nodes.size());
  if (alive_ns > 0) s.overhead_ratio = overhead_ns / alive_ns;

  // Where background threads agree first on what to move, who enters last does not tell whose training thread is late.
  s.negotiates = background_ && std::any_of(collectives_.begin(), collectives_.end(),
                                            [](const CollectiveUse& use) { return use.coordination; });
  if (!s.negotiates) s.blame = sum_blame();
  std::set<int64_t> unknown;
  for (const FinishedStep* step : window_) {
    if (by_device_) unknown.insert(step->unknown.begin(), step->unknown.end());
  }
  s.devices_unknown.assign(unknown.begin(), unknown.end());
}

/// In the window. One who is late at a time, in an array by waiter: a thousand ranks that are late in turn
/// make a million pairs.
Blame Observer::sum_blame() const {
  std::vector<const Blamed*> all;
  for (const FinishedStep* step : window_)
    each_lateness(*step, [&](const Lateness& lateness) {
      for (const Blamed& blamed : lateness.blamed) all.push_back(&blamed);
    });
  std::stable_sort(all.begin(), all.end(), [](const Blamed* a, const Blamed* b) { return a->rank < b->rank; });
  Blame::sequence_type sums;
  std::vector<double> by_waiter;
  std::vector<int32_t> waiters;
  for (auto next = all.begin(); next != all.end();) {
    const int32_t late = (*next)->rank;
    for (; next != all.end() && (*next)->rank == late; ++next) {
      for (const auto& [waiter, ns] : (*next)->waiters) {
        const auto place = static_cast<size_t>(waiter);
        if (place >= by_waiter.size()) by_waiter.resize(place + 1, 0);
        if (by_waiter[place] == 0) waiters.push_back(waiter);
        by_waiter[place] += static_cast<double>(ns) / static_cast<double>(window_.size());
      }
    }
    std::sort(waiters.begin(), waiters.end());
    waiters.erase(std::unique(waiters.begin(), waiters.end()), waiters.end());  // one that waited 0 ns comes again
    for (const int32_t waiter : waiters) {
      sums.emplace_back(std::pair(late, waiter), by_waiter[static_cast<size_t>(waiter)]);
      by_waiter[static_cast<size_t>(waiter)] = 0;
    }
    waiters.clear();
  }
  Blame blame;
  blame.adopt_sequence(boost::container::ordered_unique_range, std::move(sums));
  return blame;
}

}  // namespace ddl::tui
