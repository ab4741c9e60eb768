#include "tui/live_stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/findings/stall_case.h"

namespace ddl::tui {
namespace {

int64_t entered_ns(const Rank& rank) { return rank.clock.time_ns(rank.sits_in->start_ticks); }

bool sits_in_collective(const Rank& rank) {
  return rank.sits_in && rank.sits_in->op != kNone && rank.sits_in->comm != kNone && rank.sits_in->sequence > 0;
}

/// Members whose spools are there and that have not entered the collective.
std::vector<int64_t> members_behind(const Job& job, const JobCommunicator& communicator, uint32_t comm, uint32_t sequence) {
  if (!communicator.comparable) return {};
  const std::set<int32_t> members(communicator.ranks.begin(), communicator.ranks.end());
  std::vector<int64_t> behind;
  for (const Rank& rank : job.ranks) {
    const auto reached = rank.reached.find(comm);
    if (members.contains(rank.rank) && (reached == rank.reached.end() || reached->second < sequence)) behind.push_back(rank.rank);
  }
  return behind;
}

std::string describe(const Job& job, const OpenCall& call) {
  const Operation& operation = job.operations[call.op].operation;
  const std::string& label = job.communicators[call.comm].label;
  return operation.op_class == OpClass::kCompletion ? fmt::format("collective number {} on {} ({})", call.sequence, label, operation.name)
                                                    : fmt::format("{} number {} on {}", operation.name, call.sequence, label);
}

/// The longest that a rank may sit in the call and the job still be well.
double patience_ns(const OpenCall& call, const std::vector<CollectiveUse>& window, double least_ns) {
  CollectiveUse all;
  for (const CollectiveUse& use : window) {
    if (use.op == call.op && use.comm == call.comm) all.add(use);
  }
  const double mean_ns = all.calls == 0 ? 0 : static_cast<double>(all.time_ns) / static_cast<double>(all.calls);
  return std::max(least_ns, kHangTimes * mean_ns);
}

/// A collective that all its members have entered and some do not leave.
std::optional<Stall> stuck_in_transfer(const Job& job, const std::vector<CollectiveUse>& window, double least_ns) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<const Rank*>> together;
  for (const Rank& rank : job.ranks) {
    if (sits_in_collective(rank)) together[{rank.sits_in->comm, rank.sits_in->sequence, rank.sits_in->op}].push_back(&rank);
  }
  std::optional<Stall> worst;
  for (const auto& [key, ranks] : together) {
    const OpenCall& call = *ranks.front()->sits_in;
    int64_t since_ns = INT64_MIN;
    for (const Rank* rank : ranks) since_ns = std::max(since_ns, entered_ns(*rank));
    Stall stall;
    stall.waited_ns = static_cast<double>(job.now_ns - since_ns);
    if (stall.waited_ns < patience_ns(call, window, least_ns) || (worst && ranks.size() <= worst->waiting.size())) continue;
    if (!members_behind(job, job.communicators[call.comm], call.comm, call.sequence).empty()) continue;
    stall.call = describe(job, call);
    for (const Rank* rank : ranks) stall.waiting.push_back(rank->rank);
    worst = std::move(stall);
  }
  return worst;
}

/// Nobody has left MPI_Init: it returns when all ranks have called it.
std::optional<Stall> stuck_in_init(const Job& job, double least_ns) {
  Stall stall;
  stall.call = "MPI_Init";
  int64_t since_ns = INT64_MIN;
  for (const Rank& rank : job.ranks) {
    if (rank.life != Life::kStarting || !rank.sits_in) return std::nullopt;
    stall.waiting.push_back(rank.rank);
    since_ns = std::max(since_ns, entered_ns(rank));
  }
  if (stall.waiting.empty()) return std::nullopt;
  stall.waited_ns = static_cast<double>(job.now_ns - since_ns);
  if (stall.waited_ns < 2 * least_ns) return std::nullopt;  // hosts do not start at the same time
  const std::set<int64_t> inside(stall.waiting.begin(), stall.waiting.end());
  for (int64_t rank = 0; rank < job.world_size; ++rank) {
    if (!inside.contains(rank)) stall.missing.push_back(rank);
  }
  return stall;
}

}  // namespace

std::optional<Stall> find_live_stall(const Job& job, const std::vector<CollectiveUse>& window, double least_ns) {
  std::vector<WaitingRank> waiting;
  std::map<std::pair<int64_t, int64_t>, OpenCall> calls;
  for (const Rank& rank : job.ranks) {
    if (!sits_in_collective(rank)) continue;
    const OpenCall& call = *rank.sits_in;
    waiting.push_back({rank.rank, call.comm, call.sequence, entered_ns(rank)});
    calls[{call.comm, call.sequence}] = call;
  }
  const auto found = find_stall_case(waiting, job.now_ns - static_cast<int64_t>(least_ns), [&](int64_t comm, int64_t sequence) {
    const auto number = static_cast<uint32_t>(comm);
    return members_behind(job, job.communicators[number], number, static_cast<uint32_t>(sequence));
  });
  std::optional<Stall> stall;
  if (found) {
    const OpenCall& call = calls.at({found->comm, found->seq});
    const auto waited_ns = static_cast<double>(job.now_ns - found->since_ns);
    if (waited_ns >= patience_ns(call, window, least_ns))
      stall = Stall{describe(job, call), found->waiting, found->missing, found->circular, waited_ns};
  }
  if (!stall) stall = stuck_in_transfer(job, window, least_ns);
  if (!stall) stall = stuck_in_init(job, least_ns);
  if (!stall) return std::nullopt;
  std::sort(stall->waiting.begin(), stall->waiting.end());
  std::sort(stall->missing.begin(), stall->missing.end());
  return stall;
}

}  // namespace ddl::tui
