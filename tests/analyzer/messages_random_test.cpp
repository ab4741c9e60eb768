// Random jobs on a small MPI of the test's own, with posted and unexpected queues as the standard describes
// them: what that delivered, and the waiting worked out from it call by call, against what the analyzer finds
// in the records alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "tests/analyzer/message_rows.h"
#include "tests/analyzer/tables.h"
#include "tests/core/damage.h"

namespace ddl::test {
namespace {

constexpr int kAny = -1;
constexpr int kTags = 2;

struct End {  // of a message
  int rank = -1;
  int64_t post_ns = -1;
  std::optional<int64_t> wait_ns = 0;  // nothing: it never completed
};

struct Message {
  int comm = 1;
  int from = 0, to = 0, tag = 0;  // world ranks
  End send, receive;
  std::optional<int64_t> matched_ns;
};

struct Receive {  // posted or a probe
  int source, tag;
  int64_t post_ns;
  std::optional<size_t> message;
};

struct Request {
  bool receives = false;
  bool rendezvous = false;
  size_t what = 0;  // message, or receive
};

/// A call that has not returned.
struct Blocked {
  enum class Until { kMessageTaken, kReceived, kProbed, kAll, kOne } until = Until::kAll;
  std::string op;
  int64_t enter_ns = 0;
  size_t message = 0;  // that it sends
  size_t receive = 0;
};

enum class Kind {
  kSend,
  kSsend,
  kIsend,
  kStart,
  kReceive,
  kIreceive,
  kProbe,
  kMprobe,
  kExchange,
  kCompute,
  kWait,
  kWaitall,
  kWaitany,
  kTest
};

struct Op {
  Kind kind = Kind::kCompute;
  size_t message = 0;                 // sends
  int comm = 1, source = 0, tag = 0;  // receives
};

class Job {
 public:
  Job(uint32_t seed, Tables& run) : random_(seed), run_(run), ranks_(static_cast<size_t>(run.ranks())) {
    reversed_ = static_cast<int>(run.communicator("reversed", reversed_ranks()));
    for (int64_t r = 0; r < run.ranks(); ++r) (r % 2 == 0 ? even_ : odd_).push_back(r);
    std::shuffle(odd_.begin(), odd_.end(), random_);
    between_ = static_cast<int>(run.intercommunicator("between", even_, odd_));
    make_programs();
  }

  /// True: everybody came to the end.
  bool play() {
    while (true) {
      // The earliest thing that can happen: an arrival or a rank that goes on.
      int next = -1;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        const Rank& rank = ranks_[r];
        if (rank.blocked || rank.done()) continue;
        if (next < 0 || rank.now < ranks_[static_cast<size_t>(next)].now) next = static_cast<int>(r);
      }
      const auto arrival = arrivals_.begin();
      if (next < 0 && arrival == arrivals_.end()) break;
      if (arrival != arrivals_.end() && (next < 0 || arrival->first <= ranks_[static_cast<size_t>(next)].now)) {
        const auto [time, message] = *arrival;
        arrivals_.erase(arrival);
        arrive(message, time);
        wake(time);
      } else {
        const int64_t time = ranks_[static_cast<size_t>(next)].now;
        step(next);
        wake(time);
      }
    }
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& r) { return r.done() && !r.blocked && r.pending.empty(); });
  }

  std::vector<Message> messages;

 private:
  struct Rank {
    std::deque<Op> program;
    int64_t now = 100;
    std::optional<Blocked> blocked;
    std::vector<Request> pending;
    std::map<int, std::vector<size_t>> posted;      // by communicator, indices of receives_, in the order of posting
    std::map<int, std::vector<size_t>> unexpected;  // messages in the order of arrival
    bool done() const { return program.empty(); }
  };

  std::vector<int64_t> reversed_ranks() const {
    std::vector<int64_t> ranks;
    for (int64_t r = run_.ranks() - 1; r >= 0; --r) ranks.push_back(r);
    return ranks;
  }
  int64_t draw(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  int comm_rank(int comm, int rank) const {
    if (comm == reversed_) return static_cast<int>(ranks_.size()) - 1 - rank;
    if (comm != between_) return rank;
    const std::vector<int64_t>& group = rank % 2 == 0 ? even_ : odd_;
    return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
  }

  void make_programs() {
    const int64_t count = 3 + draw(25);
    std::vector<std::vector<Op>> sends(ranks_.size()), receives(ranks_.size());
    for (int64_t i = 0; i < count; ++i) {
      Message m;
      m.from = static_cast<int>(draw(static_cast<int64_t>(ranks_.size())));
      m.to = static_cast<int>(draw(static_cast<int64_t>(ranks_.size())));
      const int64_t comm = draw(4);
      m.comm = comm == 0 ? reversed_ : comm == 1 && m.from % 2 != m.to % 2 ? between_ : 1;
      m.tag = static_cast<int>(draw(kTags));
      constexpr Kind kSends[] = {Kind::kSend,  Kind::kIsend, Kind::kStart, Kind::kSend,
                                 Kind::kIsend, Kind::kStart, Kind::kIsend, Kind::kSsend};
      constexpr Kind kReceives[] = {Kind::kReceive,  Kind::kIreceive, Kind::kIreceive, Kind::kIreceive,
                                    Kind::kIreceive, Kind::kProbe,    Kind::kMprobe};
      const Kind send = m.from == m.to ? Kind::kIsend : kSends[draw(8)];
      sends[static_cast<size_t>(m.from)].push_back({send, messages.size(), m.comm, 0, 0});
      receives[static_cast<size_t>(m.to)].push_back(
          {kReceives[draw(7)], 0, m.comm, draw(8) == 0 ? kAny : m.from, draw(8) == 0 ? kAny : m.tag});
      if (send == Kind::kStart) rows(m, false).call("MPI_Send_init", peer(m, false), m.tag, i, i);
      messages.push_back(m);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::shuffle(sends[r].begin(), sends[r].end(), random_);
      std::shuffle(receives[r].begin(), receives[r].end(), random_);
      auto& program = ranks_[r].program;
      size_t s = 0, v = 0;
      while (s < sends[r].size() || v < receives[r].size()) {
        if (draw(3) == 0) program.push_back({Kind::kCompute, 0, 0, 0, 0});
        if (s < sends[r].size() && v < receives[r].size() && sends[r][s].comm == receives[r][v].comm && draw(6) == 0) {
          Op both = receives[r][v++];
          both.kind = Kind::kExchange;
          both.message = sends[r][s++].message;
          program.push_back(both);
        } else if (s < sends[r].size() && (v == receives[r].size() || draw(3) > 0)) {
          program.push_back(sends[r][s++]);
        } else {
          program.push_back(receives[r][v++]);
        }
        constexpr Kind kWaits[] = {Kind::kWait, Kind::kWaitall, Kind::kWaitany, Kind::kTest};
        if (draw(6) == 0) program.push_back({kWaits[draw(4)], 0, 0, 0, 0});
      }
      program.push_back({Kind::kWaitall, 0, 0, 0, 0});
    }
  }

  // -------------------------------------------------------------------------------------------------------- the queues

  bool accepts(const Receive& receive, const Message& m) const {
    return (receive.source == kAny || receive.source == m.from) && (receive.tag == kAny || receive.tag == m.tag);
  }
  void take(size_t receive, size_t message, int64_t time) {
    receives_[receive].message = message;
    messages[message].receive.post_ns = receives_[receive].post_ns;
    messages[message].receive.rank = messages[message].to;
    messages[message].matched_ns = time;
  }
  void send(size_t message, int64_t time) {
    Message& m = messages[message];
    m.send.rank = m.from;
    m.send.post_ns = time;
    int64_t& last = last_arrival_[{m.from, m.to}];
    last = std::max(last + 1, time + 1 + draw(30));
    arrivals_.emplace(last, message);
  }
  void arrive(size_t message, int64_t time) {
    const Message& m = messages[message];
    Rank& rank = ranks_[static_cast<size_t>(m.to)];
    auto& posted = rank.posted[m.comm];
    const auto found = std::find_if(posted.begin(), posted.end(), [&](size_t r) { return accepts(receives_[r], m); });
    if (found == posted.end()) {
      rank.unexpected[m.comm].push_back(message);
    } else {
      take(*found, message, time);
      posted.erase(found);
    }
  }
  std::optional<size_t> first_unexpected(int rank, int comm, const Receive& receive, bool remove) {
    auto& waiting = ranks_[static_cast<size_t>(rank)].unexpected[comm];
    const auto found =
        std::find_if(waiting.begin(), waiting.end(), [&](size_t m) { return accepts(receive, messages[m]); });
    if (found == waiting.end()) return std::nullopt;
    const size_t message = *found;
    if (remove) waiting.erase(found);
    return message;
  }
  size_t post(int rank, const Op& op, int64_t time) {
    receives_.push_back({op.source, op.tag, time, std::nullopt});
    const size_t receive = receives_.size() - 1;
    if (const auto message = first_unexpected(rank, op.comm, receives_[receive], true)) {
      take(receive, *message, time);
    } else {
      ranks_[static_cast<size_t>(rank)].posted[op.comm].push_back(receive);
    }
    return receive;
  }

  // --------------------------------------------------------------------------------------------------------- the calls

  RankRows rows(int rank, int comm) { return RankRows(run_, rank).on(comm); }
  RankRows rows(const Message& m, bool receives) { return rows(receives ? m.to : m.from, m.comm); }
  int peer(const Message& m, bool receives) const { return comm_rank(m.comm, receives ? m.from : m.to); }

  void step(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const Op op = rank.program.front();
    rank.program.pop_front();
    const int64_t now = rank.now;
    rank.now += 2 + draw(5);
    switch (op.kind) {
      case Kind::kCompute:
        rank.now += draw(200);
        return;
      case Kind::kSend: {
        const Message& m = messages[op.message];
        send(op.message, now);
        rows(m, false).call("MPI_Send", peer(m, false), m.tag, now, now + 2);
        messages[op.message].send.wait_ns.reset();
        sends_.push_back({op.message, now, now + 2});
        return;
      }
      case Kind::kSsend:
        send(op.message, now);
        block(rank, {Blocked::Until::kMessageTaken, "MPI_Ssend", now, op.message, 0});
        return;
      case Kind::kIsend:
      case Kind::kStart:
        send(op.message, now);
        if (op.kind == Kind::kIsend) {
          const Message& m = messages[op.message];
          rows(m, false).post("MPI_Isend", peer(m, false), m.tag, now, -1);
        }
        rank.pending.push_back({false, draw(4) == 0, op.message});
        persistent_.insert(op.kind == Kind::kStart ? op.message : SIZE_MAX);
        return;
      case Kind::kReceive:
        block(rank, {Blocked::Until::kReceived, "MPI_Recv", now, 0, post(r, op, now)});
        return;
      case Kind::kIreceive:
        rows(r, op.comm).post("MPI_Irecv", op.source == kAny ? -1 : comm_rank(op.comm, op.source), op.tag, now, -1);
        rank.pending.push_back({true, false, post(r, op, now)});
        receive_comm_[receives_.size() - 1] = {r, op.comm};
        return;
      case Kind::kProbe:
      case Kind::kMprobe:
        receives_.push_back({op.source, op.tag, now, std::nullopt});
        receive_comm_[receives_.size() - 1] = {r, op.comm};
        block(rank, {Blocked::Until::kProbed, op.kind == Kind::kProbe ? "MPI_Probe" : "MPI_Mprobe", now, 0,
                     receives_.size() - 1});
        return;
      case Kind::kExchange: {
        const size_t receive = post(r, op, now);
        send(op.message, now);
        block(rank, {Blocked::Until::kReceived, "MPI_Sendrecv", now, op.message, receive});
        return;
      }
      case Kind::kTest:
        if (!rank.pending.empty() && is_over(rank.pending.front())) {
          const Request request = rank.pending.front();
          rank.pending.erase(rank.pending.begin());
          rows(r, 1).wait(now, now + 1, "MPI_Test");
          complete({request}, now, now + 1, true);
        }
        return;
      case Kind::kWait:
      case Kind::kWaitall:
      case Kind::kWaitany:
        if (rank.pending.empty()) return;
        block(rank, {op.kind == Kind::kWaitany ? Blocked::Until::kOne : Blocked::Until::kAll,
                     op.kind == Kind::kWait      ? "MPI_Wait"
                     : op.kind == Kind::kWaitall ? "MPI_Waitall"
                                                 : "MPI_Waitany",
                     now, 0, 0});
        return;
    }
  }
  static void block(Rank& rank, Blocked blocked) { rank.blocked = std::move(blocked); }

  bool is_over(const Request& request) const {
    if (request.receives) return receives_[request.what].message.has_value();
    return !request.rendezvous || messages[request.what].matched_ns.has_value();
  }

  /// Lets everybody go on whose call has got what it needs.
  void wake(int64_t time) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      if (!rank.blocked) continue;
      const Blocked call = *rank.blocked;
      const int64_t leave = std::max(time, call.enter_ns) + 1;
      switch (call.until) {
        case Blocked::Until::kMessageTaken: {
          const Message& m = messages[call.message];
          if (!m.matched_ns) continue;
          rows(m, false).call(call.op, peer(m, false), m.tag, call.enter_ns, leave);
          settle({{call.message, false}}, call.enter_ns, leave, false);
          break;
        }
        case Blocked::Until::kReceived: {
          if (!receives_[call.receive].message) continue;
          const size_t message = *receives_[call.receive].message;
          const Message& m = messages[message];
          if (call.op == "MPI_Sendrecv") {
            const Message& sent = messages[call.message];
            rows(sent, false).exchange(peer(sent, false), sent.tag, peer(m, true), m.tag, call.enter_ns, leave);
            settle({{call.message, false}, {message, true}}, call.enter_ns, leave, false);
          } else {
            rows(m, true).call(call.op, peer(m, true), m.tag, call.enter_ns, leave);
            settle({{message, true}}, call.enter_ns, leave, false);
          }
          break;
        }
        case Blocked::Until::kProbed: {
          const int comm = receive_comm_[call.receive].second;
          const bool takes = call.op == "MPI_Mprobe";
          const auto message = first_unexpected(static_cast<int>(r), comm, receives_[call.receive], takes);
          if (!message) continue;
          const Message& m = messages[*message];
          rows(m, true).call(call.op, peer(m, true), m.tag, call.enter_ns, leave);
          if (takes) {
            take(call.receive, *message, time);
            settle({{*message, true}}, call.enter_ns, leave, false);
          } else {
            probes_.push_back({*message, call.enter_ns, leave});
            rank.program.push_front({Kind::kReceive, 0, comm, m.from, m.tag});
          }
          break;
        }
        case Blocked::Until::kAll:
        case Blocked::Until::kOne: {
          std::vector<Request> over;
          const bool one = call.until == Blocked::Until::kOne;
          const size_t wanted = call.op == "MPI_Wait" ? 1 : rank.pending.size();
          for (size_t i = 0; i < wanted; ++i) {
            if (is_over(rank.pending[i]) && (!one || over.empty())) over.push_back(rank.pending[i]);
          }
          if (over.size() < (one ? 1 : wanted)) continue;
          std::erase_if(rank.pending, [&](const Request& p) {
            return std::any_of(over.begin(), over.end(),
                               [&](const Request& o) { return o.what == p.what && o.receives == p.receives; });
          });
          rows(static_cast<int>(r), 1).wait(call.enter_ns, leave, call.op);
          complete(over, call.enter_ns, leave, false);
          break;
        }
      }
      rank.now = leave + 1 + draw(5);
      rank.blocked.reset();
    }
  }

  /// Writes the requests that a call completed and settles their waiting.
  void complete(const std::vector<Request>& requests, int64_t enter_ns, int64_t leave_ns, bool tests) {
    std::vector<std::pair<size_t, bool>> halves;
    for (const Request& request : requests) {
      const size_t message = request.receives ? *receives_[request.what].message : request.what;
      const Message& m = messages[message];
      const int64_t post_ns = request.receives ? m.receive.post_ns : m.send.post_ns;
      const char* op = request.receives ? "MPI_Irecv" : persistent_.contains(message) ? "MPI_Send_init" : "MPI_Isend";
      rows(m, request.receives).started(op, peer(m, request.receives), m.tag, post_ns, leave_ns);
      halves.emplace_back(message, request.receives);
    }
    settle(halves, enter_ns, leave_ns, tests);
  }

  // --------------------------------------------------------------------------------------------------------- the truth

  struct Settled {
    std::vector<std::pair<size_t, bool>> halves;
    int64_t enter_ns, leave_ns;
    bool tests;
  };
  struct Probe {
    size_t message;
    int64_t enter_ns, leave_ns;
  };
  void settle(std::vector<std::pair<size_t, bool>> halves, int64_t enter_ns, int64_t leave_ns, bool tests) {
    for (const auto& [message, receives] : halves)
      (receives ? messages[message].receive : messages[message].send).wait_ns.reset();
    calls_.push_back({std::move(halves), enter_ns, leave_ns, tests});
  }

 public:
  /// Works out W5 and W6 for every call that was left, from what was delivered.
  void work_out_the_waiting() {
    for (const Probe& s : sends_) calls_.push_back({{{s.message, false}}, s.enter_ns, s.leave_ns, false});
    for (const Settled& call : calls_) {
      int64_t late_sender = 0, late_receiver = 0;
      size_t sender_of = SIZE_MAX, receiver_of = SIZE_MAX;
      for (const auto& [message, receives] : call.halves) {
        Message& m = messages[message];
        (receives ? m.receive : m.send).wait_ns = 0;
        if (call.tests) continue;
        const int64_t sent = m.send.post_ns, received = m.receive.post_ns;
        if (receives && std::min(sent, call.leave_ns) - call.enter_ns > late_sender) {
          late_sender = std::min(sent, call.leave_ns) - call.enter_ns;
          sender_of = message;
        }
        if (!receives && m.matched_ns && call.leave_ns > received && received - call.enter_ns > late_receiver) {
          late_receiver = received - call.enter_ns;
          receiver_of = message;
        }
      }
      if (sender_of != SIZE_MAX && late_sender >= late_receiver) {
        messages[sender_of].receive.wait_ns = late_sender;
      } else if (receiver_of != SIZE_MAX) {
        messages[receiver_of].send.wait_ns = late_receiver;
      }
    }
    for (const Probe& probe : probes_) {
      Message& m = messages[probe.message];
      if (!m.receive.wait_ns) continue;
      *m.receive.wait_ns += std::max<int64_t>(0, std::min(m.send.post_ns, probe.leave_ns) - probe.enter_ns);
    }
  }

 private:
  std::mt19937 random_;
  Tables& run_;
  std::vector<Rank> ranks_;
  int reversed_ = 2, between_ = 3;
  std::vector<int64_t> even_, odd_;  ///< groups of the intercommunicator `between_`
  std::vector<Receive> receives_;
  std::map<size_t, std::pair<int, int>> receive_comm_;
  std::multimap<int64_t, size_t> arrivals_;
  std::map<std::pair<int, int>, int64_t> last_arrival_;
  std::set<size_t> persistent_;
  std::vector<Probe> sends_, probes_;
  std::vector<Settled> calls_;
};

using Key = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // source, posted, destination, posted
using Waits = std::pair<std::optional<int64_t>, std::optional<int64_t>>;

std::map<Key, Waits> truth_of(const Job& job) {
  std::map<Key, Waits> truth;
  for (const Message& m : job.messages) {
    if (m.matched_ns) truth[{m.from, m.send.post_ns, m.to, m.receive.post_ns}] = {m.receive.wait_ns, m.send.wait_ns};
  }
  return truth;
}

std::map<Key, Waits> found_in(Tables& run) {
  std::map<Key, Waits> found;
  SQLite::Statement rows(
      run.db(),
      "SELECT source, send_ns, destination, receive_ns, late_sender_wait_ns, late_receiver_wait_ns FROM v_message"
      " WHERE send IS NOT NULL AND receive IS NOT NULL");
  const auto maybe = [&](int column) {
    return rows.isColumnNull(column) ? std::nullopt : std::optional(rows.getColumn(column).getInt64());
  };
  while (rows.executeStep()) {
    found[{rows.getColumn(0).getInt64(), rows.getColumn(1).getInt64(), rows.getColumn(2).getInt64(),
           rows.getColumn(3).getInt64()}] = {maybe(4), maybe(5)};
  }
  return found;
}

/// Nothing but the truth.
void expect_true(const std::map<Key, Waits>& found, const std::map<Key, Waits>& truth, uint32_t seed) {
  for (const auto& [key, waits] : found) {
    const auto known = truth.find(key);
    ASSERT_NE(known, truth.end()) << "seed " << seed << ": " << std::get<0>(key) << " at " << std::get<1>(key) << " -> "
                                  << std::get<2>(key) << " at " << std::get<3>(key);
    if (waits.first) {
      EXPECT_EQ(waits.first, known->second.first) << "seed " << seed;
    }
    if (waits.second) {
      EXPECT_EQ(waits.second, known->second.second) << "seed " << seed;
    }
  }
}

TEST(RandomMessages, AreDeliveredAndWaitedForAsTheRecordsSay) {
  int finished = 0;
  int waiting = 0;
  const int cases = fuzz_cases(100);
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(cases); ++seed) {
    Tables run(2 + seed % 3);
    run.exec("BEGIN");
    Job job(seed, run);
    const bool complete = job.play();
    if (!complete) run.exec("UPDATE process SET ended = 'lost'");
    job.work_out_the_waiting();
    const std::map<Key, Waits> truth = truth_of(job);
    run.exec("COMMIT");
    run.analyze();
    const std::map<Key, Waits> found = found_in(run);
    expect_true(found, truth, seed);
    if (complete) {
      ++finished;
      EXPECT_EQ(found.size(), truth.size()) << "seed " << seed;
      for (const auto& [key, waits] : found) {
        EXPECT_TRUE(waits.first && waits.second) << "seed " << seed;
        waiting += waits.first.value_or(0) > 0 || waits.second.value_or(0) > 0 ? 1 : 0;
      }
      EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0) << "seed " << seed;
    }
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(finished, cases / 5);  // the others hang for good, as random programs do
  EXPECT_GT(waiting, cases / 2);
}

TEST(RandomMessages, NoneIsMadeUpWhereEventsAreMissing) {
  const auto cases = static_cast<uint32_t>(fuzz_cases(40));
  for (uint32_t seed = 1; seed <= cases; ++seed) {
    Tables run(2 + seed % 3);
    run.exec("BEGIN");
    Job job(seed, run);
    job.play();
    job.work_out_the_waiting();
    run.exec("DELETE FROM event WHERE process = 2 AND (id * 7919 + " + std::to_string(seed) +
             ") % 5 = 0; UPDATE process SET keep_level = 1 WHERE id = 2");
    run.exec("UPDATE process SET ended = 'lost'");
    run.exec("COMMIT");
    run.analyze();
    const std::map<Key, Waits> found = found_in(run);
    expect_true(found, truth_of(job), seed);
    for (const auto& [key, waits] : found)
      EXPECT_TRUE(std::get<0>(key) != 1 && std::get<2>(key) != 1) << "seed " << seed;
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace ddl::test
