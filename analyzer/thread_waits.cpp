#include "analyzer/thread_waits.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

struct Blocked {
  int64_t process, rank, thread;
  double ns;  ///< neither on a CPU nor ready for one
};

/// Main threads that own their processes' steps, beside other threads: the account is theirs.
std::vector<Blocked> blocked_threads(SQLite::Database& db, int64_t world) {
  Query row(db, R"(
    SELECT p.id, p.rank, t.thread, CAST(whole.value AS INTEGER) - CAST(ran.value AS INTEGER) - CAST(ready.value AS INTEGER)
    FROM process p
    JOIN thread t ON t.process = p.id AND t.tid = p.pid
    JOIN process_fact ready ON ready.process = p.id AND ready.key = 'run_queue_wait_ns'
    JOIN process_fact ran ON ran.process = p.id AND ran.key = 'on_cpu_ns'
    JOIN process_fact whole ON whole.process = p.id AND whole.key = 'cpu_account_ns'
    WHERE p.world = ? AND p.rank IS NOT NULL
      AND (SELECT count(*) FROM thread o WHERE o.process = p.id) > 1
      AND t.thread = coalesce((SELECT s.thread FROM step s WHERE s.process = p.id LIMIT 1), 0)
      AND NOT EXISTS (SELECT 1 FROM background_process b WHERE b.process = p.id))");
  std::vector<Blocked> threads;
  for (row.bind(world); row.next();)
    if (row.real(3) > 0) threads.push_back({row.integer(0), row.integer(1), row.integer(2), row.real(3)});
  return threads;
}

}  // namespace

std::map<int64_t, double> waits_for_threads_ns(SQLite::Database& db, int64_t world) {
  std::map<int64_t, double> waits_ns;
  const std::vector<Blocked> threads = blocked_threads(db, world);
  if (threads.empty()) return waits_ns;
  Query steady(db, R"(
    SELECT s.start_ns, s.start_ns + s.duration_ns
    FROM step s
    JOIN steady_number n ON n.world = ?2 AND n.step = s.step
    WHERE s.process = ?1 AND s.measured AND s.duration_ns IS NOT NULL)");
  Query any_steady(db, "SELECT 1 FROM steady_number WHERE world = ? LIMIT 1");
  const bool in_steps = any_steady.bind(world).next();
  Query calls(db, R"(
    SELECT e.start_ns, e.start_ns + e.duration_ns, e.thread, e.kind, e.seq IS NOT NULL
    FROM event e
    WHERE e.process = ? AND e.kind IN (1, 2))");
  for (const Blocked& blocked : threads) {
    std::vector<Interval> own, others, windows;
    for (calls.bind(blocked.process); calls.next();) {
      const Interval interval{calls.integer(0), calls.integer(1)};
      if (calls.integer(2) != blocked.thread) {
        if (calls.integer(4) != 0) others.push_back(interval);
      } else if (calls.integer(3) == 1) {
        own.push_back(interval);
      }
    }
    IntervalSet outside = subtract(IntervalSet(std::move(others)), IntervalSet(std::move(own)));
    for (steady.bind(blocked.process, world); steady.next();) windows.push_back({steady.integer(0), steady.integer(1)});
    if (in_steps) outside = intersect(outside, IntervalSet(std::move(windows)));
    if (const auto ns = std::min(blocked.ns, static_cast<double>(outside.length_ns())); ns > 0)
      waits_ns[blocked.rank] = ns;
  }
  return waits_ns;
}

}  // namespace ddl
