#include "analyzer/passes/message_match.h"

#include <algorithm>
#include <utility>

namespace ddl {
namespace {

/// On one clock nothing is received before it is sent; this much is left to the rounding of ticks.
constexpr int64_t kImpossibleNs = 10'000;

MessageCall call_of(const MessageEvent& e) {
  return {.event = e.id, .process = e.process, .enter_ns = e.enter_ns, .leave_ns = e.leave_ns, .step = e.step};
}

size_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return hash ^ hash >> 29;
}

}  // namespace

size_t ChannelHash::operator()(const Channel& c) const {
  const auto ends = static_cast<uint64_t>(static_cast<uint32_t>(c.sender)) << 32 | static_cast<uint32_t>(c.receiver);
  return mix(mix(mix(0, static_cast<uint64_t>(c.comm)), ends), static_cast<uint64_t>(c.tag));
}
size_t MessageMatcher::CompletionHash::operator()(const Completion& c) const {
  return mix(mix(mix(0, static_cast<uint64_t>(c.process)), static_cast<uint64_t>(c.thread)),
             static_cast<uint64_t>(c.leave_ns));
}
size_t MessageMatcher::ReceiverHash::operator()(const std::pair<int32_t, int64_t>& r) const {
  return mix(mix(0, static_cast<uint64_t>(r.first)), static_cast<uint64_t>(r.second));
}

MessageMatcher::MessageMatcher(std::vector<MessageProcess> processes,
                               std::unordered_set<Channel, ChannelHash> contested, const Clocks& clocks,
                               MessageSink& sink)
    : processes_(std::move(processes)), contested_(std::move(contested)), clocks_(clocks), sink_(sink) {}

// -------------------------------------------------------------------------------------------------------------- events

void MessageMatcher::add(std::span<const MessageEvent> events) {
  now_ns_ = events.front().enter_ns;
  posts_.clear();
  ready_.clear();
  for (const MessageEvent& e : events) {
    if (!e.request) on_call(e);
  }
  for (const MessageEvent& e : events) {
    if (e.request) on_request(e);
  }
  for (const Post& post : posts_) {
    if (!post.completed) on_incomplete(post);
  }
  if (ready_.size() > 1) contest_duplicates();
  for (const Index i : ready_) route(i);
  for (const MessageEvent& e : events) {
    if (!e.request && (e.operation.role == MessageRole::kWait || e.operation.role == MessageRole::kTest))
      on_completion(e);
  }
}

void MessageMatcher::on_call(const MessageEvent& e) {
  if (e.operation.persistent) return;
  const bool somebody = e.peer != MessageEvent::kNobody;
  switch (e.operation.role) {
    case MessageRole::kSend: {
      if (!somebody) return;
      const Index send = new_half(e, false);
      if (e.operation.posts) {
        posts_.push_back({&e, send, kNone, false});
      } else {
        attach(send, new_call(e));
      }
      ready_.push_back(send);
      return;
    }
    case MessageRole::kReceive: {
      if (e.operation.posts) {
        posts_.push_back({&e, kNone, kNone, false});
        return;
      }
      if (!somebody) return;
      const Index receive = new_half(e, true);
      attach(receive, new_call(e));
      ready_.push_back(receive);
      return;
    }
    case MessageRole::kExchange: {
      const Index made = e.operation.posts ? kNone : new_call(e);
      if (made != kNone) call(made).unresolved = 1;  // what it receives comes with a request
      Index send = kNone;
      if (somebody) {
        send = new_half(e, false);
        if (made != kNone) attach(send, made);
        ready_.push_back(send);
      }
      posts_.push_back({&e, made == kNone ? send : kNone, made, false});
      return;
    }
    case MessageRole::kMatchedProbe: {
      if (!somebody) return;
      const Index receive = new_half(e, true);
      if (!e.operation.polls) attach(receive, new_call(e));
      ready_.push_back(receive);
      return;
    }
    case MessageRole::kProbe:
      if (somebody && !e.operation.polls) probe(e);
      return;
    default:
      return;
  }
}

void MessageMatcher::on_request(const MessageEvent& e) {
  Post* post = find_post(e);
  if (post != nullptr) post->completed = true;
  // nobody has to wait for what was over when it was posted
  const bool at_once = post != nullptr && post->event->leave_ns == e.leave_ns;
  const bool somebody = e.peer != MessageEvent::kNobody;
  switch (e.operation.role) {
    case MessageRole::kSend: {
      if (!somebody) return;
      Index send = post != nullptr ? post->half : kNone;
      if (send == kNone) {
        send = new_half(e, false);
        ready_.push_back(send);
      }
      half(send).event = e.id;
      if (!at_once) attach(send, completing_call(e));
      return;
    }
    case MessageRole::kReceive: {
      if (!somebody) return;
      const Index receive = new_half(e, true);
      if (!at_once) attach(receive, completing_call(e));
      ready_.push_back(receive);
      return;
    }
    case MessageRole::kExchange: {
      if (post == nullptr) return;
      if (post->call == kNone) {  // MPI_Isendrecv: its request completes both
        if (at_once) return;
        const Index completing = completing_call(e);
        if (post->half != kNone) attach(post->half, completing);
        if (!somebody) return;
        const Index receive = new_half(e, true);
        attach(receive, completing);
        ready_.push_back(receive);
        return;
      }
      --call(post->call).unresolved;
      if (somebody) {
        const Index receive = new_half(e, true);
        attach(receive, post->call);
        ready_.push_back(receive);
      } else if (call(post->call).unresolved == 0) {
        finish_call(post->call);
      }
      return;
    }
    default:
      return;
  }
}

MessageMatcher::Post* MessageMatcher::find_post(const MessageEvent& e) {
  for (Post& post : posts_) {
    if (post.completed || post.event->op != e.op || post.event->comm != e.comm) continue;
    if (e.operation.role == MessageRole::kSend && (post.event->peer != e.peer || post.event->tag != e.tag)) continue;
    return &post;
  }
  return nullptr;
}

void MessageMatcher::on_incomplete(const Post& post) {
  const MessageEvent& e = *post.event;
  const MessageProcess& process = processes_[static_cast<size_t>(e.process)];
  if (post.half != kNone) half(post.half).incomplete = !process.ended_normally;
  if (e.operation.role == MessageRole::kSend) return;  // a send is a send whether or not anybody asked if it is over
  if (e.operation.role == MessageRole::kReceive && e.peer != MessageEvent::kNobody && e.tag >= 0 && !process.cancels) {
    const Index receive = new_half(e, true);
    half(receive).incomplete = true;
    ready_.push_back(receive);
    return;
  }
  doubt(e.process, e.comm, false);
  if (post.call == kNone) return;
  Call& exchange = call(post.call);
  exchange.told.why = Why::kPartialRanks;
  if (--exchange.unresolved == 0) finish_call(post.call);
}

void MessageMatcher::on_completion(const MessageEvent& e) {
  const auto found = completions_.find({e.process, e.thread, e.leave_ns});
  if (found == completions_.end()) {
    const MessageProcess& process = processes_[static_cast<size_t>(e.process)];
    if (e.operation.role == MessageRole::kTest || !process.posts_messages || e.enter_ns < process.complete_until_ns)
      return;
    MessageCall unknown = call_of(e);  // its requests may be among those that were not kept
    unknown.why = Why::kPartialRanks;
    sink_.on_call(unknown);
    return;
  }
  const Index i = found->second;
  completions_.erase(found);
  Call& c = call(i);
  c.told = call_of(e);
  c.seen = true;
  c.tests = e.operation.role == MessageRole::kTest;
  if (!c.tests) {
    for (const Index h : c.halves) half(h).call_event = e.id;
  }
  if (c.unresolved == 0) finish_call(i);
}

void MessageMatcher::probe(const MessageEvent& e) {
  const Index i = new_half(e, true);
  half(i).probes = true;
  attach(i, new_call(e));
  const Why why = hopeless(half(i));
  if (why == Why::kNone && probes_.emplace(channel_of(half(i)), i).second) return;
  half(i).alone = true;
  half(i).why = why;  // none: an earlier probe found the same message, this one did not wait for it
  resolve(i);
}

// ---------------------------------------------------------------------------------------------------- halves and calls

template <class T>
MessageMatcher::Index MessageMatcher::make(std::vector<T>& all, std::vector<Index>& free) {
  if (free.empty()) {
    all.emplace_back();
    return static_cast<Index>(all.size() - 1);
  }
  const Index i = free.back();
  free.pop_back();
  all[static_cast<size_t>(i)] = {};
  return i;
}

MessageMatcher::Index MessageMatcher::new_half(const MessageEvent& e, bool receives) {
  const Index i = make(halves_, free_halves_);
  Half& h = half(i);
  h.event = e.id;
  h.comm = e.comm;
  h.tag = e.tag;
  h.post_ns = e.enter_ns;
  h.end_ns = e.leave_ns;
  h.process = e.process;
  h.peer = e.peer;
  h.step = e.step;
  h.receives = receives;
  h.buffered = e.operation.buffered;
  return i;
}

MessageMatcher::Index MessageMatcher::new_call(const MessageEvent& e) {
  const Index i = make(calls_, free_calls_);
  call(i).told = call_of(e);
  call(i).seen = true;
  return i;
}

/// A request is over when the call that completed it is left: that tells which call of the thread it was. It began
/// after the post and will turn up later.
MessageMatcher::Index MessageMatcher::completing_call(const MessageEvent& e) {
  const auto [entry, is_new] = completions_.try_emplace({e.process, e.thread, e.leave_ns}, kNone);
  if (is_new) {
    entry->second = new_call(e);
    call(entry->second).told.event = 0;
    call(entry->second).seen = false;
  }
  return entry->second;
}

void MessageMatcher::attach(Index i, Index to) {
  Half& h = half(i);
  Call& c = call(to);
  h.call = to;
  h.call_event = c.told.event;
  c.halves.push_back(i);
  ++c.unresolved;
}

// ------------------------------------------------------------------------------------------------------------- pairing

/// MPI_Startall starts its requests in any order: of several in one channel nobody knows which is first.
void MessageMatcher::contest_duplicates() {
  std::unordered_set<Channel, ChannelHash> sends, receives;
  for (const Index i : ready_) {
    const Channel channel = channel_of(half(i));
    if (!(half(i).receives ? receives : sends).insert(channel).second) contested_.insert(channel);
  }
}

void MessageMatcher::doubt(int32_t receiver, int64_t comm, bool broken) { doubtful_[{receiver, comm}] |= broken; }

bool MessageMatcher::is_broken(int32_t receiver, int64_t comm) const {
  if (doubtful_.empty()) return false;
  const auto found = doubtful_.find({receiver, comm});
  return found != doubtful_.end() && found->second;
}

Channel MessageMatcher::channel_of(const Half& h) const {
  return h.receives ? Channel{h.comm, h.peer, h.process, h.tag} : Channel{h.comm, h.process, h.peer, h.tag};
}

Why MessageMatcher::hopeless(const Half& h) const {
  if (h.peer == MessageEvent::kNotApplicable) return Why::kNotApplicable;
  if (h.peer < 0 || h.comm == 0) return Why::kPartialRanks;
  const MessageProcess& own = processes_[static_cast<size_t>(h.process)];
  const bool known = h.receives ? own.receives_known && !is_doubtful(h.process, h.comm)
                                : own.sends_known && !is_broken(h.peer, h.comm);
  return known && h.post_ns < own.complete_until_ns ? Why::kNone : Why::kPartialRanks;
}

bool MessageMatcher::may_come(const Half& h) const {
  const MessageProcess& other = processes_[static_cast<size_t>(h.peer)];
  const bool known = h.receives ? other.sends_known : other.receives_known && !is_doubtful(h.peer, h.comm);
  return known && now_ns_ < other.complete_until_ns;
}

void MessageMatcher::route(Index i) {
  if (half(i).receives) take_probe(i);
  if (const Why why = hopeless(half(i)); why != Why::kNone) {
    give_up(i, why);
    return;
  }
  const Channel channel = channel_of(half(i));
  const auto found = channels_.find(channel);
  if (found != channels_.end() && half(found->second.head).receives != half(i).receives) {
    Queue& queue = found->second;
    const Index other = queue.head;
    queue.head = half(other).next_in_queue;
    if (queue.head == kNone) channels_.erase(found);
    half(i).receives ? pair(other, i) : pair(i, other);
  } else if (!may_come(half(i))) {
    give_up(i, Why::kPartialRanks);
  } else if (found == channels_.end()) {
    channels_[channel] = {i, i};
  } else {
    half(found->second.tail).next_in_queue = i;
    found->second.tail = i;
  }
}

void MessageMatcher::take_probe(Index receive) {
  if (probes_.empty()) return;
  const auto found = probes_.find(channel_of(half(receive)));
  if (found == probes_.end()) return;
  half(receive).probe = found->second;
  probes_.erase(found);
}

void MessageMatcher::pair(Index s, Index r) {
  Half& send = half(s);
  Half& receive = half(r);
  Why why = Why::kNone;
  if (!contested_.empty() && contested_.contains(channel_of(send))) {
    why = Why::kNotApplicable;
  } else if (!clocks_.comparable(send.process, receive.process)) {
    why = Why::kClockUntrusted;
  } else if (clocks_.same(send.process, receive.process) && receive.end_ns + kImpossibleNs < send.post_ns) {
    doubt(receive.process, receive.comm, true);
    give_up(s, Why::kPartialRanks);
    give_up(r, Why::kPartialRanks);
    return;
  }
  send.partner = r;
  receive.partner = s;
  send.why = receive.why = why;
  for (Half* end : {&send, &receive}) {
    if (end->incomplete && why == Why::kNone) end->why = Why::kPartialRanks;
  }
  const Index probe = receive.probe;
  if (probe != kNone) {
    half(probe).partner = s;
    half(probe).why = why;
    resolve(probe);
  }
  resolve(s);
  resolve(r);
}

void MessageMatcher::give_up(Index i, Why why) {
  half(i).why = why;
  if (const Index probe = half(i).probe; probe != kNone) give_up(probe, why);
  resolve(i);
}

void MessageMatcher::resolve(Index i) {
  Half& h = half(i);
  if (h.call == kNone) {  // nobody waited for it in a call
    if (h.why == Why::kNone) h.wait_ns = 0;
    end(i);
    return;
  }
  Call& c = call(h.call);
  if (--c.unresolved == 0 && c.seen) finish_call(h.call);
}

// ------------------------------------------------------------------------------------------------------ what comes out

int64_t MessageMatcher::wait_of(const Half& h, const MessageCall& c) const {
  const Half& other = halves_[static_cast<size_t>(h.partner)];
  if (h.receives) return std::max<int64_t>(0, std::min(other.post_ns, c.leave_ns) - c.enter_ns);
  if (h.buffered || c.leave_ns <= other.post_ns) return 0;
  return std::max<int64_t>(0, other.post_ns - c.enter_ns);
}

void MessageMatcher::finish_call(Index i) {
  const Call c = std::move(call(i));
  MessageCall result = c.told;
  if (!c.seen) result.why = Why::kPartialRanks;
  Index longest = kNone;
  int64_t longest_ns = 0;
  for (const Index h : c.halves) {
    if (half(h).why != Why::kNone) result.why = half(h).why;
    if (half(h).why != Why::kNone || half(h).partner == kNone || c.tests) continue;
    const int64_t wait_ns = wait_of(half(h), result);
    if (half(h).receives && half(half(h).partner).post_ns > result.leave_ns) ++result.clock_violations;
    if (wait_ns < longest_ns || wait_ns == 0) continue;
    // The first late sender wins a tie: the call did stay for it.
    if (wait_ns == longest_ns && (half(longest).receives || !half(h).receives)) continue;
    longest = h;
    longest_ns = wait_ns;
  }
  if (c.tests && c.seen) result.why = Why::kNone;
  if (result.why == Why::kNone) {
    result.wait_ns = longest_ns;
    if (longest != kNone) {
      const Half& late = half(half(longest).partner);
      result.for_sender = half(longest).receives;
      result.late = late.process;
      result.late_step = late.step;
    }
  }
  free_calls_.push_back(i);
  for (const Index h : c.halves) {
    Half& own = half(h);
    own.call = kNone;
    own.end_ns = result.leave_ns;
    // A process that tests all the time is in the library now and then, though it finds the end only later.
    if (c.seen && !(c.tests && processes_[static_cast<size_t>(own.process)].polls)) own.call_enter_ns = result.enter_ns;
    if (c.seen && !c.tests && result.wait_ns) own.free_ns = result.enter_ns + *result.wait_ns;
    if (result.why == Why::kNone) {
      if (own.why == Why::kNone) own.wait_ns = h == longest ? longest_ns : 0;
    } else if (own.why == Why::kNone) {
      own.why = result.why;
    }
    end(h);
  }
  if (c.seen) sink_.on_call(result);
}

/// The waiting of one half is settled: tells of the message when that of the others is, too.
void MessageMatcher::end(Index i) {
  half(i).done = true;
  Index send = kNone, receive = kNone;
  if (half(i).probes) {
    if (half(i).alone) free_half(i);
    if (half(i).partner == kNone) return;  // its receive, if there is one, is given up next
    send = half(i).partner;
    receive = half(send).partner;
  } else {
    (half(i).receives ? receive : send) = i;
    (half(i).receives ? send : receive) = half(i).partner;
  }
  if (send != kNone && !half(send).done) return;
  if (receive != kNone && !half(receive).done) return;
  if (receive != kNone && half(receive).probe != kNone && !half(half(receive).probe).done) return;
  tell(send, receive);
}

Interval MessageMatcher::until_completed(const Half& own, const Half& other) {
  const Interval stay{std::max(own.free_ns, other.post_ns), std::min(other.call_enter_ns, own.end_ns)};
  return stay.begin_ns < stay.end_ns ? stay : Interval();
}

void MessageMatcher::tell(Index s, Index r) {
  MatchedMessage message;
  if (s != kNone) {
    const Half& send = half(s);
    message.send = send.event;
    message.send_call = send.call_event;
    message.sender = send.process;
    message.late_receiver_wait_ns = send.wait_ns;
    message.why = send.why;
  }
  if (r != kNone) {
    const Half& receive = half(r);
    message.receive = receive.event;
    message.receive_call = receive.call_event;
    message.receiver = receive.process;
    message.late_sender_wait_ns = receive.wait_ns;
    if (message.why == Why::kNone) message.why = receive.why;
    if (s != kNone && message.why == Why::kNone) {
      message.before_receiver_completes = until_completed(half(s), receive);
      message.before_sender_completes = until_completed(receive, half(s));
    }
    if (receive.probe != kNone) {
      const Half& probe = half(receive.probe);
      if (message.why == Why::kNone) message.why = probe.why;
      if (!probe.wait_ns) message.late_sender_wait_ns.reset();
      if (probe.wait_ns && message.late_sender_wait_ns && *probe.wait_ns > *message.late_sender_wait_ns) {
        message.receive_call = probe.call_event;
      }
      if (probe.wait_ns && message.late_sender_wait_ns) *message.late_sender_wait_ns += *probe.wait_ns;
      free_half(receive.probe);
    }
    free_half(r);
  }
  if (s != kNone) free_half(s);
  sink_.on_message(message);
}

void MessageMatcher::finish() {
  std::vector<Index> left;
  for (const auto& [channel, queue] : channels_) {
    for (Index i = queue.head; i != kNone; i = half(i).next_in_queue) left.push_back(i);
  }
  for (const auto& [channel, probe] : probes_) left.push_back(probe);
  channels_.clear();
  probes_.clear();
  std::sort(left.begin(), left.end(), [&](Index a, Index b) { return half(a).event < half(b).event; });
  for (const Index i : left) give_up(i, Why::kPartialRanks);

  // Requests whose completing call is not among the events.
  std::vector<Index> unseen;
  for (const auto& [completion, i] : completions_) unseen.push_back(i);
  completions_.clear();
  const auto place = [&](Index i) { return std::pair(call(i).told.process, call(i).told.leave_ns); };
  std::sort(unseen.begin(), unseen.end(), [&](Index a, Index b) { return place(a) < place(b); });
  for (const Index i : unseen) finish_call(i);
}

}  // namespace ddl
