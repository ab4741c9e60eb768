#include "tui/live_stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/findings/message_case.h"
#include "analyzer/findings/unready_case.h"
#include "core/names.h"
#include "reports/format.h"

namespace ddl::tui {
namespace {

int64_t entered_ns(const Rank& rank) { return rank.clock.time_ns(rank.sits_in->start_ticks); }

bool sits_in_collective(const Rank& rank) {
  return rank.sits_in && rank.sits_in->op != kNone && rank.sits_in->comm != kNone && rank.sits_in->sequence > 0;
}

/// How far ranks have come.
class Reached {
 public:
  explicit Reached(const Job& job) : job_(job) {
    for (const Rank& rank : job.ranks) by_number_.emplace(rank.rank, &rank);
  }

  /// Members whose spools are there and that have not entered the collective.
  std::vector<int64_t> members_behind(uint32_t comm, uint32_t sequence) const {
    const JobCommunicator& communicator = job_.communicators[comm];
    std::vector<int64_t> behind;
    if (!communicator.comparable) return behind;
    for (const int32_t member : communicator.ranks) {
      const auto rank = by_number_.find(member);
      if (rank == by_number_.end()) continue;
      const auto reached = rank->second->reached.find(comm);
      if (reached == rank->second->reached.end() || reached->second < sequence) behind.push_back(member);
    }
    return behind;
  }

 private:
  const Job& job_;
  std::unordered_map<int32_t, const Rank*> by_number_;
};

std::string describe(const Job& job, const OpenCall& call) {
  const Operation& operation = job.operations[call.op].operation;
  const std::string& label = job.communicators[call.comm].label;
  return operation.op_class == OpClass::kCompletion
             ? fmt::format("collective number {} on {} ({})", call.sequence, label, operation.name)
             : fmt::format("{} number {} on {}", operation.name, call.sequence, label);
}

/// The longest that a rank may sit in the call and the job still be well.
double patience_ns(const OpenCall& call, const std::vector<CollectiveUse>& window, const Patience& patience) {
  CollectiveUse all;
  for (const CollectiveUse& use : window) {
    if (use.op == call.op && use.comm == call.comm) all.add(use);
  }
  return patience.ns(all.calls == 0 ? 0 : static_cast<double>(all.time_ns) / static_cast<double>(all.calls));
}

/// A collective that all its members have entered and some do not leave.
std::optional<Stall> stuck_in_transfer(const Job& job, const Reached& reached, const std::vector<CollectiveUse>& window,
                                       const Patience& patience) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<const Rank*>> together;
  for (const Rank& rank : job.ranks) {
    if (sits_in_collective(rank))
      together[{rank.sits_in->comm, rank.sits_in->sequence, rank.sits_in->op}].push_back(&rank);
  }
  std::optional<Stall> worst;
  for (const auto& [key, ranks] : together) {
    const OpenCall& call = *ranks.front()->sits_in;
    int64_t since_ns = INT64_MIN;
    for (const Rank* rank : ranks) since_ns = std::max(since_ns, entered_ns(*rank));
    Stall stall;
    stall.waited_ns = static_cast<double>(job.now_ns - since_ns);
    if (stall.waited_ns < patience_ns(call, window, patience) || (worst && ranks.size() <= worst->waiting.size()))
      continue;
    if (!reached.members_behind(call.comm, call.sequence).empty()) continue;
    stall.call = describe(job, call);
    for (const Rank* rank : ranks) stall.waiting.push_back(rank->rank);
    worst = std::move(stall);
  }
  return worst;
}

/// The rank of the world whose message the rank sits waiting for; nothing: it waits for none, or nobody knows whose.
std::optional<int64_t> awaited_peer(const Job& job, const Rank& rank) {
  if (!rank.sits_in || rank.sits_in->op == kNone || rank.sits_in->comm == kNone || rank.sits_in->peer < 0)
    return std::nullopt;
  const JobCommunicator& communicator = job.communicators[rank.sits_in->comm];
  const auto peer = static_cast<size_t>(rank.sits_in->peer);
  if (!communicator.comparable || peer >= communicator.ranks.size() || communicator.ranks[peer] == rank.rank)
    return std::nullopt;
  return waits_for_its_peer(job.operations[rank.sits_in->op].operation)
             ? std::optional<int64_t>(communicator.ranks[peer])
             : std::nullopt;
}

/// A message that never comes, as the report finds it (analyzer/findings/message_case.h).
std::optional<Stall> stuck_in_messages(const Job& job, const Reached& reached, const Patience& patience) {
  std::vector<VainWait> waits;
  MissingMembers missing;
  for (const Rank& rank : job.ranks) {
    const auto peer = awaited_peer(job, rank);
    if (!peer && !sits_in_collective(rank)) continue;
    const OpenCall& call = *rank.sits_in;
    VainWait wait{rank.rank, &job.operations[call.op].operation, {}, {}};
    std::optional<int64_t> sequence;
    if (sits_in_collective(rank)) {
      sequence = call.sequence;
      wait.collective = {call.comm, call.sequence};
      const auto [members, is_new] = missing.try_emplace(wait.collective);
      if (is_new) members->second = reached.members_behind(call.comm, call.sequence);
    } else {
      wait.peers = {*peer};
    }
    wait.since_ns = entered_ns(rank);
    wait.call = call_words(*wait.operation, sequence, peer, job.communicators[call.comm].label);
    wait.since = fmt::format("for {}", reports::short_duration(job.now_ns - wait.since_ns));
    waits.push_back(std::move(wait));
  }
  std::sort(waits.begin(), waits.end(), [](const VainWait& a, const VainWait& b) { return a.rank < b.rank; });
  const auto found = find_message_case(waits, missing);
  if (!found) return std::nullopt;
  Stall stall;
  stall.waited_ns = static_cast<double>(job.now_ns - found->since_ns);
  if (stall.waited_ns < patience.least_ns) return std::nullopt;
  stall.call = found->call;
  stall.waiting = found->waiting;
  stall.missing = found->causes;
  stall.circular = found->circular;
  stall.message = found->sentence + (found->behind.empty() ? "" : "; behind them " + found->behind);
  stall.advice = found->advice;
  return stall;
}

/// Nobody has left MPI_Init: it returns when all ranks have called it.
std::optional<Stall> stuck_in_init(const Job& job, const Patience& patience) {
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
  if (stall.waited_ns < 2 * patience.least_ns) return std::nullopt;  // hosts do not start at the same time
  const std::set<int64_t> inside(stall.waiting.begin(), stall.waiting.end());
  for (int64_t rank = 0; rank < job.world_size; ++rank) {
    if (!inside.contains(rank)) stall.missing.push_back(rank);
  }
  return stall;
}

TrainingState state_of(const Rank& rank, int64_t now_ns) {
  const auto last = last_second(rank, now_ns);
  return last ? training_state(last->busy, last->spun) : TrainingState::kUnknown;
}

/// Background threads go on coordinating, and no data moves.
std::optional<Stall> stuck_in_negotiation(const Job& job, const Patience& patience) {
  const auto no_data = find_no_data(job, patience);
  if (!no_data) return std::nullopt;
  std::vector<const Negotiating*> told;
  for (const Rank& rank : job.ranks) told.push_back(&rank.negotiating);
  const auto requested_bytes = open_requests(told);
  std::vector<Readiness> ranks;
  for (const Rank& rank : job.ranks) {
    const Negotiating& n = rank.negotiating;
    const char* sleeps_in = name_of_code(kBlockingCalls, n.sleeps_in);
    ranks.push_back({rank.rank, requested_bytes[ranks.size()], n.ready_bits, state_of(rank, job.now_ns),
                     sleeps_in ? sleeps_in : ""});
  }
  const auto found = find_unready_case(ranks);
  if (!found) return std::nullopt;
  Stall stall;
  for (const Readiness& rank : found->missing) stall.missing.push_back(rank.rank);
  stall.waiting = found->waiting;
  stall.waited_ns = no_data->silent_ns;
  stall.at_least = no_data->at_least;
  stall.unready = unready_sentence(*found);
  return stall;
}

}  // namespace

std::optional<LastSecond> last_second(const Rank& rank, int64_t now_ns) {
  constexpr int64_t kFreshNs = 2'000'000'000;
  const auto& samples = rank.negotiating.samples;
  if (samples.size() < 2 || now_ns - rank.clock.time_ns(samples.back().at_ticks) > kFreshNs) return std::nullopt;
  const auto& first = samples.front();
  const auto& last = samples.back();
  const auto part = [](uint64_t before, uint64_t after) {
    return after > before ? static_cast<double>(after - before) : 0;
  };
  const auto whole_ns = static_cast<double>(rank.clock.time_ns(last.at_ticks) - rank.clock.time_ns(first.at_ticks));
  return LastSecond{part(first.busy_ns, last.busy_ns) / whole_ns,
                    part(first.spun_ticks, last.spun_ticks) / static_cast<double>(last.at_ticks - first.at_ticks)};
}

std::optional<NoData> find_no_data(const Job& job, const Patience& patience) {
  if (job.ranks.empty()) return std::nullopt;
  int64_t since_ns = INT64_MIN;
  double apart_ns = 0;
  NoData found;
  for (const Rank& rank : job.ranks) {
    const Negotiating& n = rank.negotiating;
    if (n.samples.empty() || is_over(rank.life)) return std::nullopt;
    const int64_t of_rank_ns = rank.clock.time_ns(n.moved > 0 ? n.moved_ticks : n.since_ticks);
    if (of_rank_ns > since_ns) found.at_least = n.moved == 0;
    since_ns = std::max(since_ns, of_rank_ns);
    if (n.moved < 2) continue;
    const auto between_ns =
        static_cast<double>(rank.clock.time_ns(n.moved_ticks) - rank.clock.time_ns(n.first_moved_ticks));
    apart_ns = std::max(apart_ns, between_ns / static_cast<double>(n.moved - 1));
  }
  found.silent_ns = static_cast<double>(job.now_ns - since_ns);
  if (found.silent_ns < patience.ns(apart_ns)) return std::nullopt;
  return found;
}

std::optional<Stall> find_live_stall(const Job& job, const std::vector<CollectiveUse>& window,
                                     const Patience& patience) {
  const Reached reached(job);
  if (auto by_message = stuck_in_messages(job, reached, patience)) return by_message;
  std::vector<WaitingRank> waiting;
  std::map<std::pair<int64_t, int64_t>, OpenCall> calls;
  for (const Rank& rank : job.ranks) {
    if (!sits_in_collective(rank)) continue;
    const OpenCall& call = *rank.sits_in;
    waiting.push_back({rank.rank, call.comm, call.sequence, entered_ns(rank)});
    calls[{call.comm, call.sequence}] = call;
  }
  const auto found = find_stall_case(
      waiting, job.now_ns - static_cast<int64_t>(patience.least_ns), [&](int64_t comm, int64_t sequence) {
        return reached.members_behind(static_cast<uint32_t>(comm), static_cast<uint32_t>(sequence));
      });
  std::optional<Stall> stall;
  if (found) {
    const OpenCall& call = calls.at({found->comm, found->seq});
    const auto waited_ns = static_cast<double>(job.now_ns - found->since_ns);
    if (waited_ns >= patience_ns(call, window, patience))
      stall = Stall{.call = describe(job, call),
                    .waiting = found->waiting,
                    .missing = found->missing,
                    .circular = found->circular,
                    .waited_ns = waited_ns};
  }
  if (!stall) stall = stuck_in_transfer(job, reached, window, patience);
  if (!stall) stall = stuck_in_init(job, patience);
  if (!stall && job.background) stall = stuck_in_negotiation(job, patience);
  if (!stall) return std::nullopt;
  std::sort(stall->waiting.begin(), stall->waiting.end());
  std::sort(stall->missing.begin(), stall->missing.end());
  return stall;
}

}  // namespace ddl::tui
