#include "tui/steps.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "analyzer/passes/collective_groups.h"

namespace ddl::tui {
namespace {

constexpr size_t kMaxEvents = 1 << 22;  // in unfinished steps, of all ranks together; about 400 MB
constexpr size_t kMaxRankEvents = 1 << 17, kLeastRankEvents = 1 << 12;
constexpr size_t kGiveUpSteps = 3;             // this many later ones have ended
constexpr int64_t kGiveUpNs = 2'000'000'000;   // or this long ago
constexpr int64_t kNoStepsNs = 3'000'000'000;  // a job that has not begun a step by then has none
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kMaxSeconds = 60;  // cut after a pause at once
constexpr int kMaxSkipped = 3;
constexpr int64_t kWindowSeconds = 30;  // before it was joined

// A rank that stays in its step while others go on is waited for: what it writes may come late, over a network file
// system half a minute. But not for ever.
constexpr size_t kMaxAhead = 1024;  // steps that the others have ended since
constexpr int64_t kMaxBehindNs = 60'000'000'000;

uint64_t end_ticks(const Event& e) { return e.start_ticks + e.duration_ticks; }

bool has_rule(const Job& job, const Event& e) {
  return e.comm != kNone && job.communicators[e.comm].comparable &&
         job.operations[e.op].operation.wait != WaitRule::kNone;
}

/// It need not be the only rank of its group, which has nobody to wait for.
bool may_have_company(const Job& job, const Event& e) { return e.comm == kNone || job.communicators[e.comm].size != 1; }

int64_t ticks_at_ns(const Rank& rank, int64_t ns) {
  return static_cast<int64_t>(rank.clock.line.ticks_at(ns - rank.clock.offset_ns));
}

void merge_into(std::vector<CollectiveUse>& uses, const CollectiveUse& more) {
  const auto found =
      std::find_if(uses.begin(), uses.end(), [&](const CollectiveUse& u) { return u.is_same_kind(more); });
  if (found != uses.end()) return found->add(more);
  uses.push_back(more);
}

/// Number of the rank in the communicator; -1: not in it.
int64_t place_in(const JobCommunicator& communicator, int32_t rank) {
  const auto& ranks = communicator.ranks;
  if (rank >= 0 && static_cast<size_t>(rank) < ranks.size() && ranks[static_cast<size_t>(rank)] == rank) return rank;
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  return place == ranks.end() ? -1 : place - ranks.begin();
}

}  // namespace

void Steps::advance(Job& job) {
  taken_.resize(job.ranks.size());
  calls_.resize(job.ranks.size());
  dropped_.resize(job.ranks.size());
  const auto marks_steps = [](const Rank& rank) {
    return rank.open_step || (!rank.steps.empty() && !rank.steps.back().second);
  };
  // after all: what was cut into seconds is forgotten
  if (!annotated_ && std::any_of(job.ranks.begin(), job.ranks.end(), marks_steps)) {
    annotated_ = true;
    for (Rank& rank : job.ranks) std::erase_if(rank.steps, [](const EndedStep& step) { return step.second; });
    finished_.clear();
    count_ = 0;
  }
  take_events(job);
  devices_.take(job);
  // Ranks are read one after the other: what a communicator did in many steps comes before what another one did in
  // the first of them.
  const auto enters_before = [](const Done& a, const Done& b) { return a.enter_ns < b.enter_ns; };
  for (std::deque<Done>* all : {&done_, &device_done_})
    if (!std::is_sorted(all->begin(), all->end(), enters_before))
      std::stable_sort(all->begin(), all->end(), enters_before);
  if (!annotated_) end_seconds(job);
  for (;;) {
    std::optional<uint64_t> next;
    for (const Rank& rank : job.ranks) {
      if (!rank.steps.empty()) next = std::min(next.value_or(UINT64_MAX), rank.steps.front().number);
    }
    if (!next || !is_due(job, *next)) break;
    finish(job, *next);
  }
  bound(job);
}

Event* Steps::event_of(Job& job, const MemberRef& member) const {
  if (member.event < dropped_[member.rank]) return nullptr;
  return &job.ranks[member.rank].events[member.event - dropped_[member.rank]];
}

/// Where looking for events of a rank's first step may stop. Calls come in the order of their end: of one thread that
/// marks its steps, none of a step comes behind one that began after it. Requests, and calls beside others, come some
/// steps late at most. So a step costs as much behind a long backlog as in time.
uint64_t Steps::horizon(const Job& job, size_t r) const {
  const Rank& rank = job.ranks[r];
  if (rank.steps.empty()) return UINT64_MAX;
  const EndedStep& step = rank.steps.front();
  if (calls_[r].are_all && !step.second && step.thread == calls_[r].thread) return step.end_ticks;
  return rank.steps.size() >= kGiveUpSteps ? rank.steps[kGiveUpSteps - 1].end_ticks : UINT64_MAX;
}

void Steps::take_events(Job& job) {
  for (uint32_t r = 0; r < job.ranks.size(); ++r) {
    Rank& rank = job.ranks[r];
    // One thread's log is read after the other's, and GPUs' after both.
    const auto fresh = rank.events.begin() + static_cast<ptrdiff_t>(taken_[r] - dropped_[r]);
    const auto ends_before = [](const Event& a, const Event& b) { return end_ticks(a) < end_ticks(b); };
    if (!std::is_sorted(fresh, rank.events.end(), ends_before)) std::stable_sort(fresh, rank.events.end(), ends_before);
    const auto ended_before = [](const EndedLayer& a, const EndedLayer& b) { return a.end_ticks < b.end_ticks; };
    if (!std::is_sorted(rank.layers.begin(), rank.layers.end(), ended_before))
      std::stable_sort(rank.layers.begin(), rank.layers.end(), ended_before);
    for (; taken_[r] < dropped_[r] + rank.events.size(); ++taken_[r]) {
      const Event& e = rank.events[taken_[r] - dropped_[r]];
      if (taken_[r] == 0) calls_[r].thread = e.thread;
      calls_[r].are_all &= e.is_call() && e.thread == calls_[r].thread;
      if (e.sequence == 0 || !has_rule(job, e)) continue;
      const std::pair<uint32_t, uint64_t> key(e.comm, e.sequence);
      std::vector<MemberRef>& members = assembling_[key];
      if (members.empty())
        members.reserve(std::min(job.ranks.size(), static_cast<size_t>(std::max(1, job.communicators[e.comm].size))));
      members.push_back({r, taken_[r]});
      if (static_cast<int32_t>(members.size()) < job.communicators[e.comm].size) continue;
      resolve(job, e.comm, members);
      assembling_.erase(key);
    }
  }
}

/// Keeps what may be of use: a step that never ends must not fill the memory.
void Steps::bound(Job& job) {
  const size_t most = std::clamp(kMaxEvents / std::max<size_t>(job.ranks.size(), 1), kLeastRankEvents, kMaxRankEvents);
  bool dropped = false;
  for (uint32_t r = 0; r < job.ranks.size(); ++r) {
    Rank& rank = job.ranks[r];
    for (; rank.events.size() > most; rank.events.pop_front()) {
      ++dropped_[r];
      dropped = true;
    }
    Devices::bound(rank, most);
    while (rank.layers.size() > most) rank.layers.pop_front();
    while (rank.samples.size() > most) rank.samples.pop_front();
    while (rank.posted.size() > most) rank.posted.erase(rank.posted.begin());
  }
  if (!dropped) return;
  drop_lost_instances();
  for (std::deque<Done>* all : {&done_, &device_done_}) {
    std::erase_if(*all, [&](const Done& done) {
      const auto& events = job.ranks[done.rank].events;
      return events.empty() || done.enter_ticks < events.front().start_ticks;
    });
  }
}

void Steps::drop_lost_instances() {
  std::erase_if(assembling_, [&](const auto& assembling) {
    const MemberRef& first = assembling.second.front();
    return first.event < dropped_[first.rank];
  });
}

void Steps::resolve(Job& job, uint32_t comm, const std::vector<MemberRef>& members) {
  const JobCommunicator& communicator = job.communicators[comm];
  std::vector<Event*> events;
  Instance instance;
  instance.complete = true;
  events.reserve(members.size());
  instance.members.reserve(members.size());
  size_t domain = 0;
  for (const MemberRef& ref : members) {
    Event* e = event_of(job, ref);
    if (e == nullptr) return;
    const Rank& rank = job.ranks[ref.rank];
    if (events.empty()) {
      instance.operation = &job.operations[e->op].operation;
      instance.nonblocking = e->request;
      if (e->peer >= 0) instance.root = e->peer;
      domain = rank.clock.domain;
    }
    instance.complete &= events.empty() || e->op == events.front()->op;
    instance.clock_trusted &= rank.clock.domain == domain;
    Member member;
    member.process = ref.rank;
    member.rank = rank.rank;
    // who is the root
    if (instance.operation->wait != WaitRule::kSymmetric) member.comm_rank = place_in(communicator, rank.rank);
    member.enter_ns = rank.clock.time_ns(e->start_ticks);
    member.duration_ns = rank.clock.duration_ns(e->start_ticks, e->duration_ticks);
    member.share_begin = e->share_begin;
    member.share_end = e->share_end;
    member.share_total = e->share_total;
    member.payload_bytes = e->is_sized ? std::optional(static_cast<int64_t>(e->bytes)) : std::nullopt;
    instance.members.push_back(member);
    events.push_back(e);
  }
  Split split = split_waiting(instance);
  take_share(instance, split);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i]->why = split.why;
    if (!split.wait_ns.empty()) events[i]->wait_ns = split.wait_ns[i];
  }
  if (!instance.complete) return;

  size_t last = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    if (instance.members[i].enter_ns > instance.members[last].enter_ns) last = i;
  }
  if (!split.late.empty()) last = split.late.front();
  Done done;
  done.rank = members[last].rank;
  done.enter_ticks = events[last]->start_ticks;
  done.enter_ns = instance.members[last].enter_ns;
  done.device = events[last]->device;
  done.use.op = events.front()->op;
  done.use.comm = comm;
  done.use.bytes = operation_bytes(instance).value_or(-1);
  done.use.instances = 1;
  done.use.calls = static_cast<int64_t>(events.size());
  done.use.nonblocking = instance.nonblocking;
  const auto [least, most] = std::minmax_element(events.begin(), events.end(), [](const Event* a, const Event* b) {
    return a->coordination_vote < b->coordination_vote;
  });
  done.use.coordination = (*least)->coordination_vote >= 0 && (*most)->coordination_vote > 0;
  for (const Member& m : instance.members) done.use.time_ns += m.duration_ns;
  if (!split.wait_ns.empty()) {
    done.use.split_calls = done.use.calls;
    for (const int64_t wait_ns : split.wait_ns) done.use.wait_ns += wait_ns;
    done.use.transfer_ns.push_back(transfer_time_ns(instance, split));
    if (events.size() > 1) {  // as Blame::add() does
      each_late(split, [&](size_t late, int64_t ties, int64_t longest_ns, const auto& share_ns_of) {
        Blamed blamed{static_cast<int32_t>(instance.members[late].rank), {}};
        int64_t sum_ns = 0;
        for (size_t i = 0; i < events.size(); ++i) {
          const int64_t share_ns = share_ns_of(i);
          sum_ns += share_ns;
          if (share_ns > 0) blamed.waiters.emplace_back(static_cast<int32_t>(instance.members[i].rank), share_ns);
        }
        done.lateness.late.push_back({0, blamed.rank, 1.0 / static_cast<double>(ties), static_cast<double>(sum_ns),
                                      static_cast<double>(longest_ns), false});
        if (!blamed.waiters.empty()) done.lateness.blamed.push_back(std::move(blamed));
      });
    }
  }
  for (size_t i = 0; i < events.size() && done.device; ++i) {
    if (events[i]->layer != kNone)
      done.layers.push_back({members[i].rank, events[i]->layer, instance.members[i].duration_ns});
  }
  (done.device ? device_done_ : done_).push_back(std::move(done));
}

void Steps::end_seconds(Job& job) {
  int64_t newest_ns = INT64_MIN;
  for (const Rank& rank : job.ranks) {
    if (rank.newest_ticks > 0) newest_ns = std::max(newest_ns, rank.clock.time_ns(rank.newest_ticks));
  }
  if (newest_ns == INT64_MIN) return;
  if (!second_) second_ = std::max<int64_t>(0, newest_ns / kSecondNs - kWindowSeconds);
  const int64_t until = (std::max(newest_ns, job.ended ? newest_ns : job.now_ns - kSecondNs)) / kSecondNs;
  second_ = std::max(*second_, until - kMaxSeconds);
  if (newest_ns < *second_ * kSecondNs + (count_ == 0 ? kNoStepsNs : 0)) return;
  for (; *second_ < until; ++*second_) {
    for (Rank& rank : job.ranks) {
      const bool gone = is_over(rank.life) && rank.clock.time_ns(rank.newest_ticks) < (*second_ + 1) * kSecondNs;
      if (rank.begin_ticks == 0 || gone) continue;
      EndedStep step;
      step.second = true;
      step.number = static_cast<uint64_t>(*second_);
      step.start_ticks = static_cast<uint64_t>(ticks_at_ns(rank, *second_ * kSecondNs));
      step.end_ticks = static_cast<uint64_t>(ticks_at_ns(rank, (*second_ + 1) * kSecondNs));
      rank.steps.push_back(step);
    }
  }
}

bool Steps::is_due(const Job& job, uint64_t number) const {
  bool give_up = true;
  int64_t end_ns = INT64_MIN;
  int64_t newest_ns = INT64_MIN;
  size_t ahead = 0;
  for (const Rank& rank : job.ranks) {
    ahead = std::max(ahead, rank.steps.size());
    if (rank.steps.empty()) continue;
    end_ns = std::max(end_ns, rank.clock.time_ns(rank.steps.front().end_ticks));
    newest_ns = std::max(newest_ns, rank.clock.time_ns(rank.steps.back().end_ticks));
  }
  const bool patient = ahead <= kMaxAhead && newest_ns - end_ns <= kMaxBehindNs;
  for (const Rank& rank : job.ranks) {
    if (patient && rank.steps.empty() && !is_over(rank.life) && rank.open_step && *rank.open_step <= number)
      return false;
    give_up &= rank.steps.size() >= kGiveUpSteps || is_over(rank.life);
  }
  for (const Rank& rank : job.ranks) {
    if (!rank.steps.empty() && rank.steps.front().number == number &&
        Devices::is_pending(job, rank, rank.steps.front()))
      return false;
  }
  if (give_up || job.ended || job.now_ns - end_ns > kGiveUpNs) return true;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const Rank& rank = job.ranks[r];
    if (rank.steps.empty() || rank.steps.front().number != number) continue;
    const uint64_t end = rank.steps.front().end_ticks, stop = horizon(job, r);
    if (!rank.posted.empty() && *rank.posted.begin() < end) return false;
    for (const Event& e : rank.events) {
      if (e.is_call() && e.start_ticks >= stop) break;
      if (!e.device && e.start_ticks < end && e.sequence > 0 && !e.wait_ns && e.why == Why::kPartialRanks &&
          has_rule(job, e))
        return false;
    }
  }
  return true;
}

RankPart Steps::cut(const Job& job, const Rank& rank, const EndedStep& step, uint64_t stop) const {
  const auto& clock = rank.clock;
  const Interval window{clock.time_ns(step.start_ticks), clock.time_ns(step.end_ticks)};
  std::vector<uint64_t> messages;  // when they were complete
  for (const Event& e : rank.events) {
    if (e.is_call() && e.start_ticks >= stop) break;
    const OpClass c = job.operations[e.op].operation.op_class;
    if (e.request && (c == OpClass::kSend || c == OpClass::kReceive || c == OpClass::kSendReceive))
      messages.push_back(end_ticks(e));
  }
  std::sort(messages.begin(), messages.end());
  bool sends = !messages.empty();
  WindowEvents events;
  if (rank.computes_in_layers) {
    events.computing.emplace();
    for (const EndedLayer& layer : rank.layers) {
      if (!layer.computes || layer.end_ticks <= step.start_ticks) continue;
      const int64_t end_ns = clock.time_ns(layer.end_ticks);
      events.computing->push_back({end_ns - clock.span_ns(static_cast<uint64_t>(layer.duration_ticks)), end_ns});
    }
  }
  for (const Event& e : rank.events) {
    if (e.is_call() && e.start_ticks >= stop) break;
    if (e.device || e.start_ticks >= step.end_ticks || end_ticks(e) <= step.start_ticks) continue;
    const JobOperation& op = job.operations[e.op];
    Activity a;
    a.interval.begin_ns = clock.time_ns(e.start_ticks);
    a.interval.end_ns = a.interval.begin_ns + clock.duration_ns(e.start_ticks, e.duration_ticks);
    a.thread = e.thread;
    a.request = e.request;
    a.completion = op.operation.op_class == OpClass::kCompletion;
    a.collective = e.sequence > 0;
    a.wait_ns = e.wait_ns;
    if (a.collective) {
      if (!a.wait_ns) a.why = has_rule(job, e) ? e.why : Why::kNotApplicable;
      a.undefined = a.why == Why::kNotApplicable && may_have_company(job, e);
    } else if (!a.request) {
      const MessageRole role = op.message.role;
      sends |= role != MessageRole::kNone && role != MessageRole::kWait && role != MessageRole::kTest;
      const auto done = std::lower_bound(messages.begin(), messages.end(), e.start_ticks);
      const bool completes = role == MessageRole::kWait && done != messages.end() && *done <= end_ticks(e);
      const bool moves = role == MessageRole::kSend || role == MessageRole::kReceive || role == MessageRole::kExchange;
      // A damaged spool does not say what it was, or with whom.
      const bool unknown = op.operation.op_class == OpClass::kUnknown ||
                           (op.operation.numbered && !op.operation.nonblocking && e.comm == kNone);
      a.unsplit = completes || unknown || (moves && !op.message.posts && !op.message.persistent);
      if (a.unsplit) a.why = unknown ? Why::kPartialRanks : Why::kNotApplicable;
    }
    if (op.operation.waits_unnumbered && (a.request || !op.operation.nonblocking))
      a.undefined = may_have_company(job, e);
    // messages on threads of their own block the step as its own thread's calls do
    add_to(events, a, rank.computes_in_layers ? a.thread : step.thread);
  }
  if (!annotated_ && rank.sits_in && rank.sits_in->op != kNone) {  // a second may end inside of a call
    Activity a;
    a.interval = {clock.time_ns(rank.sits_in->start_ticks), window.end_ns};
    a.thread = step.thread;
    a.unsplit = true;
    a.why = Why::kPartialRanks;
    if (a.interval.begin_ns < a.interval.end_ns) add_to(events, a, step.thread);
  }
  const int64_t mpi_ns = rank.computes_in_layers ? 0 : clock.span_ns(step.mpi_ticks);
  const Partition part = partition(window, events, mpi_ns);
  const bool kept = !events.calls.empty() || mpi_ns == 0;
  const bool known = kept && events.why == Why::kNone && part.is_split();
  const auto wait_ns = known ? std::optional(part.wait_ns) : std::nullopt;
  return {part.duration_ns, part.compute_ns, part.comm_ns, part.exposed_ns, 0, wait_ns, wait_ns, sends};
}

/// `background`: nobody is late for what only coordinates.
void Steps::book(std::deque<Done>& all, const std::vector<const EndedStep*>& steps, int64_t horizon_ns, bool background,
                 FinishedStep& into) {
  const auto place = [&](const Done& done) {  // -1: before the step, 1: after it
    const EndedStep* step = steps[done.rank];
    return step == nullptr                        ? 1
           : done.enter_ticks < step->start_ticks ? -1
           : done.enter_ticks >= step->end_ticks  ? 1
                                                  : 0;
  };
  std::deque<Done> later;
  for (; !all.empty(); all.pop_front()) {
    Done& done = all.front();
    const int where = place(done);
    if (done.enter_ns >= horizon_ns) break;  // and all that follow
    if (where > 0) later.push_back(std::move(done));
    if (where != 0) continue;
    Lateness& lateness = done.device ? into.by_device : into.by_thread;
    if (background && done.use.coordination) done.lateness = {};
    if (!done.lateness.late.empty()) lateness.comms.insert(done.use.comm);
    for (LateRow& row : done.lateness.late) {
      row.step = static_cast<int64_t>(into.number);
      lateness.late.push_back(row);
    }
    for (Blamed& blamed : done.lateness.blamed) lateness.blamed.push_back(std::move(blamed));
    for (const Done::InLayer& in : done.layers) into.layers[in.rank][in.layer].comm_ns += in.ns;
    merge_into(into.collectives, done.use);
  }
  all.insert(all.begin(), std::make_move_iterator(later.begin()), std::make_move_iterator(later.end()));
}

void Steps::finish(Job& job, uint64_t number) {
  FinishedStep finished;
  finished.number = number;
  finished.parts.resize(job.ranks.size());
  finished.thread_parts.resize(job.ranks.size());
  finished.layers.resize(job.ranks.size());
  std::vector<const EndedStep*> steps(job.ranks.size());
  std::vector<uint64_t> horizons;
  for (size_t r = 0; r < job.ranks.size(); ++r) horizons.push_back(horizon(job, r));
  bool partial = false, lacks_ranks = false, left_out = false;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    Rank& rank = job.ranks[r];
    if (rank.steps.empty() || rank.steps.front().number != number) {
      lacks_ranks |= !rank.steps.empty();
      continue;
    }
    const EndedStep& step = rank.steps.front();
    steps[r] = &step;
    finished.parts[r] = finished.thread_parts[r] = cut(job, rank, step, horizons[r]);
    finished.longest_ns = std::max(finished.longest_ns, finished.parts[r].duration_ns);
    if (step.device) {
      finished.parts[r] = *step.device;
    } else if (const auto devices = devices_.cut(job, rank, step)) {
      finished.parts[r] = devices->is_known ? devices->part : RankPart();
      finished.devices |= devices->is_known;
      finished.device_collectives |= devices->has_collectives;
      finished.device_wait_ns += devices->part.wait_ns.value_or(0);
      if (!devices->is_known) finished.unknown.push_back(rank.rank);
      left_out |= devices->left_out;
      partial |= devices->is_known ? devices->has_collectives && !devices->part.wait_ns : !job.ended;
    }
    for (const Event& e : rank.events) {
      if (e.is_call() && e.start_ticks >= horizons[r]) break;
      const bool inside = e.start_ticks >= step.start_ticks && e.start_ticks < step.end_ticks;
      if (e.device) continue;  // booked with what it was (book())
      partial |= e.start_ticks < step.end_ticks && e.sequence > 0 && !e.wait_ns && e.why == Why::kPartialRanks &&
                 has_rule(job, e);
      if (inside && e.sequence > 0 && e.layer != kNone)
        finished.layers[r][e.layer].comm_ns += rank.clock.duration_ns(e.start_ticks, e.duration_ticks);
    }
    for (; !rank.layers.empty() && rank.layers.front().end_ticks <= step.end_ticks; rank.layers.pop_front()) {
      const EndedLayer& layer = rank.layers.front();
      if (layer.end_ticks <= step.start_ticks) continue;
      const int64_t ns = rank.clock.span_ns(static_cast<uint64_t>(std::abs(layer.duration_ticks)));
      finished.layers[r][layer.layer].time_ns += layer.duration_ticks < 0 ? -ns : ns;
    }
    for (; !rank.samples.empty() && rank.samples.front().first < step.end_ticks; rank.samples.pop_front()) {
      if (rank.samples.front().first >= step.start_ticks)
        finished.samples = finished.samples.value_or(0) + rank.samples.front().second;
    }
  }
  int64_t horizon_ns = INT64_MIN;  // of all ranks that have ended a step
  for (size_t r = 0; r < job.ranks.size(); ++r)
    if (steps[r] != nullptr)
      horizon_ns =
          std::max(horizon_ns, horizons[r] == UINT64_MAX ? INT64_MAX : job.ranks[r].clock.time_ns(horizons[r]));
  book(done_, steps, horizon_ns, job.background, finished);
  book(device_done_, steps, horizon_ns, job.background, finished);
  std::vector<std::optional<int64_t>> ends_ns(job.ranks.size());
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    Rank& rank = job.ranks[r];
    if (steps[r] == nullptr) continue;
    const uint64_t end = steps[r]->end_ticks;
    ends_ns[r] = rank.clock.time_ns(end);
    for (; !rank.events.empty() && end_ticks(rank.events.front()) <= end; rank.events.pop_front()) ++dropped_[r];
    Devices::drop(rank, *steps[r]);
    rank.posted.erase(rank.posted.begin(), rank.posted.lower_bound(steps[r]->start_ticks));  // lost, or never to end
    rank.steps.pop_front();
  }
  int64_t over_ns = INT64_MAX;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (ends_ns[r]) over_ns = std::min(over_ns, *ends_ns[r]);
  }
  devices_.forget_before(over_ns == INT64_MAX ? INT64_MIN : over_ns);
  drop_lost_instances();
  // For a job that was joined on its way the first steps lack some ranks, or some of their events.
  const bool lacking = partial && job.joined && skipped_ < kMaxSkipped;
  if (count_ == 0 && (lacking || lacks_ranks || left_out)) {
    skipped_ += lacking && !left_out ? 1 : 0;
    return;
  }
  ++count_;
  finished_.push_back(std::move(finished));
  if (finished_.size() > kKept) finished_.pop_front();
}

}  // namespace ddl::tui
