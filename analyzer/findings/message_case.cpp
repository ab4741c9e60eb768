#include "analyzer/findings/message_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "analyzer/findings/findings.h"
#include "analyzer/passes/hang_graph.h"

namespace ddl {
namespace {

constexpr size_t kMostTold = 4;  // calls, each with its rank
// looked at, those with the most direct waiters: a healthy job that is killed has thousands, and all hold
// up the same ranks
constexpr size_t kMostSinks = 64;

using Waits = std::vector<const VainWait*>;

/// "rank 0 in MPI_Recv with rank 1 on MPI_COMM_WORLD since 951 ms"
std::string waits_text(const Waits& waits) {
  std::string text;
  for (size_t i = 0; i < std::min(kMostTold, waits.size()); ++i)
    text += fmt::format("{}rank {} in {} {}", i == 0 ? "" : ", ", waits[i]->rank, waits[i]->call, waits[i]->since);
  if (waits.size() > kMostTold) text += fmt::format(" and {} more", waits.size() - kMostTold);
  return text;
}

bool all_of_class(const Waits& waits, OpClass op_class) {
  return std::all_of(waits.begin(), waits.end(), [&](const VainWait* wait) {
    return (wait->moves != OpClass::kOther ? wait->moves : wait->operation->op_class) == op_class;
  });
}

void word_circle(const Waits& waits, MessageStall& stall) {
  stall.sentence = fmt::format("{} wait for each other: {}", ranks_text(stall.causes), waits_text(waits));
  if (all_of_class(waits, OpClass::kReceive)) {
    stall.advice =
        "each of them receives before it sends: let one send first, or post the receives with MPI_Irecv (irecv) and wait after sending";
  } else if (all_of_class(waits, OpClass::kSend)) {
    stall.advice =
        "each of them sends before it receives, which only small messages survive: let one receive first, or use MPI_Sendrecv, MPI_Isend (isend, "
        "batch_isend_irecv)";
  } else {
    stall.advice =
        "see which of these calls does not belong there: a branch that depends on the rank, a tag or a peer that does not fit";
  }
}

void word_cause(const Waits& waits, MessageStall& stall) {
  const std::string who = ranks_text(stall.causes);
  std::vector<int64_t> waiting;
  for (const VainWait* wait : waits)
    if (waiting.empty() || waiting.back() != wait->rank) waiting.push_back(wait->rank);
  const char* s = waiting.size() == 1 ? "s" : "";
  std::string what = fmt::format("came to the message that {} wait{} for", ranks_text(waiting), s);
  if (all_of_class(waits, OpClass::kReceive)) what = fmt::format("sent what {} wait{} for", ranks_text(waiting), s);
  if (all_of_class(waits, OpClass::kSend)) what = fmt::format("received what {} send{}", ranks_text(waiting), s);
  stall.sentence = fmt::format("{} never {}: {}", who, what, waits_text(waits));
  stall.advice = fmt::format(
      "find out what keeps {} from that message: a branch that depends on the rank, a tag or a peer that does not fit, data that ran out; while "
      "the job hangs, gdb -p PID or py-spy dump on that rank shows it",
      who);
}

/// Ranks that wait for the causes, or for others that do, and in what they wait.
std::string behind_text(const std::vector<VainWait>& waits, const std::set<int64_t>& told,
                        const std::set<int64_t>& held) {
  std::map<std::string, std::vector<int64_t>> ranks;
  for (const VainWait& wait : waits) {
    if (told.contains(wait.rank) || !held.contains(wait.rank)) continue;
    std::vector<int64_t>& there = ranks[wait.call];
    if (there.empty() || there.back() != wait.rank) there.push_back(wait.rank);
  }
  std::string text;
  size_t shown = 0;
  for (auto& [call, there] : ranks) {
    if (shown++ == kMostTold) break;
    std::sort(there.begin(), there.end());
    text += fmt::format("{}{} {} in {}", text.empty() ? "" : ", ", ranks_text(there),
                        there.size() == 1 ? "waits" : "wait", call);
  }
  return text;
}

/// Who waits for whom. A collective is a node of its own, between those that wait in it and those that are missing
/// there: thousands of each would make millions of edges.
class Waiting {
 public:
  Waiting(const std::vector<VainWait>& waits, const MissingMembers& missing) : graph_(0), held_(0) {
    for (const VainWait& wait : waits) {
      node_of(wait.rank);
      for (const int64_t rank : wait.peers) node_of(rank);
    }
    std::map<std::pair<int64_t, int64_t>, size_t> collectives;
    for (const auto& [key, members] : missing) {
      if (members.empty()) continue;
      for (const int64_t rank : members) node_of(rank);
      collectives[key] = 0;
    }
    size_t size = ranks_.size();
    for (auto& [key, node] : collectives) node = size++;
    graph_ = held_ = WaitGraph(size);
    for (const auto& [key, node] : collectives)
      for (const int64_t rank : missing.at(key)) add(node, nodes_[rank]);
    for (const VainWait& wait : waits) {
      for (const int64_t rank : wait.peers) add(nodes_[wait.rank], nodes_[rank]);
      const auto collective = collectives.find(wait.collective);
      if (!wait.is_message() && collective != collectives.end()) add(nodes_[wait.rank], collective->second);
    }
  }

  /// Sets of ranks that nobody else keeps from going on, the most awaited first.
  std::vector<std::vector<size_t>> sinks() const {
    std::vector<std::pair<size_t, std::vector<size_t>>> found;
    for (std::vector<size_t>& sink : graph_.sinks()) {
      size_t waiters = 0;
      for (const size_t node : sink)
        for (const size_t waiter : held_.next[node]) waiters += waiter < ranks_.size() ? 1 : held_.next[waiter].size();
      found.emplace_back(waiters, std::move(sink));
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::vector<size_t>> sinks;
    for (auto& [waiters, sink] : found) sinks.push_back(std::move(sink));
    if (sinks.size() > kMostSinks) sinks.resize(kMostSinks);
    return sinks;
  }
  std::set<int64_t> ranks_of(const std::vector<size_t>& nodes) const {
    std::set<int64_t> ranks;
    for (const size_t node : nodes)
      if (node < ranks_.size()) ranks.insert(ranks_[node]);
    return ranks;
  }
  /// The nodes, and all that wait for them, through others too.
  std::vector<size_t> with_those_behind(const std::vector<size_t>& nodes) const {
    std::vector<size_t> all, open = nodes;
    std::vector<bool> seen(held_.next.size());
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      if (seen[node]) continue;
      seen[node] = true;
      all.push_back(node);
      open.insert(open.end(), held_.next[node].begin(), held_.next[node].end());
    }
    return all;
  }

 private:
  size_t node_of(int64_t rank) {
    const auto [node, is_new] = nodes_.try_emplace(rank, ranks_.size());
    if (is_new) ranks_.push_back(rank);
    return node->second;
  }
  void add(size_t who, size_t whom) {
    graph_.wait(who, whom);
    held_.wait(whom, who);
  }

  std::map<int64_t, size_t> nodes_;
  std::vector<int64_t> ranks_;  ///< of the first nodes
  WaitGraph graph_, held_;      ///< held_: the other way round
};

/// The rank that does nothing, and the others like it that the calls which lead to it wait for as well: which of them
/// came, nobody knows.
std::set<int64_t> with_other_candidates(std::set<int64_t> causes, const std::vector<VainWait>& waits,
                                        const std::set<int64_t>& idle) {
  if (causes.size() != 1) return causes;  // a circle
  const int64_t cause = *causes.begin();
  for (const VainWait& wait : waits) {
    if (std::find(wait.peers.begin(), wait.peers.end(), cause) == wait.peers.end()) continue;
    for (const int64_t peer : wait.peers)
      if (idle.contains(peer)) causes.insert(peer);
  }
  return causes;
}

/// What leads to the causes: of a circle its own calls, of a rank that does nothing the messages for it.
Waits leading_to(const std::set<int64_t>& causes, bool circular, const std::vector<VainWait>& waits,
                 const MissingMembers& missing) {
  const auto any = [&](const std::vector<int64_t>& ranks) {
    return std::any_of(ranks.begin(), ranks.end(), [&](int64_t rank) { return causes.contains(rank); });
  };
  std::map<std::pair<int64_t, int64_t>, bool> collectives;
  Waits leading;
  for (const VainWait& wait : waits) {
    if (circular ? !causes.contains(wait.rank) : !wait.is_message()) continue;
    bool leads = wait.is_message() && any(wait.peers);
    if (!wait.is_message()) {
      const auto [known, is_new] = collectives.try_emplace(wait.collective);
      const auto members = missing.find(wait.collective);
      if (is_new) known->second = members != missing.end() && any(members->second);
      leads = known->second;
    }
    if (leads) leading.push_back(&wait);
  }
  std::sort(leading.begin(), leading.end(), [](const VainWait* a, const VainWait* b) { return a->rank < b->rank; });
  return leading;
}

}  // namespace

bool waits_for_several(const Operation& operation) {
  constexpr std::array<std::string_view, 3> kOfSeveral = {"MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"};
  return std::find(kOfSeveral.begin(), kOfSeveral.end(), operation.name) != kOfSeveral.end();
}

void wait_for_several(VainWait& wait, OpClass moves, std::vector<int64_t> peers) {
  wait.moves = moves;
  wait.peers = std::move(peers);
  // a test returns at once: it is a loop of them that waits
  wait.call = fmt::format("{}{} for {}", wait.operation->name.starts_with("MPI_Test") ? "a loop of " : "",
                          wait.operation->name, ranks_text(wait.peers));
}

bool waits_for_its_peer(const Operation& operation) {
  if (operation.nonblocking || waits_for_several(operation)) return false;
  return operation.op_class == OpClass::kSend || operation.op_class == OpClass::kReceive ||
         operation.op_class == OpClass::kProbe || operation.op_class == OpClass::kCompletion;
}

std::string call_words(const Operation& operation, std::optional<int64_t> sequence, std::optional<int64_t> peer,
                       std::string_view label) {
  std::string text = operation.name;
  if (sequence) text += fmt::format("{} number {}", operation.numbered ? "" : " for", shown_number(*sequence));
  if (peer && *peer >= 0 && !operation.numbered) text += fmt::format(" with rank {}", *peer);
  if (!label.empty()) text += fmt::format(" on {}", label);
  return text;
}

std::optional<MessageStall> find_message_case(const std::vector<VainWait>& waits, const MissingMembers& missing) {
  if (std::none_of(waits.begin(), waits.end(), [](const VainWait& wait) { return wait.is_message(); }))
    return std::nullopt;
  const Waiting waiting(waits, missing);
  const std::vector<std::vector<size_t>> sinks = waiting.sinks();
  std::set<int64_t> idle;
  for (const std::vector<size_t>& sink : sinks)
    if (sink.size() == 1) idle.merge(waiting.ranks_of(sink));
  std::optional<MessageStall> most;
  size_t most_held = 0;
  for (const std::vector<size_t>& sink : sinks) {
    const std::set<int64_t> all = waiting.ranks_of(waiting.with_those_behind(sink));
    if (all.size() <= most_held) continue;
    most_held = all.size();
    most.reset();
    const bool circular = sink.size() > 1;
    const std::set<int64_t> causes = with_other_candidates(waiting.ranks_of(sink), waits, idle);
    const Waits leading = leading_to(causes, circular, waits, missing);
    const auto message =
        std::find_if(leading.rbegin(), leading.rend(), [](const VainWait* wait) { return wait->is_message(); });
    if (message == leading.rend()) continue;
    MessageStall stall;
    stall.circular = circular;
    stall.causes.assign(causes.begin(), causes.end());
    for (const int64_t rank : all)
      if (stall.circular || !causes.contains(rank)) stall.waiting.push_back(rank);
    stall.call = (*message)->call;
    stall.sits_in = (*message)->operation->name;
    std::set<int64_t> told = causes;
    for (const VainWait* wait : leading) {
      told.insert(wait->rank);
      stall.since_ns = std::max(stall.since_ns, wait->since_ns);
      if (wait->gave_up_ns) stall.gave_up_ns = std::min(stall.gave_up_ns.value_or(INT64_MAX), *wait->gave_up_ns);
    }
    if (stall.circular)
      word_circle(leading, stall);
    else
      word_cause(leading, stall);
    stall.behind = behind_text(waits, told, all);
    most = std::move(stall);
  }
  return most;
}

}  // namespace ddl
