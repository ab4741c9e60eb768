// A job that hung, or was killed while ranks waited: which rank did not come, and to which call.
//
// The record alone cannot tell a hang from a healthy job that was killed between two arrivals. How long the others had been waiting can:
// against the mean duration of that call, and only if the end of the run is known from elsewhere (`ddl record` notes it), because a rank
// that waits records nothing that would move its last sign of life.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kSureNs = 2'000'000'000;  // waiting this long, and ...
constexpr double kSureTimes = 20;           // ... this many times the mean duration of the call is a hang
constexpr int64_t kShortNs = 500'000'000;   // less than this, or ...
constexpr double kShortTimes = 5;           // ... less than this is how any job looks when it is killed

bool ended_well(const FindingInput& input) {
  return std::all_of(input.catalog.processes.begin(), input.catalog.processes.end(),
                     [&](const auto& p) { return p.second.world != input.world || p.second.rank < 0 || p.second.ended == "finalized"; });
}

double mean_duration_ns(const FindingInput& input, const std::string& op) {
  Query mean(input.db,
             "SELECT sum(f.time_ns) * 1.0 / sum(f.calls) FROM profile f JOIN op o ON o.id = f.op JOIN process p ON p.id = f.process"
             " WHERE p.world = ? AND o.name = ?");
  mean.bind(input.world, op);
  return mean.next() ? mean.real(0) : 0;
}

}  // namespace

std::vector<Finding> find_missing_rank(const FindingInput& input) {
  if (ended_well(input)) return {};
  const std::optional<Stall> stall = find_stall(input);
  if (!stall) return {};

  const std::optional<int64_t> read_ns = read_while_running_ns(input);
  const std::optional<int64_t> known_end_ns = read_ns ? read_ns : end_of_run_ns(input);
  const int64_t waited_ns = known_end_ns.value_or(last_sign_of_life_ns(input)) - stall->waiting_since_ns;
  const double mean_ns = mean_duration_ns(input, stall->sits_in);
  const auto times_mean = [&](double times) { return static_cast<double>(waited_ns) > times * mean_ns; };
  if (known_end_ns && (waited_ns < kShortNs || !times_mean(kShortTimes))) return {};

  Finding finding;
  finding.id = "missing_rank";
  finding.confidence = waited_ns >= kSureNs && times_mean(kSureTimes) ? "sure" : "likely";
  if (stall->circular) {
    finding.sentence = fmt::format("{} and {} wait for each other: the former in {}, the latter elsewhere", ranks_text(stall->waiting),
                                   ranks_text(stall->missing), stall->collective);
  } else {
    finding.sentence = fmt::format("{} never entered {}: {} {} in {}", ranks_text(stall->missing), stall->collective,
                                   ranks_text(stall->waiting), stall->waiting.size() == 1 ? "sits" : "sit", stall->sits_in);
  }
  if (stall->missing.size() == 1) finding.rank = stall->missing.front();

  finding.evidence = fmt::format("The last to wait came at {}", duration_text(stall->waiting_since_ns));
  if (waited_ns > 0) {
    finding.evidence += fmt::format(", {} before {}{}", duration_text(waited_ns), read_ns ? "the run was read" : "the end of the run",
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
