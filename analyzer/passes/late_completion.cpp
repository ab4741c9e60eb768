#include "analyzer/passes/late_completion.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "analyzer/each_row.h"
#include "analyzer/flat_map.h"
#include "analyzer/passes/message_operation.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

/// That a rank must test, against the one that tests most. Ranks of a job do the same: one that tests less often
/// computes meanwhile.
constexpr double kLeastOfMost = 0.5;

struct CompletingCall {
  int64_t event = 0, enter_ns = 0, leave_ns = 0;
  int64_t free_ns = 0;            ///< waits for nobody to post from here on, as far as known
  int64_t others_ns = INT64_MIN;  ///< the last of the others to come
  bool tests = false;
};

/// One member's part of a non-blocking collective.
struct MemberFlight {
  int64_t thread, end_ns;
  uint64_t instance;
  std::optional<int64_t> waits_until_ns;
};

/// Those of one process, and the calls that complete them.
class Flights {
 public:
  void clear() {
    flights_.clear();
    calls_.clear();
    call_at_.clear();
  }
  void add(const MemberFlight& flight) { flights_.push_back(flight); }
  void add(int64_t thread, const CompletingCall& call) {
    call_at_[place(thread, call.leave_ns)] = calls_.size();
    calls_.push_back(call);
  }
  /// A request is over when the call that completed it is left.
  void each(const std::function<void(const MemberFlight&, CompletingCall&)>& use) {
    for (const MemberFlight& flight : flights_) {
      const auto found = call_at_.find(place(flight.thread, flight.end_ns));
      if (found != call_at_.end()) use(flight, calls_[found->second]);
    }
  }
  const std::vector<CompletingCall>& calls() const { return calls_; }

 private:
  using Place = std::pair<int64_t, int64_t>;
  struct PlaceHash {
    size_t operator()(const Place& p) const {
      return static_cast<size_t>((static_cast<uint64_t>(p.second) + static_cast<uint64_t>(p.first)) *
                                 0x9e3779b97f4a7c15ull);
    }
  };
  static Place place(int64_t thread, int64_t end_ns) { return {thread, end_ns}; }

  std::vector<MemberFlight> flights_;
  std::vector<CompletingCall> calls_;
  std::unordered_map<Place, size_t, PlaceHash> call_at_;
};

bool has_nonblocking_collectives(SQLite::Database& db, const Catalog& catalog) {
  Query used(db, "SELECT DISTINCT op FROM profile WHERE calls > 0");
  while (used.next()) {
    const auto known = catalog.operations.find(used.integer(0));
    if (known != catalog.operations.end() && known->second.nonblocking && known->second.wait != WaitRule::kNone)
      return true;
  }
  return false;
}

/// Hands the flights of each process to `use`, one process after the other.
void each_process(SQLite::Database& db, const Catalog& catalog,
                  const std::function<void(int64_t process, Flights&)>& use) {
  EachRow rows(
      db,
      "e.process, e.thread, e.kind, e.op, e.start_ns, e.start_ns + e.duration_ns, e.id, e.comm, e.seq, k.wait_ns,"
      " w.wait_ns",
      "event e NOT INDEXED LEFT JOIN collective k ON k.event = e.id LEFT JOIN call_wait w ON w.event = e.id"
      " WHERE (e.kind = 2 AND e.seq IS NOT NULL)"
      " OR (e.kind = 1 AND e.op IN (SELECT id FROM op WHERE class = 'completion'))");
  Flights flights;
  int64_t current = 0;
  const auto end_process = [&] {
    if (current != 0) use(current, flights);
    flights.clear();
  };
  rows.run([&](const RowValues& row) {
    if (row.integer(0) != current) {
      end_process();
      current = row.integer(0);
    }
    const int64_t enter_ns = row.integer(4), leave_ns = row.integer(5);
    if (row.integer(2) == 1) {
      const bool tests = message_operation(catalog.operation(row.integer(3))).role == MessageRole::kTest;
      flights.add(row.integer(1), {row.integer(6), enter_ns, leave_ns, enter_ns + row.integer(10), INT64_MIN, tests});
      return;
    }
    const auto communicator = catalog.communicators.find(row.integer(7));
    if (communicator == catalog.communicators.end() || communicator->second.size == 1) return;
    const std::optional<int64_t> wait_ns = row.maybe_integer(9);
    flights.add({row.integer(1), leave_ns, key_of_pair(row.integer(7), row.integer(8)),
                 wait_ns ? std::optional(enter_ns + *wait_ns) : std::nullopt});
  });
  end_process();
}

}  // namespace

std::set<int64_t> polling_processes(SQLite::Database& db) {
  Query tests(db, R"(
    SELECT f.process, p.world, sum(f.calls),
           (SELECT count(*) FROM event e
            WHERE e.process = f.process AND e.kind = 1
              AND e.op IN (SELECT id FROM op WHERE class = 'completion' AND name LIKE '%Test%'))
    FROM profile f
    JOIN process p ON p.id = f.process
    WHERE f.op IN (SELECT id FROM op WHERE class = 'completion' AND name LIKE '%Test%')
    GROUP BY f.process)");
  struct Rate {
    int64_t process, world;
    double tests;  ///< for each that found something
  };
  std::vector<Rate> rates;
  std::map<int64_t, double> most;  // by world
  while (tests.next()) {
    rates.push_back({tests.integer(0), tests.integer(1), tests.real(2) / std::max(1.0, tests.real(3))});
    most[rates.back().world] = std::max(most[rates.back().world], rates.back().tests);
  }
  std::set<int64_t> polling;
  for (const Rate& rate : rates) {
    const double least = std::max(static_cast<double>(kLeastInVain), kLeastOfMost * most[rate.world]);
    if (rate.tests >= least) polling.insert(rate.process);
  }
  return polling;
}

void find_late_completions(SQLite::Database& db, const Catalog& catalog) {
  if (!has_nonblocking_collectives(db, catalog)) return;
  const std::set<int64_t> polling = polling_processes(db);
  struct Last {
    int64_t ns = INT64_MIN;
  };
  FlatMap<Last> last_to_complete;  // by instance
  each_process(db, catalog, [&](int64_t process, Flights& flights) {
    const bool polls = polling.contains(process);
    flights.each([&](const MemberFlight& flight, CompletingCall& call) {
      if (polls && call.tests) return;
      Last& last = last_to_complete[flight.instance];
      last.ns = std::max(last.ns, call.enter_ns);
    });
  });
  Query insert(db, "INSERT INTO late_completion (event, start_ns, end_ns) VALUES (?, ?, ?)");
  each_process(db, catalog, [&](int64_t process, Flights& flights) {
    const bool polls = polling.contains(process);
    flights.each([&](const MemberFlight& flight, CompletingCall& call) {
      const Last* last = last_to_complete.find(flight.instance);
      if (last == nullptr) return;
      if (call.tests) {
        const int64_t from_ns = flight.waits_until_ns.value_or(call.enter_ns),
                      until_ns = std::min(last->ns, call.enter_ns);
        if (polls && from_ns < until_ns) insert.run(call.event, from_ns, until_ns);
        return;
      }
      // where waiting is not known, transfer is not either
      call.free_ns = std::max(call.free_ns, flight.waits_until_ns.value_or(call.leave_ns));
      call.others_ns = std::max(call.others_ns, last->ns);
    });
    for (const CompletingCall& call : flights.calls()) {
      const int64_t end_ns = std::min(call.others_ns, call.leave_ns);
      if (!call.tests && call.free_ns < end_ns) insert.run(call.event, call.free_ns, end_ns);
    }
  });
}

std::map<int64_t, std::vector<Interval>> read_late_completions(SQLite::Database& db) {
  std::map<int64_t, std::vector<Interval>> by_process;
  Query rows(db, R"(
    SELECT e.process, l.start_ns, l.end_ns
    FROM (SELECT event, max(start_ns) AS start_ns, max(end_ns) AS end_ns FROM late_completion GROUP BY event) l
    JOIN event e ON e.id = l.event
    WHERE l.start_ns < l.end_ns AND l.start_ns >= e.start_ns
    ORDER BY e.process, l.start_ns)");
  while (rows.next()) by_process[rows.integer(0)].push_back({rows.integer(1), rows.integer(2)});
  return by_process;
}

}  // namespace ddl
