#include "tui/stall_watch.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "reports/format.h"
#include "tui/live_stall.h"
#include "tui/observer.h"

namespace ddl::tui {
namespace {

/// Which training thread is not ready comes with samples of the background threads, once a second, later on a busy
/// machine. It is told once only: an answer that names nobody waits for them.
constexpr int64_t kMayStillTellNs = 5'000'000'000;

std::string duration(int64_t ns) { return reports::short_duration(ns); }

int64_t finished_ns(const Rank& rank) { return rank.clock.time_ns(rank.finished_ticks); }

/// Those of `ranks`, which are sorted.
std::vector<int64_t> behind(const std::vector<int64_t>& ranks, const Job& job, int64_t limit_ns,
                            bool finished_nothing) {
  std::vector<int64_t> found;
  for (const Rank& rank : job.ranks) {
    const bool silent = job.now_ns - finished_ns(rank) >= limit_ns;
    if (silent == finished_nothing && std::binary_search(ranks.begin(), ranks.end(), rank.rank))
      found.push_back(rank.rank);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Where ranks are, of a job in which no collective tells who is missing.
std::string where_ranks_are(const Job& job) {
  std::map<std::string, std::vector<int64_t>> ranks_in;
  for (const Rank& rank : job.ranks) {
    const std::string call = call_phrase(job, rank);
    ranks_in[is_over(rank.life) ? "have ended"
             : !call.empty()    ? "sit in " + call
             : rank.polls       ? "poll in vain with " + job.operations[rank.polls->op].operation.name
                                : "are in no call that is recorded"]
        .push_back(rank.rank);
  }
  std::string text;
  for (auto& [what, ranks] : ranks_in) {
    std::sort(ranks.begin(), ranks.end());
    std::string words = what;
    if (ranks.size() == 1) {
      if (words.starts_with("sit ")) words.replace(0, 3, "sits");
      if (words.starts_with("are ")) words.replace(0, 3, "is");
      if (words.starts_with("poll ")) words.replace(0, 4, "polls");
      if (words.starts_with("have ")) words.replace(0, 4, "has");
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", ranks_phrase(ranks), words);
  }
  return text;
}

}  // namespace

std::string call_phrase(const Job& job, const Rank& rank) {
  if (!rank.sits_in || rank.sits_in->op == kNone) return {};
  const OpenCall& call = *rank.sits_in;
  std::string text = job.operations[call.op].operation.name;
  if (call.sequence > 0) text += fmt::format(" number {}", shown_number(call.sequence));
  if (call.comm != kNone && !job.communicators[call.comm].label.empty())
    text += fmt::format(" on {}", job.communicators[call.comm].label);
  return text;
}

void forget_events(Job& job) {
  for (Rank& rank : job.ranks) {
    rank.events.clear();
    rank.steps.clear();
    rank.layers.clear();
    rank.samples.clear();
    rank.tune_marks.clear();
    rank.posted.clear();
    rank.devices.work.clear();
    rank.devices.arrived.clear();
  }
}

std::optional<StallNews> StallWatch::look(const Job& job) {
  if (job.generation != generation_) {
    *this = StallWatch(limit_ns_);
    generation_ = job.generation;
  }
  if (job.ended || job.ranks.empty() ||
      std::max<size_t>(job.ranks.size(), static_cast<size_t>(std::max(job.world_size, 0))) < 2)
    return std::nullopt;
  int64_t last_ns = INT64_MIN;
  for (const Rank& rank : job.ranks) last_ns = std::max(last_ns, finished_ns(rank));
  // Whether data moved is known from the first sample of a training thread on, and in what was read of the logs.
  if (const auto no_data = find_no_data(job, {.least_ns = 0, .times = 0}); no_data && job.background)
    last_ns = std::max(last_ns, job.now_ns - static_cast<int64_t>(no_data->silent_ns));
  StallNews news;
  news.since_ns = last_ns;
  if (stalled_since_ns_) {
    // By ticks: the line to the time axis is fitted anew with each pair of clocks.
    const bool goes_on = std::any_of(job.ranks.begin(), job.ranks.end(),
                                     [&](const Rank& rank) { return rank.finished_ticks > stalled_at_[rank.rank]; });
    if (!goes_on) return std::nullopt;
    news.kind = StallNews::Kind::kResumed;
    news.sentence = fmt::format("the job goes on: nothing was finished for {}",
                                duration(std::max<int64_t>(0, last_ns - *stalled_since_ns_)));
    stalled_since_ns_.reset();
    told_waiting_.clear();
    return news;
  }
  // The user's limit alone counts, however long a step takes.
  const auto stall = find_live_stall(job, {}, {.least_ns = static_cast<double>(limit_ns_), .times = 0});
  if (stall) {
    news.call = stall->call;
    news.waiting = stall->waiting;
    news.missing = stall->missing;
  }
  const int64_t patience_ns = limit_ns_ + (job.background && !stall ? kMayStillTellNs : 0);
  if (const int64_t silent_ns = job.now_ns - last_ns; silent_ns >= patience_ns) {
    stalled_since_ns_ = last_ns;
    stalled_at_.clear();
    for (const Rank& rank : job.ranks) stalled_at_[rank.rank] = rank.finished_ticks;
    const auto since_s = static_cast<std::time_t>(job.wall_clock_s - silent_ns / 1'000'000'000);
    const std::string since = job.wall_clock_s != 0 ? fmt::format(", since {:%H:%M:%S}", fmt::localtime(since_s)) : "";
    news.sentence = fmt::format("no rank has finished a call or a step for {}{}: {}", duration(silent_ns), since,
                                stall ? stall_sentence(*stall, job.wall_clock_s) : where_ranks_are(job));
    return news;
  }
  if (!stall || stall->missing.empty() || !stall->unready.empty()) return std::nullopt;
  const std::string told = fmt::format("{} {}", stall->call, fmt::join(stall->missing, ","));
  if (told == told_waiting_) return std::nullopt;
  told_waiting_ = told;
  news.kind = StallNews::Kind::kWaiting;
  news.since_ns = job.now_ns - static_cast<int64_t>(stall->waited_ns);
  const std::vector<int64_t> going_on = behind(stall->missing, job, limit_ns_, false);
  const std::vector<int64_t> silent = behind(stall->missing, job, limit_ns_, true);
  news.sentence = stall_sentence(*stall, job.wall_clock_s);
  if (!going_on.empty())
    news.sentence +=
        fmt::format("; {} still {} progress", ranks_phrase(going_on), going_on.size() == 1 ? "makes" : "make");
  if (!silent.empty())
    news.sentence += fmt::format("; {} {} finished nothing for longer than {}, while others go on",
                                 ranks_phrase(silent), silent.size() == 1 ? "has" : "have", duration(limit_ns_));
  return news;
}

}  // namespace ddl::tui
