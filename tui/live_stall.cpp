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
#include "tui/observer.h"

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
             ? fmt::format("collective number {} on {} ({})", shown_number(call.sequence), label, operation.name)
             : fmt::format("{} number {} on {}", operation.name, shown_number(call.sequence), label);
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

/// Whom ranks wait for in calls of several requests, and in loops of tests, by the rule of the report
/// (analyzer/findings/message_stall.cpp). What was not read of the logs, or is not recorded, accuses nobody.
class UnmetMessages {
 public:
  explicit UnmetMessages(const Job& job) : job_(job) {
    for (const Rank& rank : job.ranks) by_number_.emplace(rank.rank, &rank);
  }

  /// False: nobody knows for whom.
  bool wait_for_those(VainWait& wait, const Rank& rank) {
    if (!is_known(rank)) return false;
    const std::set<int64_t> senders = senders_to(rank);
    const std::set<int64_t> receivers = senders.empty() ? receivers_from(rank) : std::set<int64_t>();
    const std::set<int64_t>& found = senders.empty() ? receivers : senders;
    if (found.empty()) return false;
    wait_for_several(wait, senders.empty() ? OpClass::kSend : OpClass::kReceive, {found.begin(), found.end()});
    return true;
  }

 private:
  using Posted = RankMessages::Posted;

  static bool is_known(const Rank& rank) { return rank.messages.is_whole() && rank.lost == 0; }

  /// The other end of a channel; nullptr: itself, or nobody knows what it does.
  const Rank* other_end(const Rank& rank, const MessageChannel& channel) const {
    const JobCommunicator& communicator = job_.communicators[channel.comm];
    if (!communicator.comparable || channel.peer < 0 || static_cast<size_t>(channel.peer) >= communicator.ranks.size())
      return nullptr;
    const auto other = by_number_.find(communicator.ranks[static_cast<size_t>(channel.peer)]);
    return other == by_number_.end() || other->second == &rank || !is_known(*other->second) ? nullptr : other->second;
  }
  /// The same channel as its other end has it.
  MessageChannel seen_from_other_end(const Rank& rank, const MessageChannel& channel) {
    const auto [known, is_new] = members_.try_emplace(channel.comm);
    if (is_new) {
      const std::vector<int32_t>& ranks = job_.communicators[channel.comm].ranks;
      for (size_t i = 0; i < ranks.size(); ++i) known->second.emplace(ranks[i], static_cast<int32_t>(i));
    }
    const auto own = known->second.find(rank.rank);
    return {channel.comm, own == known->second.end() ? -1 : own->second, channel.tag};
  }
  /// It sits in a call of that class that may be with `peer`.
  bool sits_with(const Rank& rank, OpClass op_class, uint32_t comm, int32_t peer) const {
    if (!rank.sits_in || rank.sits_in->op == kNone || rank.sits_in->comm != comm) return false;
    const OpClass own = job_.operations[rank.sits_in->op].operation.op_class;
    if (own == OpClass::kSendReceive) return op_class != OpClass::kSend || rank.sits_in->peer == peer;
    return own == op_class && (rank.sits_in->peer < 0 || rank.sits_in->peer == peer);
  }
  static bool is_from_anybody(const Posted& posted) {
    return posted.receives && (posted.sends || posted.channel.peer < 0 || posted.channel.tag < 0);
  }
  static bool receives_from_anybody(const Rank& rank) {
    return std::any_of(rank.messages.posted().begin(), rank.messages.posted().end(),
                       [](const auto& p) { return is_from_anybody(p.second); });
  }
  /// Receives (sends) in flight on each channel.
  static std::map<MessageChannel, int64_t> in_flight(const Rank& rank, bool sends) {
    std::map<MessageChannel, int64_t> posted;
    for (const auto& [at, post] : rank.messages.posted())
      if ((sends ? post.sends : post.receives) && !is_from_anybody(post)) ++posted[post.channel];
    return posted;
  }

  /// Those that have sent fewer messages than the rank has posted receives for.
  std::set<int64_t> senders_to(const Rank& rank) {
    std::set<int64_t> found;
    for (const auto& [channel, posted] : in_flight(rank, false)) {
      const Rank* sender = other_end(rank, channel);
      if (sender == nullptr) continue;
      const MessageChannel theirs = seen_from_other_end(rank, channel);
      if (sits_with(*sender, OpClass::kSend, channel.comm, theirs.peer)) continue;
      if (sender->messages.sent(theirs) - rank.messages.received(channel) < posted) found.insert(sender->rank);
    }
    return found;
  }
  /// Those that have posted receives for fewer messages than the rank has sent.
  std::set<int64_t> receivers_from(const Rank& rank) {
    std::set<int64_t> found;
    if (receives_from_anybody(rank)) return found;
    for (const auto& [channel, posted] : in_flight(rank, true)) {
      const Rank* receiver = other_end(rank, channel);
      if (receiver == nullptr || receives_from_anybody(*receiver)) continue;
      const MessageChannel theirs = seen_from_other_end(rank, channel);
      if (sits_with(*receiver, OpClass::kReceive, channel.comm, theirs.peer) ||
          sits_with(*receiver, OpClass::kProbe, channel.comm, theirs.peer))
        continue;
      const auto receives = in_flight(*receiver, false);
      const auto awaits = receives.find(theirs);
      const int64_t taken = receiver->messages.received(theirs) + (awaits == receives.end() ? 0 : awaits->second);
      if (rank.messages.sent(channel) > taken) found.insert(receiver->rank);
    }
    return found;
  }

  const Job& job_;
  std::unordered_map<int32_t, const Rank*> by_number_;
  std::unordered_map<uint32_t, std::unordered_map<int32_t, int32_t>> members_;  ///< by communicator: rank -> rank in it
};

/// A message that never comes, as the report finds it (analyzer/findings/message_case.h).
std::optional<Stall> stuck_in_messages(const Job& job, const Reached& reached, const Patience& patience) {
  std::vector<VainWait> waits;
  MissingMembers missing;
  UnmetMessages unmet(job);
  for (const Rank& rank : job.ranks) {
    const std::optional<OpenCall>& there = rank.sits_in ? rank.sits_in : rank.polls;
    if (!there || there->op == kNone) continue;
    const OpenCall& call = *there;
    VainWait wait{rank.rank, &job.operations[call.op].operation, {}, {}};
    wait.since_ns = rank.clock.time_ns(call.start_ticks);
    wait.since = fmt::format("for {}", reports::short_duration(job.now_ns - wait.since_ns));
    const bool is_loop = !rank.sits_in && job.operations[call.op].message.role == MessageRole::kTest;
    if (sits_in_collective(rank)) {
      wait.collective = {call.comm, call.sequence};
      const auto [members, is_new] = missing.try_emplace(wait.collective);
      if (is_new) members->second = reached.members_behind(call.comm, call.sequence);
      wait.call = call_words(*wait.operation, call.sequence, std::nullopt, job.communicators[call.comm].label);
    } else if (const auto peer = awaited_peer(job, rank)) {
      wait.peers = {*peer};
      wait.call = call_words(*wait.operation, std::nullopt, peer, job.communicators[call.comm].label);
    } else if (!(is_loop || (rank.sits_in && waits_for_several(*wait.operation))) ||
               !unmet.wait_for_those(wait, rank)) {
      continue;
    }
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

/// "rank 0 polls in vain with MPI_Iprobe on MPI_COMM_WORLD": those of the missing ranks that do. The sentence about
/// messages has named the tests.
std::string who_polls(const Job& job, const Stall& stall) {
  std::map<std::string, std::vector<int64_t>> polling;
  for (const Rank& rank : job.ranks) {
    if (!rank.polls || rank.sits_in || !std::binary_search(stall.missing.begin(), stall.missing.end(), rank.rank))
      continue;
    if (!stall.message.empty() && !job.operations[rank.polls->op].message.polls) continue;
    const std::string label = rank.polls->comm == kNone ? "" : job.communicators[rank.polls->comm].label;
    polling[call_words(job.operations[rank.polls->op].operation, std::nullopt, std::nullopt, label)].push_back(
        rank.rank);
  }
  std::string text;
  for (auto& [call, who] : polling) {
    std::sort(who.begin(), who.end());
    text += fmt::format("{}{} {} in vain with {}", text.empty() ? "" : ", ", ranks_phrase(who),
                        who.size() == 1 ? "polls" : "poll", call);
  }
  return text;
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
  if (auto by_message = stuck_in_messages(job, reached, patience)) {
    by_message->polling = who_polls(job, *by_message);
    return by_message;
  }
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
  stall->polling = who_polls(job, *stall);
  return stall;
}

}  // namespace ddl::tui
