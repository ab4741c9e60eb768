// A run that did not end by itself: which rank went first, and what is missing from the record because of it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <set>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/job_end.h"
#include "analyzer/findings/message_stall.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kMayHaveHungNs = 5'000'000'000;  // until the next start: a launcher is faster

struct Ends {
  std::vector<int64_t> aborted, exited, replaced, lost;
  std::vector<int64_t> left;  ///< by exit, without MPI: as it should be, or because it failed
  int64_t ranks = 0;
};

/// A damaged record does not say how its process ended where others came through MPI_Finalize, which none can before
/// all have entered it.
Ends how_they_ended(const FindingInput& input) {
  Ends ends;
  const auto& processes = input.catalog.processes;
  const bool finalized = std::any_of(processes.begin(), processes.end(), [&](const auto& p) {
    return p.second.world == input.world && p.second.rank >= 0 && !p.second.damaged && p.second.ended == "finalized";
  });
  for (const auto& [id, process] : processes) {
    if (process.world != input.world || process.rank < 0) continue;
    ++ends.ranks;
    if (process.damaged && finalized) continue;
    if (process.ended == "aborted") ends.aborted.push_back(process.rank);
    if (process.ended == "exited") (process.init_ns ? ends.exited : ends.left).push_back(process.rank);
    if (process.ended == "exec") ends.replaced.push_back(process.rank);
    if (process.ended == "lost") ends.lost.push_back(process.rank);
  }
  for (auto* ranks : {&ends.aborted, &ends.exited, &ends.left, &ends.replaced, &ends.lost})
    std::sort(ranks->begin(), ranks->end());
  return ends;
}

int64_t last_seen_ns(const FindingInput& input, const std::vector<int64_t>& ranks) {
  int64_t last_ns = 0;
  for (const int64_t rank : ranks) last_ns = std::max(last_ns, input.catalog.process_of(input.world, rank)->end_ns);
  return last_ns;
}

/// "at 12.3 s in step 41"
std::string when(const FindingInput& input, int64_t rank) {
  const ProcessInfo* process = input.catalog.process_of(input.world, rank);
  std::string text = fmt::format("at {}", duration_text(process->end_ns));
  Query step(input.db, "SELECT step FROM step WHERE process = ? ORDER BY start_ns DESC LIMIT 1");
  step.bind(process->id);
  if (step.next()) text += fmt::format(" in step {}", step.integer(0));
  return text;
}

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string what_is_missing(const FindingInput& input, const Ends& ends, const JobEnd& end) {
  const int64_t not_finalized =
      static_cast<int64_t>(ends.aborted.size() + ends.exited.size() + ends.replaced.size() + ends.lost.size());
  std::string text =
      end.mpi ? fmt::format("{} of {} ranks ended in MPI_Finalize", ends.ranks - not_finalized, ends.ranks)
              : fmt::format("{} of {} ranks exited", ends.ranks - static_cast<int64_t>(ends.lost.size()), ends.ranks);
  Query unfinished(input.db,
                   "SELECT count(*) FROM open_call x CROSS JOIN process p ON p.id = x.process WHERE p.world = ?");
  unfinished.bind(input.world);
  if (unfinished.next() && unfinished.integer(0) > 0)
    text += fmt::format(", {} never returned", counted(unfinished.integer(0), "call"));
  Query partial(input.db, "SELECT count FROM loss WHERE kind = 'partial_collectives'");
  if (partial.next()) text += fmt::format(", {} without all members", counted(partial.integer(0), "collective"));
  Query last_step(input.db,
                  "SELECT max(n) FROM (SELECT t.step AS n FROM step_part t JOIN process p ON p.id = t.process"
                  " WHERE p.world = ? GROUP BY t.step HAVING count(*) = ?)");
  last_step.bind(input.world, ends.ranks);
  if (last_step.next() && !last_step.is_null(0))
    text += fmt::format(", the last step complete on all ranks is {}", last_step.integer(0));
  return text + ". Every call that had returned before is in the record.";
}

/// Did the rank leave because something went wrong? As far as its exit code, or else that of the job, tells. Who
/// handles the launcher's SIGTERM was ended by it.
bool may_have_failed(const FindingInput& input, const JobEnd& end, int64_t rank) {
  const std::optional<int64_t> code = exit_code_of(input, rank);
  return code ? *code != 0 && *code != 128 + SIGTERM : end.rank_failed() || end.over;
}

bool ended_after_a_message(const FindingInput& input, int64_t rank) {
  Query last(
      input.db,
      "SELECT peer IS NOT NULL AND seq IS NULL FROM event WHERE process = ? AND kind = 1 ORDER BY start_ns DESC LIMIT 1");
  last.bind(input.catalog.process_of(input.world, rank)->id);
  return last.next() && last.integer(0) != 0;
}

/// Without MPI: who left by itself while others were lost, because it failed. Not who waited for others until an
/// exception ended that: such a collective stays open, such a message ends like any other.
std::vector<int64_t> failed_first(const FindingInput& input, const Ends& ends, const JobEnd& end,
                                  const std::optional<Stall>& stall) {
  if (end.mpi || ends.lost.empty() || !end.told_to_end.empty()) return {};
  const std::vector<UnfinishedCall> open = open_calls(input);
  const std::set<int64_t> lost(ends.lost.begin(), ends.lost.end());
  std::set<int64_t> waits, awaited;
  if (stall && !stall->circular) awaited.insert(stall->missing.begin(), stall->missing.end());
  for (const UnfinishedCall& call : open) {
    waits.insert(call.rank);
    if (call.seq || !lost.contains(call.rank)) continue;
    if (const auto peer = peer_in_world(input, call)) awaited.insert(*peer);
  }
  std::vector<int64_t> ranks;
  for (const int64_t rank : ends.left) {
    const bool left_alone = open.empty() && end.rank_failed() && !ended_after_a_message(input, rank);
    if (may_have_failed(input, end, rank) && !waits.contains(rank) && (awaited.contains(rank) || left_alone))
      ranks.push_back(rank);
  }
  return ranks;
}

/// Every rank is lost, in no call and after the same step: as if all had left by _exit. What kills a rank hits one
/// before the others.
bool all_lost_alike(const FindingInput& input, const Ends& ends) {
  if (static_cast<int64_t>(ends.lost.size()) != ends.ranks || !open_calls(input).empty()) return false;
  Query steps(
      input.db,
      "SELECT count(DISTINCT last), count(*) FROM (SELECT max(s.step) AS last FROM step s JOIN process p ON p.id = s.process"
      " WHERE p.world = ? AND p.rank IS NOT NULL AND s.duration_ns IS NOT NULL GROUP BY s.process)");
  steps.bind(input.world);
  return steps.next() && (steps.integer(1) == 0 || (steps.integer(0) == 1 && steps.integer(1) == ends.ranks));
}

/// An exit code that is not a signal's, and nothing that tells one rank from the others: it may be that of all of them.
bool may_have_left_alike(const FindingInput& input, const Ends& ends, const JobEnd& end) {
  return end.exit_code && end.signal == 0 && ends.lost.size() > 1 && all_lost_alike(input, ends);
}

/// Nobody says how these ranks ended. The job's exit code tells of one of them, and its launcher ended the others;
/// which one it was follows if the others waited for it, or have left a collective that it sits in.
void describe_lost(const FindingInput& input, const Ends& ends, const JobEnd& end, const std::optional<Stall>& stall,
                   const std::optional<MidTransfer>& transfer, Finding& finding, std::vector<int64_t>& first) {
  const bool all = static_cast<int64_t>(ends.lost.size()) == ends.ranks;
  const bool one = ends.lost.size() == 1;
  const bool waited_for = all && !one && stall && !stall->circular;
  // If all were killed at once, some are behind by chance.
  const bool is_told = all && !one && transfer && transfer->left && (end.rank_failed() || end.over);
  const bool cause_known = waited_for || (is_told && transfer->first);
  const bool one_of_some = is_told && !cause_known;
  const bool may_be_ended_by_others =
      std::any_of(ends.left.begin(), ends.left.end(), [&](int64_t rank) { return may_have_failed(input, end, rank); });
  if (one || !(all || end.rank_failed()))
    first = ends.lost;
  else if (cause_known)
    first = waited_for ? stall->missing : std::vector{*transfer->first};
  finding.confidence = cause_known || one_of_some ? "likely" : "sure";
  const std::string who = one || !all ? ranks_text(ends.lost) : fmt::format("all {} ranks", ends.ranks);
  if (!end.told_to_end.empty()) {
    // Whoever was left was ended with the job, and its exit code tells of that.
    first.clear();
    finding.confidence = end.time_limit ? "likely" : "sure";
    finding.sentence = fmt::format("the job was told to end ({}) before {} had ended", end.told_to_end,
                                   all && !one ? "any rank" : who);
    finding.advice =
        "see who ended it: Ctrl-C, scancel, the batch system's limit of time, timeout; where the ranks were then: ddl report open_calls";
    return;
  }
  if (end.rank_failed() && !one && !may_have_left_alike(input, ends, end) && !may_be_ended_by_others) {
    // One went wrong; of several that did not come the others were on their way when they were ended.
    finding.sentence = cause_known ? fmt::format("{}{} {} {}", first.size() > 1 ? "one of " : "", ranks_text(first),
                                                 fate(end, false), when(input, first.front()))
                                   : fmt::format("one of {} {}", ranks_text(one_of_some ? transfer->ranks : ends.lost),
                                                 fate(end, false));
    finding.sentence += ", and the others were ended";
  } else if (cause_known && waited_for && seen_stalled_ns(input)) {
    finding.sentence = fmt::format("{} {}, after a stall: {} stood still first, {}", who, fate(end, true),
                                   ranks_text(first), when(input, first.front()));
  } else if (cause_known) {
    finding.sentence =
        fmt::format("{} {}; {} stopped first, {}", who, fate(end, true), ranks_text(first), when(input, first.front()));
  } else if (one_of_some) {
    finding.sentence = fmt::format("{} {}; one of {} stopped first", who, fate(end, true), ranks_text(transfer->ranks));
  } else {
    finding.sentence =
        fmt::format("{} {}, last seen {}", who, fate(end, !one),
                    first.empty() ? "at " + duration_text(last_seen_ns(input, ends.lost)) : when(input, first.front()));
  }
}

/// Who gave exit() a code other than 0: of its own, not because it was told to end.
std::vector<int64_t> failed_by_exit(const FindingInput& input) {
  std::vector<int64_t> ranks;
  Query row(input.db, R"(
    SELECT p.rank
    FROM process_fact f
    JOIN process p ON p.id = f.process
    WHERE p.world = ? AND p.rank IS NOT NULL AND f.key = 'exit_code' AND CAST(f.value AS INTEGER) NOT IN (0, ?)
    ORDER BY p.end_ns, p.rank)");
  for (row.bind(input.world, 128 + SIGTERM); row.next();) ranks.push_back(row.integer(0));
  return ranks;
}

std::string codes_text(const FindingInput& input, const std::vector<int64_t>& ranks) {
  std::set<int64_t> codes;
  for (const int64_t rank : ranks) codes.insert(*exit_code_of(input, rank));
  return fmt::format("{} {}", codes.size() == 1 ? "code" : "codes", fmt::join(codes, ", "));
}

std::string exit_codes_sql(const FindingInput& input) {
  return fmt::format(
      "SELECT r.rank, r.host, r.pid, r.ended, f.value AS exit_code, r.end_ns FROM v_rank r JOIN process_fact f ON f.process = r.process"
      " WHERE r.world = {} AND f.key = 'exit_code' ORDER BY r.end_ns",
      input.world);
}

/// Who left with code 0 although the others were still waiting for it, which to them is a peer that died: its data ran
/// out, say.
std::vector<int64_t> left_early(const FindingInput& input, const Ends& ends, const std::optional<Stall>& stall) {
  if (!stall || stall->circular) return {};
  const bool all = std::all_of(stall->missing.begin(), stall->missing.end(), [&](int64_t rank) {
    return std::binary_search(ends.left.begin(), ends.left.end(), rank) && exit_code_of(input, rank) == 0;
  });
  return all ? stall->missing : std::vector<int64_t>();
}

void describe_left_early(const FindingInput& input, const Stall& stall, Finding& finding) {
  const bool one = stall.missing.size() == 1;
  finding.sentence = fmt::format("{} left with code 0 {}, before {}, in which {} sat until {} failed",
                                 ranks_text(stall.missing), when(input, stall.missing.front()), stall.collective,
                                 ranks_text(stall.waiting), stall.waiting.size() == 1 ? "it" : "they");
  finding.confidence = "sure";
  finding.advice = fmt::format(
      "see why {} made fewer steps than the others: data that ran out (shards of unequal length: DistributedSampler pads them, torch's Join "
      "waits), a break out of the loop, sys.exit",
      one ? fmt::format("rank {}", stall.missing.front()) : "these ranks");
}

/// Nobody was lost: every rank left by exit(), some of them because something went wrong. Whose call was still open
/// waited for one that was gone.
std::vector<Finding> find_failed_exits(const FindingInput& input, const Ends& ends) {
  const JobEnd end = end_of_world(input);
  if ((end.exit_code == 0 && !end.over) || !end.told_to_end.empty()) return {};
  const std::vector<int64_t> failed = failed_by_exit(input);
  if (failed.empty()) return {};
  std::set<int64_t> waited;
  for (const UnfinishedCall& call : vain_calls(input)) waited.insert(call.rank);
  std::vector<int64_t> own, after;
  for (const int64_t rank : failed) (waited.contains(rank) ? after : own).push_back(rank);
  if (own.empty()) {
    const std::optional<Stall> stall = find_stall(input);
    if (const std::vector<int64_t> early = left_early(input, ends, stall); !early.empty()) {
      Finding finding;
      describe_left_early(input, *stall, finding);
      if (early.size() == 1) finding.rank = early.front();
      finding.evidence = fmt::format("{} of {} ranks exited with {}, another code than 0.", failed.size(), ends.ranks,
                                     codes_text(input, failed));
      finding.evidence_sql = exit_codes_sql(input);
      return {finding};
    }
    std::swap(own, after);
  }
  const int64_t first = own.front();
  std::sort(own.begin(), own.end());
  std::sort(after.begin(), after.end());

  Finding finding;
  finding.confidence = own.size() == 1 ? "sure" : "likely";
  const bool finalized = input.catalog.process_of(input.world, first)->ended == "finalized";
  const char* where = finalized ? " after MPI_Finalize" : end.mpi ? ", without MPI_Finalize" : "";
  finding.sentence = fmt::format("{} exited {}with {}{}, ", ranks_text(own), after.empty() ? "" : "first ",
                                 codes_text(input, own), where);
  if (own.size() == 1)
    finding.rank = first;
  else
    finding.sentence += fmt::format("rank {} first, ", first);
  finding.sentence += when(input, first);
  if (!after.empty())
    finding.sentence +=
        fmt::format("; {}, which waited for others, followed with {}", ranks_text(after), codes_text(input, after));
  finding.evidence = fmt::format("{} of {} ranks exited with another code than 0.", failed.size(), ends.ranks);
  finding.evidence += fmt::format(" {}: {}.", rank_on_host(input.catalog, input.world, first), last_seen(input, first));
  finding.evidence_sql = exit_codes_sql(input);
  finding.advice = fmt::format(
      "read the error output of rank {}: it ended by an exception, or by an exit of the script's own", first);
  return {finding};
}

}  // namespace

DDL_FINDING(killed_rank, kEnded, "", "the run went wrong: a rank was killed, or gave up",
            "how the processes ended, and in which order") {
  const Ends ends = how_they_ended(input);
  const auto some = [&](const std::vector<int64_t>& ranks) {
    return !ranks.empty() && static_cast<int64_t>(ranks.size()) < ends.ranks;
  };
  if (ends.aborted.empty() && ends.replaced.empty() && ends.lost.empty() && !some(ends.exited))
    return find_failed_exits(input, ends);
  if (read_while_running_ns(input)) return {};

  Finding finding;
  std::vector<int64_t> first;
  const std::optional<Stall> stall = find_stall(input);
  const std::optional<MidTransfer> transfer = find_mid_transfer(input);
  const JobEnd end = end_of_world(input);
  const bool ended_well = end.exit_code == 0 && end.told_to_end.empty();
  if (ended_well && all_lost_alike(input, ends)) return {};
  const std::vector<int64_t> failed = failed_first(input, ends, end, stall);
  finding.advice =
      "read the job's own error output; for a kill without a message, the kernel log of that host (dmesg: out of memory) and the limits of "
      "the batch system";
  if (!ends.aborted.empty()) {
    first = ends.aborted;
    const ProcessInfo* process = input.catalog.process_of(input.world, first.front());
    finding.sentence = fmt::format("{} called MPI_Abort({}) {}", ranks_text(first), process->abort_code.value_or(0),
                                   when(input, first.front()));
    finding.confidence = "sure";
  } else if (some(ends.exited)) {
    first = ends.exited;
    const std::optional<int64_t> code = first.size() == 1 ? exit_code_of(input, first.front()) : std::nullopt;
    finding.sentence =
        fmt::format("{} exited {} {}", ranks_text(first),
                    code ? fmt::format("with code {}, without MPI_Finalize,", *code) : "without MPI_Finalize",
                    when(input, first.front()));
    finding.confidence = "sure";
  } else if (!ends.replaced.empty()) {
    first = ends.replaced;
    finding.sentence = fmt::format("{} became another program (exec){} {}", ranks_text(first),
                                   end.mpi ? " without MPI_Finalize" : "", when(input, first.front()));
    finding.confidence = "sure";
  } else if (!failed.empty()) {
    first = failed;
    const std::optional<int64_t> code = exit_code_of(input, first.front());
    finding.sentence = fmt::format("{} exited first{}, {}; {} {} ended", ranks_text(first),
                                   code ? fmt::format(" with code {}", *code) : "", when(input, first.front()),
                                   ranks_text(ends.lost), ends.lost.size() == 1 ? "was" : "were");
    finding.confidence = "likely";
    finding.advice =
        fmt::format("read the error output of {}: {} ended by an exception, or by an exit of the script's own",
                    ranks_text(first), first.size() == 1 ? "it" : "they");
  } else if (const std::vector<int64_t> early = left_early(input, ends, stall);
             !early.empty() && end.told_to_end.empty()) {
    first = early;
    describe_left_early(input, *stall, finding);
  } else {
    describe_lost(input, ends, end, stall, transfer, finding, first);
  }
  if (first.size() == 1) finding.rank = first.front();
  finding.evidence = what_is_missing(input, ends, end);
  if (end.merged && end.signal != 0 && end.told_to_end.empty())
    finding.evidence += fmt::format(
        " {} is the code of mpiexec (MPICH), which ORs those of all ranks, also of the ones that it killed: _exit or an error inside MPI may give"
        " the same.",
        *end.exit_code);
  if (end.rank_failed() && end.told_to_end.empty() && may_have_left_alike(input, ends, end))
    finding.evidence += " Whether one of them failed and the others were ended, or all left by _exit, is not known.";
  const bool end_seen = end.over || end_on_axis_ns(input.db) ||
                        !Query(input.db, "SELECT 1 FROM meta WHERE key = 'started_realtime_ns'").next();
  if (!end_seen) {
    const std::optional<int64_t> look_ns = last_look_ns(input.db);
    const int64_t silent_ns = look_ns.value_or(0) - last_sign_of_life_ns(input);
    finding.evidence +=
        look_ns && silent_ns > 0
            ? fmt::format(
                  " ddl record last saw it run {} after its last sign of life, and did not see it end: it was killed as well, or the job still runs.",
                  duration_text(silent_ns))
            : " How long it ran after its last sign of life is not known: ddl record did not see it end, so it was killed as well, or the job still runs.";
  }
  if (const std::optional<MessageStall> by_message = find_message_stall(input)) {
    if (!by_message->circular || !end_seen) finding.evidence += fmt::format(" {}.", by_message->sentence);
  } else if (stall && !stall->circular) {
    finding.evidence += fmt::format(" {}.", stalled(*stall));
  }
  const bool told_by_transfer = transfer && transfer->first && first == std::vector{*transfer->first};
  if (told_by_transfer)
    finding.evidence += fmt::format(" {}.", transfer->text);
  else if (transfer && first.empty() && end.told_to_end.empty())
    finding.evidence +=
        fmt::format(" {}: one of them died {}.", transfer->text, transfer->background ? "meanwhile" : "there");
  if (const auto next_ns = next_world_ns(input); next_ns && stall && !seen_stalled_ns(input)) {
    const int64_t silent_ns = *next_ns - last_sign_of_life_ns(input);
    if (silent_ns >= kMayHaveHungNs)
      finding.evidence += fmt::format(
          " The next start came {} after its last sign of life: whether it hung until then is not recorded (ddl record --stall records it).",
          duration_text(silent_ns));
  }
  if (!first.empty())
    finding.evidence += fmt::format(" {}: {}.", rank_on_host(input.catalog, input.world, first.front()),
                                    last_seen(input, first.front()));
  finding.evidence_sql = fmt::format(
      "SELECT rank, host, pid, ended, abort_code, end_ns FROM v_rank WHERE world = {} ORDER BY end_ns", input.world);
  return {finding};
}

}  // namespace ddl
