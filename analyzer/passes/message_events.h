// The events of messages, of all processes, merged in the order of their begin; those that begin at one moment in one
// process come as one batch. One cursor per process runs along the index event(process, start_ns), so nothing is sorted
// and nothing kept.
#pragma once

#include <SQLiteCpp/Database.h>

#include <queue>
#include <vector>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/message_match.h"
#include "analyzer/query.h"

namespace ddl {

/// The processes that use messages, and the ranks' processes by the matcher's numbers.
class MessageWorld {
 public:
  MessageWorld(SQLite::Database& db, const Catalog& catalog);

  /// By the matcher's number. Those without messages stay known, as peers of others.
  const std::vector<const ProcessInfo*>& processes() const { return processes_; }
  const std::vector<MessageProcess>& traits() const { return traits_; }
  bool uses_messages(int32_t process) const { return uses_[static_cast<size_t>(process)]; }
  bool any() const { return any_; }
  const MessageOperation& operation(int64_t op) const;
  /// The process behind rank `peer` of `comm` as `process` sees it.
  int32_t peer(int32_t process, int64_t comm, std::optional<int64_t> peer) const;

 private:
  std::vector<const ProcessInfo*> processes_;
  std::vector<MessageProcess> traits_;
  std::vector<bool> uses_;
  bool any_ = false;
  std::vector<MessageOperation> operations_;  ///< by op.id
  struct Peers {
    bool self = false;
    const CommunicatorInfo* communicator = nullptr;
    std::vector<int32_t> processes;  ///< as CommunicatorInfo::ranks
  };
  std::vector<Peers> communicators_;  ///< by communicator.id
};

class MessageEvents {
 public:
  /// `only`: the processes whose events are wanted.
  MessageEvents(SQLite::Database& db, const MessageWorld& world, const std::vector<int32_t>& only);

  /// The next batch; false at the end.
  bool next(std::vector<MessageEvent>& batch);
  /// Events read so far, also those that have nothing to do with messages.
  int64_t read() const { return read_; }

 private:
  struct Cursor {
    Query rows;
    MessageEvent event;
  };
  struct Position {
    int64_t enter_ns;
    int32_t process;
    size_t cursor;
    bool operator<(const Position& other) const {  // the earliest on top
      return std::tie(enter_ns, process) > std::tie(other.enter_ns, other.process);
    }
  };
  /// Moves to the next event that counts; false at the end.
  bool advance(Cursor& cursor);

  const MessageWorld& world_;
  std::vector<Cursor> cursors_;
  std::priority_queue<Position> order_;
  int64_t read_ = 0;
};

}  // namespace ddl
