// Which send goes with which receive, and who waited for whom (specification.md W5 and W6).
//
// MPI's messages do not overtake each other: of those that go from one rank to another on one communicator with one
// tag (a channel), the n-th that is sent goes to the n-th receive that is posted; a receive with wildcards belongs
// to the channel that its status names. So each channel is a queue, and one pass over the events of all ranks in
// the order of their begin pairs them; memory grows with what is under way at a time (and with what is never
// received), not with the run.
//
// That order is all there is to tell messages apart, so one that is missing from the records would shift
// all that follow. Nothing is paired, therefore, unless both ranks recorded everything from the start of
// the run up to that moment:
//   - after the first event that a process did not keep, its sends and receives are unknown;
//   - a receive that was posted and never completed takes its place in the queue, because it takes a message; if it may
//     be cancelled, or its wildcards do not tell which channel it belongs to, all receives posted later on that
//     communicator are unknown;
//   - channels in which several threads of a rank post at the same time are unknown;
//   - a message that would have been received before it was sent shows that something is missing after all: its
//     communicator is unknown to that receiver from there on.
// What is unknown has no waiting and says why.
//
// Definitions. Late sender: in the call in which a receive completes, [a, b], max(0, min(a_send, b) - a); probes wait
// like the receive of the message that they find. Late receiver: in the call in which a send completes, 0 if b <=
// a_receive, else max(0, a_receive - a), a_receive being the post of the receive; buffered sends wait for nobody. For
// all messages that complete in one call only the longest wait counts (the others have 0), be it for a sender or a
// receiver. Calls that only test wait for nobody. What is left of a call until the other end comes to complete what it
// posted is transfer, or waiting for a process that does not drive the library meanwhile: nothing tells which (W2).
//
// Pure: knows no database. Times are ns on the run's axis. The same events in the same order give the same results
// in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/passes/instance.h"
#include "analyzer/passes/message_operation.h"

namespace ddl {

/// The matcher's input on a process. Processes are numbered by their place in a list.
struct MessageProcess {
  int64_t complete_until_ns = INT64_MAX;  ///< everything that began earlier was recorded
  /// the records name all sends (persistent ones that never completed are not named)
  bool sends_known = true;
  bool receives_known = true;
  bool ended_normally = true;   ///< no call of it is still open
  bool cancels = false;         ///< it calls MPI_Cancel
  bool posts_messages = false;  ///< it uses requests of messages
  bool polls = false;           ///< it tests in vain as often as others do (late_completion.h)
};

/// One event: a call or a request.
struct MessageEvent {
  static constexpr int32_t kNobody = -1;         ///< MPI_PROC_NULL, or a wildcard that was never resolved
  static constexpr int32_t kMissing = -2;        ///< a rank that left no records
  static constexpr int32_t kNotApplicable = -3;  ///< a rank of another world

  int64_t id = 0;
  int32_t process = 0;
  int32_t peer = kNobody;  ///< process at the other end; of receives the actual one
  int64_t thread = 0;
  bool request = false;  ///< else a call
  MessageOperation operation;
  int64_t op = 0;
  int64_t comm = 0;
  int64_t tag = -1;
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
  std::optional<int64_t> step;
};

/// A channel: messages with the same one cannot overtake each other.
struct Channel {
  int64_t comm;
  int32_t sender, receiver;
  int64_t tag;
  bool operator==(const Channel&) const = default;
};
struct ChannelHash {
  size_t operator()(const Channel& c) const;
};

/// A message, or one end of it that has no partner.
struct MatchedMessage {
  int64_t send = 0;          ///< event; the request, if there is one. 0: not known
  int64_t receive = 0;       ///< event. 0: not known
  int64_t send_call = 0;     ///< event of the call in which the sender waited or could have; 0: in none
  int64_t receive_call = 0;  ///< the same of the receiver
  int32_t sender = -1, receiver = -1;
  std::optional<int64_t> late_sender_wait_ns, late_receiver_wait_ns;
  /// within send_call and receive_call: they wait for nobody to post, and the other end, which has posted, is still to
  /// come to complete that. Empty: at no time
  Interval before_receiver_completes, before_sender_completes;
  Why why = Why::kNone;
};

/// A call in which messages completed.
struct MessageCall {
  int64_t event = 0;
  int32_t process = -1;
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
  std::optional<int64_t> step = {};
  std::optional<int64_t> wait_ns = {};  ///< nothing: see why
  Why why = Why::kNone;
  bool for_sender = false;  ///< the wait is one for a late sender, else for a late receiver
  int32_t late = -1;        ///< process that was late; -1: none
  std::optional<int64_t> late_step = {};
  /// receives that ended before the send began: the clocks disagree, the wait was clipped
  int64_t clock_violations = 0;
};

class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void on_message(const MatchedMessage& message) = 0;
  virtual void on_call(const MessageCall& call) = 0;
};

class MessageMatcher {
 public:
  /// May the moments of these two processes be compared?
  class Clocks {
   public:
    virtual ~Clocks() = default;
    virtual bool comparable(int32_t a, int32_t b) const = 0;
    virtual bool same(int32_t a, int32_t b) const = 0;  ///< one clock: no doubt about what came first
  };

  /// `contested`: channels in which threads of one process post at the same time.
  MessageMatcher(std::vector<MessageProcess> processes, std::unordered_set<Channel, ChannelHash> contested,
                 const Clocks& clocks, MessageSink& sink);

  /// All events of one process that begin at one moment. Moments must not go back.
  void add(std::span<const MessageEvent> events);
  /// No more events: tells what is left over.
  void finish();

 private:
  using Index = int32_t;
  static constexpr Index kNone = -1;

  /// One end of a message, or a probe for it.
  struct Half {
    int64_t event = 0;
    int64_t comm = 0;
    int64_t tag = 0;
    int64_t post_ns = 0;
    int64_t end_ns = 0;
    int32_t process = 0;
    int32_t peer = 0;
    std::optional<int64_t> step;
    Index call = kNone;           ///< in which it completes, until that is over
    Index next_in_queue = kNone;  ///< of its channel
    Index partner = kNone;        ///< the other end
    Index probe = kNone;          ///< of a receive: the probe that found its message
    int64_t call_event = 0;
    int64_t call_enter_ns = INT64_MIN;  ///< of that call; until it is over, and of no call: INT64_MIN
    int64_t free_ns = INT64_MAX;        ///< from when on that call waits for nobody to post; INT64_MAX: not known
    std::optional<int64_t> wait_ns;
    Why why = Why::kNone;
    bool receives = false;
    bool probes = false;
    bool buffered = false;
    bool incomplete = false;  ///< posted and never completed: somebody may wait for it to this day
    bool alone = false;       ///< a probe that no receive will ask
    bool done = false;        ///< wait_ns is what it will be
  };
  struct Call {
    MessageCall told;  ///< known so far
    std::vector<Index> halves;
    int unresolved = 0;  ///< halves whose partner is not known yet
    bool seen = false;   ///< the call itself was among the events
    bool tests = false;
  };
  struct Queue {
    Index head = kNone;
    Index tail = kNone;
  };
  /// A call that posted, until the request with the same begin turns up.
  struct Post {
    const MessageEvent* event;
    Index half;  ///< sends
    Index call;  ///< exchanges
    bool completed;
  };
  struct Completion {
    int32_t process;
    int64_t thread, leave_ns;
    bool operator==(const Completion&) const = default;
  };
  struct CompletionHash {
    size_t operator()(const Completion& c) const;
  };
  struct ReceiverHash {
    size_t operator()(const std::pair<int32_t, int64_t>& r) const;
  };

  void on_call(const MessageEvent& e);
  void on_request(const MessageEvent& e);
  void on_completion(const MessageEvent& e);
  void on_incomplete(const Post& post);
  Post* find_post(const MessageEvent& e);

  /// Takes a free one, or makes one more.
  template <class T>
  static Index make(std::vector<T>& all, std::vector<Index>& free);
  Index new_half(const MessageEvent& e, bool receives);
  Index new_call(const MessageEvent& e);
  Index completing_call(const MessageEvent& e);
  void attach(Index half, Index call);
  void probe(const MessageEvent& e);

  void contest_duplicates();
  Channel channel_of(const Half& half) const;
  /// Why a half cannot be paired, whatever comes; kNone: it can.
  Why hopeless(const Half& half) const;
  /// Will the other end of it still come?
  bool may_come(const Half& half) const;
  void route(Index half);
  void pair(Index send, Index receive);
  void give_up(Index half, Why why);
  void resolve(Index half);
  void take_probe(Index receive);
  /// Later posts of the receiver on the communicator are unknown; `broken`: earlier ones, too.
  void doubt(int32_t receiver, int64_t comm, bool broken);
  bool is_doubtful(int32_t receiver, int64_t comm) const {
    return !doubtful_.empty() && doubtful_.contains({receiver, comm});
  }
  bool is_broken(int32_t receiver, int64_t comm) const;

  void finish_call(Index call);
  int64_t wait_of(const Half& half, const MessageCall& call) const;
  void end(Index half);
  static Interval until_completed(const Half& own, const Half& other);
  void tell(Index send, Index receive);
  void free_half(Index half) { free_halves_.push_back(half); }

  Half& half(Index i) { return halves_[static_cast<size_t>(i)]; }
  Call& call(Index i) { return calls_[static_cast<size_t>(i)]; }

  std::vector<MessageProcess> processes_;
  std::unordered_set<Channel, ChannelHash> contested_;
  const Clocks& clocks_;
  MessageSink& sink_;
  std::vector<Half> halves_;
  std::vector<Call> calls_;
  std::vector<Index> free_halves_, free_calls_;
  std::unordered_map<Channel, Queue, ChannelHash> channels_;  ///< that somebody waits in
  std::unordered_map<Channel, Index, ChannelHash> probes_;    ///< for messages that were not received yet
  std::unordered_map<Completion, Index, CompletionHash> completions_;
  std::unordered_map<std::pair<int32_t, int64_t>, bool, ReceiverHash> doubtful_;  ///< receiver, communicator -> broken
  int64_t now_ns_ = INT64_MIN;
  std::vector<Post> posts_;   ///< of the batch
  std::vector<Index> ready_;  ///< of the batch
};

}  // namespace ddl
