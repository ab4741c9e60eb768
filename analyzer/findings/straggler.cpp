// One rank is late again and again, to collectives or to messages, or a few are together, and the others wait: the rule
// is in straggler_case.h, its rows come from the tables of the passes. On jobs that wait inside kernels of NCCL what
// GPUs did counts, not the calls of the host (select_steady_waits()). Where these serve several axes of parallelism,
// lateness is handed on from axis to axis, and whoever entered last may have been made late itself: there the rank for
// which everybody waits counts (passes/waited_for.h), if computing is what it does instead.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/job_end.h"
#include "analyzer/findings/late_ranks.h"
#include "analyzer/findings/layer_imbalance.h"
#include "analyzer/findings/loader_stall.h"
#include "analyzer/findings/longer_computing.h"
#include "analyzer/findings/pauses.h"
#include "analyzer/findings/rare_stalls.h"
#include "analyzer/findings/rare_waits.h"
#include "analyzer/findings/shared.h"
#include "analyzer/findings/straggler_case.h"
#include "analyzer/findings/waited_for.h"
#include "analyzer/models/rank_saving.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "analyzer/thread_waits.h"
#include "analyzer/waiting_parts.h"

namespace ddl {
namespace {

size_t count_ranks(const FindingInput& input) {
  return static_cast<size_t>(
      std::count_if(input.catalog.processes.begin(), input.catalog.processes.end(),
                    [&](const auto& p) { return p.second.world == input.world && p.second.rank >= 0; }));
}

std::vector<LateRow> late_rows(const FindingInput& input) {
  Query late(input.db,
             input.steps.annotated
                 ? "SELECT l.step, l.rank, l.instances * 1.0 / l.ties, l.wait_ns, l.longest_ns, l.message"
                   " FROM late l JOIN steady_number n ON n.world = l.world AND n.step = l.step WHERE l.world = ?"
                 : "SELECT 0, rank, instances * 1.0 / ties, wait_ns, longest_ns, message FROM late WHERE world = ?");
  std::vector<LateRow> rows;
  for (late.bind(input.world); late.next();)
    rows.push_back({late.integer(0), late.integer(1), late.real(2), late.real(3), late.real(4), late.integer(5) != 0});
  return rows;
}

std::vector<StepOfRank> steps_of_ranks(const FindingInput& input) {
  Query parts(
      input.db,
      "SELECT p.step, p.rank, p.duration_ns, p.compute_ns, p.wait_ns, p.exposed_ns FROM steady_wait p JOIN steady_step s"
      " ON s.world = p.world AND s.step = p.step WHERE p.world = ? AND s.wait_ns IS NOT NULL ORDER BY p.step, p.rank");
  std::vector<StepOfRank> rows;
  for (parts.bind(input.world); parts.next();)
    rows.push_back({parts.integer(0), parts.integer(1), parts.real(2), parts.real(3), parts.real(4), parts.real(5)});
  return rows;
}

/// Whether members of one of these communicators may wait for those of any other, and they are all ranks.
bool join_all(const std::set<int64_t>& comms, const std::map<int64_t, std::set<int64_t>>& members, size_t ranks) {
  std::set<int64_t> joined;
  std::vector<const std::set<int64_t>*> others;
  for (const int64_t comm : comms)
    if (const auto known = members.find(comm); known != members.end()) others.push_back(&known->second);
  for (bool more = true; std::exchange(more, false) && !others.empty();)
    std::erase_if(others, [&](const std::set<int64_t>* group) {
      const bool meets =
          joined.empty() || std::ranges::any_of(*group, [&](int64_t rank) { return joined.contains(rank); });
      if (meets) joined.insert(group->begin(), group->end());
      more |= meets;
      return meets;
    });
  return joined.size() == ranks;
}

/// The steps in which all ranks may have waited for each other. None where they do in all, or where it is
/// not known who meets: ranks without a record, messages.
std::vector<int64_t> joint_steps(const FindingInput& input, const std::vector<int64_t>& steps) {
  if (!input.steps.annotated || input.bounded) return {};
  std::map<int64_t, std::set<int64_t>> comms_of;  // by step
  Query late(input.db, "SELECT DISTINCT step, comm FROM late WHERE world = ? AND step IS NOT NULL");
  for (late.bind(input.world); late.next();) {
    if (late.is_null(1)) return {};
    comms_of[late.integer(0)].insert(late.integer(1));
  }
  std::map<int64_t, std::set<int64_t>> members;
  Query rows(input.db,
             "SELECT m.communicator, m.rank FROM communicator_member m JOIN communicator c ON c.id = m.communicator"
             " WHERE c.world = ?");
  for (rows.bind(input.world); rows.next();) members[rows.integer(0)].insert(rows.integer(1));
  std::map<std::set<int64_t>, bool> known;  // steps are mostly alike
  std::vector<int64_t> joint;
  for (const int64_t step : steps) {
    const auto comms = comms_of.find(step);
    if (comms == comms_of.end()) continue;
    const auto [all, fresh] = known.try_emplace(comms->second, false);
    if (fresh) all->second = join_all(comms->second, members, world_size(input));
    if (all->second) joint.push_back(step);
  }
  return joint.size() < steps.size() ? joint : std::vector<int64_t>();
}

/// The rule goes over the rows several times, over those of the steps only if it has a suspect.
template <class Row>
auto each_of(std::vector<Row> (*read)(const FindingInput&), const FindingInput& input) {
  return [read, &input, rows = std::optional<std::vector<Row>>()](const std::function<void(const Row&)>& use) mutable {
    if (!rows) rows = read(input);
    for (const Row& row : *rows) use(row);
  };
}

StragglerInput rows_of(const FindingInput& input, size_t ranks) {
  StragglerInput rows{.annotated = input.steps.annotated,
                      .inferred = input.steps.inferred,
                      .step_ns = input.step_ns,
                      .ranks = ranks,
                      .all_ranks = world_size(input)};
  Query negotiated(input.db,
                   "SELECT 1 FROM negotiation n JOIN process p ON p.id = n.process WHERE p.world = ? LIMIT 1");
  rows.negotiated = negotiated.bind(input.world).next();
  rows.bounded = input.bounded;
  rows.parts = parts_of_world(input.db, input.world, input.steps.annotated);
  Query known(input.db, "SELECT step FROM steady_step WHERE world = ? AND wait_ns IS NOT NULL ORDER BY step");
  known.bind(input.world);
  while (known.next()) rows.steps.push_back(known.integer(0));
  if (rows.parts.empty()) rows.joint_steps = joint_steps(input, rows.steps);
  rows.each_late = each_of(late_rows, input);
  rows.each_step = each_of(steps_of_ranks, input);
  return rows;
}

/// The blame as recorded: who waited for whom directly.
std::string blame_sql(const FindingInput& input, const StragglerCase& c) {
  const std::string collectives = fmt::format("FROM blame WHERE world = {}", input.world);
  if (c.messages == 0)
    return fmt::format("SELECT late, waiter, instances, wait_ns {} ORDER BY wait_ns DESC LIMIT 20", collectives);
  return fmt::format(
      "SELECT * FROM (SELECT late, waiter, kind, calls, wait_ns FROM message_blame WHERE world = {} UNION ALL"
      " SELECT late, waiter, 'collective', instances, wait_ns {}) ORDER BY late IN ({}) DESC, wait_ns DESC LIMIT 20",
      input.world, collectives, fmt::join(c.ranks, ", "));
}

/// The axis on which most waiting for `ranks` is, if the job's collectives serve several.
std::string axis_evidence(const FindingInput& input, const std::vector<int64_t>& ranks) {
  Query row(input.db, fmt::format(R"(
    SELECT a.axis, total(l.wait_ns) / nullif(total(sum(l.wait_ns)) OVER (), 0), (SELECT count(DISTINCT b.axis) FROM collective_group g
           JOIN communicator_axis b ON b.communicator = g.comm WHERE g.world = ?1)
    FROM late l
    JOIN communicator_axis a ON a.communicator = l.comm
    WHERE l.world = ?1 AND l.rank IN ({})
    GROUP BY a.axis
    ORDER BY 2 DESC, 1)",
                                  fmt::join(ranks, ", ")));
  row.bind(input.world);
  if (!row.next() || row.is_null(1) || row.integer(2) < 2) return "";
  return fmt::format(" {} of it on the axis '{}'.", percent_text(row.real(1)), row.text(0));
}

/// What the replay of the steps says that the ranks cost (specification.md J8); where they cannot be replayed, what the
/// rule says. A bound of the replay gives way to the rule where that says more.
int64_t saving_of(const FindingInput& input, const std::vector<int64_t>& ranks, std::optional<int64_t> since,
                  double by_rule_ns) {
  const std::optional<models::ReplayedSaving> replayed = models::saving_without(input.db, input.world, ranks, since);
  if (!replayed) return static_cast<int64_t>(by_rule_ns);
  return static_cast<int64_t>(std::max(replayed->lower_bound ? by_rule_ns : 0, replayed->seconds * 1e9));
}

constexpr double kMoreOfSeveral = 2;   // saving of several ranks against that of fewer
constexpr double kLeastWaited = 0.5;   // known waiting for several, against what mending them saves
constexpr double kNothingSaved = 0.1;  // by the replay, of what others wait for the rank
constexpr double kHalfSaved = 0.5;     // the same: most of the waiting is no lead of its own
constexpr double kClearlyLess = 0.9;   // of the saving, that even work saves: more is the same
constexpr double kSomeSteps = 0.5;     // of the steps, in which ranks are late: in more it goes without saying
constexpr double kNearlyAsLate = 0.5;  // waiting of the next one, of the others' mean
constexpr double kMoreWaiting = 0.25;  // of the saving, that may be in what counts as computing: it is not sure

/// Times do not tell a slow rank from one with more work. The saving is of a slow one, which then takes as long
/// as the others; work that `ranks` have more of goes to all. `of`: ranks that there are; `longer_ns`: computed
/// than by the others.
std::string advice_with_even_work(const FindingInput& input, const std::vector<int64_t>& ranks, size_t of,
                                  double longer_ns, int64_t saving_ns, const char* per) {
  std::string advice = late_advice(input, ranks);
  const double even_ns = std::min(longer_ns, static_cast<double>(saving_ns)) *
                         (1 - static_cast<double>(ranks.size()) / static_cast<double>(std::max<size_t>(1, of)));
  if (advice.ends_with("more work than the others") && even_ns > 0 &&
      even_ns < kClearlyLess * static_cast<double>(saving_ns))
    advice += fmt::format(": evening that out saves {}{}", duration_text(even_ns), per);
  return advice;
}

/// The rank that waits least beside it, if that is little against the others: no lead of its own makes the one
/// named the late one.
std::optional<std::pair<int64_t, double>> nearly_as_late(const FindingInput& input, const StragglerCase& c) {
  std::map<int64_t, std::vector<double>> waits_ns;
  Query rows(
      input.db,
      "SELECT rank, wait_ns FROM steady_wait WHERE world = ? AND step >= ? AND rank <> ? AND wait_ns IS NOT NULL");
  rows.bind(input.world, c.since.value_or(INT64_MIN), c.ranks.front());
  while (rows.next()) waits_ns[rows.integer(0)].push_back(rows.real(1));
  std::optional<std::pair<int64_t, double>> least;
  for (auto& [rank, own_ns] : waits_ns) {
    const double typical_ns =
        c.costs.by_mean ? std::accumulate(own_ns.begin(), own_ns.end(), 0.0) / static_cast<double>(own_ns.size())
                        : median_of(own_ns);
    if (!least || typical_ns < least->second) least = {rank, typical_ns};
  }
  const bool among_all = waits_ns.size() > 1 && waits_ns.size() + 1 == c.among;  // of those that it may keep waiting
  return among_all && least->second < kNearlyAsLate * c.costs.others_wait_ns ? least : std::nullopt;
}

/// A thread of their own makes the ranks' calls, and steps are told by these: what other threads compute while that one
/// waits is not seen, and where the others do so, less is saved than they wait. Gloo has threads of its own always.
void bound_by_other_threads(const FindingInput& input, Finding& finding, int64_t rank) {
  Query row(
      input.db,
      "SELECT total(e.thread <> 0) > count(*) / 2.0 FROM event e JOIN process p ON p.id = e.process JOIN op o ON o.id = e.op"
      " WHERE p.world = ?1 AND p.rank = ?2 AND e.kind = 1 AND o.name LIKE 'MPI%' AND NOT EXISTS (SELECT 1 FROM background_process b WHERE b.process = p.id)");
  row.bind(input.world, rank);
  if (!row.next() || row.integer(0) == 0) return;
  finding.at_most = true;
  finding.evidence += " A thread of its own makes the calls: what others compute while theirs waits is not seen.";
}

/// A finding of waiting is not sure of its size where more of it may be in what counts as computing.
void doubt_by_threads(const FindingInput& input, Finding& finding) {
  const std::map<int64_t, double> waits_ns = waits_for_threads_ns(input.db, input.world);
  double most_ns = 0;
  int64_t most = 0;
  for (const auto& [rank, ns] : waits_ns)
    if (ns > most_ns) most = rank, most_ns = ns;
  Query steps(input.db, "SELECT count(*) FROM steady_step WHERE world = ?");
  steps.bind(input.world);
  if (!steps.next() || steps.integer(0) == 0) return;
  most_ns /= static_cast<double>(steps.integer(0));
  if (most_ns <= kMoreWaiting * static_cast<double>(finding.saving_ns.value_or(0))) return;
  finding.confidence = "likely";
  finding.evidence += fmt::format(
      " Up to {}{} of what rank {} computes may be waiting, too: it is off the CPU while other threads of its process are in collectives. What is "
      "saved may be more, or less.",
      duration_text(most_ns), input.steps.annotated ? "/step" : "", most);
}

/// How much later than the last but one they enter collectives, by step: mended, the others wait for that one.
/// Where ranks mark no steps, as actors that a learner steps for, nothing else bounds the saving.
double ahead_of_next_ns(const FindingInput& input, const StragglerCase& c) {
  Query row(input.db, fmt::format(R"(
    WITH entry AS (
      SELECT p.rank, e.start_ns, max(e.step) OVER instance AS step,
             lead(e.start_ns) OVER (PARTITION BY e.comm, e.seq ORDER BY e.start_ns DESC) AS next_ns,
             row_number() OVER (PARTITION BY e.comm, e.seq ORDER BY e.start_ns DESC) AS place
      FROM collective k JOIN event e ON e.id = k.event JOIN process p ON p.id = e.process
      WHERE p.world = ?1
      WINDOW instance AS (PARTITION BY e.comm, e.seq))
    SELECT total(e.start_ns - e.next_ns) / (SELECT count(*) FROM steady_number WHERE world = ?1 AND step >= ?2)
    FROM entry e JOIN steady_number n ON n.world = ?1 AND n.step = e.step
    WHERE e.place = 1 AND e.step >= ?2 AND e.rank IN ({}))",
                                  fmt::join(c.ranks, ", ")));
  row.bind(input.world, c.since.value_or(INT64_MIN));
  return row.next() ? row.real(0) : 0;
}

Finding describe(const FindingInput& input, const StragglerCase& c) {
  const bool one = c.ranks.size() == 1;
  const bool one_other = c.among - c.ranks.size() == 1;
  const bool steps = input.steps.annotated;
  const char* per = steps ? "/step" : "";
  Finding finding;
  if (one)
    finding.rank = c.ranks.front();
  else
    finding.subject = fmt::format("{}", fmt::join(c.ranks, ","));
  finding.ranks = c.ranks;
  finding.since = c.since;
  const bool seen = c.costs.own_ranks > 0;  // else it does not say what it did
  const bool stepless = !seen && std::ranges::none_of(c.ranks, [&](int64_t rank) {
    return input.catalog.is_unrecorded(input.world, rank);
  });
  finding.saving_ns = saving_of(input, c.ranks, c.since, std::max(0.0, c.costs.mean_saving_ns(c.blame_share)));
  if (stepless && steps && one) {
    const auto ahead_ns = static_cast<int64_t>(ahead_of_next_ns(input, c));
    if (ahead_ns > 0) finding.saving_ns = std::min(*finding.saving_ns, ahead_ns);
  }
  finding.confidence = is_sure(c) ? "sure" : "likely";
  finding.sentence =
      straggler_sentence(c, those(input, c.ranks), per, c.among, static_cast<double>(*finding.saving_ns));
  // of those many collectives may be too short to count
  if (static_cast<double>(c.late_steps) < kSomeSteps * static_cast<double>(c.steps))
    finding.sentence += fmt::format(", nearly all of it in {} of {} steps", c.late_steps, c.steps);

  const double longer_ns = c.costs.compute_ns - c.costs.others_compute_ns;
  const bool computes_longer = !seen || longer_ns > 0.25 * static_cast<double>(*finding.saving_ns);
  const std::string blame =
      c.messages == 0
          ? fmt::format("{} {} {:.0f} of {:.0f} {} that make somebody wait; {} caused",
                        one ? "Last" : "One of them is last", c.negotiated ? "to be ready for" : "in", c.late,
                        c.instances, late_to(c), one ? "it" : "they")
          : fmt::format(
                "{0} caused {1:.0f} of {2:.0f} waits for {3}, including those that ranks passed on which {4} had kept waiting; that is",
                one ? "It" : "They", c.late, c.instances, late_to(c), one ? "it" : "they");
  finding.evidence = fmt::format("{} {} of all waiting, which is {} of the others' time.", blame,
                                 percent_text(c.blame_share), percent_text(c.costs.wait_share));
  if (seen) {
    finding.evidence +=
        fmt::format(" {} {}{}, {} {}.", one ? "It computes" : "They compute", duration_text(c.costs.compute_ns), per,
                    one_other ? "the other" : "the others", duration_text(c.costs.others_compute_ns));
  } else {
    finding.evidence += fmt::format(" {}: what {} did instead is not known.",
                                    !stepless ? "Its record is damaged"
                                    : one     ? "It marks no steps"
                                              : "They mark no steps",
                                    one || !stepless ? "it" : "they");
  }
  const double blocked_longer_ns = c.costs.blocked_ns - c.costs.others_blocked_ns;
  const bool is_blocked_longer = seen && blocked_longer_ns > 0.25 * static_cast<double>(*finding.saving_ns);
  if (is_blocked_longer) {
    finding.evidence +=
        fmt::format(" {} blocked outside communication for {}{}, {} {}.",
                    one ? "Its training thread is" : "Their training threads are", duration_text(c.costs.blocked_ns),
                    per, one_other ? "the other's" : "the others'", duration_text(c.costs.others_blocked_ns));
  }
  finding.evidence += axis_evidence(input, c.ranks) + health_of(input, c.ranks);
  bound_by_missing(input, finding, c.ranks);
  bound_by_other_threads(input, finding, c.ranks.front());
  doubt_by_threads(input, finding);
  const auto saved = static_cast<double>(*finding.saving_ns) / (c.costs.others_wait_ns * c.blame_share);
  if (const auto next = one && saved < kHalfSaved ? nearly_as_late(input, c) : std::nullopt) {
    finding.evidence += fmt::format(
        " Rank {} is nearly as late, and waits {}{} itself: mended alone, rank {} saves no more than {}{}.",
        next->first, duration_text(next->second), per, c.ranks.front(), duration_text(*finding.saving_ns), per);
  } else if (saved < kNothingSaved) {
    finding.evidence += " Mended alone it saves next to nothing: the step then waits for somebody else.";
  }
  finding.evidence_sql = blame_sql(input, c);
  if (computes_longer && !(is_blocked_longer && blocked_longer_ns > longer_ns)) {
    finding.advice = advice_with_even_work(input, c.ranks, c.among, longer_ns, *finding.saving_ns, per);
  } else {
    finding.advice =
        is_blocked_longer
            ? fmt::format("see what the training thread{} of {} sleep{} for: input, checkpoints, reading files, locks",
                          one ? "" : "s", ranks_text(c.ranks), one ? "s" : "")
            : fmt::format("{} {} no longer than the others{}: look at what {} {} - input, checkpoints, reading files",
                          ranks_text(c.ranks), one ? "computes" : "compute",
                          !steps ? ""
                          : one  ? " within its steps"
                                 : " within their steps",
                          one ? "it does" : "they do",
                          steps ? "between them, and before its collectives and messages"
                                : "before its collectives and messages");
  }
  return finding;
}

Finding describe(const FindingInput& input, const LongerComputing& found, size_t ranks) {
  const int64_t rank = found.ranks.front();
  const bool one = found.ranks.size() == 1;
  const char* plural = ranks - found.ranks.size() == 1 ? "" : "s";
  Finding finding;
  if (one)
    finding.rank = rank;
  else
    finding.subject = fmt::format("{}", fmt::join(found.ranks, ","));
  finding.ranks = found.ranks;
  finding.since = found.since_step;
  finding.saving_ns = saving_of(input, found.ranks, found.since_step, found.saving_ns);
  // Between messages the one stage does other pieces of work than the other, and so may any rank in a run
  // without steps: the replay, which takes from it what it computes longer in each place, may take more than it
  // does in all of them.
  if (found.is_stage || !input.steps.annotated)
    finding.saving_ns = std::min(*finding.saving_ns, static_cast<int64_t>(found.compute_ns - found.others_compute_ns));
  finding.confidence = "likely";
  const bool steps = input.steps.annotated;
  finding.sentence = fmt::format(
      "{} {} longest in {} of {}{}: {}, the other{} {}", those(input, found.ranks), one ? "computes" : "compute",
      percent_text(static_cast<double>(found.late_steps) / static_cast<double>(found.steps)),
      steps ? "steps" : "the run", found.since_step ? fmt::format(" since step {}", *found.since_step) : "",
      duration_text(found.compute_ns), plural, duration_text(found.others_compute_ns));
  finding.evidence =
      fmt::format("In {} of {} {}; {} inside {} for {}{} less than the other{}{}.", found.late_steps, found.steps,
                  steps ? "steps" : "parts of the run, cut by each rank's own calls",
                  one ? "it is" : fmt::format("{} are", ranks_text(found.ranks)),
                  calls_mpi(input.db) ? "MPI" : "collectives and messages", duration_text(found.less_in_mpi_ns),
                  steps ? "/step" : "", plural, steps ? ", loading data not counted as computing" : "");
  finding.evidence += health_of(input, found.ranks);
  bound_by_missing(input, finding, found.ranks);
  bound_by_other_threads(input, finding, rank);
  finding.evidence_sql = fmt::format(
      "SELECT {0}rank, compute_ns, exposed_ns, duration_ns FROM {1} WHERE world = {2}{3} ORDER BY {0}compute_ns DESC LIMIT 200",
      steps ? "step, " : "", steps ? "v_step" : "v_rank_part", input.world, steps ? " AND measured" : "");
  finding.advice = advice_with_even_work(input, found.ranks, ranks, found.compute_ns - found.others_compute_ns,
                                         *finding.saving_ns, steps ? "/step" : "");
  return finding;
}

/// Readiness is known to one cycle of the negotiation: a smaller lateness cannot be told from none.
bool is_within_a_cycle(const FindingInput& input, const StragglerCase& c) {
  if (!c.negotiated || !input.steps.annotated) return false;
  Query row(input.db,
            "SELECT max(b.cycle_ns) FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ?");
  row.bind(input.world);
  return row.next() && c.costs.others_wait_ns * c.blame_share <= row.real(0);
}

std::vector<Finding> slow_gpus(const FindingInput& input) {
  const auto found = waited_for(input, "compute");
  if (!found) return {};
  const bool one = found->ranks.size() == 1;
  Finding finding = describe(input, *found);
  finding.sentence = fmt::format(
      "the others wait for {} in {} of steps{}: {} GPU{} {} {}, the others {}", those(input, found->ranks),
      percent_text(static_cast<double>(found->late_steps) / static_cast<double>(found->steps)),
      found->since_step ? fmt::format(" since step {}", *found->since_step) : "", one ? "its" : "their", one ? "" : "s",
      one ? "computes" : "compute", duration_text(found->own_ns), duration_text(found->others_ns));
  finding.evidence += health_of(input, found->ranks);
  const auto uneven = uneven_work_advice(input, found->ranks);
  finding.advice =
      uneven
          ? *uneven
          : fmt::format(
                "see what slows the GPU{} of {} down (clocks, power, temperature, other jobs), and whether {} more work than the others",
                one ? "" : "s", ranks_text(found->ranks), one ? "it gets" : "they get");
  return {finding};
}

/// Whether what the others are known to wait, a lower bound, is half of the saving at least: else they may just do
/// something else for longer.
bool are_waited_for(const FindingInput& input, const LongerComputing& found) {
  Query row(input.db,
            fmt::format("SELECT avg(wait_ns) FROM steady_wait WHERE world = ? AND step >= ? AND rank NOT IN ({})",
                        fmt::join(found.ranks, ", ")));
  row.bind(input.world, found.since_step.value_or(INT64_MIN));
  return row.next() && row.real(0) >= kLeastWaited * found.saving_ns;
}

constexpr double kSmallWait = 0.05;   // of the step
constexpr double kPausedShare = 0.5;  // of the time that a rank stalls
constexpr size_t kShownStalls = 5;

/// Small waits that mending wins next to nothing from are noise: the step then waits for somebody else. That is told of
/// larger ones, but not of a run without steps, whose sums need not say who waited for whom at a time: workers that a
/// master feeds as they come wait for it and it for them.
bool is_worth_mending(const FindingInput& input, const StragglerCase& c, const Finding& finding) {
  const auto step_ns = static_cast<double>(input.step_ns);
  return static_cast<double>(*finding.saving_ns) > kStragglerMinSavingShare * step_ns ||
         (input.steps.annotated && c.costs.others_wait_ns * c.blame_share > kSmallWait * step_ns);
}

/// What else is told of the lateness of one rank: by loader_stall or checkpoint_stall.
struct ToldElsewhere {
  double saving_ns = 0;
  std::string what;  ///< "its loader's (loader_stall)"
};

ToldElsewhere told_elsewhere(const FindingInput& input, int64_t rank) {
  ToldElsewhere told;
  if (const auto loader = find_slow_loader(input); loader && loader->rank == rank)
    told = {loader->saving_ns, "its loader's (loader_stall)"};
  if (const auto stall = known_checkpoint_stall(input); stall && !stall->all && stall->writers == std::vector{rank}) {
    told.what = told.saving_ns > 0 ? "its loader's (loader_stall) and its checkpoints' (checkpoint_stall)"
                                   : "its checkpoints' (checkpoint_stall)";
    told.saving_ns += stall->saving_ns;
  }
  return told;
}

/// One cause, one finding: of a rank that is late because it loads or writes checkpoints, only what it would
/// cost without that.
std::vector<Finding> beside_others(const FindingInput& input, Finding finding) {
  constexpr double kLeastLeft = 0.25;  // of the saving
  if (!finding.rank || !finding.saving_ns) return {finding};
  const ToldElsewhere told = told_elsewhere(input, *finding.rank);
  if (told.saving_ns <= 0) return {finding};
  const double left_ns = static_cast<double>(*finding.saving_ns) - told.saving_ns;
  if (left_ns < kLeastLeft * static_cast<double>(*finding.saving_ns)) return {};
  finding.evidence +=
      fmt::format(" Of what it costs, {} are {}, and not counted here.", duration_text(told.saving_ns), told.what);
  finding.saving_ns = static_cast<int64_t>(left_ns);
  return {finding};
}

/// What a rank that stalls for long does then, by its training thread.
Finding describe(const FindingInput& input, const RareStalls& found) {
  const size_t count = found.steps.size();
  const bool one_other = found.others == 1;
  Finding finding;
  finding.rank = found.rank;
  finding.saving_ns = static_cast<int64_t>(found.stalled_ns / static_cast<double>(found.all_steps));
  finding.confidence = "likely";
  finding.sentence = fmt::format("{} kept the other{} waiting for long in {} of {} steps: {}",
                                 rank_on_host(input.catalog, input.world, found.rank), one_other ? "" : "s", count,
                                 found.all_steps, duration_text(found.stalled_ns));
  if (count > 1) finding.sentence += fmt::format(" in all, {} at most", duration_text(found.longest_ns));
  finding.evidence =
      fmt::format("In step{} {}{}: {} of the time of all {} steps.", count == 1 ? "" : "s",
                  fmt::join(found.steps.begin(),
                            found.steps.begin() + static_cast<std::ptrdiff_t>(std::min(count, kShownStalls)), ", "),
                  count > kShownStalls ? fmt::format(" and {} more", count - kShownStalls) : "",
                  percent_text(found.share), found.all_steps);
  finding.evidence += fmt::format(
      " There it computes {}/step and its training thread is blocked outside communication for {}/step, while a step of all takes {}.",
      duration_text(found.compute_ns), duration_text(found.blocked_ns), duration_text(input.step_ns));
  finding.evidence_sql = fmt::format(
      "SELECT step, rank, duration_ns, compute_ns, exposed_ns, wait_ns FROM v_step WHERE world = {} AND step IN ({}) ORDER BY step, rank",
      input.world, fmt::join(found.steps, ", "));
  finding.advice =
      found.blocked_ns > found.compute_ns
          ? fmt::format(
                "see what the training thread of rank {} sleeps for in these steps: input, checkpoints, reading files, locks",
                found.rank)
          : fmt::format(
                "see what rank {} does in these steps and the others do not: evaluation, logging, compiling, or another load on its host",
                found.rank);
  return finding;
}

/// Pauses that another finding tells.
bool is_in_known_pauses(const FindingInput& input, const RareStalls& found) {
  double paused_ns = 0;
  for (const std::string_view ranges : {std::string_view(kCheckpointRanges), std::string_view(kCollectionRanges),
                                        std::string_view(kCompilationRanges), std::string_view(kInputRanges)}) {
    for (const StepPauses& step : pauses_in(input, ranges)) {
      if (std::find(found.steps.begin(), found.steps.end(), step.step) == found.steps.end()) continue;
      for (const RankPause& rank : step.ranks) paused_ns += rank.rank == found.rank ? rank.pause_ns : 0;
    }
  }
  return paused_ns > kPausedShare * found.stalled_ns;
}

/// A rank that stalls too seldom for the rule of the straggler, which looks for what goes on: what it did cost is a
/// fact all the same.
std::vector<Finding> rare_stalls(const FindingInput& input, const StragglerInput& rows) {
  const auto found = find_rare_stalls(rows);
  if (!found || is_in_known_pauses(input, *found)) return {};
  return {describe(input, *found)};
}

Finding describe(const FindingInput& input, const RareWaits& found) {
  Finding finding;
  finding.rank = found.rank;
  finding.saving_ns = static_cast<int64_t>(found.share * static_cast<double>(input.step_ns));
  finding.confidence = "likely";
  finding.sentence = fmt::format("{} kept the other{} waiting for messages {} times for {} and longer: {} in all",
                                 rank_on_host(input.catalog, input.world, found.rank), found.others == 1 ? "" : "s",
                                 found.stalls, duration_text(found.least_ns), duration_text(found.waited_ns));
  finding.evidence = fmt::format(
      "It caused {} of {} stalls of that length, typically {}, {} at most; the median wait for a message is {}. The rest of its messages are in "
      "time.",
      found.stalls, found.all_stalls, duration_text(found.typical_ns), duration_text(found.longest_ns),
      duration_text(found.median_ns));
  finding.evidence += health_of(input, {found.rank});
  finding.evidence_sql = fmt::format(
      "SELECT late, waiter, kind, calls, wait_ns FROM message_blame WHERE world = {} ORDER BY late = {} DESC, wait_ns DESC LIMIT 20",
      input.world, found.rank);
  finding.advice = fmt::format(
      "see what stops rank {} now and then: another load on its cores, a CPU quota of its container, paging, a debugger or a batch system that "
      "suspends it; or what it does then and the others do not (output, checkpoints)",
      found.rank);
  return finding;
}

}  // namespace

DDL_FINDING(
    straggler, kSpeed, "late",
    "one rank is late, or all ranks of a host, or a few that are late together, always or since a step; the evidence "
    "says whether the host is to blame; all ranks of a pipeline's stage, or of a place on another axis, have too much "
    "to do",
    "blame: the rank that entered last, and is inside MPI for as much less; else the one that computes longest, loading data "
    "not counted, in at least 80 % of the steps, or in a run without steps of its parts by each rank's own calls. Several "
    "count as one if they are fewer than half, stand apart from the "
    "others, and mending one of them would save less than half as much; of two pipeline stages the one whose ranks compute "
    "longer than those of the other. On GPUs with several axes of parallelism, or "
    "without all traces: the rank whose GPUs wait least, and compute longer instead. Else a rank for which the others "
    "waited for a second and more in a few steps, or for which nearly all unusually long waits for messages were") {
  if (asks_whom_gpus_wait_for(input)) return slow_gpus(input);
  const size_t ranks = count_ranks(input);
  const StragglerInput rows = rows_of(input, ranks);
  auto blamed = find_straggler_case(rows);
  if (blamed && is_within_a_cycle(input, *blamed)) blamed.reset();
  if (blamed && blamed->ranks.size() == 1 &&
      is_by_uneven_layer(input, blamed->ranks.front(), blamed->since,
                         blamed->costs.compute_ns - blamed->costs.others_compute_ns,
                         blamed->costs.others_wait_ns * blamed->blame_share))
    return {};
  const bool seen = blamed && blamed->costs.own_ranks > 0;  // else another one may be as late, of which more is known
  if (seen && blamed->ranks.size() == 1) {
    if (Finding finding = describe(input, *blamed); is_worth_mending(input, *blamed, finding))
      return beside_others(input, std::move(finding));
    blamed.reset();
  }
  if (ranks < 2) return {};
  // Fewer ranks before more, as long as they explain half of what is lost.
  std::optional<LongerComputing> longer;
  double saving_ns = 0;
  for (const Suspects suspects : {Suspects::kRanks, Suspects::kHosts, Suspects::kStages}) {
    auto found = find_longer_computing(input, suspects);
    if (!found || found->saving_ns <= kMoreOfSeveral * saving_ns) continue;
    if (found->ranks.size() == 1 && is_by_uneven_layer(input, found->ranks.front(), found->since_step,
                                                       found->compute_ns - found->others_compute_ns, found->saving_ns))
      return {};
    saving_ns = found->saving_ns;
    longer = std::move(found);
  }
  // where all waiting is known, a few that nobody waits for are not late
  if (!seen && (rows.steps.empty() || input.bounded)) {
    auto found = find_longer_computing(input, Suspects::kTogether);
    if (found && found->saving_ns > kMoreOfSeveral * saving_ns &&
        (rows.steps.empty() || are_waited_for(input, *found))) {
      saving_ns = found->saving_ns;
      longer = std::move(found);
    }
  }
  // in a run without steps: what stops it now and then says more than that it computes longest
  const auto waits = longer ? std::nullopt : find_rare_waits(input, ranks);
  if (auto found = longer || waits ? std::nullopt : find_longer_in_run(input)) {
    saving_ns = found->saving_ns;
    longer = std::move(found);
  }
  if (blamed && blamed->costs.saving_ns(blamed->blame_share) > kMoreOfSeveral * saving_ns) {
    if (Finding finding = describe(input, *blamed); is_worth_mending(input, *blamed, finding))
      return {std::move(finding)};
  }
  if (longer) {
    // The replay may know that mending it saves nothing: the step then waits for another.
    Finding finding = describe(input, *longer, ranks);
    if (static_cast<double>(*finding.saving_ns) >= kStragglerMinSavingShare * static_cast<double>(input.step_ns))
      return beside_others(input, std::move(finding));
  }
  if (std::vector<Finding> rare = rare_stalls(input, rows); !rare.empty()) return rare;
  return waits ? beside_others(input, describe(input, *waits)) : std::vector<Finding>();
}

}  // namespace ddl
