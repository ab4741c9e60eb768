#include "tui/observer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/job_end.h"
#include "analyzer/findings/stall_case.h"
#include "analyzer/statistics.h"
#include "tui/live_stall.h"

namespace ddl::tui {
namespace {

constexpr double kStaleNs = 3e9;   // a feed that has been silent for this long, and ...
constexpr double kStaleSteps = 3;  // ... for this many steps, is stale
constexpr double kStallSteps = 3;  // what takes less than these is not a hang, either

/// The bandwidth of what moves the most bytes in a step.
std::optional<double> step_busbw(const Job& job, const FinishedStep& step) {
  const CollectiveUse* largest = nullptr;
  for (const CollectiveUse& use : step.collectives) {
    if (use.bytes <= 0 || use.nonblocking || use.transfer_ns.empty()) continue;
    if (largest == nullptr || use.bytes * use.instances > largest->bytes * largest->instances) largest = &use;
  }
  if (largest == nullptr) return std::nullopt;
  const auto bandwidth = bandwidth_of(job, *largest);
  return bandwidth ? std::optional(bandwidth->busbw) : std::nullopt;
}

bool ended_well(const Job& job) {
  const bool killed = job.signal.value_or(0) != 0, failed = job.exit_code.value_or(0) != 0;
  return !killed && !failed && std::all_of(job.ranks.begin(), job.ranks.end(), [](const Rank& r) {
    return r.life == Life::kFinalized || (r.life == Life::kExited && !r.uses_mpi);
  });
}

std::string how_it_ended(const Job& job) {
  std::map<Life, std::vector<int64_t>> lives;
  for (const Rank& rank : job.ranks) lives[rank.life].push_back(rank.rank);
  const bool mpi = std::any_of(job.ranks.begin(), job.ranks.end(), [](const Rank& r) { return r.uses_mpi; });
  std::vector<std::string> parts;
  if (job.signal && *job.signal != 0) {
    parts.push_back(fmt::format("killed by {}", signal_name(*job.signal)));
  } else if (lives[Life::kFinalized].size() == job.ranks.size()) {
    parts.push_back("all ranks finalized");
  } else if (lives[Life::kExited].size() == job.ranks.size() && !mpi) {
    parts.push_back("all ranks exited");
  } else {
    for (const auto& [life, word] : {std::pair{Life::kAborted, "called MPI_Abort"},
                                     {Life::kGone, "ended abnormally"},
                                     {Life::kExited, mpi ? "exited without MPI_Finalize" : "exited"}}) {
      const auto& ranks = lives[life];
      if (!ranks.empty())
        parts.push_back(
            fmt::format("{} {}", ranks.size() == job.ranks.size() ? "all ranks" : ranks_phrase(ranks), word));
    }
  }
  if (job.exit_code && *job.exit_code != 0) parts.push_back(fmt::format("exit code {}", *job.exit_code));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Snapshot Observer::look(Job& job, bool replay) {
  if (job.generation != generation_) {
    *this = {};
    generation_ = job.generation;
  }
  steps_.advance(job);
  window_.clear();
  const auto& finished = steps_.finished();
  for (size_t i = finished.size() - std::min(finished.size(), kWindow); i < finished.size(); ++i)
    window_.push_back(&finished[i]);
  by_device_ = are_gpus_shown(job);
  background_ = job.background && !by_device_;
  take_history(job);

  Snapshot s;
  s.name = job.name.empty() ? "job" : job.name;
  s.job_id = job.job_id;
  s.run = job.run;
  s.generation = job.generation;
  s.world_size = std::max(job.world_size, static_cast<int32_t>(job.ranks.size()));
  s.other_worlds = job.other_worlds;
  s.mpi = job.operations.empty() ||
          std::any_of(job.operations.begin(), job.operations.end(),
                      [](const JobOperation& op) { return op.operation.name.starts_with("MPI_"); });
  s.by_device = by_device_;
  s.gpus = job.gpus && !by_device_;
  s.device_collectives = job.device_collectives && !by_device_;
  s.background = background_;
  s.spools_in_turns = job.spools_in_turns;
  s.unreadable_spools = job.unreadable_spools;
  s.unreadable_why = job.unreadable_why;
  if (job.wall_clock_s != 0) s.clock = fmt::format("{:%H:%M:%S}", fmt::localtime(job.wall_clock_s));
  s.annotated = steps_.annotated();
  s.window = window_.size();
  if (!window_.empty()) {
    s.step = window_.back()->number;
    s.first_step = window_.front()->number;
    std::vector<double> durations;
    double samples = 0;
    double time_ns = 0;
    for (const FinishedStep* step : window_) {
      durations.push_back(static_cast<double>(step->longest_ns));
      samples += step->samples.value_or(0);
      time_ns += static_cast<double>(step->longest_ns);
    }
    s.now_ns = durations.back();
    std::sort(durations.begin(), durations.end());
    if (s.annotated) {
      s.p99_ns = percentile_of(durations, 0.99);
      s.p50_ns = median_of(durations);  // last: it moves them about
      if (samples > 0 && time_ns > 0) s.samples_per_s = samples / time_ns * 1e9;
    }
  }
  sum_collectives(job);
  find_parts(job);
  rank_rows(job, s);
  collective_rows(job, s);
  axis_rows(job, s);
  layer_rows(job, s);
  s.history.assign(history_.begin(), history_.end());
  feed(job, replay, s);
  headline(job, s);
  return s;
}

/// The analyzer's rule (select_resources() in analyzer/passes/devices.cpp), over the window.
bool Observer::are_gpus_shown(const Job& job) const {
  if (job.by_device) return true;
  double thread_exposed_ns = 0, thread_wait_ns = 0, device_wait_ns = 0;
  bool any = false;
  for (const FinishedStep* step : window_) {
    any |= step->devices || (job.device_collectives && !step->unknown.empty());
    for (const RankPart& part : step->thread_parts) {
      thread_exposed_ns += static_cast<double>(part.exposed_ns);
      thread_wait_ns += static_cast<double>(part.wait_ns.value_or(0));
    }
    device_wait_ns += static_cast<double>(step->device_wait_ns);
  }
  return any && (thread_exposed_ns == 0 || device_wait_ns > thread_wait_ns);
}

/// As the report finds them (parts_of_world() in analyzer/waiting_parts.h), over the window. Where the waiting of some
/// step is not known, nor is for whom, and any message may have kept its receiver waiting.
void Observer::find_parts(const Job& job) {
  std::pair<size_t, std::set<uint32_t>> from{job.ranks.size(), {}};
  bool known =
      static_cast<size_t>(std::max(job.world_size, 0)) <= job.ranks.size() && job.ranks.size() >= kLeastRanksInParts;
  for (const FinishedStep* step : window_) {
    known &= step->unknown.empty();
    for (const RankPart& part : parts(*step)) known &= !part.is_there() || part.wait_ns.has_value();
    for (const RankPart& part : step->thread_parts) known &= !part.messages;
    each_lateness(*step,
                  [&](const Lateness& lateness) { from.second.insert(lateness.comms.begin(), lateness.comms.end()); });
  }
  for (const uint32_t comm : from.second) known &= job.communicators[comm].ranks.size() < job.ranks.size();
  if (!known || background_) from.second.clear();
  if (from == parts_from_) return;
  parts_from_ = std::move(from);
  parts_of_ranks_.clear();
  if (parts_from_.second.empty()) return;
  std::vector<int64_t> ranks;
  for (const Rank& rank : job.ranks) ranks.push_back(rank.rank);
  WaitingParts found(ranks);
  for (const uint32_t comm : parts_from_.second) found.join(job.communicators[comm].ranks);
  parts_of_ranks_ = found.parts();
}

void Observer::take_history(const Job& job) {
  const bool unread = job.device_collectives && !by_device_;
  const auto& finished = steps_.finished();
  if (steps_.annotated() != annotated_) {  // seconds became steps
    annotated_ = steps_.annotated();
    history_.clear();
    taken_ = 0;
  }
  const uint64_t fresh = std::min<uint64_t>(steps_.count() - taken_, finished.size());
  taken_ = steps_.count();
  for (size_t i = finished.size() - fresh; i < finished.size(); ++i) {
    const FinishedStep& step = finished[i];
    double duration = 0, exposed = 0, wait = 0;
    bool known = true;
    for (const RankPart& part : parts(step)) {
      duration += static_cast<double>(part.duration_ns);
      exposed += static_cast<double>(part.exposed_ns);
      known &= !part.is_there() || part.wait_ns.has_value();
      wait += static_cast<double>(part.wait_ns.value_or(0));
    }
    HistoryPoint point;
    point.step = step.number;
    point.step_ns = static_cast<double>(step.longest_ns);
    if (duration > 0 && !unread) point.exposed_ratio = exposed / duration;
    if (duration > 0 && !unread && known) point.wait_ratio = wait / duration;
    point.busbw = step_busbw(job, step);
    history_.push_back(point);
  }
  while (history_.size() > kHistory) history_.pop_front();
}

void Observer::feed(const Job& job, bool replay, Snapshot& s) const {
  int64_t newest_ns = INT64_MIN;
  for (const Rank& rank : job.ranks) {
    if (rank.newest_ticks > 0) newest_ns = std::max(newest_ns, rank.clock.time_ns(rank.newest_ticks));
  }
  if (newest_ns != INT64_MIN) s.silent_ns = std::max(0.0, static_cast<double>(job.now_ns - newest_ns));
  const double step_ns = s.p50_ns.value_or(0);
  if (job.ended) {
    s.feed = replay ? Feed::kReplay : Feed::kEnded;
    s.ended_well = ended_well(job);
    s.how_ended = how_it_ended(job);
    return;
  }
  s.feed = replay ? Feed::kReplay : window_.empty() && history_.empty() ? Feed::kWaiting : Feed::kLive;
  if (replay) return;
  const Patience patience{std::max(static_cast<double>(kHangNs), kStallSteps * step_ns)};
  s.stall = find_live_stall(job, collectives_, patience);
  if (const auto no_data = find_no_data(job, patience); no_data && job.background && !s.stall)
    s.no_data_ns = no_data->silent_ns;
  const double stale_ns = std::max(kStaleNs, kStaleSteps * step_ns);
  if (s.stall) {
    s.feed = Feed::kHung;
  } else if (s.silent_ns > stale_ns) {
    s.feed = Feed::kStale;
  }
  for (RankRow& row : s.ranks) row.stale = s.feed == Feed::kLive && !is_over(row.life) && row.silent_ns > stale_ns;
}

}  // namespace ddl::tui
