#include "analyzer/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyzer/cpu_waits.h"
#include "analyzer/facts.h"
#include "analyzer/findings/job_end.h"
#include "analyzer/intervals.h"
#include "analyzer/passes/late_completion.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "analyzer/thread_waits.h"

namespace ddl {
namespace {

/// The numbers of both do not exclude that they are equal.
bool cannot_be_told_apart(const Share& larger, const Share& smaller) {
  return larger.lo.value_or(larger.value) <= smaller.hi.value_or(smaller.value);
}

/// What counts as computing and may be waiting.
std::string may_be_waiting(double share, const char* where) {
  return share > 0 ? fmt::format("; up to {:.1f}% more may be waiting, {}, and count as computing", share * 100, where)
                   : "";
}
constexpr const char* kInLoops = "in loops around calls that only test (MPI_Test, MPI_Iprobe)";
constexpr const char* kBehindThreads = "off the CPU while other threads of their processes are in collectives";

}  // namespace

Verdict decide(std::vector<Share> shares, const char* whole) {
  double not_split = 0;
  std::string not_split_shown;
  std::erase_if(shares, [&](const Share& share) {
    if (share.name != kNotSplit) return false;
    not_split = share.value;
    not_split_shown = share.shown.empty() ? share.name : share.shown;
    return true;
  });
  if (shares.empty() && not_split == 0)
    return {"", fmt::format("not known how much of the {} is waiting or transfer", whole)};
  std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.value > b.value; });
  std::string numbers;
  const auto tell = [&](const std::string& name, const std::string& bound, double value) {
    numbers += fmt::format("{}{} {}{}{:.1f}%", numbers.empty() ? "" : ", ", name, bound, bound.empty() ? "" : " ",
                           value * 100);
  };
  for (const Share& share : shares) tell(share.shown.empty() ? share.name : share.shown, share.bound, share.value);
  if (not_split > 0) tell(not_split_shown, "", not_split);
  numbers += fmt::format(" of the {} (threshold {:.0f}%)", whole, kBoundThreshold * 100);

  const double next = std::max(kBoundThreshold, shares.size() > 1 ? shares[1].value : 0);
  if (not_split > kBoundThreshold && (shares.empty() || shares.front().value <= next + not_split))
    return {"undecided", fmt::format("undecided: what is not split may be waiting or transfer: {}", numbers)};
  if (shares.empty()) return {"compute", "bound by computing: " + numbers};
  const Share& first = shares.front();
  const auto waits =
      std::find_if(shares.begin(), shares.end(), [](const Share& share) { return share.name == "wait"; });
  const bool is_bound_by_wait = first.name == "wait" && first.value > kBoundThreshold;
  const double computing = waits == shares.end() ? 0 : waits->polled + waits->blocked;
  if (!is_bound_by_wait && computing > 0 && waits->value + computing > std::max(first.value, kBoundThreshold))
    return {
        "undecided",
        fmt::format("undecided between {} and wait: {}{}", first.value > kBoundThreshold ? first.name : "computing",
                    numbers, may_be_waiting(waits->polled, kInLoops) + may_be_waiting(waits->blocked, kBehindThreads))};
  if (first.value <= kBoundThreshold) {
    double waiting = 0;  // as much as there may be
    for (const Share& share : shares)
      waiting += (share.name == "wait" ? share.value : 0) + (share.bound.empty() ? 0 : share.unsplit);
    if (waiting > kBoundThreshold) return {"undecided", "undecided between computing and wait: " + numbers};
    return {"compute", "bound by computing: " + numbers};
  }
  if (shares.size() > 1 && shares[1].value > kBoundThreshold && cannot_be_told_apart(first, shares[1])) {
    return {"undecided", fmt::format("undecided between {} and {}: {}", first.name, shares[1].name, numbers)};
  }
  std::string unsplit;
  if (first.unsplit > kBoundThreshold) {
    unsplit = fmt::format("; {:.1f}% are {}", first.unsplit * 100, first.unsplit_what);
  }
  if (first.value - first.unsplit <= next)
    return {"undecided", fmt::format("undecided between {} and wait: {}{}", first.name, numbers, unsplit)};
  if (waits != shares.end() && waits->blocked > kBoundThreshold)
    unsplit += may_be_waiting(waits->blocked, kBehindThreads);
  return {first.name, fmt::format("bound by {}: {}{}", first.name, numbers, unsplit)};
}

namespace {

/// Share of the time inside MPI that is spent in calls that only look whether something is there, over the whole run:
/// in a loop they are waiting, now and then they are not, and nothing tells which.
double polling_share(SQLite::Database& db, int64_t world) {
  Query row(db, R"(
    SELECT total(iif((o.class = 'completion' AND o.name LIKE '%Test%') OR (o.class = 'probe' AND o.name LIKE 'MPI_I%'), f.time_ns, 0)),
           total(f.time_ns)
    FROM profile f JOIN op o ON o.id = f.op JOIN process p ON p.id = f.process
    WHERE p.world = ? AND o.class <> 'lifecycle')");
  row.bind(world);
  return row.next() && row.real(1) > 0 ? row.real(0) / row.real(1) : 0;
}

/// A process that tests or probes in vain as often as not.
struct PollingProcess {
  bool tests = false, probes = false;
  struct Flight {
    int64_t begin_ns, until_ns, over_ns;
  };
  std::vector<Flight> flights;                   ///< begin, for whom it waits, end: when a test found that
  std::unordered_map<int64_t, int64_t> sent_ns;  ///< of messages, by begin of the receive
};

std::map<int64_t, PollingProcess> polling_of(SQLite::Database& db, int64_t world) {
  Query calls(db, R"(
    SELECT f.process, o.class = 'probe', sum(f.calls),
           (SELECT count(*) FROM event e JOIN op t ON t.id = e.op
            WHERE e.process = p.id AND e.kind = 1 AND t.class = o.class AND (t.name LIKE '%Test%' OR t.name LIKE 'MPI_I%'))
    FROM profile f
    JOIN op o ON o.id = f.op
    JOIN process p ON p.id = f.process
    WHERE p.world = ? AND f.op IN (SELECT id FROM op WHERE (class = 'completion' AND name LIKE '%Test%')
                                                        OR (class = 'probe' AND name LIKE 'MPI_I%'))
    GROUP BY f.process, o.class)");
  std::map<int64_t, PollingProcess> polling;
  for (calls.bind(world); calls.next();) {
    if (calls.integer(3) == 0 || calls.integer(2) < kLeastInVain * calls.integer(3)) continue;
    PollingProcess& process = polling[calls.integer(0)];
    (calls.integer(1) != 0 ? process.probes : process.tests) = true;
  }
  return polling;
}

/// Everything that the loops of `polling` may wait for, in steady steps.
void read_what_loops_wait_for(SQLite::Database& db, int64_t world, std::map<int64_t, PollingProcess>& polling) {
  const auto steady = [](const char* step) {
    return fmt::format(
        " AND ({} IN (SELECT step FROM steady_number WHERE world = ?1) OR NOT EXISTS (SELECT 1 FROM steady_number WHERE world = ?1))",
        step);
  };
  Query collectives(db, R"(
    SELECT e.start_ns, e.start_ns + c.wait_ns, e.start_ns + e.duration_ns
    FROM event e
    JOIN collective c ON c.event = e.id
    WHERE e.process = ?2 AND e.kind = 2 AND c.wait_ns > 0)" +
                            steady("e.step"));
  for (auto& [id, process] : polling) {
    if (!process.tests) continue;
    for (collectives.bind(world, id); collectives.next();)
      process.flights.push_back({collectives.integer(0), collectives.integer(1), collectives.integer(2)});
  }
  const auto tests = [&](int64_t id) -> PollingProcess* {
    const auto found = polling.find(id);
    return found != polling.end() && found->second.tests ? &found->second : nullptr;
  };
  Query late(db, R"(
    SELECT e.process, l.start_ns, l.end_ns, e.start_ns + e.duration_ns
    FROM late_completion l
    JOIN event e ON e.id = l.event
    WHERE l.start_ns < e.start_ns)" +
                     steady("e.step"));
  for (late.bind(world); late.next();)
    if (PollingProcess* process = tests(late.integer(0)))
      process->flights.push_back({late.integer(1), late.integer(2), late.integer(3)});
  Query messages(db, R"(
    SELECT s.process, s.kind, s.start_ns, s.start_ns + s.duration_ns, r.process, r.kind, r.start_ns, r.start_ns + r.duration_ns
    FROM message m
    CROSS JOIN event s ON s.id = m.send
    CROSS JOIN event r ON r.id = m.receive
    WHERE m.why IS NULL)" +
                         steady("r.step"));
  for (messages.bind(world); messages.next();) {
    constexpr int64_t kRequest = 2;
    const int64_t send_ns = messages.integer(2), receive_ns = messages.integer(6);
    PollingProcess* sender = messages.integer(1) == kRequest ? tests(messages.integer(0)) : nullptr;
    PollingProcess* receiver = messages.integer(5) == kRequest ? tests(messages.integer(4)) : nullptr;
    // What was sent before its receive was posted waited for nobody.
    if (sender && send_ns < receive_ns && receive_ns < messages.integer(3))
      sender->flights.push_back({send_ns, receive_ns, messages.integer(3)});
    if (receiver && receive_ns < send_ns) receiver->flights.push_back({receive_ns, send_ns, messages.integer(7)});
    const auto probing = polling.find(messages.integer(4));
    if (probing != polling.end() && probing->second.probes) probing->second.sent_ns[receive_ns] = send_ns;
  }
}

/// Time outside of calls that may be waiting: a process tests again and again whether a collective or a message is
/// over, or probes for one, in a loop that may sleep, while other ranks have not posted their part, or compute on
/// behind it (late_completion.h). Tests and probes in vain leave no record, so that when the loop began is not known,
/// and what it does beside: from the post on, or from the call before the probe, it may be waiting.
double polled_ns(SQLite::Database& db, int64_t world) {
  std::map<int64_t, PollingProcess> polling = polling_of(db, world);
  if (polling.empty()) return 0;
  read_what_loops_wait_for(db, world, polling);
  Query calls(db, R"(
    SELECT e.start_ns, e.start_ns + e.duration_ns, o.class = 'completion' AND o.name LIKE '%Test%',
           o.class = 'probe' AND o.name LIKE 'MPI_I%'
    FROM event e JOIN op o ON o.id = e.op WHERE e.process = ? AND e.kind = 1
    ORDER BY e.start_ns)");
  double sum_ns = 0;
  for (const auto& [id, process] : polling) {
    std::vector<Interval> inside, waits;
    std::unordered_set<int64_t> tested_ns;
    Interval probed;  // from the call before a probe that found a message to the probe; empty: that was no probe
    const auto waited_for_message = [&](int64_t receive_ns) {
      const auto sent = process.sent_ns.find(receive_ns);
      if (sent == process.sent_ns.end()) return false;
      waits.push_back({probed.begin_ns, std::min(sent->second, probed.end_ns)});
      return true;
    };
    for (calls.bind(id); calls.next();) {
      const Interval call{calls.integer(0), calls.integer(1)};
      if (probed.length_ns() > 0) waited_for_message(call.begin_ns);
      probed = {};
      if (calls.integer(3) != 0 && process.probes && !inside.empty()) {
        probed = {inside.back().end_ns, call.begin_ns};
        if (waited_for_message(call.begin_ns)) probed = {};  // MPI_Improbe takes what it finds
      }
      inside.push_back(call);
      if (calls.integer(2) != 0) tested_ns.insert(call.end_ns);
    }
    for (const PollingProcess::Flight& flight : process.flights)
      if (tested_ns.contains(flight.over_ns))
        waits.push_back({flight.begin_ns, std::min(flight.until_ns, flight.over_ns)});
    sum_ns += static_cast<double>(subtract(IntervalSet(std::move(waits)), IntervalSet(std::move(inside))).length_ns());
  }
  return sum_ns;
}

/// Time of all ranks that counts as computing and may be waiting for another thread of the process (thread_waits.h).
double blocked_ns(SQLite::Database& db, int64_t world) {
  double sum_ns = 0;
  for (const auto& [rank, ns] : waits_for_threads_ns(db, world)) sum_ns += ns;
  return sum_ns;
}

/// Share of the time in transfers that may be waiting for ranks without a record, which nothing tells apart.
double share_of_bounds(SQLite::Database& db, int64_t world, const JobTime& time) {
  Query row(db, R"(
    SELECT total(k.xfer_ns)
    FROM collective k
    JOIN event e ON e.id = k.event
    JOIN process p ON p.id = e.process
    WHERE p.world = ?1 AND k.wait_method = 'lower-bound'
      AND (e.step IN (SELECT step FROM steady_number WHERE world = ?1) OR NOT EXISTS (SELECT 1 FROM steady_number WHERE world = ?1)))");
  Query messages(db, R"(
    SELECT total(e.duration_ns)
    FROM call_wait w
    JOIN event e ON e.id = w.event
    JOIN process p ON p.id = e.process
    WHERE p.world = ?1 AND w.wait_ns IS NULL
      AND (e.step IN (SELECT step FROM steady_number WHERE world = ?1) OR NOT EXISTS (SELECT 1 FROM steady_number WHERE world = ?1)))");
  double ns = 0;
  for (Query* part : {&row, &messages})
    if (part->bind(world).next()) ns += part->real(0);
  return ns / time.sum.total_ns();
}

/// Share of the time in calls that complete what others have posted and did not come to complete: transfer, or waiting
/// for ranks that compute outside of the library. Of steps' threads; those of background threads are in no share.
double share_of_late_completions(SQLite::Database& db, int64_t world, const JobTime& time) {
  Query row(db, R"(
    SELECT total(max(0, l.end_ns - l.start_ns))
    FROM (SELECT event, max(start_ns) AS start_ns, max(end_ns) AS end_ns FROM late_completion GROUP BY event) l
    JOIN event e ON e.id = l.event AND l.start_ns >= e.start_ns
    JOIN process p ON p.id = e.process
    LEFT JOIN step s ON s.process = e.process AND s.step = e.step AND s.measured
    WHERE p.world = ?1 AND e.thread = coalesce(s.thread, 0)
      AND NOT EXISTS (SELECT 1 FROM background_process b WHERE b.process = e.process)
      AND (e.step IN (SELECT step FROM steady_number WHERE world = ?1) OR NOT EXISTS (SELECT 1 FROM steady_number WHERE world = ?1)))");
  return row.bind(world).next() ? row.real(0) / time.sum.total_ns() : 0;
}

/// With the 95 % interval over the steady steps, if `column` of steady_step is known in all of them.
Share with_interval(SQLite::Database& db, int64_t world, const char* name, double value, const char* column) {
  Share share{name, value};
  std::vector<double> parts, wholes;
  Query row(db, fmt::format("SELECT {}, duration_ns FROM steady_step WHERE world = ?", column));
  for (row.bind(world); row.next();) {
    if (row.is_null(0)) return share;
    parts.push_back(row.real(0));
    wholes.push_back(row.real(1));
  }
  if (const std::optional<Range> interval = interval_of_ratio(parts, wholes))
    share.lo = interval->lo, share.hi = interval->hi;
  return share;
}

/// What threads do in MPI.
std::vector<Share> thread_shares(SQLite::Database& db, int64_t world, const JobTime& time) {
  if (!time.is_known()) return {};
  Share not_split{kNotSplit, time.shown_share(&TimeParts::unsplit_ns)};
  not_split.shown = fmt::format("{} ({})", kNotSplit, time.why);
  if (time.nothing_split()) return {not_split};
  std::vector<Share> shares = {
      with_interval(db, world, "wait", time.shown_share(&TimeParts::wait_ns), "wait_ns"),
      with_interval(db, world, "transfer", time.shown_share(&TimeParts::transfer_ns), "xfer_ns")};
  const double in_mpi = time.sum.communication_ns() / time.sum.total_ns();
  const double polling = in_mpi * polling_share(db, world), late = share_of_late_completions(db, world, time);
  shares[1].unsplit = std::min(shares[1].value, polling + late);
  if (late > polling)
    shares[1].unsplit_what =
        "in calls that complete what other ranks had posted, too, and came to complete later: they may have waited for these";
  shares[0].polled = std::min(time.shown_computing(), polled_ns(db, world) / time.sum.total_ns());
  if (time.bounded) {
    shares[0].bound = "at least";
    shares[1].bound = "at most";
    if (const double bounds = share_of_bounds(db, world, time); bounds > shares[1].unsplit) {
      shares[1].unsplit = std::min(shares[1].value, bounds);
      shares[1].unsplit_what =
          "in collectives and messages with ranks that left no record, which others may have waited for";
    }
  }
  if (time.sum.unsplit_ns > 0) shares.push_back(not_split);
  return shares;
}

/// What a pipeline waits for itself is told apart from other waiting, and loading data from other computing.
void add_bubble_and_input(SQLite::Database& db, int64_t world, std::vector<Share>& shares) {
  Query row(db, R"(
    SELECT iif(count(bubble_ns) = count(*) AND sum(staged) > 0, sum(bubble_ns), NULL) * 1.0 / sum(duration_ns),
           iif(count(input_ns) = count(*), sum(input_ns), NULL) * 1.0 / sum(duration_ns)
    FROM steady_step WHERE world = ? HAVING total(duration_ns) > 0)");
  row.bind(world);
  if (!row.next()) return;
  if (const std::optional<double> bubble = row.maybe_real(0)) {
    for (Share& wait : shares) {
      if (wait.name != "wait") continue;
      for (double* number : {&wait.value, wait.lo ? &*wait.lo : nullptr, wait.hi ? &*wait.hi : nullptr}) {
        if (number) *number = std::max(0.0, *number - *bubble);
      }
      if (*bubble > 0) wait.shown = "wait beside the bubble";
    }
    shares.push_back(with_interval(db, world, "bubble", *bubble, "bubble_ns"));
  }
  if (const std::optional<double> input = row.maybe_real(1))
    shares.push_back(with_interval(db, world, "input", *input, "input_ns"));
}

/// Where background threads communicate, a training thread may be blocked outside of communication, and not load data
/// either (specification.md J2). What one rank idles longer than another makes that one wait, and is told by its
/// waiting: the least of the ranks counts.
void add_idling_threads(SQLite::Database& db, int64_t world, std::vector<Share>& shares) {
  Query row(db, R"(
    SELECT count(*) * min(max(0, s.duration_ns - s.compute_ns - s.exposed_ns - coalesce(s.input_ns, 0))), total(s.duration_ns)
    FROM steady_part s
    WHERE s.world = ?1 AND EXISTS (SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ?1)
    GROUP BY s.step)");
  std::vector<double> parts, wholes;
  double idle_ns = 0, whole_ns = 0;
  for (row.bind(world); row.next();) {
    parts.push_back(row.real(0));
    wholes.push_back(row.real(1));
    idle_ns += parts.back();
    whole_ns += wholes.back();
  }
  if (whole_ns == 0) return;
  Share share{"idling", idle_ns / whole_ns};
  if (const std::optional<Range> interval = interval_of_ratio(parts, wholes))
    share.lo = interval->lo, share.hi = interval->hi;
  shares.push_back(share);
}

/// Where GPUs tell more: their collectives where those cost more than the host's calls, copies that nothing hides, and
/// idling: because the host was late - less what the host spent in MPI meanwhile, which is told by its own shares -,
/// while data was loaded, and for all other reasons.
void add_device_shares(SQLite::Database& db, int64_t world, const Facts& facts, std::vector<Share>& shares) {
  if (facts.resource == Resource::kThread || facts.resource == Resource::kUnseen) return;
  std::erase_if(shares, [&](const Share& share) {
    const bool of_mpi = share.name == "wait" || share.name == "transfer";
    // what the host did while GPUs computed costs nothing
    return share.name == "input" ||
           (of_mpi && facts.threads.sum.communication_ns() == 0);  // a job without MPI says nothing by it
  });
  double in_mpi = 0;
  for (const Share& share : shares) in_mpi += share.value;
  const JobTime& time = facts.headline;
  const auto at_least = [&](const char* name, double TimeParts::*part) {
    const double value = time.shown_share(part);
    const auto known =
        std::find_if(shares.begin(), shares.end(), [&](const Share& share) { return share.name == name; });
    if (known != shares.end() && known->value >= value) return;
    if (known != shares.end()) shares.erase(known);
    shares.push_back({name, value});
  };
  if (!time.nothing_split()) {
    at_least("wait", &TimeParts::wait_ns);
    at_least("transfer", &TimeParts::transfer_ns);
  }
  if (time.sum.unsplit_ns > 0) at_least(kNotSplit, &TimeParts::unsplit_ns);
  at_least("copy", &TimeParts::copy_ns);
  Query idle(db, R"(
    SELECT total(idle_host_ns), sum(idle_input_ns), total(idle_ns), count(*)
    FROM steady_gpu
    WHERE world = ?)");
  idle.bind(world);
  if (!idle.next()) return;
  const double whole_ns = time.sum.total_ns(), host = idle.real(0) / whole_ns,
               input = idle.maybe_real(1).value_or(0) / whole_ns;
  const double late = std::max(0.0, host - in_mpi);
  const double start = facts.step.has_steps ? 0 : std::min(late, run_start_ns(db, world) * idle.real(3) / whole_ns);
  // of the host's lateness, what ends with the first launch
  if (!facts.step.has_steps) shares.push_back({"start", start});
  shares.push_back({"host", late - start});
  if (!idle.is_null(1)) shares.push_back({"input", input});
  // What the host spent in MPI beyond its lateness kept GPUs idle for a reason that is told already.
  shares.push_back({"idling", std::max(0.0, idle.real(2) / whole_ns - host - input - std::max(0.0, in_mpi - host))});
}

/// For a run without steps: why what was recorded is not the run. Empty: it is.
std::string unfinished(SQLite::Database& db, int64_t world, const Facts& facts) {
  const NeverReturned open = never_returned(db, world);
  if (facts.step.has_steps || facts.step.timed > 0 || open.ranks == 0 || !facts.step.max_ns) return "";
  const char* what =
      open.ranks == 1 ? "a rank sat in a call that never returned" : "ranks sat in calls that never returned";
  if (!open.span_ns) return fmt::format("{}, and nobody saw for how long", what);
  const double run_ns =
      static_cast<double>(facts.coverage.ranks) * static_cast<double>(*facts.step.max_ns + *open.span_ns);
  return open.rank_ns > kBoundThreshold * run_ns
             ? fmt::format("{}, {:.0f}% of all ranks' time, which is in no number", what, 100 * open.rank_ns / run_ns)
             : "";
}

}  // namespace

void store_verdict(SQLite::Database& db, int64_t world, const std::string& told_doubt) {
  const Facts facts = read_facts(db, world);
  const std::string doubt = told_doubt.empty() ? unfinished(db, world, facts) : told_doubt;
  const bool unseen = facts.resource == Resource::kUnseen;
  std::vector<Share> shares;
  const bool silent = facts.resource != Resource::kThread && facts.threads.nothing_split();  // beside GPUs
  if (!silent && (facts.threads_tell() || !unseen)) shares = thread_shares(db, world, facts.threads);
  // outside MPI GPUs are waited for as well
  if (unseen && !shares.empty()) shares.push_back({kNotSplit, facts.threads.shown_computing()});
  if (!shares.empty()) add_bubble_and_input(db, world, shares);
  if (!shares.empty() && facts.resource == Resource::kThread) {
    for (Share& share : shares) {
      if (share.name != "wait") continue;
      const double computing = facts.threads.shown_computing() - share.polled;
      share.blocked = std::clamp(blocked_ns(db, world) / facts.threads.sum.total_ns(), 0.0, std::max(0.0, computing));
    }
    add_idling_threads(db, world, shares);
  }
  add_device_shares(db, world, facts, shares);
  const char* whole = facts.step.has_steps ? "step" : "run";
  Verdict verdict = doubt.empty() ? decide(std::move(shares), whole) : Verdict{"withheld", "withheld: " + doubt};
  if (unseen && verdict.name.empty())
    verdict.text =
        fmt::format("not known where the {} goes: collectives of NCCL, and no record of what GPUs did", whole);
  // What the shares call transfer, waiting or computing may be a thread that had no CPU.
  const double no_cpu = share_without_cpu(read_cpu_waits(db, world));
  if (doubt.empty() && no_cpu > kLeastCpuWait)
    verdict.text +=
        fmt::format("; {}ranks waited for a CPU for {:.1f}% of the time",
                    facts.resource == Resource::kThread ? "CPU contention is part of it: " : "", no_cpu * 100);
  const std::string key = world == 0 ? "verdict" : fmt::format("verdict.{}", world);
  Query insert(db, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");
  insert.run(key, verdict.name.empty() ? "n/a" : verdict.name);
  insert.run(key + ".text", verdict.text);
}

}  // namespace ddl
