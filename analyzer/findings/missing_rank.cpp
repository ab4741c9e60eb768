// A job that hung, or was killed while ranks waited: which rank did not come, and to which call.
//
// The record alone cannot tell a hang from a healthy job that was killed between two arrivals. How long the others had been waiting can:
// against the mean duration of that call, and only if the end of the run is known from elsewhere (`ddl record` notes it), because a rank
// that waits records nothing that would move its last sign of life.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/hang_case.h"
#include "analyzer/findings/unready_case.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kShortNs = 500'000'000;  // less than this, or ...
constexpr double kShortTimes = 5;          // ... less than this is how any job looks when it is killed
constexpr int64_t kGraceNs =
    3'000'000'000;  // after a rank failed, mpirun takes up to 2 s to end those that wait for it: that is not a hang

bool ended_well(const FindingInput& input) {
  return std::all_of(input.catalog.processes.begin(), input.catalog.processes.end(), [&](const auto& p) {
    return p.second.world != input.world || p.second.rank < 0 || p.second.ended == "finalized" || p.second.ended == "imported";
  });
}

/// Its launcher ends a world in which a rank failed; of one that another world followed nobody knows better.
bool ended_by_launcher(const FindingInput& input) {
  const JobEnd end = end_of_world(input);
  return end.over || end.rank_failed();
}

double mean_duration_ns(const FindingInput& input, const std::string& op) {
  Query mean(input.db,
             "SELECT sum(f.time_ns) * 1.0 / sum(f.calls) FROM profile f JOIN op o ON o.id = f.op JOIN process p ON p.id = f.process"
             " WHERE p.world = ? AND o.name = ?");
  mean.bind(input.world, op);
  return mean.next() ? mean.real(0) : 0;
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
  Query open(input.db,
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
  finding.sentence = fmt::format("nobody left MPI_Init: {} {} in it", ranks_text(inside), inside.size() == 1 ? "sits" : "sit");
  if (!absent.empty()) finding.sentence += fmt::format(", {} never called it", ranks_text(absent));
  if (absent.size() == 1) finding.rank = absent.front();
  finding.evidence = fmt::format("{} of {} ranks called MPI_Init, the last one at {}; it returns when all of them have called it.",
                                 inside.size(), size, duration_text(last_sign_of_life_ns(input)));
  finding.evidence_sql =
      fmt::format("SELECT rank, host, pid, ended, start_ns, init_ns FROM v_rank WHERE world = {} ORDER BY rank", input.world);
  finding.advice = absent.empty() ? "read the job's own error output: MPI says there why it could not start"
                                  : fmt::format("find out what {} did instead, or whether it ran without the library", ranks_text(absent));
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
  return fmt::format("{:%H:%M:%S}", fmt::localtime(static_cast<std::time_t>((epoch.integer(0) + at_ns) / 1'000'000'000)));
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
    ranks.push_back({rows.integer(0), rows.maybe_integer(1), rows.maybe_integer(2), state_of(rows.text(3)), rows.text(4)});
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
  finding.sentence =
      fmt::format("no data was moved since {}: {}", clock.empty() ? duration_text(moved_ns) : clock, unready_sentence(*found));
  if (missing.size() == 1) finding.rank = missing.front();
  finding.evidence = fmt::format(
      "The last data was moved at {}, {} before {}; until then {} lay between one collective and the next. Background threads coordinate to the "
      "end, and {} {} not ready what {} {}.",
      duration_text(moved_ns), duration_text(silent_ns), read_ns ? "the run was read" : "the end of the run", duration_text(apart_ns),
      ranks_text(missing), missing.size() == 1 ? "has" : "have", ranks_text(found->waiting),
      found->waiting.size() == 1 ? "waits for" : "wait for");
  finding.evidence_sql = fmt::format(
      "SELECT r.rank, r.host, r.pid, n.* FROM pending_negotiation n JOIN v_rank r USING (process) WHERE r.world = {} ORDER BY r.rank",
      input.world);
  finding.advice = fmt::format(
      "find out what keeps {}: input, a lock, a branch that depends on the rank; while the job hangs, gdb -p PID or py-spy dump on {} shows it",
      ranks_text(missing), missing.size() == 1 ? "that rank" : "those ranks");
  return {finding};
}

}  // namespace

DDL_FINDING(missing_rank, kStuck, "hang", "the run went wrong: a rank did not come to a call that the others are in",
            "open calls and sequence numbers; of PyTorch jobs the dumps of flight recorders, through groups back to "
            "the first cause; always first") {
  if (has_flight_recorders(input)) return hang_findings(input, false);
  if (ended_well(input)) return {};
  if (std::vector<Finding> unready = find_unready(input); !unready.empty()) return unready;
  if (std::vector<Finding> stuck = find_stuck_in_init(input); !stuck.empty()) return stuck;
  const std::optional<Stall> stall = find_stall(input);
  if (!stall) return {};

  const std::optional<int64_t> read_ns = read_while_running_ns(input);
  const std::optional<int64_t> known_end_ns = read_ns ? read_ns : end_of_run_ns(input);
  const int64_t waited_ns = known_end_ns.value_or(last_sign_of_life_ns(input)) - stall->since_ns;
  const double mean_ns = mean_duration_ns(input, stall->sits_in);
  const auto times_mean = [&](double times) { return static_cast<double>(waited_ns) > times * mean_ns; };
  if (known_end_ns && (waited_ns < kShortNs || !times_mean(kShortTimes))) return {};
  if (known_end_ns && waited_ns < kGraceNs && ended_by_launcher(input)) return {};

  Finding finding;
  finding.confidence = waited_ns >= kHangNs && times_mean(kHangTimes) ? "sure" : "likely";
  if (stall->circular) {
    finding.sentence = fmt::format("{} and {} wait for each other: the former in {}, the latter elsewhere", ranks_text(stall->waiting),
                                   ranks_text(stall->missing), stall->collective);
  } else {
    finding.sentence = stalled(*stall);
  }
  if (stall->missing.size() == 1)
    finding.rank = stall->missing.front();
  else
    finding.subject = fmt::format("{}", fmt::join(stall->missing, ","));

  finding.evidence = fmt::format("The last to wait came at {}", duration_text(stall->since_ns));
  if (waited_ns > 0) {
    const bool told = !read_ns && known_end_ns && seen_stalled_ns(input) == known_end_ns;
    const char* then = read_ns ? "the run was read" : told ? "ddl record told of the stall" : "the end of the run";
    finding.evidence += fmt::format(", {} before {}{}", duration_text(waited_ns), then,
                                    mean_ns > 0 ? fmt::format("; {} takes {} on average", stall->sits_in, duration_text(mean_ns)) : "");
  }
  finding.evidence += ".";
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, stall->missing.size()); ++i) {
    const int64_t rank = stall->missing[i];
    const ProcessInfo* process = input.catalog.process_of(input.world, rank);
    finding.evidence += fmt::format(" {}: {}{}.", rank_on_host(input.catalog, input.world, rank), last_seen(input, rank),
                                    process != nullptr && process->ended == "lost" ? ""
                                    : process != nullptr                           ? " (" + process->ended + ")"
                                                                                   : "");
  }
  finding.evidence_sql =
      fmt::format("SELECT rank, op, comm, seq, step, layer, phase, start_ns FROM v_open_call WHERE world = {} ORDER BY rank", input.world);
  finding.advice = stall->circular
                       ? "call collectives on different communicators in the same order on all ranks"
                       : fmt::format(
                             "find out what keeps {} from that call: a branch that depends on the rank, data that ran out, a crash; "
                             "while the job hangs, gdb -p PID or py-spy dump on that rank shows it",
                             ranks_text(stall->missing));
  return {finding};
}

}  // namespace ddl
