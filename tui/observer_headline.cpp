// The one sentence to act on.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "analyzer/findings/findings.h"
#include "reports/format.h"
#include "tui/live_stall.h"
#include "tui/observer.h"

namespace ddl::tui {
namespace {

constexpr double kWorthShare = 0.02;  // of a step: less than this is not a problem
constexpr double kByFar = 4;          // as late as the next rank
constexpr size_t kLeastSteps = 5;     // of the window
// of how late a rank is, what others wait for it directly: less, and they hand it on
constexpr double kMostOfLateness = 0.5;

std::string who(const RankRow& row) {
  return row.node.empty() ? fmt::format("rank {}", row.rank) : fmt::format("rank {} ({})", row.rank, row.node);
}

std::string duration(double ns) { return reports::short_duration(static_cast<int64_t>(ns)); }

Headline of_stall(const Stall& stall, int64_t now_s) {
  Headline h;
  h.alarm = true;
  h.text = stall_sentence(stall, now_s);
  if (stall.missing.size() == 1) h.rank = static_cast<int32_t>(stall.missing.front());
  const std::string waiting = ranks_phrase(stall.waiting), missing = ranks_phrase(stall.missing);
  if (!stall.unready.empty()) {
    h.brief = fmt::format("no data for {}: {}", duration(stall.waited_ns), missing);
    h.next = "gdb -p PID or py-spy dump on the rank that does not come shows what blocks it";
  } else if (!stall.message.empty()) {
    h.brief = stall.circular ? fmt::format("{} wait for each other", missing)
                             : fmt::format("{} holds up {}", missing, waiting);
    h.next =
        stall.circular ? stall.advice : "gdb -p PID or py-spy dump on the rank that does not come shows what blocks it";
  } else if (stall.missing.empty()) {
    h.brief = fmt::format("hung in {}", stall.call);
    h.next = "gdb -p PID or py-spy dump on one of them shows what blocks it";
  } else if (stall.circular) {
    h.brief = fmt::format("{} and {} wait for each other", waiting, missing);
    h.next = "call collectives on different communicators in the same order on all ranks";
  } else {
    h.brief = fmt::format("{} missing in {}", missing, stall.call);
    h.next = "gdb -p PID or py-spy dump on the missing rank shows what blocks it";
  }
  return h;
}

/// For a job whose MPI calls come from background threads. Waiting follows from all that ranks told each other in a
/// step, which is for the report.
Headline of_training_threads(const Snapshot& s) {
  Headline h;
  h.next = "ddl report";
  double sum = 0;
  int64_t known = 0;
  double least = 1, most = 0;  // of whom is not said: the one that waits computes less than the one that is late
  for (const RankRow& row : s.ranks) {
    if (!row.computing_ratio) continue;
    sum += *row.computing_ratio;
    ++known;
    least = std::min(least, *row.computing_ratio);
    most = std::max(most, *row.computing_ratio);
  }
  if (known == 0) {
    h.text = fmt::format("background threads make its {}: see ddl report for where its training threads' time goes",
                         s.mpi ? "MPI calls" : "collectives");
    h.brief = fmt::format("{} in the background: see ddl report", s.mpi ? "MPI" : "collectives");
    return h;
  }
  const std::string mean = reports::percent_text(sum / static_cast<double>(known));
  h.text = fmt::format("training threads computed {} of the last second", mean);
  if (known > 1) h.text += fmt::format(" ({} to {})", reports::percent_text(least), reports::percent_text(most));
  h.text += ": see ddl report for what blocked them";
  h.brief = fmt::format("training threads compute {}", mean);
  return h;
}

/// For a job in which no rank stands out: what most of its time goes to.
Headline of_shares(const Snapshot& s) {
  const double transfer = (*s.shares)[kTransfer], waiting = (*s.shares)[kWaiting];
  const std::string in_calls = reports::percent_text(*s.exposed_ratio);
  const char* inside = s.mpi ? "MPI" : "collectives and messages";
  Headline h;
  if (s.device_collectives) {
    h.text = "GPUs carry out its collectives, and no kernel of them was seen: who waits for whom is not known";
    h.brief = "GPU job: see ddl report";
    h.next = "ddl report";
  } else if (!s.waiting_known && s.by_device && *s.exposed_ratio >= kWorthShare) {
    h.text = fmt::format(
        "GPUs spend {} of the time in collectives that nothing hides; how much of it is waiting is not known",
        in_calls);
    h.brief = fmt::format("{} in collectives", in_calls);
    h.next = "ddl report";
  } else if (!s.waiting_known && *s.exposed_ratio >= kWorthShare) {
    h.text =
        fmt::format("{} of the time is spent inside {}; see ddl report for who waits in messages", in_calls, inside);
    h.brief = fmt::format("{} inside {}", in_calls, inside);
  } else if (s.gpus) {
    h.text = fmt::format("hosts spend {} of the time inside {}, {} waiting; see ddl report for what their GPUs do",
                         in_calls, inside, reports::percent_text(waiting));
    h.brief = fmt::format("{} in {}, GPUs unknown", in_calls, s.mpi ? "MPI" : "collectives");
    h.next = "ddl report";
  } else if (std::max(transfer, waiting) < kWorthShare) {
    h.text = fmt::format("nothing above 2 %: exposed transfer {}, waiting {}", reports::percent_text(transfer),
                         reports::percent_text(waiting));
    h.brief = "nothing above 2 %";
  } else if (transfer >= waiting) {
    h.text = fmt::format("{} of the step is exposed transfer: overlap it with computing, or move fewer bytes",
                         reports::percent_text(transfer));
    h.brief = fmt::format("{} exposed transfer", reports::percent_text(transfer));
    h.next = "ddl tune";
  } else {
    h.text = fmt::format("{} of the step is waiting, and no rank stands out: jitter, or uneven work",
                         reports::percent_text(waiting));
    h.brief = fmt::format("{} waiting, nobody stands out", reports::percent_text(waiting));
  }
  return h;
}

/// A rank that is later than all others by far, of those that may wait for it. On several communicators the others are
/// late in turn because of it, and the blame is spread over them; who waits least is not.
bool name_latest(Snapshot& s) {
  if (!s.annotated || !s.p50_ns || s.window < kLeastSteps || s.ranks.empty()) return false;
  for (const RankRow& row : s.ranks)
    if (!row.late_ns) return false;
  RankRow* latest = &*std::max_element(s.ranks.begin(), s.ranks.end(),
                                       [](const RankRow& a, const RankRow& b) { return *a.late_ns < *b.late_ns; });
  double next_ns = 0;
  size_t others = 0;
  for (const RankRow& row : s.ranks) {
    if (&row == latest || row.part != latest->part) continue;
    next_ns = std::max(next_ns, *row.late_ns);
    ++others;
  }
  if (others < 2) return false;
  const double late_ns = *latest->late_ns;
  if (late_ns < kWorthShare * *s.p50_ns || late_ns < kByFar * next_ns) return false;
  latest->alarm = true;
  const std::string median = s.parts > 1 ? fmt::format("median of its {} ranks", others + 1) : "median rank";
  const std::string next = next_ns > 0 ? fmt::format(", the next one {}", duration(next_ns)) : "";
  s.headline = {fmt::format("{} enters collectives {}/step later than the {}{}: the others wait for it", who(*latest),
                            duration(late_ns), median, next),
                fmt::format("rank {} late by {}", latest->rank, duration(late_ns)), "Enter on its row: why", true,
                latest->rank};
  return true;
}

}  // namespace

namespace {

std::string sentence_of(const Stall& stall, int64_t now_s) {
  const std::string waiting = ranks_phrase(stall.waiting), missing = ranks_phrase(stall.missing),
                    waited = duration(stall.waited_ns);
  const char* sit = stall.waiting.size() == 1 ? "sits" : "sit";
  if (!stall.message.empty()) return stall.message;
  if (!stall.unready.empty()) {
    const auto since_s = static_cast<std::time_t>(now_s - static_cast<int64_t>(stall.waited_ns * 1e-9));
    const bool knows_when = now_s != 0 && !stall.at_least;
    const std::string since = knows_when ? fmt::format("since {:%H:%M:%S}, ", fmt::localtime(since_s)) : "";
    return fmt::format("no data was moved {}for {}{}: {}", since, stall.at_least ? "at least " : "", waited,
                       stall.unready);
  }
  if (stall.missing.empty()) return fmt::format("{} {} in {} for {}", waiting, sit, stall.call, waited);
  if (stall.circular)
    return fmt::format("{} and {} wait for each other: the former in {} for {}, the latter elsewhere", waiting, missing,
                       stall.call, waited);
  return fmt::format("{} never entered {}: {} {} in it for {}", missing, stall.call, waiting, sit, waited);
}

}  // namespace

std::string stall_sentence(const Stall& stall, int64_t now_s) {
  return sentence_of(stall, now_s) + (stall.polling.empty() ? "" : "; " + stall.polling);
}

std::string ranks_phrase(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", reports::rank_list(ranks, 4));
}

void Observer::headline(const Job& job, Snapshot& s) const {
  if (s.stall) {
    s.headline = of_stall(*s.stall, job.wall_clock_s);
    const auto& missing = s.stall->missing;
    if (job.told) s.headline.next = "Enter on a rank: its stack";
    for (RankRow& row : s.ranks) row.alarm = std::binary_search(missing.begin(), missing.end(), row.rank);
  } else if (s.feed == Feed::kEnded && !s.ended_well) {
    s.headline = {fmt::format("the job has ended: {}", s.how_ended),
                  fmt::format("ended: {}", s.how_ended),
                  "ddl report says why",
                  true,
                  {}};
  } else if (s.no_data_ns) {
    s.headline = {
        fmt::format(
            "no data was moved for {}, while background threads go on coordinating: see ddl report for the training thread that does not come",
            duration(*s.no_data_ns)),
        fmt::format("no data for {}", duration(*s.no_data_ns)),
        "ddl report",
        true,
        {}};
  } else if (s.background) {
    s.headline = of_training_threads(s);
  } else if (s.device_collectives || !blame_straggler(job, s)) {
    if (!s.device_collectives && name_latest(s)) return;
    if (s.shares) {
      s.headline = of_shares(s);
    } else {
      s.headline.text = s.headline.brief = !s.devices_unknown.empty() ? "what GPUs did has not come"
                                           : s.feed == Feed::kWaiting ? "no step has ended yet"
                                                                      : "no step was recorded";
    }
  }
}

bool Observer::blame_straggler(const Job& job, Snapshot& s) const {
  StragglerInput input;
  input.annotated = s.annotated;
  input.step_ns = static_cast<int64_t>(s.annotated ? s.p50_ns.value_or(0)
                                                   : s.now_ns.value_or(0) * static_cast<double>(window_.size()));
  input.ranks = input.all_ranks = job.ranks.size();
  input.parts = parts_of_ranks_;
  const auto known = [&](const FinishedStep& step) {
    const std::vector<RankPart>& of_ranks = parts(step);
    return std::all_of(of_ranks.begin(), of_ranks.end(), [](const RankPart& p) { return !p.is_there() || p.wait_ns; });
  };
  for (const FinishedStep* step : window_) {
    if (known(*step)) input.steps.push_back(static_cast<int64_t>(step->number));
  }
  input.each_late = [&](const auto& use) {
    for (const FinishedStep* step : window_) {
      each_lateness(*step, [&](const Lateness& lateness) {
        for (LateRow row : lateness.late) {
          if (!s.annotated) row.step = 0;
          use(row);
        }
      });
    }
  };
  input.each_step = [&](const auto& use) {
    std::map<int64_t, StepOfRank> whole;  // without steps the window is one
    for (const FinishedStep* step : window_) {
      if (!known(*step)) continue;
      const std::vector<RankPart>& of_ranks = parts(*step);
      for (size_t r = 0; r < of_ranks.size(); ++r) {
        const RankPart& part = of_ranks[r];
        if (!part.is_there()) continue;
        const StepOfRank row{static_cast<int64_t>(step->number),    job.ranks[r].rank,
                             static_cast<double>(part.duration_ns), static_cast<double>(part.compute_ns),
                             static_cast<double>(*part.wait_ns),    static_cast<double>(part.exposed_ns)};
        if (s.annotated) {
          use(row);
          continue;
        }
        StepOfRank& sum = whole[row.rank];
        sum.rank = row.rank;
        sum.duration_ns += row.duration_ns;
        sum.compute_ns += row.compute_ns;
        sum.wait_ns += row.wait_ns;
        sum.exposed_ns += row.exposed_ns;
      }
    }
    for (const auto& [rank, sum] : whole) use(sum);
  };
  const auto found = find_straggler_case(input);
  if (!found) return false;
  const bool one = found->ranks.size() == 1;
  const double waited_ns = found->costs.others_wait_ns * found->blame_share;
  const auto is_the_one = [&](const RankRow& row) { return row.rank == found->ranks.front(); };
  const auto row_of_one = one ? std::find_if(s.ranks.begin(), s.ranks.end(), is_the_one) : s.ranks.end();
  if (row_of_one != s.ranks.end() && waited_ns < kMostOfLateness * row_of_one->late_ns.value_or(0) && name_latest(s))
    return true;
  const std::string late = ranks_text(found->ranks);
  std::string named = late;
  for (RankRow& row : s.ranks) {
    if (!std::binary_search(found->ranks.begin(), found->ranks.end(), row.rank)) continue;
    row.alarm = true;
    if (one) named = who(row);
  }
  const std::string per = s.annotated ? "/step" : fmt::format(" in {} s", window_.size());
  // By the median step; LATE is of the mean one, which a few odd steps may make.
  const auto later = [&](const RankRow& row) {
    return row.part == row_of_one->part && row.late_ns &&
           *row.late_ns > row_of_one->late_ns.value_or(0) + kWorthShare * found->costs.step_ns;
  };
  const bool by_median = row_of_one != s.ranks.end() && std::any_of(s.ranks.begin(), s.ranks.end(), later);
  s.headline = {
      straggler_sentence(*found, named, per, found->among) + (by_median ? " in most steps; LATE is a mean" : ""),
      fmt::format("{} last, {} {}", late, found->among - found->ranks.size() == 1 ? "other waits" : "others wait",
                  duration(waited_ns)),
      one ? "Enter on its row: why" : "Enter on their rows: why", true,
      one ? std::optional(static_cast<int32_t>(found->ranks.front())) : std::nullopt};
  return true;
}

}  // namespace ddl::tui
