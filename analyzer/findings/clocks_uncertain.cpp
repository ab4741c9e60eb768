// Clocks that contradict each other: collectives join a host to others, and still no even pace explains what they say
// of its clock - a machine that was suspended or migrated, a clock that was set. Who was late across hosts cannot be
// told then; where it matters no verdict is given. A clock that nothing joins to the others, or whose error is known,
// is not a contradiction: waits between such hosts are found without clocks, or not at all (specification.md W3).
//
// And clocks that cannot be true, on one host as well: one that a library fakes for some of the processes. They show in
// calls that end before what they wait for begins, in a processor whose counter ticks at a pace that none has, in a run
// that took longer than the job, and in records from before their process began. These were left out by the ingest, and
// how long the run took is not known.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kEnoughCollectives = 20;  // with so many, a clock could be placed if it kept its pace
constexpr double kMostViolations = 0.01;    // of the calls may end before what they wait for began

/// Times of a process whose spool's header is damaged prove nothing. Records that are odd for their times alone may be
/// those of an odd clock.
constexpr const char* kWhole =
    " AND NOT EXISTS (SELECT 1 FROM loss l WHERE l.world = p.world AND l.rank = p.rank AND l.kind = 'damaged_header')";

/// What a damaged record says of the clock counts where all processes of its host have one, as they do if it jumps:
/// else others know better.
constexpr const char* kBest =
    " AND (NOT EXISTS (SELECT 1 FROM loss l WHERE l.world = p.world AND l.rank = p.rank AND l.kind IN ('torn_spool', 'pages'))"
    " OR NOT EXISTS (SELECT 1 FROM process q WHERE q.world = p.world AND q.host = p.host AND NOT EXISTS (SELECT 1 FROM loss l"
    " WHERE l.world = q.world AND l.rank = q.rank AND l.kind IN ('torn_spool', 'damaged_header', 'pages'))))";

/// By communicator and host the highest number of a collective that one of its processes has a record of: a torn
/// one may have none.
std::map<int64_t, std::map<int64_t, int64_t>> recorded_collectives(const FindingInput& input) {
  std::map<int64_t, std::map<int64_t, int64_t>> recorded;
  Query reached(
      input.db,
      fmt::format(
          "SELECT r.comm, p.host, max(r.seq) FROM reached r JOIN process p ON p.id = r.process WHERE p.world = ?{} GROUP BY r.comm, p.host",
          kWhole));
  for (reached.bind(input.world); reached.next();)
    recorded[reached.integer(0)][reached.integer(1)] = reached.integer(2);
  return recorded;
}

/// Collectives of all members that join each host to others.
std::map<int64_t, int64_t> joining_collectives(const FindingInput& input) {
  std::map<int64_t, int64_t> joining;
  const std::map<int64_t, std::map<int64_t, int64_t>> recorded = recorded_collectives(input);
  Query groups(
      input.db,
      "SELECT g.comm, sum(g.instances) FROM collective_group g JOIN op o ON o.id = g.op WHERE g.world = ?"
      " AND o.class IN ('all_to_all', 'barrier') AND coalesce(g.bytes, 1) + (o.class = 'barrier') > 0 GROUP BY g.comm");
  groups.bind(input.world);
  while (groups.next()) {
    const auto hosts = recorded.find(groups.integer(0));
    if (hosts == recorded.end() || hosts->second.size() < 2) continue;
    for (const auto& [host, seq] : hosts->second) joining[host] += std::min(groups.integer(1), seq);
  }
  return joining;
}

std::vector<std::string> contradicting_hosts(const FindingInput& input) {
  std::vector<std::string> names;
  const std::map<int64_t, int64_t> joining = joining_collectives(input);
  for (const auto& [host, collectives] : joining) {
    if (collectives < kEnoughCollectives || input.catalog.host_clocks.at(host).sigma_ns) continue;
    Query name(input.db, "SELECT name FROM host WHERE id = ? AND clock <> 'imported'");  // nobody tried to fit those
    name.bind(host);
    if (name.next()) names.push_back(name.text(0));
  }
  return names;
}

/// Share of the calls of collectives, and of receives, that contradict the clocks.
double violations(const FindingInput& input) {
  Query row(input.db,
            "SELECT (SELECT total(count) FROM loss WHERE kind = 'clock_violations' AND world = ?1)"
            " / max(1, (SELECT total(calls) FROM collective_group WHERE world = ?1)"
            " + (SELECT total(m.receives) FROM message_part m JOIN process p ON p.id = m.process WHERE p.world = ?1))");
  row.bind(input.world);
  return row.next() ? row.real(0) : 0;
}

/// What a host's clock says that no clock can say; empty: nothing.
std::string impossible_clocks(const FindingInput& input) {
  constexpr double kLeastTicks = 1e7, kMostTicks = 1e10;  // a second, of counters that processors have
  // of the run; daemons that correct clocks slew them by a thousandth at most for long
  constexpr double kMostUneven = 0.01;
  constexpr double kLeastOffNs = 1e6;  // a pair of readings may be interrupted
  constexpr int64_t kLongestNs = 366LL * 86'400 * 1'000'000'000;
  constexpr int64_t kSlackNs = 10'000'000'000;  // of the job's own times, which the date tells
  Query row(input.db, fmt::format(R"(
    SELECT h.name, h.clock = 'tsc' AND h.ticks_per_second NOT BETWEEN ?2 AND ?3, h.ticks_per_second, max(p.end_ns) - min(p.start_ns),
           (SELECT CAST(e.value AS INTEGER) - CAST(s.value AS INTEGER) FROM meta e JOIN meta s ON s.key = 'started_realtime_ns'
            WHERE e.key = 'ended_realtime_ns'), coalesce(max(h.fit_residual_ns), 0)
    FROM host h JOIN process p ON p.host = h.id
    WHERE p.world = ?1{}{}
    GROUP BY h.id
    ORDER BY h.id)",
                                  kWhole, kBest));
  for (row.bind(input.world, kLeastTicks, kMostTicks); row.next();) {
    const int64_t span_ns = row.integer(3);
    const std::optional<int64_t> job_ns = row.maybe_integer(4);
    if (row.integer(1) != 0)
      return fmt::format("The counter of {} ticks {:.3g} times a second by its clock, as none does.", row.text(0),
                         row.real(2));
    if (const double off_ns = row.real(5); off_ns > kLeastOffNs && off_ns > kMostUneven * static_cast<double>(span_ns))
      return fmt::format("The clock of {} is up to {} off the pace of its processors' counter.", row.text(0),
                         duration_text(off_ns));
    if (span_ns > kLongestNs || (job_ns && *job_ns >= 0 && span_ns / 2 > *job_ns + kSlackNs))
      return fmt::format("By the clock of {} its processes ran for {}{}.", row.text(0), duration_text(span_ns),
                         job_ns ? fmt::format(", by the date the job took {}", duration_text(*job_ns)) : "");
  }
  return "";
}

std::vector<std::string> hosts_set_back(const FindingInput& input) {
  Query row(
      input.db,
      "SELECT DISTINCT h.name FROM loss l JOIN process p ON p.world = l.world AND p.rank = l.rank JOIN host h ON h.id = p.host"
      " WHERE l.kind = 'clock_back' AND l.world = ? ORDER BY h.id");
  std::vector<std::string> names;
  for (row.bind(input.world); row.next();) names.push_back(row.text(0));
  return names;
}

/// "node0, node1 and 3 more"
std::string names_of(const std::vector<std::string>& hosts) {
  constexpr size_t kShown = 4;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, hosts.size()));
  return fmt::format("{}{}", fmt::join(hosts.begin(), hosts.begin() + shown, ", "),
                     hosts.size() > kShown ? fmt::format(" and {} more", hosts.size() - kShown) : "");
}

std::vector<std::string> hosts_of_world(const FindingInput& input) {
  Query row(
      input.db,
      "SELECT DISTINCT h.name FROM host h JOIN process p ON p.host = h.id WHERE p.world = ? ORDER BY h.id LIMIT 4");
  std::vector<std::string> names;
  for (row.bind(input.world); row.next();) names.push_back(row.text(0));
  return names;
}

}  // namespace

DDL_FINDING(
    clocks_uncertain, kTrust, "", "a host's clock did not keep an even pace",
    "collectives that join it to others, and contradict each other; calls that end before the awaited ones begin; "
    "impossible durations and rates; records from before their process began") {
  const std::vector<std::string> hosts = contradicting_hosts(input), back = hosts_set_back(input);
  const double violated = violations(input);
  const std::string impossible = impossible_clocks(input);
  if (hosts.empty() && back.empty() && violated < kMostViolations && impossible.empty()) return {};
  const std::vector<std::string> all_hosts = hosts_of_world(input);
  const bool one_host = all_hosts.size() < 2;
  Finding finding;
  finding.confidence = "sure";
  if (!back.empty()) {
    finding.sentence =
        fmt::format("the clock{} of {} {} set back in mid-run: what was recorded there from then on is left out",
                    back.size() == 1 ? "" : "s", names_of(back), back.size() == 1 ? "was" : "were");
    finding.evidence = "Its records have times from before the processes began (ddl report loss).";
    if (back.size() > 1) finding.evidence.replace(0, 3, "Their");
  } else if (!hosts.empty()) {
    finding.sentence =
        fmt::format("the clock{} of {} did not keep an even pace: who waited for whom across hosts is not sure",
                    hosts.size() == 1 ? "" : "s", names_of(hosts));
    finding.evidence = "Collectives join these hosts to others, and no steady offset and drift agree with all of them.";
  } else if (one_host || !impossible.empty()) {
    finding.sentence = fmt::format("the clocks of the processes on {} cannot all be true: no time of this run is sure",
                                   fmt::join(all_hosts, ", "));
    finding.evidence = impossible;
  } else {
    finding.sentence = "the hosts' clocks contradict each other: who waited for whom across hosts is not sure";
  }
  if (violated >= kMostViolations)
    finding.evidence +=
        fmt::format("{}{} of the calls ended before the last member had entered, or the message was sent.",
                    finding.evidence.empty() ? "" : " ", percent_text(violated));
  finding.evidence_sql =
      "SELECT name, clock, method, offset_ns, drift_ppm, sigma_ns, fit_residual_ns FROM host ORDER BY id";
  if (one_host && back.empty()) {
    finding.advice =
        "see whether something fakes the clock of the job (libfaketime, a time namespace, a debugger), and record without it";
    return {finding};
  }
  finding.advice =
      "find out what set, suspended or migrated these hosts (journalctl -u chronyd, the hypervisor), and record again";
  if (!one_host) finding.advice += "; ddl record --clock-sync adds messages of its own";
  return {finding};
}

}  // namespace ddl
