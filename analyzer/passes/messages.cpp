#include "analyzer/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/passes/instance.h"
#include "analyzer/passes/message_events.h"
#include "analyzer/passes/message_match.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr size_t kMaxPendingSums = 100'000;

using HostPair = std::pair<int64_t, int64_t>;

/// The clocks of the hosts against each other.
class HostClocks : public MessageMatcher::Clocks {
 public:
  HostClocks(const Catalog& catalog, const MessageWorld& world, bool trust_all)
      : catalog_(catalog), processes_(world.processes()), trust_all_(trust_all) {}

  bool same(int32_t a, int32_t b) const override { return clock(a).clock == clock(b).clock; }
  bool comparable(int32_t a, int32_t b) const override {
    if (same(a, b)) return true;
    const std::optional<double> sigma = sigma_ns(a, b);
    return sigma && (*sigma == 0 || trust_all_ || trusted_.contains(pair_of(a, b)));
  }
  std::optional<double> sigma_ns(int32_t a, int32_t b) const {
    ClockSpread spread;
    spread.add(clock(a));
    spread.add(clock(b));
    return spread.sigma_ns();
  }
  HostPair pair_of(int32_t a, int32_t b) const { return std::minmax(host(a), host(b)); }
  void trust(const HostPair& pair) { trusted_.insert(pair); }

 private:
  int64_t host(int32_t process) const { return processes_[static_cast<size_t>(process)]->host; }
  const HostClock& clock(int32_t process) const { return catalog_.clock_of(*processes_[static_cast<size_t>(process)]); }

  const Catalog& catalog_;
  const std::vector<const ProcessInfo*>& processes_;
  bool trust_all_;
  std::set<HostPair> trusted_;
};

std::vector<int32_t> users_of_messages(const MessageWorld& world) {
  std::vector<int32_t> users;
  for (int32_t i = 0; i < static_cast<int32_t>(world.processes().size()); ++i) {
    if (world.uses_messages(i)) users.push_back(i);
  }
  return users;
}

// ------------------------------------------------------------------------------------------------------------- threads

/// Channels in which two threads of one process had posting calls open at the same time: what they posted has no order.
std::unordered_set<Channel, ChannelHash> contested_channels(SQLite::Database& db, const MessageWorld& world) {
  std::unordered_set<Channel, ChannelHash> contested;
  struct Last {
    int64_t thread, until_ns;
  };
  for (const int32_t process : users_of_messages(world)) {
    if (!world.processes()[static_cast<size_t>(process)]->calls_overlap) continue;
    std::unordered_map<Channel, Last, ChannelHash> sends, receives;
    MessageEvents events(db, world, {process});
    for (std::vector<MessageEvent> batch; events.next(batch);) {
      const auto open = [&](std::unordered_map<Channel, Last, ChannelHash>& last, const Channel& channel,
                            const MessageEvent& e) {
        int64_t until_ns = e.leave_ns;
        for (const MessageEvent& post : batch) {  // a request was posted by the call that began with it
          if (e.request && !post.request && post.op == e.op) until_ns = post.leave_ns;
        }
        const auto [entry, is_new] = last.try_emplace(channel, Last{e.thread, until_ns});
        if (!is_new && entry->second.thread != e.thread && e.enter_ns < entry->second.until_ns)
          contested.insert(channel);
        if (entry->second.until_ns <= until_ns) entry->second = {e.thread, until_ns};
      };
      for (const MessageEvent& e : batch) {
        if (e.peer < 0) continue;
        const MessageRole role = e.operation.role;
        const bool call = !e.request && !e.operation.persistent;
        const bool sends_now = role == MessageRole::kSend ? call || (e.request && e.operation.persistent)
                                                          : role == MessageRole::kExchange && call;
        const bool receives_now = role == MessageRole::kReceive    ? e.request || (call && !e.operation.posts)
                                  : role == MessageRole::kExchange ? e.request
                                                                   : role == MessageRole::kMatchedProbe && call;
        if (sends_now) open(sends, {e.comm, process, e.peer, e.tag}, e);
        if (receives_now) open(receives, {e.comm, e.peer, process, e.tag}, e);
      }
    }
  }
  return contested;
}

// -------------------------------------------------------------------------------------------------------------- clocks

/// Finds the pairs of hosts whose waits are long enough against the error of their clocks.
class TrustSink : public MessageSink {
 public:
  explicit TrustSink(const HostClocks& clocks) : clocks_(clocks) {}

  void on_message(const MatchedMessage&) override {}
  void on_call(const MessageCall& call) override {
    if (call.late < 0 || clocks_.same(call.process, call.late)) return;
    Pair& pair = pairs_[clocks_.pair_of(call.process, call.late)];
    pair.waits_ns.add(static_cast<double>(call.wait_ns.value_or(0)));
    pair.sigma_ns = clocks_.sigma_ns(call.process, call.late).value_or(0);
  }
  void decide(HostClocks& clocks) const {
    for (const auto& [hosts, pair] : pairs_) {
      const std::optional<double> median_ns = pair.waits_ns.median();
      if (median_ns && pair.sigma_ns < kTrustedSigmaShare * *median_ns) clocks.trust(hosts);
    }
  }

 private:
  struct Pair {
    MedianSketch waits_ns;
    double sigma_ns = 0;
  };
  const HostClocks& clocks_;
  std::map<HostPair, Pair> pairs_;
};

// -------------------------------------------------------------------------------------------------------------- tables

/// Writes what the matcher finds.
class TableSink : public MessageSink {
 public:
  TableSink(SQLite::Database& db, const MessageWorld& world, const HostClocks& clocks)
      : db_(db),
        processes_(world.processes()),
        clocks_(clocks),
        parts_(world.processes().size()),
        insert_message_(
            db,
            "INSERT INTO message (send, receive, send_call, receive_call, late_sender_wait_ns, late_receiver_wait_ns, sigma_ns, "
            "why) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"),
        insert_late_completion_(db, "INSERT INTO late_completion (event, start_ns, end_ns) VALUES (?, ?, ?)"),
        insert_call_(db, "INSERT INTO call_wait (event, wait_ns, why, late, sigma_ns) VALUES (?, ?, ?, ?, ?)"),
        insert_late_(
            db,
            "INSERT INTO message_late (world, late_step, late, step, waiter, calls, wait_ns) VALUES (?, ?, ?, ?, ?, ?, ?)") {
  }

  void on_message(const MatchedMessage& m) override {
    const auto known = [](int64_t event) { return event == 0 ? std::nullopt : std::optional(event); };
    const bool paired = m.send != 0 && m.receive != 0;
    insert_message_.run(known(m.send), known(m.receive), known(m.send_call), known(m.receive_call),
                        m.late_sender_wait_ns, m.late_receiver_wait_ns,
                        paired ? clocks_.sigma_ns(m.sender, m.receiver) : std::nullopt, name_of(m.why));
    note_late_completion(m.send_call, m.before_receiver_completes);
    note_late_completion(m.receive_call, m.before_sender_completes);
    if (m.send != 0) ++part(m.sender).sends;
    if (m.receive != 0) ++part(m.receiver).receives;
    if (!paired) {
      ++part(m.send != 0 ? m.sender : m.receiver).unmatched;
      ++losses_.unmatched;
    }
  }

  void on_call(const MessageCall& c) override {
    if (c.clock_violations > 0 && !is_doubtful(c.process) && !is_doubtful(c.late))
      losses_.clock_violations[processes_[static_cast<size_t>(c.process)]->world] += c.clock_violations;
    Part& sums = part(c.process);
    (c.wait_ns ? sums.call_ns : sums.unsplit_ns) += c.leave_ns - c.enter_ns;
    if (!c.wait_ns) sums.why = c.why;
    if (c.wait_ns && *c.wait_ns == 0) return;
    const std::optional<int64_t> awaited =
        c.late < 0 ? std::nullopt : std::optional(processes_[static_cast<size_t>(c.late)]->id);
    const double sigma_ns = c.late < 0 ? 0 : clocks_.sigma_ns(c.process, c.late).value_or(0);
    insert_call_.run(c.event, c.wait_ns, name_of(c.why), awaited, sigma_ns);
    if (!c.wait_ns) return;
    (c.for_sender ? sums.late_sender_ns : sums.late_receiver_ns) += *c.wait_ns;
    const ProcessInfo& waiter = *processes_[static_cast<size_t>(c.process)];
    const ProcessInfo& late = *processes_[static_cast<size_t>(c.late)];
    Sum& blame = blame_[{late.world, late.rank, waiter.rank, c.for_sender}];
    ++blame.calls;
    blame.wait_ns += *c.wait_ns;
    blame.sigma_ns += sigma_ns;
    sums.sigma_ns += sigma_ns;
    if (by_step_.size() >= kMaxPendingSums) flush();
    Sum& sum = by_step_[{late.world, c.late_step, late.rank, c.step, waiter.rank}];
    ++sum.calls;
    sum.wait_ns += *c.wait_ns;
  }

  const MessageLosses& finish() {
    flush();
    flush_late_completions();
    Query insert_blame(
        db_,
        "INSERT INTO message_blame (world, late, waiter, kind, calls, wait_ns, sigma_ns) VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (const auto& [key, sum] : blame_) {
      const auto& [world, late, waiter, for_sender] = key;
      insert_blame.run(world, late, waiter, for_sender ? "late_sender" : "late_receiver", sum.calls, sum.wait_ns,
                       sum.sigma_ns);
    }
    Query insert_part(
        db_,
        "INSERT INTO message_part (process, sends, receives, unmatched, call_ns, late_sender_wait_ns, late_receiver_wait_ns, "
        "unsplit_ns, why, sigma_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& p = parts_[i];
      if (p.sends + p.receives == 0 && p.call_ns + p.unsplit_ns == 0) continue;
      insert_part.run(processes_[i]->id, p.sends, p.receives, p.unmatched, p.call_ns, p.late_sender_ns,
                      p.late_receiver_ns, p.unsplit_ns, name_of(p.why), p.sigma_ns);
    }
    return losses_;
  }

 private:
  struct Part {
    int64_t sends = 0, receives = 0, unmatched = 0;
    int64_t call_ns = 0, unsplit_ns = 0;
    int64_t late_sender_ns = 0, late_receiver_ns = 0;
    double sigma_ns = 0;
    Why why = Why::kNone;
  };
  struct Sum {
    int64_t calls = 0;
    int64_t wait_ns = 0;
    double sigma_ns = 0;
  };
  /// What a doubtful process says of times is no word of the clocks.
  bool is_doubtful(int32_t process) const { return process >= 0 && processes_[static_cast<size_t>(process)]->doubtful; }

  using StepKey = std::tuple<int64_t, std::optional<int64_t>, int64_t, std::optional<int64_t>,
                             int64_t>;  ///< world, late step, late, waiter's step, waiter

  /// All messages of a call wait for others to post until the same moment.
  void note_late_completion(int64_t call, const Interval& until_completed) {
    if (call == 0 || until_completed.length_ns() == 0) return;
    if (late_completions_.size() >= kMaxPendingSums) flush_late_completions();
    Interval& known = late_completions_.try_emplace(call, until_completed).first->second;
    known.end_ns = std::max(known.end_ns, until_completed.end_ns);
  }
  void flush_late_completions() {
    for (const auto& [event, interval] : late_completions_)
      insert_late_completion_.run(event, interval.begin_ns, interval.end_ns);
    late_completions_.clear();
  }

  Part& part(int32_t process) { return parts_[static_cast<size_t>(process)]; }
  void flush() {
    for (const auto& [key, sum] : by_step_) {
      const auto& [world, late_step, late, step, waiter] = key;
      insert_late_.run(world, late_step, late, step, waiter, sum.calls, sum.wait_ns);
    }
    by_step_.clear();
  }

  SQLite::Database& db_;
  const std::vector<const ProcessInfo*>& processes_;
  const HostClocks& clocks_;
  std::vector<Part> parts_;
  Query insert_message_, insert_late_completion_, insert_call_, insert_late_;
  std::map<std::tuple<int64_t, int64_t, int64_t, bool>, Sum> blame_;  ///< world, late, waiter, for a late sender
  std::map<StepKey, Sum> by_step_;
  std::map<int64_t, Interval> late_completions_;  ///< by event of the call
  MessageLosses losses_;
};

void match(SQLite::Database& db, const MessageWorld& world, const std::unordered_set<Channel, ChannelHash>& contested,
           const HostClocks& clocks, MessageSink& sink, Ticker& ticker) {
  MessageMatcher matcher(world.traits(), contested, clocks, sink);
  MessageEvents events(db, world, users_of_messages(world));
  int64_t read = 0;
  for (std::vector<MessageEvent> batch; events.next(batch);) {
    matcher.add(batch);
    ticker.add(events.read() - read);
    read = events.read();
  }
  matcher.finish();
}

bool has_uncertain_clocks(const Catalog& catalog) {
  return std::any_of(catalog.host_clocks.begin(), catalog.host_clocks.end(),
                     [](const auto& host) { return host.second.sigma_ns && *host.second.sigma_ns > 0; });
}

}  // namespace

MessageLosses analyze_messages(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress) {
  const MessageWorld world(db, catalog);
  if (!world.any()) return {};
  const bool twice = has_uncertain_clocks(catalog);
  Query last(db, "SELECT max(id) FROM event");
  Ticker ticker(progress, (last.next() ? last.integer(0) : 0) * (twice ? 2 : 1));
  const std::unordered_set<Channel, ChannelHash> contested = contested_channels(db, world);
  HostClocks clocks(catalog, world, false);
  if (twice) {
    const HostClocks all(catalog, world, true);
    TrustSink trust(all);
    match(db, world, contested, all, trust, ticker);
    trust.decide(clocks);
  }
  TableSink tables(db, world, clocks);
  match(db, world, contested, clocks, tables, ticker);
  return tables.finish();
}

}  // namespace ddl
