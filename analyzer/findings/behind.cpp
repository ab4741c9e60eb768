#include "analyzer/findings/behind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/shared.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

// members leave a collective at about the same time, on a busy machine a little apart
constexpr int64_t kLeavesTogetherNs = 5'000'000;
// of a rank: other threads may have entered some after the one that gave up
constexpr int kLastCalls = 16;

// (communicator, rank) -> collectives entered
using CollectivesEntered = std::map<std::pair<int64_t, int64_t>, int64_t>;

// CROSS JOIN: without it SQLite looks at all rows of a table for each process of the world.
CollectivesEntered collectives_entered(const FindingInput& input, const std::vector<UnfinishedCall>& open) {
  CollectivesEntered entered;
  Query profile(input.db,
                "SELECT f.comm, p.rank, f.op, f.calls FROM profile f JOIN process p ON p.id = f.process"
                " WHERE p.world = ? AND p.rank IS NOT NULL AND f.comm IS NOT NULL");
  profile.bind(input.world);
  while (profile.next()) {
    if (input.catalog.operation(profile.integer(2)).numbered)
      entered[{profile.integer(0), profile.integer(1)}] += profile.integer(3);
  }
  const auto at_least = [&](int64_t comm, int64_t rank, int64_t seq) {
    int64_t& known = entered[{comm, rank}];
    known = std::max(known, seq);
  };
  Query reached(
      input.db,
      "SELECT r.comm, p.rank, r.seq FROM reached r CROSS JOIN process p ON p.id = r.process WHERE p.world = ?");
  reached.bind(input.world);
  while (reached.next()) at_least(reached.integer(0), reached.integer(1), reached.integer(2));
  for (const UnfinishedCall& call : open) {
    if (call.comm && call.seq) at_least(*call.comm, call.rank, *call.seq);
  }
  return entered;
}

/// The non-blocking collective that `rank` uses on the communicator; of several, no name.
std::string posted_operation(const FindingInput& input, int64_t comm, int64_t rank) {
  Query ops(
      input.db,
      "SELECT DISTINCT f.op FROM profile f JOIN process p ON p.id = f.process WHERE p.world = ? AND p.rank = ? AND f.comm = ?");
  ops.bind(input.world, rank, comm);
  std::string name;
  while (ops.next()) {
    const Operation& operation = input.catalog.operation(ops.integer(0));
    if (!operation.numbered || !operation.nonblocking) continue;
    if (!name.empty()) return "collective";
    name = operation.name;
  }
  return name.empty() ? "collective" : name;
}

/// A call of `rank`.
std::string describe_call(const FindingInput& input, int64_t rank, int64_t op, std::optional<int64_t> comm,
                          std::optional<int64_t> seq, std::optional<int64_t> peer) {
  UnfinishedCall call;
  call.rank = rank, call.comm = comm, call.peer = peer;
  const auto known = comm ? input.catalog.communicators.find(*comm) : input.catalog.communicators.end();
  const auto in_world = peer_in_world(input, call);
  return call_words(input.catalog.operation(op), seq, in_world ? in_world : peer,
                    known == input.catalog.communicators.end() ? std::string_view() : known->second.label);
}

/// Who has not entered which collective. Thousands of ranks may ask for the same one, which looks at its
/// thousands of members once.
class MembersBehind {
 public:
  MembersBehind(const FindingInput& input, const std::vector<UnfinishedCall>& open)
      : input_(input), entered_(collectives_entered(input, open)) {}

  /// Members that have not entered collective `seq`; nobody where they are not known, or of two groups. A rank without
  /// a process is one that left no data: nothing can be said about it.
  const std::vector<int64_t>& of(int64_t comm, int64_t seq) {
    const auto [behind, is_new] = behind_.try_emplace({comm, seq});
    const auto communicator = input_.catalog.communicators.find(comm);
    if (!is_new || communicator == input_.catalog.communicators.end() || communicator->second.kind == "inter")
      return behind->second;
    for (const int64_t rank : communicator->second.ranks) {
      const auto progress = entered_.find({comm, rank});
      const bool recorded = rank >= 0 && input_.catalog.process_of(input_.world, rank) != nullptr;
      if (recorded && (progress == entered_.end() || progress->second < seq)) behind->second.push_back(rank);
    }
    return behind->second;
  }

 private:
  const FindingInput& input_;
  CollectivesEntered entered_;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> behind_;
};

/// Its calls are to be compared: the members are known, and of one group.
bool is_comparable(const FindingInput& input, int64_t comm) {
  const auto communicator = input.catalog.communicators.find(comm);
  return communicator != input.catalog.communicators.end() && communicator->second.kind != "inter";
}

std::set<int64_t> background_ranks(const FindingInput& input) {
  std::set<int64_t> ranks;
  Query rows(input.db,
             "SELECT p.rank FROM background_process b CROSS JOIN process p ON p.id = b.process WHERE p.world = ?");
  rows.bind(input.world);
  while (rows.next()) ranks.insert(rows.integer(0));
  return ranks;
}

/// By when a member other than `inside` had left the blocking collective, as far as known; nothing: none has. A
/// non-blocking one's members need not have waited for it before they do other things.
std::optional<int64_t> left_since_ns(const FindingInput& input, const std::vector<UnfinishedCall>& open,
                                     const UnfinishedCall& call, const std::set<int64_t>& inside) {
  const Operation& operation = input.catalog.operation(call.op);
  if (!operation.numbered || operation.nonblocking) return std::nullopt;
  std::optional<int64_t> left_ns;
  const auto by = [&](int64_t rank, int64_t at_ns) {
    if (!inside.contains(rank)) left_ns = std::min(left_ns.value_or(at_ns), at_ns);
  };
  Query ended(input.db,
              "SELECT p.rank, e.start_ns + e.duration_ns FROM event e CROSS JOIN process p ON p.id = e.process"
              " WHERE p.world = ? AND e.comm = ? AND e.seq = ? AND e.kind = 1");
  ended.bind(input.world, *call.comm, *call.seq);
  while (ended.next()) by(ended.integer(0), ended.integer(1));
  for (const UnfinishedCall& other : open) {
    if (other.comm == call.comm && other.seq && *other.seq > *call.seq) by(other.rank, other.start_ns);
  }
  return left_ns;
}

struct LastCall {
  UnfinishedCall call;
  int64_t event = 0;
};

/// The rank's last call, if it may have waited in it for something that never came. A framework's timeout ends such a
/// call as an error, and with it the process: nothing is begun after it.
std::optional<LastCall> long_last_call(const FindingInput& input, const ProcessInfo& process) {
  std::optional<int64_t> last_begin_ns, last_event;
  UnfinishedCall last;
  Query row(
      input.db,
      "SELECT op, comm, seq, step, peer, start_ns, start_ns + duration_ns, id FROM event WHERE process = ? AND kind = 1"
      " ORDER BY start_ns DESC LIMIT ?");
  row.bind(process.id, kLastCalls);
  while (row.next()) {
    last_begin_ns = std::max(last_begin_ns.value_or(INT64_MIN), row.integer(5));
    if (last_event && row.integer(6) <= *last.gave_up_ns) continue;
    last_event = row.integer(7);
    last = {process.rank,         row.integer(0),       row.maybe_integer(1), row.maybe_integer(2),
            row.maybe_integer(3), row.maybe_integer(4), row.integer(5),       row.integer(6)};
  }
  if (!last_event || *last.gave_up_ns - last.start_ns < kHangNs || *last_begin_ns >= *last.gave_up_ns)
    return std::nullopt;
  return LastCall{last, *last_event};
}

/// Those of `events` that are messages whose other end was not recorded. Table message has no index by them.
std::set<int64_t> half_messages(const FindingInput& input, const std::set<int64_t>& events) {
  std::set<int64_t> half;
  if (events.empty()) return half;
  Query rows(input.db, "SELECT coalesce(send, receive) FROM message WHERE send IS NULL OR receive IS NULL");
  while (rows.next())
    if (events.contains(rows.integer(0))) half.insert(rows.integer(0));
  return half;
}

/// The last call of each rank, if it was given up: its message has no other end, or its collective lacks a member.
std::vector<UnfinishedCall> given_up_calls(const FindingInput& input, const std::vector<UnfinishedCall>& open) {
  std::vector<LastCall> calls;
  std::set<int64_t> messages;
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0 || process.ended == "finalized" || process.ended == "imported")
      continue;
    const auto last = long_last_call(input, process);
    if (!last) continue;
    const Operation& operation = input.catalog.operation(last->call.op);
    if (operation.nonblocking) continue;
    if (operation.op_class == OpClass::kSend || operation.op_class == OpClass::kReceive) messages.insert(last->event);
    calls.push_back(*last);
  }
  const std::set<int64_t> half = half_messages(input, messages);
  MembersBehind behind(input, open);
  std::vector<UnfinishedCall> given_up;
  for (const LastCall& last : calls) {
    const UnfinishedCall& call = last.call;
    const Operation& operation = input.catalog.operation(call.op);
    const bool lacks_member = operation.numbered && call.comm && call.seq && !behind.of(*call.comm, *call.seq).empty();
    if (messages.contains(last.event) ? half.contains(last.event) : lacks_member) given_up.push_back(call);
  }
  return given_up;
}

std::vector<UnfinishedCall> look_for_vain_calls(const FindingInput& input) {
  std::vector<UnfinishedCall> calls = open_calls(input);
  if (end_of_world(input).exit_code == 0) return calls;
  const std::vector<UnfinishedCall> given_up = given_up_calls(input, calls);
  calls.insert(calls.begin(), given_up.begin(), given_up.end());
  return calls;
}

/// "; since then it has polled in vain with MPI_Iprobe on MPI_COMM_WORLD (8921 calls), whose sender is not recorded"
std::string polling_text(const FindingInput& input, int64_t rank) {
  const auto polls = polling(input, rank);
  if (!polls) return "";
  const bool probes = input.catalog.operation(polls->op).op_class == OpClass::kProbe;
  return fmt::format("; since then it has polled in vain with {} ({} calls){}",
                     describe_call(input, rank, polls->op, polls->comm, std::nullopt, std::nullopt), polls->calls,
                     probes ? "; for whose message is not recorded" : "");
}

bool is_followed(const FindingInput& input) { return next_world_ns(input).has_value(); }

}  // namespace

/// One that this world spawns begins while it waits for that.
std::optional<int64_t> next_world_ns(const FindingInput& input) {
  Query row(input.db, R"(
    SELECT min(start_ns)
    FROM process
    WHERE world > ?1 AND rank IS NOT NULL AND start_ns >= (SELECT max(end_ns) FROM process WHERE world = ?1) AND NOT EXISTS (
      SELECT 1 FROM open_call x CROSS JOIN process p ON p.id = x.process JOIN op o ON o.id = x.op
      WHERE p.world = ?1 AND o.name LIKE 'MPI!_Comm!_spawn%' ESCAPE '!'))");
  row.bind(input.world);
  return row.next() ? row.maybe_integer(0) : std::nullopt;
}

std::optional<int64_t> seen_stalled_ns(const FindingInput& input) {
  Query row(input.db, R"(
    SELECT max(told_ns)
    FROM stall s
    WHERE world = ? AND resumed_ns IS NULL
      AND EXISTS (SELECT 1 FROM stall_rank r WHERE r.stall = s.id AND r.state IS NOT NULL AND r.state <> 'gone'))");
  row.bind(input.world);
  return row.next() ? row.maybe_integer(0) : std::nullopt;
}

std::optional<int64_t> peer_in_world(const FindingInput& input, const UnfinishedCall& call) {
  if (!call.comm || !call.peer || *call.peer < 0) return std::nullopt;
  const auto known = input.catalog.communicators.find(*call.comm);
  if (known == input.catalog.communicators.end()) return std::nullopt;
  const size_t at = known->second.index_of(call.rank, *call.peer);
  if (at >= known->second.ranks.size() || known->second.ranks[at] < 0) return std::nullopt;
  return known->second.ranks[at];
}

std::string call_text(const FindingInput& input, const UnfinishedCall& call) {
  return describe_call(input, call.rank, call.op, call.comm, call.seq, call.peer);
}

std::optional<Polling> polling(const FindingInput& input, int64_t rank) {
  const ProcessInfo* process = input.catalog.process_of(input.world, rank);
  if (process == nullptr || process->ended != "lost" || process->complete_until_ns != INT64_MAX || process->damaged)
    return std::nullopt;
  for (const UnfinishedCall& call : vain_calls(input))
    if (call.rank == rank) return std::nullopt;
  Query last(input.db, "SELECT max(start_ns + duration_ns) FROM event WHERE process = ?");
  last.bind(process->id);
  if (!last.next() || last.is_null(0) || process->end_ns - last.integer(0) < kHangNs) return std::nullopt;
  Polling most;
  most.since_ns = last.integer(0);
  Query counts(input.db, R"(
    SELECT f.op, f.comm, sum(f.calls) - (
      SELECT count(*) FROM event e WHERE e.process = f.process AND e.op = f.op AND e.comm IS f.comm AND e.kind = 1)
    FROM profile f JOIN op o ON o.id = f.op
    WHERE f.process = ? AND (o.name LIKE 'MPI!_Test%' ESCAPE '!' OR o.name IN ('MPI_Iprobe', 'MPI_Improbe'))
    GROUP BY f.op, f.comm)");
  counts.bind(process->id);
  while (counts.next()) {
    if (counts.integer(2) <= most.calls) continue;
    most.op = counts.integer(0);
    most.comm = counts.maybe_integer(1);
    most.calls = counts.integer(2);
  }
  return most.calls > 0 ? std::optional(most) : std::nullopt;
}

std::vector<UnfinishedCall> open_calls(const FindingInput& input) {
  std::vector<UnfinishedCall> calls;
  Query rows(
      input.db,
      "SELECT p.rank, x.op, x.comm, x.seq, x.step, x.peer, x.start_ns, x.bytes FROM open_call x CROSS JOIN process p ON p.id = x.process"
      " WHERE p.world = ? AND p.rank IS NOT NULL ORDER BY p.rank, x.start_ns");
  rows.bind(input.world);
  while (rows.next()) {
    calls.push_back({rows.integer(0), rows.integer(1), rows.maybe_integer(2), rows.maybe_integer(3),
                     rows.maybe_integer(4), rows.maybe_integer(5), rows.integer(6), std::nullopt, rows.integer(7)});
  }
  return calls;
}

const std::vector<UnfinishedCall>& vain_calls(const FindingInput& input) {
  return input.shared.vain_calls.get([&] { return look_for_vain_calls(input); });
}

MissingMembers missing_members(const FindingInput& input, const std::vector<UnfinishedCall>& calls) {
  MembersBehind behind(input, calls);
  MissingMembers missing;
  for (const UnfinishedCall& call : calls) {
    if (!call.comm || !call.seq) continue;
    const auto [members, is_new] = missing.try_emplace({*call.comm, *call.seq});
    if (is_new) members->second = behind.of(*call.comm, *call.seq);
  }
  return missing;
}

double mean_duration_ns(const FindingInput& input, const std::string& op) {
  Query sum(input.db,
            "SELECT coalesce(sum(f.time_ns), 0), coalesce(sum(f.calls), 0) FROM profile f JOIN op o ON o.id = f.op"
            " JOIN process p ON p.id = f.process WHERE p.world = ? AND o.name = ?");
  sum.bind(input.world, op);
  sum.next();
  double time_ns = sum.real(0), calls = sum.real(1);
  for (const UnfinishedCall& call : vain_calls(input)) {
    if (!call.gave_up_ns || input.catalog.operation(call.op).name != op) continue;
    time_ns -= static_cast<double>(*call.gave_up_ns - call.start_ns);
    calls -= 1;
  }
  return calls >= 1 ? std::max(0.0, time_ns / calls) : 0;
}

std::optional<Stall> find_stall(const FindingInput& input) {
  const std::vector<UnfinishedCall>& open = vain_calls(input);
  MembersBehind behind(input, open);
  std::vector<WaitingRank> waiting;
  for (const UnfinishedCall& call : open) {
    if (call.comm && call.seq) waiting.push_back({call.rank, *call.comm, *call.seq, call.start_ns});
  }
  const auto found =
      find_stall_case(waiting, INT64_MAX, [&](int64_t comm, int64_t seq) { return behind.of(comm, seq); });
  if (!found) return std::nullopt;

  Stall stall;
  static_cast<StallCase&>(stall) = *found;
  const CommunicatorInfo& communicator = input.catalog.communicators.at(found->comm);
  const auto call = std::find_if(open.rbegin(), open.rend(),
                                 [&](const UnfinishedCall& c) { return c.comm == found->comm && c.seq == found->seq; });
  const Operation& operation = input.catalog.operation(call->op);
  stall.sits_in = operation.name;
  stall.collective = fmt::format("{} number {} on {}",
                                 operation.numbered ? operation.name : posted_operation(input, found->comm, call->rank),
                                 shown_number(found->seq), communicator.label);
  return stall;
}

std::string stalled(const Stall& stall) {
  return fmt::format("{} never entered {}: {} {} in {}", ranks_text(stall.missing), stall.collective,
                     ranks_text(stall.waiting), stall.waiting.size() == 1 ? "sits" : "sit", stall.sits_in);
}

std::optional<MidTransfer> find_mid_transfer(const FindingInput& input) {
  const std::vector<UnfinishedCall> open = open_calls(input);
  MembersBehind behind(input, open);
  const std::set<int64_t> background = background_ranks(input);
  std::map<std::string, std::vector<const UnfinishedCall*>> calls;  // by what they are
  for (const UnfinishedCall& call : open) {
    if (!call.comm || !call.seq) continue;
    if (!is_comparable(input, *call.comm) || !behind.of(*call.comm, *call.seq).empty()) continue;
    calls[describe_call(input, call.rank, call.op, call.comm, call.seq, call.peer)].push_back(&call);
  }
  std::optional<MidTransfer> most;
  for (const auto& [name, own] : calls) {
    MidTransfer found;
    for (const UnfinishedCall* call : own) {
      found.ranks.push_back(call->rank);
      found.background |= background.contains(call->rank);
    }
    const std::optional<int64_t> left_ns =
        left_since_ns(input, open, *own.front(), {found.ranks.begin(), found.ranks.end()});
    found.left = left_ns.has_value();
    found.text = fmt::format("{} {} in {}, which all its members had entered", ranks_text(found.ranks),
                             found.ranks.size() == 1 ? "sits" : "sit", name);
    if (found.left) {
      std::vector<int64_t> silent = found.ranks;
      if (silent.size() > 1) {
        std::erase_if(silent, [&](int64_t rank) {
          return input.catalog.process_of(input.world, rank)->end_ns >= *left_ns + kLeavesTogetherNs;
        });
      }
      if (silent.size() == 1) found.first = silent.front();
      found.text += " and others have left";
      if (found.first && found.ranks.size() > 1)
        found.text += fmt::format("; rank {} shows no sign of life since", *found.first);
    }
    const auto weight = [](const MidTransfer& m) { return std::tuple(m.first.has_value(), m.left, m.ranks.size()); };
    if (!most || weight(found) > weight(*most)) most = std::move(found);
  }
  return most;
}

std::optional<int64_t> end_of_run_ns(const FindingInput& input) {
  if (is_followed(input)) return std::max(last_sign_of_life_ns(input), seen_stalled_ns(input).value_or(INT64_MIN));
  if (const auto end = end_on_axis_ns(input.db)) return end;
  const std::optional<int64_t> look_ns = last_look_ns(input.db), stalled_ns = seen_stalled_ns(input);
  if (!look_ns && !stalled_ns) return std::nullopt;
  return std::max({look_ns.value_or(INT64_MIN), stalled_ns.value_or(INT64_MIN), last_sign_of_life_ns(input)});
}

JobEnd end_of_world(const FindingInput& input) {
  JobEnd end = job_end(input.db);
  if (!is_followed(input)) return end;
  const bool mpi = end.mpi;
  end = {};
  end.mpi = mpi;
  end.over = true;
  return end;
}

std::optional<int64_t> exit_code_of(const FindingInput& input, int64_t rank) {
  Query code(input.db,
             "SELECT CAST(f.value AS INTEGER) FROM process_fact f JOIN process p ON p.id = f.process"
             " WHERE p.world = ? AND p.rank = ? AND f.key = 'exit_code'");
  code.bind(input.world, rank);
  return code.next() ? code.maybe_integer(0) : std::nullopt;
}

std::optional<int64_t> read_while_running_ns(const FindingInput& input) {
  const bool none_ended =
      std::all_of(input.catalog.processes.begin(), input.catalog.processes.end(),
                  [&](const auto& p) { return p.second.world != input.world || p.second.ended == "lost"; });
  if (!none_ended || end_on_axis_ns(input.db) || is_followed(input)) return std::nullopt;
  Query read(input.db,
             "SELECT CAST(r.value AS INTEGER) - CAST(b.value AS INTEGER) FROM meta r, meta b"
             " WHERE r.key = 'ingested_at' AND b.key = 'epoch_realtime_ns'");
  if (!read.next() || read.integer(0) - last_sign_of_life_ns(input) > kFreshNs) return std::nullopt;
  return read.integer(0);
}

int64_t last_sign_of_life_ns(const FindingInput& input) {
  int64_t end_ns = 0;
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world == input.world) end_ns = std::max(end_ns, process.end_ns);
  }
  return end_ns;
}

std::string last_seen(const FindingInput& input, int64_t rank) {
  const ProcessInfo* process = input.catalog.process_of(input.world, rank);
  if (process == nullptr) return "it left no data";
  for (const UnfinishedCall& call : vain_calls(input)) {
    if (call.rank != rank) continue;
    if (call.gave_up_ns)
      return fmt::format("it entered {} at {} and gave up at {}", call_text(input, call), duration_text(call.start_ns),
                         duration_text(*call.gave_up_ns));
    return fmt::format("it sits in {} since {}", call_text(input, call), duration_text(call.start_ns));
  }
  Query last(
      input.db,
      "SELECT op, comm, seq, peer, step, start_ns + duration_ns FROM event WHERE process = ? AND kind = 1 ORDER BY start_ns DESC LIMIT 1");
  last.bind(process->id);
  if (!last.next()) return "it is in no call and left none behind";
  std::string text = fmt::format(
      "it is in no call; the last one, {}, ended at {}",
      describe_call(input, rank, last.integer(0), last.maybe_integer(1), last.maybe_integer(2), last.maybe_integer(3)),
      duration_text(last.integer(5)));
  if (!last.is_null(4)) text += fmt::format(" in step {}", last.integer(4));
  return text + polling_text(input, rank);
}

}  // namespace ddl
