#include "analyzer/passes/message_events.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/passes/late_completion.h"

namespace ddl {
namespace {

bool is_message(MessageRole role) {
  return role != MessageRole::kNone && role != MessageRole::kWait && role != MessageRole::kTest;
}

/// No call of it is still open. A process without MPI has nothing to finalize: it exits.
bool ended_normally(const ProcessInfo& process) {
  return process.ended == "finalized" || (process.ended == "exited" && !process.init_ns);
}

}  // namespace

MessageWorld::MessageWorld(SQLite::Database& db, const Catalog& catalog) {
  int64_t last_op = 0;
  for (const auto& [id, operation] : catalog.operations) last_op = std::max(last_op, id);
  operations_.resize(static_cast<size_t>(last_op) + 1);
  for (const auto& [id, operation] : catalog.operations)
    operations_[static_cast<size_t>(id)] = message_operation(operation);

  std::map<int64_t, int32_t> numbers;  // by process.id
  for (const auto& [id, process] : catalog.processes) {
    numbers[id] = static_cast<int32_t>(processes_.size());
    processes_.push_back(&process);
    MessageProcess traits;
    // Two processes that claim one rank: nobody knows whose message it was.
    const bool unique = process.rank >= 0 && catalog.process_of(process.world, process.rank) == &process;
    traits.complete_until_ns = unique ? process.complete_until_ns : INT64_MIN;
    traits_.push_back(traits);
  }
  uses_.resize(processes_.size());

  struct Use {
    bool persistent_sends = false, persistent_receives = false;
  };
  std::vector<Use> uses(processes_.size());
  Query used(db, "SELECT process, op FROM profile WHERE calls > 0 GROUP BY process, op");
  while (used.next()) {
    const auto known = numbers.find(used.integer(0));
    if (known == numbers.end()) continue;
    const auto number = static_cast<size_t>(known->second);
    const MessageOperation& operation = this->operation(used.integer(1));
    if (is_message(operation.role)) uses_[number] = any_ = true;
    if (is_message(operation.role) && (operation.posts || operation.persistent)) traits_[number].posts_messages = true;
    uses[number].persistent_sends |= operation.persistent && operation.role == MessageRole::kSend;
    uses[number].persistent_receives |= operation.persistent && operation.role == MessageRole::kReceive;
    if (catalog.operation(used.integer(1)).name == "MPI_Cancel") traits_[number].cancels = true;
  }
  if (any_) {
    for (const int64_t process : polling_processes(db))
      if (const auto known = numbers.find(process); known != numbers.end())
        traits_[static_cast<size_t>(known->second)].polls = true;
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    traits_[i].ended_normally = ended_normally(*processes_[i]);
    const bool all_completed = traits_[i].ended_normally && !processes_[i]->lost_requests;
    traits_[i].sends_known = all_completed || !uses[i].persistent_sends;
    traits_[i].receives_known = all_completed || !uses[i].persistent_receives;
  }

  int64_t last_comm = 0;
  for (const auto& [id, communicator] : catalog.communicators) last_comm = std::max(last_comm, id);
  communicators_.resize(static_cast<size_t>(last_comm) + 1);
  for (const auto& [id, communicator] : catalog.communicators) {
    Peers& peers = communicators_[static_cast<size_t>(id)];
    peers.self = communicator.kind == "self";
    peers.communicator = &communicator;
    for (const int64_t rank : communicator.ranks) {
      const ProcessInfo* process = rank >= 0 ? catalog.process_of(communicator.world, rank) : nullptr;
      peers.processes.push_back(process != nullptr ? numbers.at(process->id)
                                : rank < 0         ? MessageEvent::kNotApplicable
                                                   : MessageEvent::kMissing);
    }
  }
}

const MessageOperation& MessageWorld::operation(int64_t op) const {
  static const MessageOperation none;
  return op >= 0 && static_cast<size_t>(op) < operations_.size() ? operations_[static_cast<size_t>(op)] : none;
}

int32_t MessageWorld::peer(int32_t process, int64_t comm, std::optional<int64_t> peer) const {
  if (!peer) return MessageEvent::kNobody;
  if (comm <= 0 || static_cast<size_t>(comm) >= communicators_.size()) return MessageEvent::kMissing;
  const Peers& peers = communicators_[static_cast<size_t>(comm)];
  if (peers.self) return process;
  if (!peers.communicator) return MessageEvent::kMissing;
  const size_t at = peers.communicator->index_of(processes_[static_cast<size_t>(process)]->rank, *peer);
  if (at < peers.processes.size()) return peers.processes[at];
  // For an intercommunicator with another world that group is not known.
  return peers.communicator->kind == "inter" ? MessageEvent::kNotApplicable : MessageEvent::kMissing;
}

// ---------------------------------------------------------------------------------------------------------- the stream

MessageEvents::MessageEvents(SQLite::Database& db, const MessageWorld& world, const std::vector<int32_t>& only)
    : world_(world) {
  cursors_.reserve(only.size());
  for (const int32_t process : only) {
    cursors_.push_back(
        {Query(db,
               "SELECT op, start_ns, duration_ns, id, thread, kind, comm, peer, tag, step FROM event WHERE process = ?"
               " ORDER BY start_ns"),
         {}});
    Cursor& cursor = cursors_.back();
    cursor.event.process = process;
    cursor.rows.bind(world.processes()[static_cast<size_t>(process)]->id);
    if (advance(cursor)) order_.push({cursor.event.enter_ns, process, cursors_.size() - 1});
  }
}

bool MessageEvents::advance(Cursor& cursor) {
  Query& rows = cursor.rows;
  MessageEvent& e = cursor.event;
  while (rows.next()) {
    ++read_;
    e.op = rows.integer(0);
    e.operation = world_.operation(e.op);
    if (e.operation.role == MessageRole::kNone) continue;
    e.enter_ns = rows.integer(1);
    e.leave_ns = e.enter_ns + std::max<int64_t>(0, rows.integer(2));
    e.id = rows.integer(3);
    e.thread = rows.integer(4);
    e.request = rows.integer(5) == 2;
    e.comm = rows.integer(6);
    e.peer = world_.peer(e.process, e.comm, rows.maybe_integer(7));
    e.tag = rows.maybe_integer(8).value_or(-1);
    e.step = rows.maybe_integer(9);
    return true;
  }
  return false;
}

bool MessageEvents::next(std::vector<MessageEvent>& batch) {
  batch.clear();
  if (order_.empty()) return false;
  const Position position = order_.top();
  order_.pop();
  Cursor& cursor = cursors_[position.cursor];
  bool more = true;
  while (more && cursor.event.enter_ns == position.enter_ns) {
    batch.push_back(cursor.event);
    more = advance(cursor);
  }
  if (more) order_.push({cursor.event.enter_ns, position.process, position.cursor});
  if (batch.size() > 1)
    std::sort(batch.begin(), batch.end(), [](const MessageEvent& a, const MessageEvent& b) { return a.id < b.id; });
  return true;
}

}  // namespace ddl
