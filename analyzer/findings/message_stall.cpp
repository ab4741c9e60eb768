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

/// By rank: those from whom it posted a receive that never completed, and that had sent nothing for it. Where the
/// records leave a doubt they are not named: a send without a receive on the same channel may be that message.
std::map<int64_t, std::vector<int64_t>> silent_senders(const FindingInput& input) {
  using Channel = std::tuple<int64_t, int64_t, int64_t>;  // communicator, sender, receiver
  std::set<std::pair<Channel, int64_t>> awaited;          // with the tag
  std::set<std::pair<Channel, int64_t>> sent;
  std::set<Channel> being_sent;
  Query halves(input.db, R"(
    SELECT p.rank, e.comm, e.peer, e.tag, m.receive IS NULL, e.kind = 1 AND o.nonblocking
    FROM message m CROSS JOIN event e ON e.id = coalesce(m.send, m.receive) CROSS JOIN process p ON p.id = e.process CROSS JOIN op o ON o.id = e.op
    WHERE p.world = ? AND e.comm IS NOT NULL AND e.peer IS NOT NULL AND (m.send IS NULL OR m.receive IS NULL))");
  halves.bind(input.world);
  while (halves.next()) {
    UnfinishedCall end;
    end.rank = halves.integer(0), end.comm = halves.integer(1), end.peer = halves.integer(2);
    const auto peer = peer_in_world(input, end);
    if (!peer) continue;
    const int64_t tag = halves.maybe_integer(3).value_or(-1);
    if (halves.integer(4) != 0)
      sent.insert({{*end.comm, end.rank, *peer}, tag});
    else if (halves.integer(5) != 0)
      awaited.insert({{*end.comm, *peer, end.rank}, tag});
  }
  for (const UnfinishedCall& call : open_calls(input)) {
    const OpClass op_class = input.catalog.operation(call.op).op_class;
    if (op_class != OpClass::kSend && op_class != OpClass::kSendReceive) continue;
    if (const auto peer = peer_in_world(input, call)) being_sent.insert({*call.comm, call.rank, *peer});
  }
  std::map<int64_t, std::set<int64_t>> senders;
  std::map<int64_t, bool> whole;
  const auto is_whole = [&](int64_t rank) {
    const auto [known, is_new] = whole.try_emplace(rank);
    if (is_new) known->second = has_whole_record(input, rank);
    return known->second;
  };
  for (const auto& [channel, tag] : awaited) {
    const auto [comm, sender, receiver] = channel;
    if (sender == receiver || sent.contains({channel, tag}) || being_sent.contains(channel)) continue;
    if (is_whole(sender) && is_whole(receiver)) senders[receiver].insert(sender);
  }
  std::map<int64_t, std::vector<int64_t>> found;
  for (const auto& [receiver, ranks] : senders) found[receiver].assign(ranks.begin(), ranks.end());
  return found;
}

}  // namespace

std::optional<MessageStall> find_message_stall(const FindingInput& input) {
  const std::vector<UnfinishedCall>& calls = vain_calls(input);
  const bool any_of_several = std::any_of(calls.begin(), calls.end(), [&](const UnfinishedCall& call) {
    return !call.seq && !call.gave_up_ns && waits_for_several(input.catalog.operation(call.op));
  });
  std::map<int64_t, std::vector<int64_t>> silent;
  if (any_of_several) silent = silent_senders(input);
  std::vector<VainWait> waits;
  for (const UnfinishedCall& call : calls) {
    const Operation& operation = input.catalog.operation(call.op);
    VainWait wait{call.rank, &operation, call_text(input, call), fmt::format("since {}", duration_text(call.start_ns))};
    if (call.comm && call.seq) {
      wait.collective = {*call.comm, *call.seq};
    } else if (const auto senders = silent.find(call.rank);
               waits_for_several(operation) && !call.gave_up_ns && senders != silent.end()) {
      wait.peers = senders->second;
      wait.call = fmt::format("{} for {}", operation.name, ranks_text(wait.peers));
      wait.receives = true;
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
