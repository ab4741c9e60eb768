#include "tui/observer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/job_end.h"
#include "analyzer/statistics.h"
#include "reports/format.h"

namespace ddl::tui {
namespace {

constexpr double kStaleNs = 3e9;   // a feed that has been silent for this long, and ...
constexpr double kStaleSteps = 3;  // ... for this many steps, is stale
constexpr double kStallNs = 2e9;   // so long in one collective is a hang (findings/missing_rank.cpp)
constexpr double kStallSteps = 3;
constexpr double kShownCallNs = 5e8;  // calls that last longer than this are named
constexpr double kWorthShare = 0.02;  // of a step: less than this is no problem

bool is_there(const RankPart& part) { return part.duration_ns > 0; }

double mean(double sum, size_t count) { return count == 0 ? 0 : sum / static_cast<double>(count); }

/// Of an even number the upper one, as the report takes it.
int64_t middle(std::vector<int64_t> values) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string ranks_phrase(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", reports::rank_list(ranks, 4));
}

std::string who(const RankRow& row) {
  return row.node.empty() ? fmt::format("rank {}", row.rank) : fmt::format("rank {} ({})", row.rank, row.node);
}

std::string local_time(int64_t unix_s) {
  if (unix_s == 0) return {};
  const auto t = static_cast<std::time_t>(unix_s);
  std::tm tm{};
  localtime_r(&t, &tm);
  return fmt::format("{:02}:{:02}:{:02}", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/// By node: how busy its GPUs are and how full their memory, means. One process of each node says so, with names such as "gpu ID
/// busy_ratio".
std::map<std::string, std::pair<std::optional<double>, std::optional<double>>> gpus_by_node(const Job& job) {
  std::map<std::string, std::pair<std::optional<double>, std::optional<double>>> nodes;
  for (const Rank& rank : job.ranks) {
    double busy = 0, used = 0, total = 0;
    int busy_count = 0;
    for (const auto& [name, value] : rank.counters) {
      if (!name.starts_with("gpu")) continue;
      if (name.ends_with(" busy_ratio")) busy += value, ++busy_count;
      if (name.ends_with(" memory_used_bytes")) used += value;
      if (name.ends_with(" memory_total_bytes")) total += value;
    }
    if (busy_count > 0) nodes[rank.host].first = busy / busy_count;
    if (total > 0) nodes[rank.host].second = used / total;
  }
  return nodes;
}

/// The bandwidth of what moves the most bytes in a step.
std::optional<double> step_busbw(const Job& job, const FinishedStep& step) {
  const CollectiveUse* largest = nullptr;
  for (const CollectiveUse& use : step.collectives) {
    if (use.bytes <= 0 || use.nonblocking || use.transfer_ns.empty()) continue;
    if (largest == nullptr || use.bytes * use.instances > largest->bytes * largest->instances) largest = &use;
  }
  if (largest == nullptr) return std::nullopt;
  std::vector<double> times = largest->transfer_ns;
  const double time_ns = median_of(times);
  const auto factor = bus_factor(job.operations[largest->op].operation.bus, job.communicators[largest->comm].size);
  if (time_ns <= 0 || !factor) return std::nullopt;
  return static_cast<double>(largest->bytes) / time_ns * 1e9 * *factor;
}

}  // namespace

Snapshot Observer::look(Job& job, bool replay) {
  steps_.advance(job);
  take_history(job);
  window_.clear();
  const auto& finished = steps_.finished();
  for (size_t i = finished.size() - std::min(finished.size(), kWindow); i < finished.size(); ++i) window_.push_back(&finished[i]);

  Snapshot s;
  s.name = job.name.empty() ? "job" : job.name;
  s.job_id = job.job_id;
  s.run = job.run;
  s.world_size = std::max(job.world_size, static_cast<int32_t>(job.ranks.size()));
  s.other_worlds = job.other_worlds;
  s.gpus = job.gpus;
  s.clock = local_time(job.wall_clock_s);
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
      s.p50_ns = percentile_of(durations, 0.5);
      s.p99_ns = percentile_of(durations, 0.99);
      if (samples > 0 && time_ns > 0) s.samples_per_s = samples / time_ns * 1e9;
    }
  }
  rank_rows(job, s);
  collective_rows(job, s);
  layer_rows(job, s);
  s.history.assign(history_.begin(), history_.end());
  feed(job, replay, s);
  headline(job, s);
  return s;
}

void Observer::take_history(const Job& job) {
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
    for (const RankPart& part : step.parts) {
      duration += static_cast<double>(part.duration_ns);
      exposed += static_cast<double>(part.exposed_ns);
      known &= !is_there(part) || part.wait_ns.has_value();
      wait += static_cast<double>(part.wait_ns.value_or(0));
    }
    HistoryPoint point;
    point.step = step.number;
    point.step_ns = static_cast<double>(step.longest_ns);
    if (duration > 0) point.exposed_ratio = exposed / duration;
    if (duration > 0 && known) point.wait_ratio = wait / duration;
    point.busbw = step_busbw(job, step);
    history_.push_back(point);
  }
  while (history_.size() > kHistory) history_.pop_front();
}

void Observer::rank_rows(const Job& job, Snapshot& s) const {
  struct Sum {
    int64_t duration = 0, compute = 0, comm = 0, exposed = 0, wait = 0;
    size_t steps = 0;
    bool known = true;
  };
  std::vector<Sum> sums(job.ranks.size());
  Sum all;
  for (const FinishedStep* step : window_) {
    for (size_t r = 0; r < step->parts.size(); ++r) {
      const RankPart& part = step->parts[r];
      if (!is_there(part)) continue;
      Sum& sum = sums[r];
      ++sum.steps;
      for (Sum* to : {&sum, &all}) {
        to->duration += part.duration_ns;
        to->compute += part.compute_ns;
        to->comm += part.comm_ns;
        to->exposed += part.exposed_ns;
        to->wait += part.wait_ns.value_or(0);
        to->known &= part.wait_ns.has_value();
      }
    }
  }
  const auto shares_of = [](const Sum& sum) {
    const auto whole = static_cast<double>(sum.duration);
    const auto overlapped = static_cast<double>(std::max<int64_t>(0, sum.comm - sum.exposed));
    const double wait = sum.known ? static_cast<double>(sum.wait) : 0;
    Shares shares{};
    shares[kCompute] = (static_cast<double>(sum.compute) - overlapped) / whole;
    shares[kOverlapped] = overlapped / whole;
    shares[kTransfer] = (static_cast<double>(sum.exposed) - wait) / whole;
    shares[kWaiting] = wait / whole;
    shares[kIdle] = static_cast<double>(sum.duration - sum.compute - sum.exposed) / whole;
    return shares;
  };
  if (all.duration > 0) {
    s.shares = shares_of(all);
    s.exposed_ratio = static_cast<double>(all.exposed) / static_cast<double>(all.duration);
    if (all.comm > 0) s.overlap_ratio = static_cast<double>(std::max<int64_t>(0, all.comm - all.exposed)) / static_cast<double>(all.comm);
    s.waiting_known = all.known;
  }

  std::vector<int64_t> waits;
  for (const Sum& sum : sums) {
    if (sum.steps > 0 && sum.known) waits.push_back(sum.wait / static_cast<int64_t>(sum.steps));
  }
  const std::optional<int64_t> middle_wait = waits.empty() ? std::nullopt : std::optional(middle(waits));
  std::vector<std::optional<int64_t>> step_middle;
  for (const FinishedStep* step : window_) {
    std::vector<int64_t> of_step;
    for (const RankPart& part : step->parts) {
      if (is_there(part) && part.wait_ns) of_step.push_back(*part.wait_ns);
    }
    step_middle.push_back(of_step.empty() ? std::nullopt : std::optional(middle(std::move(of_step))));
  }

  std::set<std::string> nodes;
  std::map<std::string, int32_t> on_node;
  std::vector<size_t> order(job.ranks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return job.ranks[a].rank < job.ranks[b].rank; });
  const auto node_gpus = gpus_by_node(job);
  double overhead = 0, alive = 0;
  for (const size_t r : order) {
    const Rank& rank = job.ranks[r];
    RankRow row;
    row.rank = rank.rank;
    row.node = rank.host;
    row.slot = rank.on_host >= 0 ? rank.on_host : on_node[rank.host]++;
    row.life = rank.life;
    row.lost = rank.lost;
    nodes.insert(rank.host);
    s.lost += rank.lost;
    if (rank.newest_ticks > rank.begin_ticks) {
      overhead += static_cast<double>(rank.clock.span_ns(rank.overhead_ticks));
      alive += static_cast<double>(rank.clock.time_ns(rank.newest_ticks) - rank.clock.time_ns(rank.begin_ticks));
    }
    const Sum& sum = sums[r];
    if (sum.steps > 0) {
      row.step_ns = mean(static_cast<double>(sum.duration), sum.steps);
      row.compute_ns = mean(static_cast<double>(sum.compute), sum.steps);
      row.exposed_ns = mean(static_cast<double>(sum.exposed), sum.steps);
      row.shares = shares_of(sum);
      if (sum.known) {
        const int64_t wait_ns = sum.wait / static_cast<int64_t>(sum.steps);
        row.wait_ns = static_cast<double>(wait_ns);
        row.late_ns = static_cast<double>(middle_wait.value_or(wait_ns) - wait_ns);
      }
    }
    for (size_t i = 0; i < window_.size(); ++i) {
      const auto& parts = window_[i]->parts;
      const bool known = r < parts.size() && is_there(parts[r]) && parts[r].wait_ns && step_middle[i];
      row.trend.push_back(known ? std::optional(static_cast<double>(*step_middle[i] - *parts[r].wait_ns)) : std::nullopt);
    }
    if (rank.sits_in && rank.sits_in->op != kNone) {
      const double since_ns = static_cast<double>(job.now_ns - rank.clock.time_ns(rank.sits_in->start_ticks));
      if (since_ns >= kShownCallNs || job.ended) {
        row.call = job.operations[rank.sits_in->op].operation.name;
        row.call_ns = std::max(0.0, since_ns);
      }
    }
    if (const auto gpus = node_gpus.find(rank.host); gpus != node_gpus.end()) {
      row.gpu_ratio = gpus->second.first;
      row.memory_ratio = gpus->second.second;
    }
    std::map<uint32_t, double> layers;
    for (const FinishedStep* step : window_) {
      if (r >= step->layers.size()) continue;
      for (const auto& [layer, use] : step->layers[r]) layers[layer] += static_cast<double>(use.time_ns);
    }
    for (const auto& [layer, ns] : layers) row.layers.emplace_back(layer, ns / static_cast<double>(std::max<size_t>(sum.steps, 1)));
    s.ranks.push_back(std::move(row));
  }
  s.nodes = static_cast<int32_t>(nodes.size());
  if (alive > 0) s.overhead_ratio = overhead / alive;

  for (const FinishedStep* step : window_) {
    for (const Blamed& blamed : step->blamed) {
      for (const auto& [waiter, ns] : blamed.waiters)
        s.blame[{blamed.rank, waiter}] += static_cast<double>(ns) / static_cast<double>(window_.size());
    }
  }
}

void Observer::collective_rows(const Job& job, Snapshot& s) {
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, CollectiveUse> sums;
  for (const FinishedStep* step : window_) {
    for (const CollectiveUse& use : step->collectives) {
      CollectiveUse& sum = sums[{use.op, use.comm, use.bytes}];
      sum.instances += use.instances;
      sum.calls += use.calls;
      sum.time_ns += use.time_ns;
      sum.split_calls += use.split_calls;
      sum.wait_ns += use.wait_ns;
      sum.nonblocking |= use.nonblocking;
      sum.transfer_ns.insert(sum.transfer_ns.end(), use.transfer_ns.begin(), use.transfer_ns.end());
    }
  }
  const auto steps = static_cast<double>(std::max<size_t>(window_.size(), 1));
  for (auto& [key, sum] : sums) {
    const Operation& operation = job.operations[std::get<0>(key)].operation;
    const JobCommunicator& communicator = job.communicators[std::get<1>(key)];
    CollectiveRow row;
    row.op = operation.name;
    row.comm = communicator.label;
    row.ranks = communicator.size;
    if (std::get<2>(key) >= 0) row.bytes = std::get<2>(key);
    row.nonblocking = sum.nonblocking;
    row.per_step = static_cast<double>(sum.instances) / steps;
    const double per_rank = steps * static_cast<double>(sum.calls) / static_cast<double>(std::max<int64_t>(sum.instances, 1));
    row.time_ns = static_cast<double>(sum.time_ns) / per_rank;
    if (sum.split_calls == sum.calls) {
      row.wait_ns = static_cast<double>(sum.wait_ns) / per_rank;
      row.transfer_ns = row.time_ns - *row.wait_ns;
    }
    const auto factor = bus_factor(operation.bus, communicator.size);
    if (factor && row.bytes.value_or(0) > 0 && !sum.nonblocking && !sum.transfer_ns.empty()) {
      if (const double time_ns = median_of(sum.transfer_ns); time_ns > 0) {
        row.algbw = static_cast<double>(*row.bytes) / time_ns * 1e9;
        row.busbw = *row.algbw * *factor;
        double& best = best_busbw_[fmt::format("{} {} {}", row.op, row.comm, *row.bytes)];
        best = std::max(best, *row.busbw);
        row.of_best = *row.busbw / best;
      }
    }
    s.collectives.push_back(std::move(row));
  }
  std::stable_sort(s.collectives.begin(), s.collectives.end(),
                   [](const CollectiveRow& a, const CollectiveRow& b) { return a.time_ns > b.time_ns; });
}

void Observer::layer_rows(const Job& job, Snapshot& s) const {
  const auto direction = [](const std::string& phase) {
    return phase.starts_with("forward") || phase.starts_with("fwd") ? 0 : phase.starts_with("backward") || phase.starts_with("bwd") ? 1 : 2;
  };
  std::map<std::string, size_t> rows;
  std::vector<std::array<std::vector<double>, 4>> values;  // by row: forward, backward, other, communication of each rank
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    std::map<size_t, std::array<double, 4>> sums;
    for (const FinishedStep* step : window_) {
      if (r >= step->layers.size()) continue;
      for (const auto& [layer, use] : step->layers[r]) {
        const JobLayer& known = job.layers[layer];
        const size_t row = rows.try_emplace(known.name, rows.size()).first->second;
        auto& sum = sums[row];
        sum[static_cast<size_t>(direction(known.phase))] += static_cast<double>(use.time_ns);
        sum[3] += static_cast<double>(use.comm_ns);
      }
    }
    values.resize(rows.size());
    for (const auto& [row, sum] : sums) {
      for (size_t i = 0; i < sum.size(); ++i) values[row][i].push_back(sum[i] / static_cast<double>(window_.size()));
    }
  }
  s.layers.resize(rows.size());
  for (const auto& [name, row] : rows) s.layers[row].name = name;
  for (size_t row = 0; row < values.size(); ++row) {
    std::optional<double>* const fields[] = {&s.layers[row].forward_ns, &s.layers[row].backward_ns, &s.layers[row].other_ns,
                                             &s.layers[row].comm_ns};
    for (size_t i = 0; i < 4; ++i) {
      if (values[row][i].empty()) continue;
      if (const double m = median_of(values[row][i]); m > 0) *fields[i] = m;
    }
  }
  // Rows of ranks say layers by their place in the table.
  for (RankRow& rank : s.ranks) {
    std::map<uint32_t, double> by_row;
    for (const auto& [layer, ns] : rank.layers) {
      if (const auto row = rows.find(job.layers[layer].name); row != rows.end()) by_row[static_cast<uint32_t>(row->second)] += ns;
    }
    rank.layers.assign(by_row.begin(), by_row.end());
  }
}

void Observer::feed(const Job& job, bool replay, Snapshot& s) {
  int64_t newest_ns = INT64_MIN;
  std::map<Life, std::vector<int64_t>> lives;
  for (const Rank& rank : job.ranks) {
    if (rank.newest_ticks > 0) newest_ns = std::max(newest_ns, rank.clock.time_ns(rank.newest_ticks));
    lives[rank.life].push_back(rank.rank);
  }
  if (newest_ns != INT64_MIN) s.silent_ns = std::max(0.0, static_cast<double>(job.now_ns - newest_ns));
  const double step_ns = s.p50_ns.value_or(0);
  if (job.ended) {
    s.feed = replay ? Feed::kReplay : Feed::kEnded;
    if (job.signal && *job.signal != 0) {
      s.how_ended = fmt::format("killed by {}", signal_name(*job.signal));
    } else if (lives[Life::kFinalized].size() == job.ranks.size()) {
      s.how_ended = "all ranks finalized";
    } else {
      for (const auto& [life, word] : {std::pair{Life::kAborted, "called MPI_Abort"},
                                       {Life::kGone, "gone without a goodbye"},
                                       {Life::kExited, "exited without MPI_Finalize"}}) {
        if (lives[life].empty()) continue;
        std::sort(lives[life].begin(), lives[life].end());
        s.how_ended += fmt::format("{}{} {}", s.how_ended.empty() ? "" : ", ",
                                   lives[life].size() == job.ranks.size() ? "all ranks" : ranks_phrase(lives[life]), word);
      }
    }
    if (job.exit_code && *job.exit_code != 0) s.how_ended += fmt::format("{}exit code {}", s.how_ended.empty() ? "" : ", ", *job.exit_code);
    return;
  }
  s.feed = replay ? Feed::kReplay : window_.empty() && history_.empty() ? Feed::kWaiting : Feed::kLive;
  if (replay) return;
  s.stall = find_live_stall(job, std::max(kStallNs, kStallSteps * step_ns));
  if (s.stall) {
    s.feed = Feed::kHung;
  } else if (s.silent_ns > std::max(kStaleNs, kStaleSteps * step_ns)) {
    s.feed = Feed::kStale;
  }
}

void Observer::headline(const Job& job, Snapshot& s) const {
  Headline& h = s.headline;
  if (s.stall) {
    h.alarm = true;
    const Stall& stall = *s.stall;
    if (stall.missing.size() == 1) h.rank = static_cast<int32_t>(stall.missing.front());
    const char* sit = stall.waiting.size() == 1 ? "sits" : "sit";
    h.text = stall.missing.empty()
                 ? fmt::format("{} {} in {} for {}", ranks_phrase(stall.waiting), sit, stall.call,
                               reports::short_duration(static_cast<int64_t>(stall.waited_ns)))
                 : fmt::format("{} never entered {}: {} {} in it for {}", ranks_phrase(stall.missing), stall.call,
                               ranks_phrase(stall.waiting), sit, reports::short_duration(static_cast<int64_t>(stall.waited_ns)));
    h.brief = stall.missing.empty() ? fmt::format("hung in {}", stall.call)
                                    : fmt::format("{} missing in {}", ranks_phrase(stall.missing), stall.call);
    h.next = "gdb -p PID or py-spy dump on the rank that is missing shows what keeps it";
    for (RankRow& row : s.ranks) row.alarm = std::find(stall.missing.begin(), stall.missing.end(), row.rank) != stall.missing.end();
    return;
  }
  if (s.feed == Feed::kEnded && s.how_ended != "all ranks finalized") {
    h.alarm = true;
    h.text = fmt::format("the job has ended: {}", s.how_ended);
    h.brief = fmt::format("ended: {}", s.how_ended);
    h.next = "ddl report says why";
    return;
  }

  StragglerInput input;
  input.annotated = s.annotated;
  input.step_ns = static_cast<int64_t>(s.annotated ? s.p50_ns.value_or(0) : s.now_ns.value_or(0) * static_cast<double>(window_.size()));
  input.ranks = job.ranks.size();
  const auto known = [&](const FinishedStep& step) {
    return std::all_of(step.parts.begin(), step.parts.end(), [](const RankPart& p) { return !is_there(p) || p.wait_ns; });
  };
  for (const FinishedStep* step : window_) {
    if (known(*step)) input.steps.push_back(static_cast<int64_t>(step->number));
  }
  input.each_late = [&](const auto& use) {
    for (const FinishedStep* step : window_) {
      for (LateRow row : step->late) {
        if (!s.annotated) row.step = 0;
        use(row);
      }
    }
  };
  input.each_step = [&](const auto& use) {
    std::map<int64_t, StepOfRank> whole;  // without steps the window is one
    for (const FinishedStep* step : window_) {
      if (!known(*step)) continue;
      for (size_t r = 0; r < step->parts.size(); ++r) {
        const RankPart& part = step->parts[r];
        if (!is_there(part)) continue;
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
  if (const auto found = find_straggler_case(input)) {
    const auto row = std::find_if(s.ranks.begin(), s.ranks.end(), [&](const RankRow& r) { return r.rank == found->rank; });
    h.alarm = true;
    h.rank = static_cast<int32_t>(found->rank);
    h.text = straggler_sentence(*found, who(*row), s.annotated ? "/step" : fmt::format(" in {} s", window_.size()), job.ranks.size());
    h.brief = fmt::format("rank {} last, {} {}", found->rank, job.ranks.size() == 2 ? "other waits" : "others wait",
                          reports::short_duration(static_cast<int64_t>(found->costs.others_wait_ns * found->blame_share)));
    h.next = "Enter on its row: why";
    row->alarm = true;
    return;
  }
  if (!s.shares) {
    h.text = h.brief = s.feed == Feed::kWaiting ? "no step has ended yet" : "nothing was recorded of any step";
    return;
  }
  const double transfer = (*s.shares)[kTransfer], waiting = (*s.shares)[kWaiting];
  if (!s.waiting_known && *s.exposed_ratio >= kWorthShare) {
    h.text = fmt::format("{} of the time is spent inside MPI; who waits for whom in messages is for ddl report to tell",
                         reports::percent_text(*s.exposed_ratio));
    h.brief = fmt::format("{} inside MPI", reports::percent_text(*s.exposed_ratio));
  } else if (std::max(transfer, waiting) < kWorthShare) {
    h.text =
        fmt::format("nothing above 2 %: exposed transfer {}, waiting {}", reports::percent_text(transfer), reports::percent_text(waiting));
    h.brief = "nothing above 2 %";
  } else if (transfer >= waiting) {
    h.text =
        fmt::format("{} of the step is exposed transfer: overlap it with computing, or move fewer bytes", reports::percent_text(transfer));
    h.brief = fmt::format("{} exposed transfer", reports::percent_text(transfer));
    h.next = "ddl tune";
  } else {
    h.text =
        fmt::format("{} of the step is waiting, and no rank stands out: jitter, or work that is not even", reports::percent_text(waiting));
    h.brief = fmt::format("{} waiting, nobody stands out", reports::percent_text(waiting));
  }
}

std::optional<Stall> find_live_stall(const Job& job, double least_ns) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<const Rank*>> waiting;
  std::vector<int64_t> in_init, absent;
  double init_ns = 0;
  for (const Rank& rank : job.ranks) {
    if (!rank.sits_in || rank.sits_in->op == kNone) continue;
    const OpenCall& call = *rank.sits_in;
    if (call.comm != kNone && call.sequence > 0) waiting[{call.comm, call.sequence}].push_back(&rank);
    if (rank.life == Life::kStarting) {
      in_init.push_back(rank.rank);
      init_ns = static_cast<double>(job.now_ns - rank.clock.time_ns(call.start_ticks));
    }
  }
  std::optional<Stall> worst;
  for (const auto& [key, ranks] : waiting) {
    const auto& [comm, sequence] = key;
    Stall stall;
    int64_t since_ns = INT64_MIN;
    for (const Rank* rank : ranks) {
      stall.waiting.push_back(rank->rank);
      since_ns = std::max(since_ns, rank->clock.time_ns(rank->sits_in->start_ticks));
    }
    stall.waited_ns = static_cast<double>(job.now_ns - since_ns);
    if (stall.waited_ns < least_ns) continue;
    const JobCommunicator& communicator = job.communicators[comm];
    bool elsewhere = false;
    for (const Rank& rank : job.ranks) {
      const bool member = communicator.ranks.empty() ||
                          std::find(communicator.ranks.begin(), communicator.ranks.end(), rank.rank) != communicator.ranks.end();
      const auto reached = rank.reached.find(comm);
      if (!member || (reached != rank.reached.end() && reached->second >= sequence)) continue;
      const bool waits_too = rank.sits_in && rank.sits_in->sequence > 0;  // for somebody else: not the cause
      elsewhere |= waits_too;
      if (!waits_too) stall.missing.push_back(rank.rank);
    }
    if (stall.missing.empty() && elsewhere) continue;
    const OpenCall& call = *ranks.front()->sits_in;
    const std::string& op = job.operations[call.op].operation.name;
    stall.call = fmt::format("{} number {} on {}", op, sequence, communicator.label);
    if (job.operations[call.op].operation.op_class == OpClass::kCompletion)
      stall.call = fmt::format("collective number {} on {} ({})", sequence, communicator.label, op);
    std::sort(stall.waiting.begin(), stall.waiting.end());
    std::sort(stall.missing.begin(), stall.missing.end());
    const auto weight = [](const Stall& s) { return std::pair(!s.missing.empty(), s.waiting.size()); };
    if (!worst || weight(stall) > weight(*worst)) worst = std::move(stall);
  }
  if (!worst && !in_init.empty() && in_init.size() == job.ranks.size() && init_ns > 2 * least_ns) {
    std::sort(in_init.begin(), in_init.end());
    for (int64_t r = 0; r < job.world_size; ++r) {
      if (!std::binary_search(in_init.begin(), in_init.end(), r)) absent.push_back(r);
    }
    worst = Stall{"MPI_Init", in_init, absent, init_ns};
  }
  return worst;
}

}  // namespace ddl::tui
