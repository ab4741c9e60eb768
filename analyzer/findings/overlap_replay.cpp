#include "analyzer/findings/overlap_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "analyzer/each_row.h"
#include "analyzer/passes/process_events.h"
#include "analyzer/passes/training_thread.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kGradientBytes = 64 * 1024;
constexpr double kAtOnce = 0.9;     // of the time in flight, inside MPI or blocked: nothing is computed behind it
constexpr double kMostBytes = 0.8;  // of what the collectives carry, waited for at once

struct Reduction {
  int64_t step = 0, enter_ns = 0, leave_ns = 0;
  double xfer_ns = 0, wait_ns = 0, bytes = 0;
  int64_t op = 0, event = 0;
  bool at_once = true;
};

/// What the step is shorter by.
double saving_of(const std::vector<Reduction>& step) {
  double removed_ns = 0, free_ns = 0;  // transfer that no longer blocks; when the network is done
  for (const Reduction& r : step) {
    const double arrived_ns = static_cast<double>(r.enter_ns) - removed_ns + r.wait_ns;
    free_ns = std::max(free_ns, arrived_ns) + r.xfer_ns;
    removed_ns += r.xfer_ns;
  }
  const auto end_ns = static_cast<double>(step.back().leave_ns);
  return std::max(0.0, end_ns - std::max(end_ns - removed_ns, free_ns));
}

/// Time that a thread spent inside MPI calls, up to moments that come in order.
class InCalls {
 public:
  InCalls(SQLite::Database& db, int64_t process) {
    Query calls(db,
                "SELECT start_ns, start_ns + duration_ns FROM event WHERE process = ? AND kind = 1 ORDER BY start_ns");
    calls.bind(process);
    while (calls.next()) {
      const int64_t begin_ns = std::max(calls.integer(0), ends_.empty() ? INT64_MIN : ends_.back());
      if (calls.integer(1) <= begin_ns) continue;
      before_.push_back(sum_ns_);
      begins_.push_back(begin_ns);
      ends_.push_back(calls.integer(1));
      sum_ns_ += static_cast<double>(calls.integer(1) - begin_ns);
    }
  }
  double until(int64_t at_ns) const {
    const auto next = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), at_ns) - begins_.begin());
    if (next == 0) return 0;
    return before_[next - 1] + static_cast<double>(std::min(at_ns, ends_[next - 1]) - begins_[next - 1]);
  }

 private:
  std::vector<int64_t> begins_, ends_;
  std::vector<double> before_;
  double sum_ns_ = 0;
};

std::unordered_set<int64_t> ids(SQLite::Database& db, const char* sql) {
  std::unordered_set<int64_t> found;
  for (Query rows(db, sql); rows.next();) found.insert(rows.integer(0));
  return found;
}

double mean_of_values(const std::map<int64_t, double>& values) {
  double sum = 0;
  for (const auto& [key, value] : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::optional<OverlapReplay> replay_overlap(const FindingInput& input, bool nonblocking, double least_share) {
  if (!input.steps.annotated || input.step_ns <= 0) return std::nullopt;
  Query by_device(input.db, "SELECT 1 FROM steady_world WHERE world = ? AND waits_by = 'device'");
  by_device.bind(input.world);
  if (by_device.next()) return std::nullopt;  // calls only enqueue
  Query ops(
      input.db,
      "SELECT id, name FROM op WHERE class = 'all_to_all' AND nonblocking = ? AND (lower(name) LIKE '%allreduce%' OR lower(name) LIKE"
      " '%all_reduce%' OR lower(name) LIKE '%reduce_scatter%') AND id IN (SELECT op FROM collective_group WHERE world = ? AND comm NOT IN"
      " (SELECT communicator FROM communicator_axis WHERE axis NOT IN ('data', 'all ranks')))");
  ops.bind(int64_t{nonblocking}, input.world);
  std::map<int64_t, std::string> names;
  std::string list;
  while (ops.next()) {
    names[ops.integer(0)] = ops.text(1);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", ops.integer(0));
  }
  if (names.empty()) return std::nullopt;
  const std::unordered_set<int64_t> others_regions =
      ids(input.db, "SELECT id FROM region WHERE phase IN ('forward', 'evaluation')");
  const std::unordered_set<int64_t> others_axes =
      ids(input.db, "SELECT communicator FROM communicator_axis WHERE axis NOT IN ('data', 'all ranks')");
  Query steady(input.db, "SELECT step FROM steady_number WHERE world = ?");
  std::unordered_set<int64_t> steps;
  for (steady.bind(input.world); steady.next();) steps.insert(steady.integer(0));
  // Through the steps of a process in order: its events are.
  ProcessEvents events(input.db);
  EachRow rows(
      input.db,
      "e.step, e.start_ns, e.start_ns + e.duration_ns, k.xfer_ns, k.wait_ns, e.bytes, e.op, e.region, e.comm, e.id",
      fmt::format(
          "{} CROSS JOIN collective k ON k.event = e.id WHERE {} AND e.kind = {} AND e.op IN ({}) AND e.bytes >= {}"
          " AND e.step IS NOT NULL AND k.xfer_ns IS NOT NULL",
          events.table(), events.condition(), nonblocking ? 2 : 1, list, kGradientBytes));
  std::map<int64_t, double> least;  // by step: a step is as short as its slowest rank's
  OverlapReplay found;
  const double least_ns = least_share * static_cast<double>(input.step_ns);
  double rank_steps = 0, at_once_bytes = 0;
  std::map<int64_t, double> calls_by_op;
  const std::unordered_set<int64_t> background = ids(input.db, "SELECT process FROM background_process");
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0) continue;
    const std::optional<InCalls> in_calls =
        nonblocking ? std::optional<InCalls>(std::in_place, input.db, id) : std::nullopt;
    // A call of a background thread blocks the rank only while its training thread does nothing but wait for it.
    const std::optional<BusyTime> training =
        !nonblocking && background.contains(id) ? std::optional(read_busy_time(input.db, id)) : std::nullopt;
    std::vector<Reduction> step;
    int64_t number = 0;
    const auto finish = [&] {
      if (step.empty()) return;
      const double saving_ns = saving_of(step);
      const auto known = least.try_emplace(number, saving_ns);
      known.first->second = std::min(known.first->second, saving_ns);
      rank_steps += 1;
      double inside_ns = 0;
      for (const Reduction& r : step) {
        found.transfer_ns += r.xfer_ns;
        found.bytes += r.bytes;
        found.calls += 1;
        if (r.at_once) at_once_bytes += r.bytes;
        inside_ns += static_cast<double>(r.leave_ns - r.enter_ns);
      }
      found.between_ns += std::max(0.0, static_cast<double>(step.back().leave_ns - step.front().enter_ns) - inside_ns);
      step.clear();
    };
    std::vector<Reduction> of_process;
    const ProcessEvents::Parameters parameters = events.of(id);
    const auto add = [&](const RowValues& row) {
      if (!steps.contains(row.integer(0)) || others_regions.contains(row.integer(7)) ||
          others_axes.contains(row.integer(8)))
        return;
      of_process.push_back({row.integer(0), row.integer(1), row.integer(2), row.real(3), row.real(4), row.real(5),
                            row.integer(6), row.integer(9)});
    };
    rows.run(add, parameters.first, parameters.second);
    const auto earlier = [](const Reduction& a, const Reduction& b) {
      return std::pair(a.enter_ns, a.event) < std::pair(b.enter_ns, b.event);
    };
    if (!std::is_sorted(of_process.begin(), of_process.end(), earlier))
      std::sort(of_process.begin(), of_process.end(), earlier);
    for (Reduction& r : of_process) {
      if (r.step != number) finish();
      number = r.step;
      const Interval call{r.enter_ns, r.leave_ns};
      if (training) {
        r.at_once =
            training->covers(call) && training->blocked_ns(call) >= kAtOnce * static_cast<double>(call.length_ns());
      } else if (in_calls) {
        const double inside_ns = in_calls->until(r.leave_ns) - in_calls->until(r.enter_ns);
        r.at_once = inside_ns >= kAtOnce * static_cast<double>(r.leave_ns - r.enter_ns);
      }
      calls_by_op[r.op] += 1;
      step.push_back(r);
    }
    finish();
    // Each further rank may only lessen it.
    if (least.size() == steps.size() && mean_of_values(least) < least_ns) return std::nullopt;
  }
  if (rank_steps == 0 || at_once_bytes < kMostBytes * found.bytes) return std::nullopt;
  found.saving_ns = mean_of_values(least);
  if (found.saving_ns < least_ns) return std::nullopt;
  for (double* sum : {&found.transfer_ns, &found.between_ns, &found.calls, &found.bytes}) *sum /= rank_steps;
  found.op = names[std::max_element(calls_by_op.begin(), calls_by_op.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->first];
  Query phases(input.db, "SELECT 1 FROM region WHERE kind = 'phase' AND name = 'forward' LIMIT 1");
  found.phases = phases.next();
  return found;
}

}  // namespace ddl
