#include "analyzer/findings/message_stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

/// Every event of the rank is known, and with that its sends and receives; persistent ones that never
/// completed are not.
bool has_whole_record(const FindingInput& input, int64_t rank) {
  const ProcessInfo* process = input.catalog.process_of(input.world, rank);
  if (process == nullptr || process->complete_until_ns != INT64_MAX || process->damaged) return false;
  Query persistent(input.db,
                   "SELECT 1 FROM profile f JOIN op o ON o.id = f.op WHERE f.process = ? AND f.calls > 0"
                   " AND (o.name LIKE 'MPI!_%end!_init' ESCAPE '!' OR o.name IN ('MPI_Recv_init', 'MPI_Cancel'))");
  persistent.bind(process->id);
  return !persistent.next();
}

using MessageRoute = std::tuple<int64_t, int64_t, int64_t>;  // communicator, sender, receiver
constexpr int64_t kAnybody = -1;

/// Receives from anybody that the rank posted and that never completed: nobody knows what they would have taken.
bool receives_from_anybody(const FindingInput& input, int64_t rank) {
  Query posts(
      input.db,
      "SELECT e.start_ns, e.kind, e.peer IS NULL OR e.tag IS NULL OR e.tag < 0 FROM event e CROSS JOIN op o ON o.id = e.op"
      " WHERE e.process = ? AND o.nonblocking AND (o.class = 'receive' OR o.class = 'send_receive')");
  posts.bind(input.catalog.process_of(input.world, rank)->id);
  std::set<int64_t> open, completed;
  while (posts.next()) {
    if (posts.integer(1) == 2)
      completed.insert(posts.integer(0));
    else if (posts.integer(2) != 0)
      open.insert(posts.integer(0));
  }
  return !std::includes(completed.begin(), completed.end(), open.begin(), open.end());
}

/// Whom ranks that wait for several messages may wait for.
struct UnmetRanks {
  std::map<int64_t, std::vector<int64_t>> senders;    ///< by rank: those that never sent what it posted a receive for
  std::map<int64_t, std::vector<int64_t>> receivers;  ///< those that posted no receive for what it sends
};

/// Sends and receives of one end that never completed. Where the records leave a doubt nobody is named: a send without
/// a receive on the same channel may be the message that a receive waits for.
UnmetRanks unmet_ranks(const FindingInput& input) {
  std::set<std::pair<MessageRoute, int64_t>> awaited;  // with the tag
  std::set<std::pair<MessageRoute, int64_t>> sent;     // likewise, and of those ...
  std::set<std::pair<MessageRoute, int64_t>> posted;   // ... what may keep its sender
  std::set<MessageRoute> being_sent, being_received;
  Query halves(input.db, R"(
    SELECT p.rank, e.comm, e.peer, e.tag, m.receive IS NULL, e.kind = 1 AND o.nonblocking, o.name LIKE '%bsend'
    FROM message m CROSS JOIN event e ON e.id = coalesce(m.send, m.receive) CROSS JOIN process p ON p.id = e.process CROSS JOIN op o ON o.id = e.op
    WHERE p.world = ? AND e.comm IS NOT NULL AND e.peer IS NOT NULL AND (m.send IS NULL OR m.receive IS NULL))");
  halves.bind(input.world);
  while (halves.next()) {
    UnfinishedCall end;
    end.rank = halves.integer(0), end.comm = halves.integer(1), end.peer = halves.integer(2);
    const auto peer = peer_in_world(input, end);
    if (!peer) continue;
    const int64_t tag = halves.maybe_integer(3).value_or(-1);
    const bool is_open = halves.integer(5) != 0;
    if (halves.integer(4) != 0) {
      sent.insert({{*end.comm, end.rank, *peer}, tag});
      if (is_open && halves.integer(6) == 0) posted.insert({{*end.comm, end.rank, *peer}, tag});
    } else if (is_open) {
      awaited.insert({{*end.comm, *peer, end.rank}, tag});
    }
  }
  for (const UnfinishedCall& call : open_calls(input)) {
    if (!call.comm) continue;
    const OpClass op_class = input.catalog.operation(call.op).op_class;
    const bool exchanges = op_class == OpClass::kSendReceive;  // the peer is the one that it sends to
    const auto peer = peer_in_world(input, call);
    if (peer && (op_class == OpClass::kSend || exchanges)) being_sent.insert({*call.comm, call.rank, *peer});
    if (op_class == OpClass::kReceive || op_class == OpClass::kProbe || exchanges)
      being_received.insert({*call.comm, exchanges ? kAnybody : peer.value_or(kAnybody), call.rank});
  }
  std::map<int64_t, bool> whole, from_anybody;
  const auto once = [&](std::map<int64_t, bool>& answers, int64_t rank, const auto& ask) {
    const auto [known, is_new] = answers.try_emplace(rank);
    if (is_new) known->second = ask(input, rank);
    return known->second;
  };
  std::map<int64_t, std::set<int64_t>> senders, receivers;
  for (const auto& [channel, tag] : awaited) {
    const auto [comm, sender, receiver] = channel;
    if (sender == receiver || sent.contains({channel, tag}) || being_sent.contains(channel)) continue;
    if (once(whole, sender, has_whole_record) && once(whole, receiver, has_whole_record))
      senders[receiver].insert(sender);
  }
  for (const auto& [channel, tag] : posted) {
    const auto [comm, sender, receiver] = channel;
    if (sender == receiver || awaited.contains({channel, tag}) || being_received.contains(channel) ||
        being_received.contains({comm, kAnybody, receiver}))
      continue;
    if (!once(whole, sender, has_whole_record) || !once(whole, receiver, has_whole_record)) continue;
    if (!once(from_anybody, sender, receives_from_anybody) && !once(from_anybody, receiver, receives_from_anybody))
      receivers[sender].insert(receiver);
  }
  UnmetRanks found;
  for (const auto& [receiver, ranks] : senders) found.senders[receiver].assign(ranks.begin(), ranks.end());
  for (const auto& [sender, ranks] : receivers) found.receivers[sender].assign(ranks.begin(), ranks.end());
  return found;
}

/// False: nobody knows for whom. A receive is not complete for sure, a send may be.
bool wait_for_those(VainWait& wait, const UnmetRanks& awaited) {
  const auto senders = awaited.senders.find(wait.rank), receivers = awaited.receivers.find(wait.rank);
  if (senders != awaited.senders.end())
    wait_for_several(wait, OpClass::kReceive, senders->second);
  else if (receivers != awaited.receivers.end())
    wait_for_several(wait, OpClass::kSend, receivers->second);
  return wait.is_message();
}

}  // namespace

std::optional<MessageStall> find_message_stall(const FindingInput& input) {
  const std::vector<UnfinishedCall>& calls = vain_calls(input);
  const bool any_of_several = std::any_of(calls.begin(), calls.end(), [&](const UnfinishedCall& call) {
    return !call.seq && !call.gave_up_ns && waits_for_several(input.catalog.operation(call.op));
  });
  std::vector<std::pair<int64_t, Polling>> polling_ranks;
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0) continue;
    const auto polls = polling(input, process.rank);
    if (polls && input.catalog.operation(polls->op).op_class == OpClass::kCompletion)
      polling_ranks.emplace_back(process.rank, *polls);
  }
  UnmetRanks awaited;
  if (any_of_several || !polling_ranks.empty()) awaited = unmet_ranks(input);
  std::vector<VainWait> waits;
  for (const auto& [rank, polls] : polling_ranks) {
    const std::string since = fmt::format("since {}", duration_text(polls.since_ns));
    VainWait wait{rank, &input.catalog.operation(polls.op), "", since};
    wait.since_ns = polls.since_ns;
    if (wait_for_those(wait, awaited)) waits.push_back(std::move(wait));
  }
  for (const UnfinishedCall& call : calls) {
    const Operation& operation = input.catalog.operation(call.op);
    VainWait wait{call.rank, &operation, call_text(input, call), fmt::format("since {}", duration_text(call.start_ns))};
    if (call.comm && call.seq) {
      wait.collective = {*call.comm, *call.seq};
    } else if (waits_for_several(operation) && !call.gave_up_ns && wait_for_those(wait, awaited)) {
    } else if (const auto peer = peer_in_world(input, call);
               peer && *peer != call.rank && waits_for_its_peer(operation)) {
      wait.peers = {*peer};
    } else {
      continue;
    }
    if (call.gave_up_ns) wait.since += fmt::format(" until it gave up at {}", duration_text(*call.gave_up_ns));
    wait.since_ns = call.start_ns;
    wait.gave_up_ns = call.gave_up_ns;
    waits.push_back(std::move(wait));
  }
  return find_message_case(waits, missing_members(input, calls));
}

}  // namespace ddl
