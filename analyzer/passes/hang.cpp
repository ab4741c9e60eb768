// Who keeps whom from going on in a job whose flight recorders were dumped (docs/decisions/0027-who-hangs.md).
//
// A rank waits in its oldest open operation of each process group. Such a call waits for members that never enqueued
// it; for members that enqueued another operation in its place; else, where it is the first thing that a rank sits in,
// for members that enqueued it behind something that they sit in themselves, and for members without a dump. A call
// that some member completed waits for nobody: the others did come. Ranks and calls are a graph; what everybody waits
// for and waits for nobody is a first cause.
#include "analyzer/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/passes/hang_graph.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr size_t kMostFaults = 16;
constexpr int64_t kUnnumbered = -1;         // of a collective that RAS tells of without its number
constexpr int64_t kLongNs = 1'000'000'000;  // that long behind, and the dumps did not merely catch a rank on its way

struct OpenEntry {
  int64_t id, rank, record, comm;
  std::optional<int64_t> seq, p2p_seq, peer, created_ns;
  std::string op, state;
  bool is_message;
};

enum class Part { kIn, kMissing, kOther, kBehind, kLeft, kNoDump };
constexpr const char* kPartNames[] = {"in", "missing", "other", "behind", "left", "no dump"};

struct GroupMember {
  Part part = Part::kMissing;
  std::string said;
};

struct Call {
  int64_t comm = 0;
  std::optional<int64_t> seq;
  std::string op;
  std::optional<int64_t> since_ns;
  std::map<int64_t, GroupMember> members;  // by rank
  std::vector<int64_t> waits_for;          // ranks
  const char* why = "nothing";
  bool mismatched = false, is_message = false;
  size_t firsts = 0;            // ranks that sit in it before anything else
  std::vector<size_t> entries;  // into open_
  int64_t depth = 0, fault = 0;

  size_t count(Part part) const {
    return static_cast<size_t>(
        std::count_if(members.begin(), members.end(), [&](const auto& m) { return m.second.part == part; }));
  }
};

struct Fault {
  std::string kind;
  size_t call = 0;
  std::vector<int64_t> ranks;
  int64_t waiting = 0;
  bool sure = false;
};

// Messages between two ranks of a group, in one direction: those that either of them enqueued.
struct Message {
  int64_t id, record;
  std::optional<int64_t> p2p_seq;
  bool open;
  std::optional<int64_t> created_ns;
  std::string elements, types;
};
struct Connection {
  std::vector<Message> sends, receives;
};
using ConnectionKey = std::tuple<int64_t, int64_t, int64_t>;  // group, source, destination

class HangOfWorld {
 public:
  HangOfWorld(SQLite::Database& db, const Catalog& catalog, int64_t world)
      : db_(db), catalog_(catalog), world_(world) {}

  void run() {
    load_entries();
    load_connections();
    for (size_t i = 0; i < open_.size(); ++i) place(i);
    for (Call& call : calls_) settle(call);
    find_faults();
    measure_depths();
    store();
  }

 private:
  bool has_dump(int64_t rank) const { return catalog_.process_of(world_, rank) != nullptr; }

  // ---------------------------------------------------------------------------------------------- what is known

  /// The rank of a process of the world.
  std::optional<int64_t> rank_of(int64_t process) const {
    const auto known = catalog_.processes.find(process);
    return known != catalog_.processes.end() && known->second.world == world_ ? std::optional(known->second.rank)
                                                                              : std::nullopt;
  }

  /// Who got how far, and the oldest open operation of each rank on each group, of messages on each connection. One
  /// pass in the order of the table.
  void load_entries() {
    struct Records {
      int64_t least = INT64_MAX, most = -1, count = 0;
    };
    std::map<int64_t, Records> records;
    std::map<int64_t, int64_t> most;
    std::set<std::tuple<int64_t, int64_t, int64_t>> seen;  // rank, group, and of messages peer and direction
    std::vector<OpenEntry> open;
    Query rows(
        db_,
        "SELECT id, process, record, comm, seq, p2p_seq, peer, created_ns, completed_ns, op, state, is_message, open FROM flight_entry"
        " ORDER BY id");
    while (rows.next()) {
      const std::optional<int64_t> rank = rank_of(rows.integer(1));
      if (!rank) continue;
      const int64_t comm = rows.integer(3);
      const std::optional<int64_t> seq = rows.maybe_integer(4);
      const bool is_message = rows.integer(11) != 0;
      int64_t& reached = reached_[{comm, *rank}];
      reached = std::max(reached, seq.value_or(0));
      most[comm] = std::max(most[comm], seq.value_or(0));
      if (is_message && !seq) uncounted_.insert(comm);  // version 1 counts messages and collectives together
      Records& r = records[*rank];
      r.least = std::min(r.least, rows.integer(2));
      r.most = std::max(r.most, rows.integer(2));
      ++r.count;
      last_entry_[*rank] = rows.integer(0);
      latest_ns_ = std::max({latest_ns_, rows.maybe_integer(7).value_or(0), rows.maybe_integer(8).value_or(0)});
      if (rows.integer(12) == 0) continue;
      OpenEntry e{rows.integer(0),
                  *rank,
                  rows.integer(2),
                  comm,
                  seq,
                  rows.maybe_integer(5),
                  rows.maybe_integer(6),
                  rows.maybe_integer(7),
                  rows.text(9),
                  rows.text(10),
                  is_message};
      if (!is_message && !seq && e.state == "launched") e.seq = kUnnumbered;
      if (is_message ? !e.peer : !e.seq) continue;
      const int64_t connection = is_message ? 2 * *e.peer + (e.op == "send" ? 1 : 0) : -1;
      if (seen.insert({*rank, comm, connection}).second) open.push_back(std::move(e));
    }
    for (const auto& [rank, r] : records)
      if (r.least == 0 && r.most == r.count - 1) whole_.insert(rank);
    for (OpenEntry& e : open) {
      if (!e.is_message && uncounted_.contains(e.comm)) continue;
      if (!e.is_message) first_open_.try_emplace({e.comm, e.rank}, *e.seq);
      first_of_.try_emplace(e.rank, open_.size());
      open_.push_back(std::move(e));
    }
    Query status(db_, "SELECT comm, process, enqueued FROM flight_status WHERE enqueued IS NOT NULL");
    while (status.next()) {
      // A larger number is that of a message.
      const std::optional<int64_t> rank = rank_of(status.integer(1));
      const int64_t comm = status.integer(0), enqueued = status.integer(2);
      if (!rank || enqueued > most[comm]) continue;
      int64_t& reached = reached_[{comm, *rank}];
      reached = std::max(reached, enqueued);
    }
  }

  static ConnectionKey connection_of(int64_t comm, int64_t rank, int64_t peer, bool sends) {
    return sends ? ConnectionKey{comm, rank, peer} : ConnectionKey{comm, peer, rank};
  }

  void load_connections() {
    for (const OpenEntry& e : open_)
      if (e.is_message) connections_[connection_of(e.comm, e.rank, *e.peer, e.op == "send")];
    if (connections_.empty()) return;
    Query rows(
        db_,
        "SELECT comm, process, peer, op, id, record, p2p_seq, open, created_ns, input_elements, output_elements, input_types, output_types"
        " FROM flight_entry WHERE is_message AND peer IS NOT NULL ORDER BY id");
    while (rows.next()) {
      const std::optional<int64_t> rank = rank_of(rows.integer(1));
      if (!rank) continue;
      const bool sends = rows.text(3) == "send";
      const auto found = connections_.find(connection_of(rows.integer(0), *rank, rows.integer(2), sends));
      if (found == connections_.end()) continue;
      (sends ? found->second.sends : found->second.receives)
          .push_back({rows.integer(4), rows.integer(5), rows.maybe_integer(6), rows.integer(7) != 0,
                      rows.maybe_integer(8), rows.text(sends ? 9 : 10), rows.text(sends ? 11 : 12)});
    }
  }

  // ---------------------------------------------------------------------------------------------- calls

  void place(size_t index) {
    const OpenEntry& e = open_[index];
    const auto key = e.is_message ? std::make_tuple(e.comm, int64_t{-1}, message_call(e))
                                  : std::make_tuple(e.comm, *e.seq, int64_t{0});
    const auto [entry, is_new] = call_numbers_.try_emplace(key, calls_.size());
    if (is_new) {
      Call call;
      call.comm = e.comm;
      call.seq = e.is_message ? e.p2p_seq : e.seq;
      if (!e.is_message && *e.seq == kUnnumbered) call.seq = std::nullopt;
      call.op = e.op;
      call.is_message = e.is_message;
      calls_.push_back(std::move(call));
    }
    Call& call = calls_[entry->second];
    if (e.created_ns) call.since_ns = std::min(call.since_ns.value_or(*e.created_ns), *e.created_ns);
    call.entries.push_back(index);
    if (is_new) call.members[e.rank].part = Part::kIn;
    if (e.is_message && !is_new) call.op = "message";
    const OpenEntry& first = open_[first_of_[e.rank]];
    const bool batched =
        e.is_message && first.is_message && e.comm == first.comm && e.p2p_seq && e.p2p_seq == first.p2p_seq;
    if (first.id == e.id) sits_[e.rank] = entry->second;
    if ((first.id == e.id || batched) && firsts_.emplace(e.rank, entry->second).second) ++call.firsts;
    if (!is_new) return;
    if (e.is_message) {
      add_message_members(e, call);
    } else {
      add_members(call);
    }
  }

  /// Members by how far they got; what they said is read where it may differ.
  void add_members(Call& call) {
    const auto communicator = catalog_.communicators.find(call.comm);
    if (communicator == catalog_.communicators.end()) return;
    const int64_t number = call.seq.value_or(kUnnumbered);
    for (const int64_t rank : communicator->second.ranks) {
      GroupMember& member = call.members[rank];
      if (member.part == Part::kIn) continue;
      if (!has_dump(rank)) {
        member.part = Part::kNoDump;
        continue;
      }
      const auto reached = reached_.find({call.comm, rank});
      const auto open = first_open_.find({call.comm, rank});
      if (reached == reached_.end() || reached->second < number) {
        member.part = Part::kMissing;
      } else if (open == first_open_.end() || open->second > number) {
        member.part = Part::kLeft;
      } else {
        member.part = open->second == number ? Part::kIn : Part::kBehind;
      }
    }
    if (call.seq) compare(call);
  }

  /// What must be the same of all members. Shapes may differ where their elements do not.
  static std::string signature(std::string_view op, const std::string& in, const std::string& out,
                               const std::string& in_types, const std::string& out_types) {
    struct Rule {
      std::string_view op;
      bool inputs, outputs;
    };
    static constexpr Rule kRules[] = {{"all_reduce", true, true},       {"broadcast", true, true},
                                      {"_all_gather_base", true, true}, {"_reduce_scatter_base", true, true},
                                      {"all_gather", false, true},      {"reduce_scatter", true, false},
                                      {"reduce", true, false},          {"gather", true, false},
                                      {"scatter", false, true}};
    const auto rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) { return r.op == op; });
    const bool inputs = rule != std::end(kRules) && rule->inputs, outputs = rule != std::end(kRules) && rule->outputs;
    const bool uneven = op.starts_with("all_to_all");
    return fmt::format("{}|{}|{}|{}|{}", op, inputs ? in : "", outputs ? out : "", inputs || uneven ? in_types : "",
                       outputs || uneven ? out_types : "");
  }

  void compare(Call& call) {
    Query rows(
        db_,
        "SELECT process, op, input_elements, output_elements, input_types, output_types, input_sizes, output_sizes FROM flight_entry"
        " WHERE comm = ? AND seq = ? AND NOT is_message ORDER BY id");
    rows.bind(call.comm, *call.seq);
    std::map<int64_t, std::vector<std::string>> signatures;
    std::map<int64_t, std::string> said;
    while (rows.next()) {
      const std::optional<int64_t> known = rank_of(rows.integer(0));
      if (!known) continue;
      const int64_t rank = *known;
      const std::string op = rows.text(1);
      if (op == "coalesced" && signatures.contains(rank)) continue;  // behind what it holds
      signatures[rank].push_back(signature(op, rows.text(2), rows.text(3), rows.text(4), rows.text(5)));
      if (signatures[rank].size() > 8) continue;
      said[rank] +=
          fmt::format("{}{} {} -> {} {}", said[rank].empty() ? "" : "; ", op, rows.text(6), rows.text(7), rows.text(4));
    }
    std::map<std::vector<std::string>, std::vector<int64_t>> by_signature;
    for (auto& [rank, list] : signatures) by_signature[std::move(list)].push_back(rank);
    if (by_signature.size() < 2) return;
    call.mismatched = true;
    size_t most = 0, holders = 0;
    for (const auto& [list, ranks] : by_signature) {
      if (ranks.size() > most) most = ranks.size(), holders = 0;
      if (ranks.size() == most) ++holders;
    }
    for (const auto& [list, ranks] : by_signature) {
      for (const int64_t rank : ranks) {
        GroupMember& member = call.members[rank];
        member.said = said[rank];
        if (holders == 1 && ranks.size() < most) member.part = Part::kOther;
        if (holders == 1 && ranks.size() == most) call.op = list.front().substr(0, list.front().find('|'));
      }
    }
  }

  struct Matched {
    const Message* mine = nullptr;
    const Message* other = nullptr;
    bool passed = false;  // the other one is done with it, and its record is gone
  };

  /// The other end of an open message: by the order of all messages where both ranks' records begin with their first
  /// one, by the numbers in groups of two, whose ends count alike, else by the order of what is open.
  Matched match(const OpenEntry& e) const {
    const Connection& c = connections_.at(connection_of(e.comm, e.rank, *e.peer, e.op == "send"));
    const std::vector<Message>& mine = e.op == "send" ? c.sends : c.receives;
    const std::vector<Message>& others = e.op == "send" ? c.receives : c.sends;
    Matched result;
    result.mine = &*std::find_if(mine.begin(), mine.end(), [&](const Message& m) { return m.id == e.id; });
    const auto group = catalog_.communicators.find(e.comm);
    const bool pair = group != catalog_.communicators.end() && group->second.size == 2;
    const auto numbered = std::find_if(others.begin(), others.end(),
                                       [&](const Message& m) { return m.p2p_seq && m.p2p_seq == e.p2p_seq; });
    if (whole_.contains(e.rank) && whole_.contains(*e.peer)) {
      const auto place = static_cast<size_t>(result.mine - mine.data());
      if (place < others.size()) result.other = &others[place];
    } else if (pair && numbered != others.end()) {
      result.other = &*numbered;
    } else if (pair && e.p2p_seq && !others.empty() && others.front().p2p_seq) {
      result.passed = *others.front().p2p_seq > *e.p2p_seq;
    } else {
      // Everything before the oldest open one is done, on either side.
      const auto open = std::find_if(others.begin(), others.end(), [](const Message& m) { return m.open; });
      if (open != others.end()) {
        result.other = &*open;
      } else if (!others.empty() && result.mine != mine.data() && e.created_ns) {
        // The other end is done with all of its own. Its newest was for this one if it is nearer to it in time than
        // to the one before.
        const std::optional<int64_t> newest = others.back().created_ns, before = (result.mine - 1)->created_ns;
        result.passed = newest && before && std::abs(*newest - *e.created_ns) < std::abs(*newest - *before);
      }
    }
    return result;
  }

  int64_t message_call(const OpenEntry& e) const {
    const Matched matched = match(e);
    return matched.other != nullptr ? std::max(matched.mine->id, matched.other->id) : matched.mine->id;
  }

  void add_message_members(const OpenEntry& e, Call& call) {
    const Matched matched = match(e);
    GroupMember& other = call.members[*e.peer];
    if (other.part == Part::kIn) return;
    if (!has_dump(*e.peer)) {
      other.part = Part::kNoDump;
    } else if (matched.passed || (matched.other != nullptr && !matched.other->open)) {
      other.part = Part::kLeft;
    } else if (matched.other == nullptr) {
      other.part = Part::kMissing;
    } else {
      const Connection& c = connections_.at(connection_of(e.comm, e.rank, *e.peer, e.op == "send"));
      const std::vector<Message>& others = e.op == "send" ? c.receives : c.sends;
      const auto oldest = std::find_if(others.begin(), others.end(), [](const Message& m) { return m.open; });
      other.part = oldest->id == matched.other->id ? Part::kIn : Part::kBehind;
      if (matched.mine->elements != matched.other->elements || matched.mine->types != matched.other->types) {
        call.mismatched = true;
        call.members[e.rank].said =
            fmt::format("{} of {} elements {}", e.op, matched.mine->elements, matched.mine->types);
        other.said = fmt::format("{} of {} elements {}", e.op == "send" ? "recv" : "send", matched.other->elements,
                                 matched.other->types);
      }
    }
  }

  // ---------------------------------------------------------------------------------------------- who waits for whom

  bool is_first_in(int64_t rank, const Call& call) const {
    return firsts_.contains({rank, static_cast<size_t>(&call - calls_.data())});
  }

  std::vector<int64_t> ranks_of(const Call& call, Part part) const {
    std::vector<int64_t> ranks;
    for (const auto& [rank, member] : call.members)
      if (member.part == part) ranks.push_back(rank);
    return ranks;
  }

  /// Ranks may leave it before all have come.
  static bool is_rooted(std::string_view op) {
    return op.find("broadcast") != std::string_view::npos || op == "reduce" || op == "gather" || op == "scatter" ||
           op == "send";
  }

  void settle(Call& call) {
    if (call.mismatched) {
      call.why = "mismatch";
      call.waits_for = ranks_of(call, Part::kOther);
      return;
    }
    if (call.count(Part::kLeft) > 0 && (call.count(Part::kMissing) == 0 || !is_rooted(call.op))) {
      call.why = "left";
      return;
    }
    if (call.count(Part::kMissing) > 0) {
      call.why = "missing";
      call.waits_for = ranks_of(call, Part::kMissing);
      return;
    }
    for (auto& [rank, member] : call.members)
      if (member.part == Part::kIn && !is_first_in(rank, call)) member.part = Part::kBehind;
    if (call.count(Part::kBehind) > 0 && call.firsts > 0) {
      call.why = "behind";
      call.waits_for = ranks_of(call, Part::kBehind);
    } else if (call.count(Part::kNoDump) > 0 && call.firsts > 0) {
      call.why = "no dump";
      call.waits_for = ranks_of(call, Part::kNoDump);
    } else if (call.firsts > 0) {
      find_unstarted(call);
    }
  }

  /// All enqueued it. Where events are timed, those whose GPU has not begun with it are what the others wait for.
  void find_unstarted(Call& call) {
    std::vector<int64_t> started, scheduled;
    for (const size_t index : call.entries)
      (open_[index].state == "started" ? started : scheduled).push_back(open_[index].rank);
    if (started.empty() || scheduled.empty() || scheduled.size() > started.size()) return;
    call.why = "behind";
    std::sort(scheduled.begin(), scheduled.end());
    for (const int64_t rank : scheduled) {
      call.members[rank].part = Part::kBehind;
      unstarted_.emplace(rank, static_cast<size_t>(&call - calls_.data()));
    }
    call.waits_for = std::move(scheduled);
  }

  /// Ranks and calls as nodes: ranks first, in their order; then calls.
  void find_faults() {
    std::set<int64_t> all;
    for (const auto& [key, id] : catalog_.process_ids)
      if (key.first == world_ && key.second >= 0) all.insert(key.second);
    for (const Call& call : calls_)
      for (const auto& [rank, member] : call.members) all.insert(rank);
    ranks_.assign(all.begin(), all.end());
    std::map<int64_t, size_t> node;
    for (size_t i = 0; i < ranks_.size(); ++i) node[ranks_[i]] = i;
    WaitGraph graph(ranks_.size() + calls_.size());
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Call& call = calls_[i];
      const std::string_view why = call.why;
      for (const size_t index : call.entries) {
        const int64_t rank = open_[index].rank;
        if (why == "left" || call.members.at(rank).part == Part::kOther || unstarted_.contains({rank, i})) continue;
        if (why == "missing" || why == "mismatch" || is_first_in(rank, call)) graph.wait(node[rank], ranks_.size() + i);
      }
      for (const int64_t rank : call.waits_for) graph.wait(ranks_.size() + i, node[rank]);
    }

    awaited_by_.assign(graph.next.size(), {});
    for (size_t from = 0; from < graph.next.size(); ++from)
      for (const size_t to : graph.next[from]) awaited_by_[to].push_back(from);

    std::set<int64_t> causes;
    for (const std::vector<size_t>& sink : graph.sinks()) {
      if (sink.size() == 1 && sink.front() < ranks_.size()) {
        causes.insert(ranks_[sink.front()]);
      } else if (sink.size() == 1) {
        add_stuck(sink.front() - ranks_.size());
      } else {
        add_circle(sink);
      }
    }
    add_causes(std::move(causes));
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Call& call = calls_[i];
      const bool known = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& f) {
        return f.kind == "mismatch" && calls_[f.call].comm == call.comm &&
               calls_[f.call].seq.value_or(0) <= call.seq.value_or(0);
      });
      if (call.mismatched && !known && faults_.size() < kMostFaults && call.count(Part::kLeft) < call.members.size())
        add_mismatch(i);
    }
    for (Fault& fault : faults_) fault.waiting = waiting_for(fault);
    std::stable_sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) {
      const bool stuck_a = a.kind == "stuck", stuck_b = b.kind == "stuck";
      return stuck_a != stuck_b ? stuck_b : a.waiting > b.waiting;
    });
  }

  /// Ranks that wait for nobody, by the call in which most of them are missing.
  void add_causes(std::set<int64_t> causes) {
    while (!causes.empty() && faults_.size() < kMostFaults) {
      size_t best = calls_.size();
      std::tuple<int64_t, bool, bool, int64_t> best_rank;  // the oldest collective that somebody sits in tells most
      for (size_t i = 0; i < calls_.size(); ++i) {
        const auto missing = std::count_if(calls_[i].waits_for.begin(), calls_[i].waits_for.end(),
                                           [&](int64_t r) { return causes.contains(r); });
        const std::tuple<int64_t, bool, bool, int64_t> score{missing, !calls_[i].is_message, calls_[i].firsts > 0,
                                                             -calls_[i].since_ns.value_or(0)};
        if (missing > 0 && (best == calls_.size() || score > best_rank)) best = i, best_rank = score;
      }
      if (best == calls_.size()) return;
      Call& call = calls_[best];
      Fault fault;
      fault.call = best;
      for (const int64_t rank : call.waits_for)
        if (causes.erase(rank) > 0) fault.ranks.push_back(rank);
      fault.kind = call.why;
      const size_t in = call.count(Part::kIn);
      if (fault.kind == "missing" && in * 2 < call.members.size() && fault.ranks.size() > in &&
          std::all_of(fault.ranks.begin(), fault.ranks.end(), [&](int64_t r) { return !sits_.contains(r); })) {
        fault.kind = "ahead";
        fault.ranks = ranks_of(call, Part::kIn);
      }
      fault.sure = fault.kind == "mismatch" || (fault.kind == "missing" && far_behind(fault, call));
      faults_.push_back(std::move(fault));
    }
  }

  /// In more than one call, by more than one number, or for long: no healthy job looks like that in the
  /// moment of a dump.
  bool far_behind(const Fault& fault, const Call& call) const {
    if (!call.since_ns) return false;  // of RAS: in a job that goes on counts differ all the time
    if (latest_ns_ - *call.since_ns > kLongNs) return true;
    const int64_t rank = fault.ranks.front();
    const auto calls = std::count_if(calls_.begin(), calls_.end(), [&](const Call& c) {
      const auto member = c.members.find(rank);
      return member != c.members.end() && member->second.part == Part::kMissing;
    });
    return calls > 1;
  }

  void add_mismatch(size_t number) {
    Fault fault;
    fault.kind = "mismatch";
    fault.call = number;
    fault.ranks = ranks_of(calls_[number], Part::kOther);
    fault.sure = true;
    faults_.push_back(std::move(fault));
  }

  void add_stuck(size_t number) {
    const Call& call = calls_[number];
    if (call.mismatched) return add_mismatch(number);
    Fault fault;
    fault.kind = "stuck";
    fault.call = number;
    // A rank that stopped enqueuing on the group before all the others, who got equally far.
    std::map<int64_t, std::vector<int64_t>> by_reached;
    for (const auto& [rank, member] : call.members)
      if (const auto reached = reached_.find({call.comm, rank}); reached != reached_.end())
        by_reached[reached->second].push_back(rank);
    if (!call.is_message && by_reached.size() == 2) {
      const auto& [least, behind] = *by_reached.begin();
      const auto& [most, ahead] = *by_reached.rbegin();
      if (behind.size() < ahead.size() && most - least >= 2) fault.ranks = behind;
    }
    faults_.push_back(std::move(fault));
  }

  void add_circle(const std::vector<size_t>& sink) {
    Fault fault;
    fault.kind = "circle";
    fault.call = calls_.size();
    for (const size_t node : sink) {
      if (node < ranks_.size()) {
        fault.ranks.push_back(ranks_[node]);
        continue;
      }
      const size_t number = node - ranks_.size();
      if (calls_[number].mismatched) return add_mismatch(number);
      if (fault.call == calls_.size() || calls_[number].firsts > calls_[fault.call].firsts) fault.call = number;
    }
    // Messages on different connections do not wait for each other.
    if (fault.call == calls_.size()) return;
    fault.sure = !calls_[fault.call].is_message;
    faults_.push_back(std::move(fault));
  }

  /// Ranks that cannot go on before the fault is mended.
  int64_t waiting_for(const Fault& fault) const {
    std::vector<char> seen(awaited_by_.size());
    std::vector<size_t> open;
    const auto visit = [&](size_t n) {
      if (!seen[n]) seen[n] = 1, open.push_back(n);
    };
    if (fault.kind == "stuck" || fault.kind == "ahead" || fault.ranks.empty()) visit(ranks_.size() + fault.call);
    if (fault.kind != "ahead") {
      for (const int64_t rank : fault.ranks)
        visit(static_cast<size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin()));
    }
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const size_t from : awaited_by_[node]) visit(from);
    }
    int64_t count = 0;
    for (size_t i = 0; i < ranks_.size(); ++i) count += seen[i];
    if (fault.kind != "stuck" && fault.kind != "ahead") {
      for (const int64_t rank : fault.ranks)
        count -= seen[static_cast<size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin())];
    }
    return count;
  }

  /// From the causes outwards: ranks, the calls that wait for them, the ranks in those, ...
  void measure_depths() {
    std::deque<size_t> open;
    std::vector<std::pair<int64_t, int64_t>> known(awaited_by_.size());  // depth of calls before it, fault
    std::vector<char> seen(awaited_by_.size());
    const auto visit = [&](size_t n, int64_t depth, int64_t fault) {
      if (seen[n]) return;
      seen[n] = 1;
      known[n] = {depth, fault};
      open.push_back(n);
    };
    for (size_t f = 0; f < faults_.size(); ++f) {
      if (faults_[f].kind != "ahead" && faults_[f].kind != "stuck") {
        for (const int64_t rank : faults_[f].ranks)
          visit(static_cast<size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin()), 0,
                static_cast<int64_t>(f) + 1);
      }
      visit(ranks_.size() + faults_[f].call, 1, static_cast<int64_t>(f) + 1);
    }
    while (!open.empty()) {
      const size_t node = open.front();
      open.pop_front();
      const auto [depth, fault] = known[node];
      for (const size_t from : awaited_by_[node]) visit(from, depth + (from >= ranks_.size() ? 1 : 0), fault);
    }
    for (size_t i = 0; i < calls_.size(); ++i)
      if (seen[ranks_.size() + i]) std::tie(calls_[i].depth, calls_[i].fault) = known[ranks_.size() + i];
  }

  // ---------------------------------------------------------------------------------------------- to the tables

  void store() {
    std::vector<size_t> order;
    for (size_t i = 0; i < calls_.size(); ++i) order.push_back(i);
    const auto place_of = [&](size_t i) {
      const Call& c = calls_[i];
      return std::make_tuple(c.fault == 0 ? INT64_MAX : c.depth, -static_cast<int64_t>(c.firsts),
                             c.since_ns.value_or(INT64_MAX));
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place_of(a) < place_of(b); });
    std::vector<int64_t> number(calls_.size());
    for (size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<int64_t>(i + 1);

    Query call_row(db_, "INSERT INTO hang_call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    Query member_row(db_, "INSERT INTO hang_member VALUES (?, ?, ?, ?, ?)");
    const auto unless_none = [](int64_t value) { return value == 0 ? std::nullopt : std::optional(value); };
    for (const size_t i : order) {
      const Call& call = calls_[i];
      call_row.run(world_, number[i], unless_none(call.depth), unless_none(call.fault), call.comm, call.op, call.seq,
                   call.why, call.since_ns, call.count(Part::kIn) + call.count(Part::kBehind), call.waits_for.size());
      for (const auto& [rank, member] : call.members)
        member_row.run(world_, number[i], rank, kPartNames[static_cast<size_t>(member.part)],
                       member.said.empty() ? std::nullopt : std::optional(member.said));
    }
    std::map<int64_t, int64_t> fault_of;
    Query fault_row(db_, "INSERT INTO hang_fault VALUES (?, ?, ?, ?, ?, ?)");
    for (size_t f = 0; f < faults_.size(); ++f) {
      fault_row.run(world_, static_cast<int64_t>(f + 1), faults_[f].kind, number[faults_[f].call], faults_[f].waiting,
                    faults_[f].sure ? 1 : 0);
      for (const int64_t rank : faults_[f].ranks) fault_of.try_emplace(rank, static_cast<int64_t>(f + 1));
    }
    Query rank_row(db_, "INSERT INTO hang_rank VALUES (?, ?, ?, ?, ?)");
    for (const int64_t rank : ranks_) {
      const auto sits = sits_.find(rank);
      const auto fault = fault_of.find(rank);
      const bool cause = fault != fault_of.end() && faults_[static_cast<size_t>(fault->second - 1)].kind == "missing";
      std::optional<int64_t> entry, call, cause_of;
      if (sits != sits_.end()) call = number[sits->second];
      if (fault != fault_of.end()) cause_of = fault->second;
      if (sits != sits_.end() && !cause) {
        entry = open_[first_of_.at(rank)].id;
      } else if (const auto last = last_entry_.find(rank); last != last_entry_.end()) {
        entry = last->second;
      }
      rank_row.run(world_, rank, call, cause_of, entry);
    }
  }

  SQLite::Database& db_;
  const Catalog& catalog_;
  int64_t world_;
  std::map<std::pair<int64_t, int64_t>, int64_t> reached_, first_open_;  // by group and rank: numbers of collectives
  std::set<int64_t> uncounted_;                                          // groups whose numbers say nothing
  std::map<int64_t, int64_t> last_entry_;                                // by rank
  // ranks whose records begin with their first operation
  std::set<int64_t> whole_;
  int64_t latest_ns_ = 0;
  std::vector<OpenEntry> open_;
  std::map<int64_t, size_t> first_of_, sits_;    // by rank: its oldest open entry, and the call of that
  std::set<std::pair<int64_t, size_t>> firsts_;  // ranks and calls: that, and what was batched with it
  std::map<ConnectionKey, Connection> connections_;
  std::vector<Call> calls_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> call_numbers_;
  std::set<std::pair<int64_t, size_t>> unstarted_;  // ranks and calls that their GPUs did not begin with
  std::vector<int64_t> ranks_;
  std::vector<std::vector<size_t>> awaited_by_;
  std::vector<Fault> faults_;
};

}  // namespace

void find_hangs(SQLite::Database& db, const Catalog& catalog) {
  std::set<int64_t> worlds;
  Query any(
      db,
      "SELECT DISTINCT p.world FROM process p WHERE p.id IN (SELECT process FROM flight_entry UNION SELECT process FROM flight_status)");
  while (any.next()) worlds.insert(any.integer(0));
  for (const int64_t world : worlds) HangOfWorld(db, catalog, world).run();
}

}  // namespace ddl
