#include "analyzer/findings/message_stall.h"

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

struct VainWait {
  UnfinishedCall call;
  std::vector<int64_t> whom;
  bool is_message = false;
};

/// A call that waits for several requests records the peer of the first one only (docs/decisions/0006), which may have come.
bool waits_for_its_peer(const Operation& operation) {
  constexpr std::array<std::string_view, 3> kOfSeveral = {"MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"};
  if (operation.nonblocking || std::find(kOfSeveral.begin(), kOfSeveral.end(), operation.name) != kOfSeveral.end()) return false;
  return operation.op_class == OpClass::kSend || operation.op_class == OpClass::kReceive || operation.op_class == OpClass::kProbe ||
         operation.op_class == OpClass::kCompletion;
}

std::vector<VainWait> vain_waits(const FindingInput& input) {
  std::vector<VainWait> waits;
  const std::vector<UnfinishedCall>& calls = vain_calls(input);
  const MissingMembers missing = missing_members(input, calls);
  for (const UnfinishedCall& call : calls) {
    VainWait wait{call, {}};
    if (call.comm && call.seq) {
      if (const auto members = missing.find({*call.comm, *call.seq}); members != missing.end()) wait.whom = members->second;
    } else if (const auto peer = peer_in_world(input, call);
               peer && *peer != call.rank && waits_for_its_peer(input.catalog.operation(call.op))) {
      wait.whom = {*peer};
      wait.is_message = true;
    }
    if (!wait.whom.empty()) waits.push_back(std::move(wait));
  }
  return waits;
}

/// "rank 0 in MPI_Recv with rank 1 on MPI_COMM_WORLD since 951 ms"
std::string wait_text(const FindingInput& input, const VainWait& wait) {
  std::string text = fmt::format("rank {} in {} since {}", wait.call.rank, call_text(input, wait.call), duration_text(wait.call.start_ns));
  if (wait.call.gave_up_ns) text += fmt::format(" until it gave up at {}", duration_text(*wait.call.gave_up_ns));
  return text;
}

std::string waits_text(const FindingInput& input, const std::vector<const VainWait*>& waits) {
  std::string text;
  for (size_t i = 0; i < std::min(kMostTold, waits.size()); ++i) text += (i == 0 ? "" : ", ") + wait_text(input, *waits[i]);
  if (waits.size() > kMostTold) text += fmt::format(" and {} more", waits.size() - kMostTold);
  return text;
}

bool all_of_class(const FindingInput& input, const std::vector<const VainWait*>& waits, OpClass op_class) {
  return std::all_of(waits.begin(), waits.end(),
                     [&](const VainWait* wait) { return input.catalog.operation(wait->call.op).op_class == op_class; });
}

void word_circle(const FindingInput& input, const std::vector<const VainWait*>& waits, MessageStall& stall) {
  stall.sentence = fmt::format("{} wait for each other: {}", ranks_text(stall.causes), waits_text(input, waits));
  if (all_of_class(input, waits, OpClass::kReceive)) {
    stall.advice =
        "each of them receives before it sends: let one send first, or post the receives with MPI_Irecv (irecv) and wait after sending";
  } else if (all_of_class(input, waits, OpClass::kSend)) {
    stall.advice =
        "each of them sends before it receives, which only small messages survive: let one receive first, or use MPI_Sendrecv, MPI_Isend (isend, "
        "batch_isend_irecv)";
  } else {
    stall.advice = "see which of these calls does not belong there: a branch that depends on the rank, a tag or a peer that does not fit";
  }
}

void word_cause(const FindingInput& input, const std::vector<const VainWait*>& waits, MessageStall& stall) {
  const std::string who = ranks_text(stall.causes);
  std::vector<int64_t> waiting;
  for (const VainWait* wait : waits)
    if (waiting.empty() || waiting.back() != wait->call.rank) waiting.push_back(wait->call.rank);
  const char* s = waiting.size() == 1 ? "s" : "";
  std::string what = fmt::format("came to the message that {} wait{} for", ranks_text(waiting), s);
  if (all_of_class(input, waits, OpClass::kReceive)) what = fmt::format("sent what {} wait{} for", ranks_text(waiting), s);
  if (all_of_class(input, waits, OpClass::kSend)) what = fmt::format("received what {} send{}", ranks_text(waiting), s);
  stall.sentence = fmt::format("{} never {}: {}", who, what, waits_text(input, waits));
  stall.advice = fmt::format(
      "find out what keeps {} from that message: a branch that depends on the rank, a tag or a peer that does not fit, data that ran out; while "
      "the job hangs, gdb -p PID or py-spy dump on that rank shows it",
      who);
}

/// Ranks that wait for the causes, or for others that do, and in what they wait.
std::string behind_text(const FindingInput& input, const std::vector<VainWait>& waits, const std::set<int64_t>& told,
                        const std::set<int64_t>& held) {
  std::map<std::string, std::vector<int64_t>> ranks;
  for (const VainWait& wait : waits) {
    if (told.contains(wait.call.rank) || !held.contains(wait.call.rank)) continue;
    std::vector<int64_t>& there = ranks[call_text(input, wait.call)];
    if (there.empty() || there.back() != wait.call.rank) there.push_back(wait.call.rank);
  }
  std::string text;
  size_t shown = 0;
  for (auto& [call, there] : ranks) {
    if (shown++ == kMostTold) break;
    std::sort(there.begin(), there.end());
    text += fmt::format("{}{} {} in {}", text.empty() ? "" : ", ", ranks_text(there), there.size() == 1 ? "waits" : "wait", call);
  }
  return text;
}

}  // namespace

std::optional<MessageStall> find_message_stall(const FindingInput& input) {
  const std::vector<VainWait> waits = vain_waits(input);
  if (std::none_of(waits.begin(), waits.end(), [](const VainWait& wait) { return wait.is_message; })) return std::nullopt;
  std::map<int64_t, size_t> nodes;
  std::vector<int64_t> ranks;
  const auto node_of = [&](int64_t rank) {
    const auto [node, is_new] = nodes.try_emplace(rank, ranks.size());
    if (is_new) ranks.push_back(rank);
    return node->second;
  };
  for (const VainWait& wait : waits) {
    node_of(wait.call.rank);
    for (const int64_t rank : wait.whom) node_of(rank);
  }
  WaitGraph graph(ranks.size()), held(ranks.size());
  for (const VainWait& wait : waits) {
    for (const int64_t rank : wait.whom) {
      graph.wait(nodes[wait.call.rank], nodes[rank]);
      held.wait(nodes[rank], nodes[wait.call.rank]);
    }
  }

  std::optional<MessageStall> most;
  size_t most_held = 0;
  for (const std::vector<size_t>& sink : graph.sinks()) {
    std::set<int64_t> causes, all;
    std::vector<size_t> open = sink;
    for (const size_t node : sink) causes.insert(ranks[node]);
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      if (all.insert(ranks[node]).second) open.insert(open.end(), held.next[node].begin(), held.next[node].end());
    }
    if (all.size() <= most_held) continue;
    // What leads to them: of a circle its own calls, of a rank that does nothing the messages for it.
    std::vector<const VainWait*> leading;
    bool by_message = false;
    for (const VainWait& wait : waits) {
      const bool inside = causes.contains(wait.call.rank);
      const bool leads = std::any_of(wait.whom.begin(), wait.whom.end(), [&](int64_t rank) { return causes.contains(rank); });
      if (!leads || (sink.size() > 1 ? !inside : !wait.is_message)) continue;
      by_message |= wait.is_message;
      leading.push_back(&wait);
    }
    most_held = all.size();
    most.reset();
    if (!by_message) continue;
    std::sort(leading.begin(), leading.end(), [](const VainWait* a, const VainWait* b) { return a->call.rank < b->call.rank; });
    MessageStall stall;
    stall.circular = sink.size() > 1;
    stall.causes.assign(causes.begin(), causes.end());
    std::set<int64_t> told = causes;
    for (const VainWait* wait : leading) {
      told.insert(wait->call.rank);
      stall.since_ns = std::max(stall.since_ns, wait->call.start_ns);
      if (wait->is_message) stall.sits_in = input.catalog.operation(wait->call.op).name;
      if (wait->call.gave_up_ns) stall.gave_up_ns = std::min(stall.gave_up_ns.value_or(INT64_MAX), *wait->call.gave_up_ns);
    }
    if (stall.circular)
      word_circle(input, leading, stall);
    else
      word_cause(input, leading, stall);
    stall.behind = behind_text(input, waits, told, all);
    most = std::move(stall);
  }
  return most;
}

}  // namespace ddl
