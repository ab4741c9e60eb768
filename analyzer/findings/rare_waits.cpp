#include "analyzer/findings/rare_waits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kLeastLongNs = 50e6;    // the scheduler of a busy machine keeps a process waiting for less
constexpr double kLongOfMedian = 10;     // against the median of all waits
constexpr size_t kLeastLongStalls = 10;  // fewer are rare_stalls.h's, if they are long
constexpr double kMostOfStalls = 0.75;   // of the time of all long stalls
constexpr double kBeyondChance = 3;      // standard deviations, if each stall hit any rank
constexpr double kFewOfWaits = 0.25;     // of the waits for the rank
constexpr double kFewOfSteps = 0.25;     // stalls
constexpr double kSameDistance = 0.05;   // events from one stall to the next, against the median
constexpr double kMostDistances = 0.75;
constexpr double kRareWaitsOfRun = 0.05;  // of the run; as rare_stalls.h

struct LongWait {
  int64_t begin_ns, end_ns;
  int64_t event;  ///< of the rank that was late
};

struct Stalls {
  size_t waits = 0;
  double waited_ns = 0;              ///< sum of the waits
  std::vector<double> durations_ns;  ///< those that overlap are one
  std::vector<int64_t> events;       ///< what came late first
  double all_ns() const {
    double sum_ns = 0;
    for (const double ns : durations_ns) sum_ns += ns;
    return sum_ns;
  }
};

double run_ns(const FindingInput& input) {
  int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0) continue;
    begin_ns = std::min(begin_ns, process.run_begin_ns.value_or(process.start_ns));
    end_ns = std::max(end_ns, process.end_ns);
  }
  return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) : 0;
}

/// Of all messages of the run; several worlds have one.
double median_wait_ns(SQLite::Database& db) {
  std::vector<double> waits_ns;
  Query rows(db, "SELECT late_sender_wait_ns, late_receiver_wait_ns FROM message");
  while (rows.next()) {
    for (const int column : {0, 1})
      if (!rows.is_null(column) && rows.real(column) > 0) waits_ns.push_back(rows.real(column));
  }
  return waits_ns.empty() ? 0 : median_of(waits_ns);
}

Stalls merged(std::vector<LongWait> waits) {
  Stalls stalls;
  std::sort(waits.begin(), waits.end(), [](const LongWait& a, const LongWait& b) { return a.begin_ns < b.begin_ns; });
  int64_t until_ns = INT64_MIN;
  for (const LongWait& wait : waits) {
    ++stalls.waits;
    stalls.waited_ns += static_cast<double>(wait.end_ns - wait.begin_ns);
    if (wait.begin_ns > until_ns) {
      stalls.durations_ns.push_back(0);
      stalls.events.push_back(wait.event);
    }
    stalls.durations_ns.back() +=
        static_cast<double>(std::max<int64_t>(0, wait.end_ns - std::max(wait.begin_ns, until_ns)));
    until_ns = std::max(until_ns, wait.end_ns);
  }
  return stalls;
}

/// They come as often as the program has it, like a pipeline's bubbles in each step: in a quarter of the steps, or
/// where steps are not known, mostly after the same number of calls.
bool is_habit(const FindingInput& input, const Stalls& stalls, double run_ns) {
  const auto count = static_cast<double>(stalls.durations_ns.size());
  if (input.steps.annotated)
    return input.step_ns <= 0 || count > kFewOfSteps * run_ns / static_cast<double>(input.step_ns);
  std::vector<double> distances;
  std::vector<int64_t> events = stalls.events;
  std::sort(events.begin(), events.end());
  for (size_t i = 1; i < events.size(); ++i) distances.push_back(static_cast<double>(events[i] - events[i - 1]));
  if (distances.empty()) return false;
  std::sort(distances.begin(), distances.end());
  const double middle = distances[distances.size() / 2];
  const auto same = std::count_if(distances.begin(), distances.end(),
                                  [&](double d) { return std::abs(d - middle) <= kSameDistance * middle; });
  return static_cast<double>(same) >= kMostDistances * static_cast<double>(distances.size());
}

std::map<int64_t, Stalls> long_stalls(const FindingInput& input, double least_ns) {
  std::map<int64_t, std::vector<LongWait>> waits;
  Query rows(input.db, R"(
    SELECT p.rank, c.start_ns, w.wait_ns, e.id
    FROM (
      SELECT send AS late, receive_call AS call, late_sender_wait_ns AS wait_ns FROM message WHERE late_sender_wait_ns >= ?2
      UNION ALL
      SELECT receive, send_call, late_receiver_wait_ns FROM message WHERE late_receiver_wait_ns >= ?2) w
    CROSS JOIN event e ON e.id = w.late CROSS JOIN process p ON p.id = e.process CROSS JOIN event c ON c.id = w.call
    WHERE p.world = ?1 AND p.rank IS NOT NULL)");
  rows.bind(input.world, least_ns);
  while (rows.next())
    waits[rows.integer(0)].push_back({rows.integer(1), rows.integer(1) + rows.integer(2), rows.integer(3)});
  std::map<int64_t, Stalls> stalls;
  for (auto& [rank, own] : waits) stalls[rank] = merged(std::move(own));
  return stalls;
}

}  // namespace

std::optional<RareWaits> find_rare_waits(const FindingInput& input, size_t ranks) {
  const double whole_ns = run_ns(input);
  if (input.bounded || ranks < 2 || whole_ns <= 0) return std::nullopt;
  struct Blamed {
    double waits = 0, ns = 0;
  };
  std::map<int64_t, Blamed> blamed;
  double most_ns = 0;
  Query blame(input.db, "SELECT late, sum(calls), sum(wait_ns) FROM message_blame WHERE world = ? GROUP BY late");
  for (blame.bind(input.world); blame.next();) {
    blamed[blame.integer(0)] = {blame.real(1), blame.real(2)};
    most_ns = std::max(most_ns, blame.real(2));
  }
  RareWaits found;
  found.others = ranks - 1;
  const auto others = static_cast<double>(found.others);
  if (most_ns < kRareWaitsOfRun * whole_ns * others) return std::nullopt;  // most jobs: no need to look at each message
  found.median_ns = median_wait_ns(input.db);
  found.least_ns = std::max(kLeastLongNs, kLongOfMedian * found.median_ns);
  const std::map<int64_t, Stalls> stalls = long_stalls(input, found.least_ns);
  double all_ns = 0;
  const std::pair<const int64_t, Stalls>* worst = nullptr;
  for (const auto& of_rank : stalls) {
    all_ns += of_rank.second.all_ns();
    found.all_stalls += of_rank.second.durations_ns.size();
    if (worst == nullptr || of_rank.second.waited_ns > worst->second.waited_ns) worst = &of_rank;
  }
  if (worst == nullptr) return std::nullopt;
  const Stalls& own = worst->second;
  found.rank = worst->first;
  found.stalls = own.durations_ns.size();
  found.waited_ns = own.waited_ns / others;
  found.share = found.waited_ns / whole_ns;
  const double chance = 1 / static_cast<double>(ranks), all = static_cast<double>(found.all_stalls);
  const bool beyond_chance =
      static_cast<double>(found.stalls) > all * chance + kBeyondChance * std::sqrt(all * chance * (1 - chance));
  if (found.stalls < kLeastLongStalls || found.share < kRareWaitsOfRun || own.all_ns() < kMostOfStalls * all_ns ||
      !beyond_chance)
    return std::nullopt;
  if (static_cast<double>(own.waits) > kFewOfWaits * blamed[found.rank].waits || is_habit(input, own, whole_ns))
    return std::nullopt;
  std::vector<double> durations_ns = own.durations_ns;
  std::sort(durations_ns.begin(), durations_ns.end());
  found.typical_ns = durations_ns[durations_ns.size() / 2];
  found.longest_ns = durations_ns.back();
  return found;
}

}  // namespace ddl
