// A job that hung, or was killed while ranks waited: which rank did not come, and to which call.
//
// The record alone cannot tell a hang from a healthy job that was killed between two arrivals. How long the others had
// been waiting can: against the mean duration of that call, and only if the end of the run is known from elsewhere
// (`ddl record` notes it), because a rank that waits records nothing that would move its last sign of life.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/hang_case.h"
#include "analyzer/findings/message_stall.h"
#include "analyzer/findings/unready_case.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kShortNs = 500'000'000;  // less than this, or ...
constexpr double kShortTimes = 5;          // ... less than this is how any job looks when it is killed
// After a rank failed its launcher ends those that wait for it, which is not a hang: mpirun within 2 s; torchrun leaves
// them 30 s after its SIGTERM, which C code does not see; and a rank that crashes writes its core, or a backtrace,
// before anybody learns of it.
constexpr int64_t kGraceNs = 3'000'000'000, kTorchrunGraceNs = 35'000'000'000, kCrashGraceNs = 60'000'000'000;

bool ended_well(const FindingInput& input) {
  return std::all_of(input.catalog.processes.begin(), input.catalog.processes.end(), [&](const auto& p) {
    return p.second.world != input.world || p.second.rank < 0 || p.second.ended == "finalized" ||
           p.second.ended == "imported";
  });
}

/// Its launcher ends a world in which a rank failed; of one that another world followed nobody knows better.
bool ended_by_launcher(const FindingInput& input) {
  const JobEnd end = end_of_world(input);
  return end.over || end.rank_failed();
}

/// How long ranks may wait for one that failed.
int64_t grace_ns(const FindingInput& input) {
  const JobEnd end = end_of_world(input);
  if (!end.told_to_end.empty()) return kGraceNs;
  return end.crashed() ? kCrashGraceNs : end.mpi ? kGraceNs : kTorchrunGraceNs;
}

/// What the watch of `ddl record --stall` saw of that rank when it told of a stall that lasted; empty: nothing.
std::string state_in_stall(const FindingInput& input, int64_t rank) {
  Query row(
      input.db,
      "SELECT r.state FROM stall_rank r JOIN stall s ON s.id = r.stall WHERE s.world = ? AND s.resumed_ns IS NULL AND r.rank = ?"
      " AND r.state IS NOT NULL ORDER BY s.told_ns DESC LIMIT 1");
  row.bind(input.world, rank);
  return row.next() ? row.text(0) : "";
}

/// Its end is what the others waited for: killed_rank tells of it.
bool went_wrong(const FindingInput& input, int64_t rank) {
  const ProcessInfo* process = input.catalog.process_of(input.world, rank);
  if (process == nullptr || !end_of_world(input).told_to_end.empty()) return false;
  if (process->ended == "aborted") return true;
  if (process->ended == "exited") return exit_code_of(input, rank).value_or(0) != 0;
  return process->ended == "lost" && state_in_stall(input, rank) == "gone";
}

/// Nobody left MPI_Init: the launcher's announcement tells who the ranks are, and who left no record of calling it.
std::vector<Finding> find_stuck_in_init(const FindingInput& input) {
  std::vector<int64_t> inside, absent;
  int64_t size = 0;
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0) continue;
    if (process.init_ns) return {};
    size = std::max(size, process.world_size);
  }
  Query open(
      input.db,
      "SELECT DISTINCT rank FROM v_open_call WHERE world = ? AND rank IS NOT NULL AND op IN ('MPI_Init', 'MPI_Init_thread')");
  open.bind(input.world);
  while (open.next()) inside.push_back(open.integer(0));
  if (inside.empty() || read_while_running_ns(input)) return {};
  std::sort(inside.begin(), inside.end());
  for (int64_t rank = 0; rank < size; ++rank) {
    if (!std::binary_search(inside.begin(), inside.end(), rank)) absent.push_back(rank);
  }
  Finding finding;
  finding.confidence = "sure";
  finding.sentence =
      fmt::format("nobody left MPI_Init: {} {} in it", ranks_text(inside), inside.size() == 1 ? "sits" : "sit");
  if (!absent.empty()) finding.sentence += fmt::format(", {} never called it", ranks_text(absent));
  if (absent.size() == 1) finding.rank = absent.front();
  finding.evidence =
      fmt::format("{} of {} ranks called MPI_Init, the last one at {}; it returns when all of them have called it.",
                  inside.size(), size, duration_text(last_sign_of_life_ns(input)));
  finding.evidence_sql = fmt::format(
      "SELECT rank, host, pid, ended, start_ns, init_ns FROM v_rank WHERE world = {} ORDER BY rank", input.world);
  finding.advice = absent.empty() ? "read the job's own error output: MPI says there why it could not start"
                                  : fmt::format("find out what {} did instead, or whether it ran without the library",
                                                ranks_text(absent));
  return {finding};
}

TrainingState state_of(std::string_view thread) {
  for (const TrainingState state : {TrainingState::kComputing, TrainingState::kPolling, TrainingState::kAsleep})
    if (name_of(state) == thread) return state;
  return TrainingState::kUnknown;
}

/// "14:03:21", in local time; empty: the time of day is not known.
std::string time_of_day(SQLite::Database& db, int64_t at_ns) {
  Query epoch(db, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'epoch_realtime_ns'");
  if (!epoch.next() || epoch.integer(0) <= 0) return {};
  return fmt::format("{:%H:%M:%S}",
                     fmt::localtime(static_cast<std::time_t>((epoch.integer(0) + at_ns) / 1'000'000'000)));
}

/// Background threads went on coordinating, but a training thread did not bring what was to be moved.
std::vector<Finding> find_unready(const FindingInput& input) {
  std::vector<Readiness> ranks;
  int64_t moved_ns = INT64_MIN;
  Query rows(input.db, R"(
    SELECT p.rank, n.requested_bytes, n.ready_bits, n.thread, n.sleeps_in, n.moved_ns
    FROM pending_negotiation n
    JOIN process p ON p.id = n.process
    WHERE p.world = ?
    ORDER BY p.rank)");
  for (rows.bind(input.world); rows.next();) {
    ranks.push_back(
        {rows.integer(0), rows.maybe_integer(1), rows.maybe_integer(2), state_of(rows.text(3)), rows.text(4)});
    moved_ns = std::max(moved_ns, rows.maybe_integer(5).value_or(INT64_MIN));
  }
  if (ranks.empty() || moved_ns == INT64_MIN) return {};
  const auto found = find_unready_case(ranks);
  if (!found) return {};
  const std::optional<int64_t> read_ns = read_while_running_ns(input);
  const int64_t end_ns = read_ns ? *read_ns : end_of_run_ns(input).value_or(last_sign_of_life_ns(input));
  const int64_t silent_ns = end_ns - moved_ns;
  Query data(input.db, R"(
    SELECT (max(e.start_ns) - min(e.start_ns)) / max(1.0, count(DISTINCT e.seq) - 1)
    FROM event e
    JOIN process p ON p.id = e.process
    WHERE p.world = ? AND e.kind = 1 AND e.seq IS NOT NULL AND e.bytes > 0 AND e.id NOT IN (SELECT event FROM coordination))");
  data.bind(input.world).next();
  const double apart_ns = data.real(0);
  if (silent_ns < kHangNs || static_cast<double>(silent_ns) < kHangTimes * apart_ns) return {};
  if (silent_ns < kGraceNs && ended_by_launcher(input)) return {};

  std::vector<int64_t> missing;
  for (const Readiness& rank : found->missing) missing.push_back(rank.rank);
  const std::string clock = time_of_day(input.db, moved_ns);
  Finding finding;
  finding.confidence = "sure";
  finding.sentence = fmt::format("no data was moved since {}: {}", clock.empty() ? duration_text(moved_ns) : clock,
                                 unready_sentence(*found));
  if (missing.size() == 1) finding.rank = missing.front();
  finding.evidence = fmt::format(
      "The last data was moved at {}, {} before {}; until then {} lay between one collective and the next. Background threads coordinate to the "
      "end, and {} {} not ready what {} {}.",
      duration_text(moved_ns), duration_text(silent_ns),
      read_ns                                               ? "the run was read"
      : end_on_axis_ns(input.db) || !last_look_ns(input.db) ? "the end of the run"
                                                            : "ddl record last saw the job",
      duration_text(apart_ns), ranks_text(missing), missing.size() == 1 ? "has" : "have", ranks_text(found->waiting),
      found->waiting.size() == 1 ? "waits for" : "wait for");
  finding.evidence_sql = fmt::format(
      "SELECT r.rank, r.host, r.pid, n.* FROM pending_negotiation n JOIN v_rank r USING (process) WHERE r.world = {} ORDER BY r.rank",
      input.world);
  finding.advice = fmt::format(
      "find out what keeps {}: input, a lock, a branch that depends on the rank; while the job hangs, gdb -p PID or py-spy dump on {} shows it",
      ranks_text(missing), missing.size() == 1 ? "that rank" : "those ranks");
  return {finding};
}

/// How long ranks had been waiting in a call when it was given up, or at the end.
struct Waited {
  int64_t since_ns = 0, ns = 0;
  int64_t gone_ns = 0;        ///< of that, after all that they waited for had exited or aborted
  bool for_the_gone = false;  ///< what they waited for went wrong itself, and nobody gave up before that
  double mean_ns = 0;         ///< of that call; 0: there is no other
  bool until_known = false;   ///< the end of the run is known, or the call was given up
  const char* until = "the end of the run";

  bool lasts(int64_t least_ns, double times) const {
    return ns >= least_ns && static_cast<double>(ns) > times * mean_ns;
  }
  bool is_short() const { return !lasts(kShortNs, kShortTimes); }
  /// As any job that is killed, or that its launcher ends.
  bool looks_healthy(const FindingInput& input) const {
    return until_known && (is_short() || for_the_gone || (gone_ns < grace_ns(input) && ended_by_launcher(input)));
  }
  const char* confidence() const { return lasts(kHangNs, kHangTimes) ? "sure" : "likely"; }

  /// "The last to wait came at 12.1 s, 60.0 s before the end of the run; MPI_Allreduce takes 1.20 ms on average."
  std::string text(const std::string& sits_in) const {
    std::string said = fmt::format("The last to wait came at {}", duration_text(since_ns));
    if (ns > 0) {
      said += fmt::format(", {} before {}{}", duration_text(ns), until,
                          mean_ns > 0 ? fmt::format("; {} takes {} on average", sits_in, duration_text(mean_ns)) : "");
    }
    return said + ".";
  }
};

/// `causes`: those that were waited for.
Waited waited_in(const FindingInput& input, const std::string& sits_in, const std::vector<int64_t>& causes,
                 int64_t since_ns, std::optional<int64_t> gave_up_ns) {
  Waited waited;
  const std::optional<int64_t> read_ns = read_while_running_ns(input);
  const std::optional<int64_t> known_ns = gave_up_ns ? gave_up_ns : read_ns ? read_ns : end_of_run_ns(input);
  waited.since_ns = since_ns;
  waited.ns = known_ns.value_or(last_sign_of_life_ns(input)) - since_ns;
  waited.gone_ns = waited.ns;
  for (const int64_t rank : causes) {
    const ProcessInfo* process = input.catalog.process_of(input.world, rank);
    if (process == nullptr || (process->ended != "exited" && process->ended != "aborted")) continue;
    const int64_t gone_ns = waited.ns - (process->end_ns - since_ns);
    if (gone_ns >= 0) waited.gone_ns = std::min(waited.gone_ns, gone_ns);  // else it gave up before it went
  }
  waited.for_the_gone = !gave_up_ns && !causes.empty() && std::all_of(causes.begin(), causes.end(), [&](int64_t rank) {
    return went_wrong(input, rank);
  });
  waited.mean_ns = mean_duration_ns(input, sits_in);
  waited.until_known = known_ns.has_value();
  if (gave_up_ns)
    waited.until = "it was given up";
  else if (read_ns)
    waited.until = "the run was read";
  else if (known_ns && seen_stalled_ns(input) == known_ns)
    waited.until = "ddl record told of the stall";
  else if (known_ns && !end_on_axis_ns(input.db))
    waited.until = "ddl record last saw the job";
  return waited;
}

/// When the first rank gave up the collective that all wait in; nothing: none did.
std::optional<int64_t> gave_up_ns(const FindingInput& input, const Stall& stall) {
  std::optional<int64_t> first_ns;
  for (const UnfinishedCall& call : vain_calls(input)) {
    if (call.gave_up_ns && call.comm == stall.comm && call.seq == stall.seq)
      first_ns = std::min(first_ns.value_or(INT64_MAX), *call.gave_up_ns);
  }
  return first_ns;
}

void accuse(Finding& finding, const std::vector<int64_t>& ranks) {
  if (ranks.size() == 1)
    finding.rank = ranks.front();
  else
    finding.subject = fmt::format("{}", fmt::join(ranks, ","));
}

std::string last_seen_of(const FindingInput& input, const std::vector<int64_t>& ranks) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, ranks.size()); ++i) {
    const ProcessInfo* process = input.catalog.process_of(input.world, ranks[i]);
    text += fmt::format(" {}: {}{}.", rank_on_host(input.catalog, input.world, ranks[i]), last_seen(input, ranks[i]),
                        process != nullptr && process->ended == "lost" ? ""
                        : process != nullptr                           ? " (" + process->ended + ")"
                                                                       : "");
  }
  return text;
}

Finding message_finding(const FindingInput& input, const MessageStall& stall, const Waited& waited) {
  Finding finding;
  finding.confidence = waited.confidence();
  finding.sentence = stall.sentence;
  accuse(finding, stall.causes);
  finding.evidence = waited.text(stall.sits_in);
  if (!stall.behind.empty()) finding.evidence += fmt::format(" Behind them {}.", stall.behind);
  if (!stall.circular) finding.evidence += last_seen_of(input, stall.causes);
  finding.evidence_sql = fmt::format(
      "SELECT rank, op, comm, peer, seq, step, layer, phase, start_ns FROM v_open_call WHERE world = {} ORDER BY rank",
      input.world);
  finding.advice = stall.advice;
  return finding;
}

}  // namespace

DDL_FINDING(missing_rank, kStuck, "hang", "the run went wrong: a rank did not come to a call that the others are in",
            "open calls, their sequence numbers and peers, and last calls that a timeout ended; of PyTorch jobs the "
            "dumps of flight recorders, through groups back to the first cause; always first") {
  if (has_flight_recorders(input)) return hang_findings(input, false);
  if (ended_well(input)) return {};
  if (std::vector<Finding> unready = find_unready(input); !unready.empty()) return unready;
  if (std::vector<Finding> stuck = find_stuck_in_init(input); !stuck.empty()) return stuck;
  if (const std::optional<MessageStall> by_message = find_message_stall(input)) {
    const Waited waited =
        waited_in(input, by_message->sits_in, by_message->causes, by_message->since_ns, by_message->gave_up_ns);
    if (waited.looks_healthy(input)) return {};
    // Any job that is killed has messages under way; how long they were is not known of one that nobody saw end.
    if (!waited.is_short()) return {message_finding(input, *by_message, waited)};
  }
  const std::optional<Stall> stall = find_stall(input);
  if (!stall) return {};
  const Waited waited = waited_in(input, stall->sits_in, stall->missing, stall->since_ns, gave_up_ns(input, *stall));
  if (waited.looks_healthy(input)) return {};

  Finding finding;
  finding.confidence = waited.confidence();
  if (stall->circular) {
    finding.sentence = fmt::format("{} and {} wait for each other: the former in {}, the latter elsewhere",
                                   ranks_text(stall->waiting), ranks_text(stall->missing), stall->collective);
  } else {
    finding.sentence = stalled(*stall);
  }
  accuse(finding, stall->missing);
  finding.evidence = waited.text(stall->sits_in) + last_seen_of(input, stall->missing);
  finding.evidence_sql = fmt::format(
      "SELECT rank, op, comm, seq, step, layer, phase, start_ns FROM v_open_call WHERE world = {} ORDER BY rank",
      input.world);
  finding.advice =
      stall->circular
          ? "call collectives on different communicators in the same order on all ranks"
          : fmt::format(
                "find out what keeps {} from that call: a branch that depends on the rank, data that ran out, a crash; "
                "while the job hangs, gdb -p PID or py-spy dump on that rank shows it",
                ranks_text(stall->missing));
  return {finding};
}

}  // namespace ddl
