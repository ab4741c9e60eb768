#include "cli/live_steps.h"

#include <algorithm>

#include "core/error.h"
#include "store/run_directory.h"
#include "tui/stall_watch.h"

namespace ddl::cli {

void LiveSteps::look() {
  if (over_) return;
  try {
    if (!source_) {
      if (std::error_code error; !std::filesystem::exists(directory_, error)) return;
      source_ = std::make_unique<tui::SpoolSource>(find_run(directory_.string()), directory_.string());
    }
    source_->poll(job_, 0);
  } catch (const Error&) {  // nothing has been recorded yet
    return;
  }
  if (job_.generation != generation_) {
    generation_ = job_.generation;
    over_ = !following_.empty();
    if (over_) return;
    start_afresh();  // what came before the tuned job: a preparing mpirun of the same script
  }
  progress_ = 0;
  for (tui::Rank& rank : job_.ranks) {
    progress_ += rank.finished_ticks;
    take(rank);
  }
  tui::forget_events(job_);
  // its last steps may be younger than the look that saw it end
  over_ = !following_.empty() && job_.ended && seen_ended_;
  seen_ended_ = job_.ended;
}

void LiveSteps::start_afresh() {
  steps_.clear();
  ended_ = 0;
  newest_.reset();
  went_back_.reset();
  followers_.clear();
  asked_.clear();
  seen_ended_ = false;
}

void LiveSteps::take(tui::Rank& rank) {
  Follower& follower = followers_[rank.rank];
  // What is kept is in a log, the rest in a ring: read one after the other.
  std::stable_sort(rank.tune_marks.begin(), rank.tune_marks.end(),
                   [](const auto& a, const auto& b) { return a.ticks < b.ticks; });
  std::stable_sort(rank.steps.begin(), rank.steps.end(),
                   [](const auto& a, const auto& b) { return a.end_ticks < b.end_ticks; });
  for (const tui::TuneMark& mark : rank.tune_marks) {
    if (!mark.knob.empty()) {
      asked_[mark.knob].insert(rank.rank);
      continue;
    }
    following_.insert(rank.rank);
    follower.blocks.emplace_back(mark.ticks, static_cast<int64_t>(mark.value));
  }
  for (const tui::EndedStep& step : rank.steps) {
    if (step.second) continue;
    ++follower.ended;
    if (follower.last && step.number <= *follower.last && !went_back_)
      went_back_ = Back{rank.rank, *follower.last, step.number};
    follower.last = step.number;
    // What it said last before the step's end holds in it.
    std::optional<int64_t> block;
    for (; !follower.blocks.empty() && follower.blocks.front().first <= step.end_ticks; follower.blocks.pop_front())
      block = follower.blocks.front().second;
    if (block && on_block_) on_block_(rank.rank, step.number, *block);
    Step& all = steps_[step.number];
    all.longest_ns =
        std::max(all.longest_ns, rank.clock.duration_ns(step.start_ticks, step.end_ticks - step.start_ticks));
    if (++all.ranks < static_cast<size_t>(std::max(1, ranks()))) continue;
    ++ended_;
    newest_ = std::max(newest_.value_or(0), step.number);
  }
  if (!rank.samples.empty()) follower.samples = rank.samples.back().second;
}

int64_t LiveSteps::hosts() const {
  std::set<std::string> hosts;
  for (const tui::Rank& rank : job_.ranks) hosts.insert(rank.host);
  return static_cast<int64_t>(hosts.size());
}

std::set<int32_t> LiveSteps::not_following() const {
  std::set<int32_t> ranks;
  for (const tui::Rank& rank : job_.ranks)
    if (!following_.contains(rank.rank)) ranks.insert(rank.rank);
  return ranks;
}

bool LiveSteps::asks_without_steps(size_t steps) const {
  return std::any_of(followers_.begin(), followers_.end(), [&](const auto& follower) {
    return follower.second.ended == 0 && follower.second.blocks.size() >= steps;
  });
}

size_t LiveSteps::asking_for(const std::string& knob) const {
  const auto found = asked_.find(knob);
  return found == asked_.end() ? 0 : found->second.size();
}

std::set<std::string> LiveSteps::knobs() const {
  std::set<std::string> names;
  for (const auto& [name, ranks] : asked_) names.insert(name);
  return names;
}

std::optional<double> LiveSteps::step_s(uint64_t step) const {
  const auto found = steps_.find(step);
  if (found == steps_.end() || found->second.ranks < static_cast<size_t>(std::max(1, ranks()))) return std::nullopt;
  return static_cast<double>(found->second.longest_ns) * 1e-9;
}

size_t LiveSteps::most_ended() const {
  size_t most = 0;
  for (const auto& [rank, follower] : followers_) most = std::max(most, follower.ended);
  return most;
}

std::optional<double> LiveSteps::samples() const {
  double sum = 0;
  for (const auto& [rank, follower] : followers_) {
    if (!follower.samples) return std::nullopt;
    sum += *follower.samples;
  }
  return followers_.empty() ? std::nullopt : std::optional(sum);
}

}  // namespace ddl::cli
