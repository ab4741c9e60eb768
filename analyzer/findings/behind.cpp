#include "analyzer/findings/behind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/shared.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kLeavesTogetherNs = 5'000'000;  // members leave a collective at about the same time, on a busy machine a little apart
constexpr int kLastCalls = 16;                    // of a rank: other threads may have entered some after the one that gave up

using CollectivesEntered = std::map<std::pair<int64_t, int64_t>, int64_t>;  // (communicator, rank) -> collectives entered

CollectivesEntered collectives_entered(const FindingInput& input, const std::vector<UnfinishedCall>& open) {
  CollectivesEntered entered;
  Query profile(input.db,
                "SELECT f.comm, p.rank, f.op, f.calls FROM profile f JOIN process p ON p.id = f.process"
                " WHERE p.world = ? AND p.rank IS NOT NULL AND f.comm IS NOT NULL");
  profile.bind(input.world);
  while (profile.next()) {
    if (input.catalog.operation(profile.integer(2)).numbered) entered[{profile.integer(0), profile.integer(1)}] += profile.integer(3);
  }
  const auto at_least = [&](int64_t comm, int64_t rank, int64_t seq) {
    int64_t& known = entered[{comm, rank}];
    known = std::max(known, seq);
  };
  Query reached(input.db, "SELECT r.comm, p.rank, r.seq FROM reached r JOIN process p ON p.id = r.process WHERE p.world = ?");
  reached.bind(input.world);
  while (reached.next()) at_least(reached.integer(0), reached.integer(1), reached.integer(2));
  for (const UnfinishedCall& call : open) {
    if (call.comm && call.seq) at_least(*call.comm, call.rank, *call.seq);
  }
  return entered;
}

/// The non-blocking collective that `rank` uses on the communicator; of several, no name.
std::string posted_operation(const FindingInput& input, int64_t comm, int64_t rank) {
  Query ops(input.db,
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
std::string describe_call(const FindingInput& input, int64_t rank, int64_t op, std::optional<int64_t> comm, std::optional<int64_t> seq,
                          std::optional<int64_t> peer) {
  const Operation& operation = input.catalog.operation(op);
  std::string text = operation.name;
  const auto known = comm ? input.catalog.communicators.find(*comm) : input.catalog.communicators.end();
  if (seq) text += fmt::format("{} number {}", operation.numbered ? "" : " for", *seq);
  if (peer && *peer >= 0 && !operation.numbered) {
    UnfinishedCall call;
    call.rank = rank, call.comm = comm, call.peer = peer;
    text += fmt::format(" with rank {}", peer_in_world(input, call).value_or(*peer));
  }
  if (known != input.catalog.communicators.end()) text += " on " + known->second.label;
  return text;
}

/// Members that have not entered collective `seq`. A rank without a process is one that left no data: nothing can be said about it.
std::vector<int64_t> members_behind(const FindingInput& input, const CollectivesEntered& entered, const CommunicatorInfo& communicator,
                                    int64_t seq) {
  std::vector<int64_t> behind;
  for (int64_t rank : communicator.ranks) {
    const auto progress = entered.find({communicator.id, rank});
    const bool recorded = rank >= 0 && input.catalog.process_of(input.world, rank) != nullptr;
    if (recorded && (progress == entered.end() || progress->second < seq)) behind.push_back(rank);
  }
  return behind;
}

bool is_background(const FindingInput& input, int64_t rank) {
  Query row(input.db, "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ? AND p.rank = ?");
  row.bind(input.world, rank);
  return row.next();
}

/// By when a member other than `inside` had left the blocking collective, as far as known; nothing: none has. A non-blocking one's members need
/// not have waited for it before they do other things.
std::optional<int64_t> left_since_ns(const FindingInput& input, const std::vector<UnfinishedCall>& open, const UnfinishedCall& call,
                                     const std::vector<int64_t>& inside) {
  const Operation& operation = input.catalog.operation(call.op);
  if (!operation.numbered || operation.nonblocking) return std::nullopt;
  std::optional<int64_t> left_ns;
  const auto by = [&](int64_t rank, int64_t at_ns) {
    if (std::find(inside.begin(), inside.end(), rank) == inside.end()) left_ns = std::min(left_ns.value_or(at_ns), at_ns);
  };
  Query ended(input.db,
              "SELECT p.rank, e.start_ns + e.duration_ns FROM event e JOIN process p ON p.id = e.process"
              " WHERE p.world = ? AND e.comm = ? AND e.seq = ? AND e.kind = 1");
  ended.bind(input.world, *call.comm, *call.seq);
  while (ended.next()) by(ended.integer(0), ended.integer(1));
  for (const UnfinishedCall& other : open) {
    if (other.comm == call.comm && other.seq && *other.seq > *call.seq) by(other.rank, other.start_ns);
  }
  return left_ns;
}

/// Its other end was not recorded.
bool is_half_message(const FindingInput& input, int64_t event) {
  Query half(input.db, "SELECT 1 FROM message WHERE (send = ?1 AND receive IS NULL) OR (receive = ?1 AND send IS NULL)");
  half.bind(event);
  return half.next();
}

/// The rank's last call, if it waited in it for something that never came. A framework's timeout ends such a call as an error, and with it the
/// process: nothing is begun after it, its message has no other end, its collective lacks a member.
std::optional<UnfinishedCall> given_up_call(const FindingInput& input, const ProcessInfo& process, const CollectivesEntered& entered) {
  std::optional<int64_t> last_begin_ns, last_event;
  UnfinishedCall last;
  Query row(input.db,
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
  if (!last_event || *last.gave_up_ns - last.start_ns < kHangNs || *last_begin_ns >= *last.gave_up_ns) return std::nullopt;
  const Operation& operation = input.catalog.operation(last.op);
  if (operation.nonblocking) return std::nullopt;
  if (operation.op_class == OpClass::kSend || operation.op_class == OpClass::kReceive)
    return is_half_message(input, *last_event) ? std::optional(last) : std::nullopt;
  const auto communicator = last.comm ? input.catalog.communicators.find(*last.comm) : input.catalog.communicators.end();
  const bool lacks_member = operation.numbered && last.seq && communicator != input.catalog.communicators.end() &&
                            communicator->second.kind != "inter" &&
                            !members_behind(input, entered, communicator->second, *last.seq).empty();
  return lacks_member ? std::optional(last) : std::nullopt;
}

std::vector<UnfinishedCall> look_for_vain_calls(const FindingInput& input) {
  std::vector<UnfinishedCall> calls = open_calls(input);
  const JobEnd end = end_of_world(input);
  if (end.exit_code == 0) return calls;
  const CollectivesEntered entered = collectives_entered(input, calls);
  std::vector<UnfinishedCall> given_up;
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0 || process.ended == "finalized" || process.ended == "imported") continue;
    if (auto call = given_up_call(input, process, entered)) given_up.push_back(*call);
  }
  calls.insert(calls.begin(), given_up.begin(), given_up.end());
  return calls;
}

bool is_followed(const FindingInput& input) { return next_world_ns(input).has_value(); }

}  // namespace

/// One that this world spawns begins while it waits for that.
std::optional<int64_t> next_world_ns(const FindingInput& input) {
  Query row(input.db, R"(
    SELECT min(start_ns)
    FROM process
    WHERE world > ?1 AND rank IS NOT NULL AND start_ns >= (SELECT max(end_ns) FROM process WHERE world = ?1) AND NOT EXISTS (
      SELECT 1 FROM open_call x JOIN process p ON p.id = x.process JOIN op o ON o.id = x.op
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

std::vector<UnfinishedCall> open_calls(const FindingInput& input) {
  std::vector<UnfinishedCall> calls;
  Query rows(input.db,
             "SELECT p.rank, x.op, x.comm, x.seq, x.step, x.peer, x.start_ns FROM open_call x JOIN process p ON p.id = x.process"
             " WHERE p.world = ? AND p.rank IS NOT NULL ORDER BY p.rank, x.start_ns");
  rows.bind(input.world);
  while (rows.next()) {
    calls.push_back({rows.integer(0), rows.integer(1), rows.maybe_integer(2), rows.maybe_integer(3), rows.maybe_integer(4),
                     rows.maybe_integer(5), rows.integer(6), std::nullopt});
  }
  return calls;
}

const std::vector<UnfinishedCall>& vain_calls(const FindingInput& input) {
  return input.shared.vain_calls.get([&] { return look_for_vain_calls(input); });
}

MissingMembers missing_members(const FindingInput& input, const std::vector<UnfinishedCall>& calls) {
  const CollectivesEntered entered = collectives_entered(input, calls);
  MissingMembers missing;
  for (const UnfinishedCall& call : calls) {
    if (!call.comm || !call.seq) continue;
    const auto communicator = input.catalog.communicators.find(*call.comm);
    if (communicator == input.catalog.communicators.end() || communicator->second.kind == "inter") continue;
    const auto [members, is_new] = missing.try_emplace({*call.comm, *call.seq});  // thousands of ranks may be in it
    if (is_new) members->second = members_behind(input, entered, communicator->second, *call.seq);
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
  const std::vector<UnfinishedCall> open = vain_calls(input);
  const CollectivesEntered entered = collectives_entered(input, open);
  std::vector<WaitingRank> waiting;
  for (const UnfinishedCall& call : open) {
    if (call.comm && call.seq) waiting.push_back({call.rank, *call.comm, *call.seq, call.start_ns});
  }
  const auto found = find_stall_case(waiting, INT64_MAX, [&](int64_t comm, int64_t seq) {
    const auto communicator = input.catalog.communicators.find(comm);
    if (communicator == input.catalog.communicators.end() || communicator->second.kind == "inter") return std::vector<int64_t>();
    return members_behind(input, entered, communicator->second, seq);
  });
  if (!found) return std::nullopt;

  Stall stall;
  static_cast<StallCase&>(stall) = *found;
  const CommunicatorInfo& communicator = input.catalog.communicators.at(found->comm);
  const auto call =
      std::find_if(open.rbegin(), open.rend(), [&](const UnfinishedCall& c) { return c.comm == found->comm && c.seq == found->seq; });
  const Operation& operation = input.catalog.operation(call->op);
  stall.sits_in = operation.name;
  stall.collective =
      fmt::format("{} number {} on {}", operation.numbered ? operation.name : posted_operation(input, found->comm, call->rank), found->seq,
                  communicator.label);
  return stall;
}

std::string stalled(const Stall& stall) {
  return fmt::format("{} never entered {}: {} {} in {}", ranks_text(stall.missing), stall.collective, ranks_text(stall.waiting),
                     stall.waiting.size() == 1 ? "sits" : "sit", stall.sits_in);
}

std::optional<MidTransfer> find_mid_transfer(const FindingInput& input) {
  const std::vector<UnfinishedCall> open = open_calls(input);
  const CollectivesEntered entered = collectives_entered(input, open);
  std::map<std::string, std::vector<const UnfinishedCall*>> calls;  // by what they are
  for (const UnfinishedCall& call : open) {
    if (!call.comm || !call.seq) continue;
    const auto communicator = input.catalog.communicators.find(*call.comm);
    if (communicator == input.catalog.communicators.end() || communicator->second.kind == "inter") continue;
    if (!members_behind(input, entered, communicator->second, *call.seq).empty()) continue;
    calls[describe_call(input, call.rank, call.op, call.comm, call.seq, call.peer)].push_back(&call);
  }
  std::optional<MidTransfer> most;
  for (const auto& [name, own] : calls) {
    MidTransfer found;
    for (const UnfinishedCall* call : own) {
      found.ranks.push_back(call->rank);
      found.background |= is_background(input, call->rank);
    }
    const std::optional<int64_t> left_ns = left_since_ns(input, open, *own.front(), found.ranks);
    found.left = left_ns.has_value();
    found.text = fmt::format("{} {} in {}, which all its members had entered", ranks_text(found.ranks),
                             found.ranks.size() == 1 ? "sits" : "sit", name);
    if (found.left) {
      std::vector<int64_t> silent = found.ranks;
      if (silent.size() > 1) {
        std::erase_if(silent,
                      [&](int64_t rank) { return input.catalog.process_of(input.world, rank)->end_ns >= *left_ns + kLeavesTogetherNs; });
      }
      if (silent.size() == 1) found.first = silent.front();
      found.text += " and others have left";
      if (found.first && found.ranks.size() > 1) found.text += fmt::format("; rank {} shows no sign of life since", *found.first);
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
  const bool none_ended = std::all_of(input.catalog.processes.begin(), input.catalog.processes.end(),
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
  std::string text =
      fmt::format("it is in no call; the last one, {}, ended at {}",
                  describe_call(input, rank, last.integer(0), last.maybe_integer(1), last.maybe_integer(2), last.maybe_integer(3)),
                  duration_text(last.integer(5)));
  if (!last.is_null(4)) text += fmt::format(" in step {}", last.integer(4));
  return text;
}

}  // namespace ddl
