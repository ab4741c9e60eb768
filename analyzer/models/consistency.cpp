#include "analyzer/models/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <string>

#include "core/error.h"

namespace ddl::models {
namespace {

/// When each step of a rank began and ended, the exchange included, and what else it did.
struct RankTrace {
  std::vector<double> begin_s, end_s;
  double idle_s = 0, transfer_s = 0;
  double until_s = 0;  ///< held up, after the last step, until then; 0: not
};

struct ConsistencyTrace {
  std::vector<RankTrace> ranks;
  std::vector<std::pair<double, double>> updates;  ///< parameters read, and changed: asynchronous rules
  std::vector<int64_t> late;                       ///< partial collectives: staleness, as counted there
};

size_t recorded_steps_of(const ConsistencyJob& job) { return job.exchange_s.size(); }
/// Whole periods, so that no exchange is left out.
size_t whole_periods(const ConsistencyJob& job, size_t period) {
  return (recorded_steps_of(job) + period - 1) / period * period;
}
double compute_of(const ConsistencyJob& job, size_t rank, size_t step) {
  return job.compute_s[rank][step % recorded_steps_of(job)];
}
double exchange_of(const ConsistencyJob& job, size_t step) { return job.exchange_s[step % recorded_steps_of(job)]; }

// Collectives in every `period`-th step.
ConsistencyTrace in_step(const ConsistencyJob& job, size_t period) {
  ConsistencyTrace trace{std::vector<RankTrace>(job.compute_s.size()), {}, {}};
  std::vector<double> now(trace.ranks.size(), 0);
  for (size_t step = 0; step < whole_periods(job, period); ++step) {
    for (size_t r = 0; r < now.size(); ++r) {
      trace.ranks[r].begin_s.push_back(now[r]);
      now[r] += compute_of(job, r, step);
    }
    if ((step + 1) % period == 0) {
      const double last_s = *std::max_element(now.begin(), now.end());
      for (size_t r = 0; r < now.size(); ++r) {
        trace.ranks[r].idle_s += last_s - now[r];
        trace.ranks[r].transfer_s += exchange_of(job, step);
        now[r] = last_s + exchange_of(job, step);
      }
    }
    for (size_t r = 0; r < now.size(); ++r) trace.ranks[r].end_s.push_back(now[r]);
  }
  return trace;
}

using Finish = std::pair<double, size_t>;  // time, rank
using Finishes = std::priority_queue<Finish, std::vector<Finish>, std::greater<>>;

// How many steps the slowest rank has done.
class Slowest {
 public:
  explicit Slowest(size_t ranks) : at_(1, ranks) {}
  /// A rank has done one more than `steps`. Whether the slowest one has, too.
  bool advance(size_t steps) {
    if (at_.size() < steps + 2) at_.resize(steps + 2, 0);
    --at_[steps], ++at_[steps + 1];
    if (at_[done_] > 0) return false;
    ++done_;
    return true;
  }
  size_t done() const { return done_; }

 private:
  std::vector<size_t> at_;  ///< ranks by steps done
  size_t done_ = 0;
};

// Until the slowest has done so many steps.
ConsistencyTrace bounded(const ConsistencyJob& job, size_t bound, size_t steps) {
  const size_t ranks = job.compute_s.size();
  ConsistencyTrace trace{std::vector<RankTrace>(ranks), {}, {}};
  Finishes finishes;
  Slowest slowest(ranks);
  std::vector<double> ready(ranks, 0);
  std::vector<size_t> waiting;
  const auto begin = [&](size_t r, double now) {
    RankTrace& rank = trace.ranks[r];
    const size_t step = rank.begin_s.size();
    rank.idle_s += now - ready[r];
    rank.begin_s.push_back(now);
    finishes.emplace(now + compute_of(job, r, step) + exchange_of(job, step), r);
  };
  for (size_t r = 0; r < ranks; ++r) begin(r, 0);
  while (slowest.done() < steps) {
    const double now = finishes.top().first;
    const size_t r = finishes.top().second;
    finishes.pop();
    RankTrace& rank = trace.ranks[r];
    rank.transfer_s += exchange_of(job, rank.end_s.size());
    rank.end_s.push_back(now);
    ready[r] = now;
    waiting.push_back(r);
    slowest.advance(rank.end_s.size() - 1);
    // All that were held up by the slowest, and this one: whoever is not further ahead of it than the bound.
    if (slowest.done() == steps) break;
    std::erase_if(waiting, [&](size_t w) {
      if (trace.ranks[w].end_s.size() > slowest.done() + bound) return false;
      begin(w, now);
      return true;
    });
  }
  for (const size_t w : waiting) {
    RankTrace& rank = trace.ranks[w];
    rank.until_s = trace.ranks[waiting.back()].end_s.back();  // who came last is the slowest
    rank.idle_s += rank.until_s - rank.end_s.back();
  }
  return trace;
}

// Servers that hold a part each. Messages go in the order of their ranks' requests.
class Servers {
 public:
  Servers(const ConsistencyJob& job, size_t count)
      : message_s_(job.alpha_s + job.beta_s_per_byte * job.bytes / static_cast<double>(count)),
        in_(count, 0),
        out_(count, 0) {}

  struct Exchange {
    double pushed_s, read_s, pulled_s;  ///< read: when the last part leaves its server
  };
  /// A rank begins to push at `now`, first to server `first`; it pulls a part when that was pushed and changed.
  Exchange exchange(double now, size_t first) {
    Exchange exchange{now, now, now};
    for (size_t i = 0; i < in_.size(); ++i) {
      const size_t server = (first + i) % in_.size();
      exchange.pushed_s = in_[server] = std::max(exchange.pushed_s, in_[server]) + message_s_;
      exchange.read_s = std::max({exchange.pushed_s, exchange.pulled_s, out_[server]});
      exchange.pulled_s = out_[server] = exchange.read_s + message_s_;
    }
    return exchange;
  }
  /// With nobody else there.
  double alone_s() const { return message_s_ * static_cast<double>(in_.size() + 1); }

 private:
  double message_s_;
  std::vector<double> in_, out_;  ///< until when each direction of each link is taken
};

// With servers in every `period`-th step.
ConsistencyTrace asynchronous(const ConsistencyJob& job, size_t count, size_t period) {
  const size_t ranks = job.compute_s.size(), steps = whole_periods(job, period);
  ConsistencyTrace trace{std::vector<RankTrace>(ranks), {}, {}};
  Servers servers(job, count);
  Slowest slowest(ranks);
  Finishes computed;
  std::vector<double> read(ranks, 0);
  const auto begin = [&](size_t r, double now) {
    trace.ranks[r].begin_s.push_back(now);
    computed.emplace(now + compute_of(job, r, trace.ranks[r].end_s.size()), r);
  };
  for (size_t r = 0; r < ranks; ++r) begin(r, 0);
  for (;;) {
    const auto [now, r] = computed.top();
    computed.pop();
    RankTrace& rank = trace.ranks[r];
    double end_s = now;
    if ((rank.end_s.size() + 1) % period == 0) {
      const Servers::Exchange exchange = servers.exchange(now, r % count);
      trace.updates.emplace_back(read[r], exchange.pushed_s);
      read[r] = exchange.read_s;
      end_s = exchange.pulled_s;
      rank.transfer_s += servers.alone_s();
      rank.idle_s += std::max(0.0, end_s - now - servers.alone_s());
    }
    rank.end_s.push_back(end_s);
    slowest.advance(rank.end_s.size() - 1);
    if (slowest.done() == steps) return trace;
    begin(r, end_s);
  }
}

ConsistencyTrace gossip(const ConsistencyJob& job, const std::vector<std::pair<size_t, size_t>>& graph) {
  const size_t ranks = job.compute_s.size();
  ConsistencyTrace trace{std::vector<RankTrace>(ranks), {}, {}};
  std::vector<double> now(ranks, 0), degree(ranks, 0);
  for (const auto& [a, b] : graph) ++degree[a], ++degree[b];
  for (size_t step = 0; step < recorded_steps_of(job); ++step) {
    for (size_t r = 0; r < ranks; ++r) {
      trace.ranks[r].begin_s.push_back(now[r]);
      now[r] += compute_of(job, r, step);
    }
    std::vector<double> met = now;
    for (const auto& [a, b] : graph) met[a] = std::max(met[a], now[b]), met[b] = std::max(met[b], now[a]);
    for (size_t r = 0; r < ranks; ++r) {
      const double transfer_s = degree[r] * (job.alpha_s + job.beta_s_per_byte * job.bytes);
      trace.ranks[r].idle_s += met[r] - now[r];
      trace.ranks[r].transfer_s += transfer_s;
      now[r] = met[r] + transfer_s;
      trace.ranks[r].end_s.push_back(now[r]);
    }
  }
  return trace;
}

ConsistencyTrace partial(const ConsistencyJob& job, size_t absent) {
  const size_t ranks = job.compute_s.size(), steps = recorded_steps_of(job);
  ConsistencyTrace trace{std::vector<RankTrace>(ranks), {}, {}};
  Slowest slowest(ranks);
  std::vector<double> come(ranks);
  std::vector<size_t> began(ranks, 0);  // how many collectives there had been
  for (size_t r = 0; r < ranks; ++r) {
    trace.ranks[r].begin_s.push_back(0);
    come[r] = compute_of(job, r, 0);
  }
  for (size_t collective = 0; slowest.done() < steps; ++collective) {
    std::vector<double> sorted = come;
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(ranks - 1 - absent);
    std::nth_element(sorted.begin(), last, sorted.end());
    const double begin_s = *last, end_s = begin_s + exchange_of(job, collective);
    for (size_t r = 0; r < ranks; ++r) {
      if (come[r] > begin_s) continue;
      RankTrace& rank = trace.ranks[r];
      rank.idle_s += begin_s - come[r];
      rank.transfer_s += end_s - begin_s;
      rank.end_s.push_back(end_s);
      if (trace.late.size() <= collective - began[r]) trace.late.resize(collective - began[r] + 1, 0);
      ++trace.late[collective - began[r]];
      slowest.advance(rank.end_s.size() - 1);
      began[r] = collective + 1;
      rank.begin_s.push_back(end_s);
      come[r] = end_s + compute_of(job, r, rank.end_s.size());
    }
    // Ranks that came meanwhile are there when it ends; they waited since they came.
    for (size_t r = 0; r < ranks; ++r) {
      if (come[r] >= end_s) continue;
      trace.ranks[r].idle_s += end_s - come[r];
      come[r] = end_s;
    }
  }
  return trace;
}

// finished[m]: when all ranks have done m + 1 steps.
std::vector<double> finished_by_all(const ConsistencyTrace& trace, size_t steps) {
  std::vector<double> finished(steps, 0);
  for (const RankTrace& rank : trace.ranks)
    for (size_t m = 0; m < steps; ++m) finished[m] = std::max(finished[m], rank.end_s[m]);
  return finished;
}

// Among the steps from a number on.
std::vector<int64_t> steps_ahead(const ConsistencyTrace& trace, const std::vector<double>& finished, size_t from = 0) {
  std::vector<int64_t> histogram;
  for (const RankTrace& rank : trace.ranks) {
    for (size_t step = from; step < rank.end_s.size(); ++step) {
      const auto all = static_cast<size_t>(std::upper_bound(finished.begin(), finished.end(), rank.begin_s[step]) -
                                           finished.begin());
      const size_t ahead = step - std::min(step, all);
      if (histogram.size() <= ahead) histogram.resize(ahead + 1, 0);
      ++histogram[ahead];
    }
  }
  return histogram;
}

double mean_missed(const ConsistencyTrace& trace) {
  if (trace.updates.empty()) return 0;
  std::vector<double> changed;
  for (const auto& [read, change] : trace.updates) changed.push_back(change);
  std::sort(changed.begin(), changed.end());
  double sum = 0;
  for (const auto& [read, change] : trace.updates)
    sum += static_cast<double>(std::lower_bound(changed.begin(), changed.end(), change) -
                               std::upper_bound(changed.begin(), changed.end(), read));
  return sum / static_cast<double>(trace.updates.size());
}

void check_rule(const ConsistencyJob& job, const ConsistencyRule& rule) {
  const auto ranks = static_cast<int64_t>(job.compute_s.size());
  const auto refuse = [](std::string text) { throw Error(std::move(text), "", ExitCode::kUsage); };
  // a rank without would do any number of steps while others do one
  for (const std::vector<double>& rank : job.compute_s)
    if (std::any_of(rank.begin(), rank.end(), [](double seconds) { return !(seconds > 0); }))
      refuse("invalid computing time: a rank computes for 0 s in a step; give times above 0");
  switch (rule.kind) {
    case Consistency::kSynchronous:
      break;
    case Consistency::kBounded:
      if (rule.value < 0) refuse("invalid staleness bound: give 0 or more steps");
      break;
    case Consistency::kAsynchronous:
      if (rule.value < 1) refuse("invalid number of servers: give at least 1");
      break;
    case Consistency::kElastic:
    case Consistency::kLocal:
      if (rule.value < 1) refuse("invalid period: give at least 1 step");
      break;
    case Consistency::kPartial:
      if (rule.value < 0 || rule.value >= ranks)
        refuse(fmt::format("a collective cannot leave out the slowest {} of {} ranks: leave out 0 to {}", rule.value,
                           ranks, ranks - 1));
      break;
    case Consistency::kGossip:
      for (const auto& [a, b] : rule.graph)
        if (a == b || std::max(a, b) >= job.compute_s.size())
          refuse(
              fmt::format("invalid edge {}-{} in the graph: join two different ranks from 0 to {}", a, b, ranks - 1));
      break;
  }
}

ConsistencyTrace trace_of(const ConsistencyJob& job, const ConsistencyRule& rule) {
  const auto value = static_cast<size_t>(rule.value);
  switch (rule.kind) {
    case Consistency::kSynchronous:
      return in_step(job, 1);
    case Consistency::kBounded:
      return bounded(job, value, recorded_steps_of(job));
    case Consistency::kAsynchronous:
      return asynchronous(job, value, 1);
    case Consistency::kGossip:
      return gossip(job, rule.graph);
    case Consistency::kElastic:
      return asynchronous(job, 1, value);
    case Consistency::kLocal:
      return in_step(job, value);
    case Consistency::kPartial:
      return partial(job, value);
  }
  return {};
}

void count_bytes(ConsistencyReplay& result, const ConsistencyJob& job, const ConsistencyRule& rule) {
  const auto ranks = static_cast<double>(job.compute_s.size()), value = static_cast<double>(rule.value);
  const double ring = 2 * (ranks - 1) / ranks * job.bytes;
  switch (rule.kind) {
    case Consistency::kSynchronous:
    case Consistency::kPartial:
      result.sent_bytes = ring;
      break;
    case Consistency::kLocal:
      result.sent_bytes = ring / value;
      break;
    case Consistency::kBounded:
      result.sent_bytes = job.bytes, result.server_bytes = ranks * job.bytes;
      break;
    case Consistency::kAsynchronous:
      result.sent_bytes = job.bytes, result.server_bytes = ranks * job.bytes / value;
      break;
    case Consistency::kElastic:
      result.sent_bytes = job.bytes / value, result.server_bytes = ranks * job.bytes / value;
      break;
    case Consistency::kGossip:
      result.sent_bytes = 2 * static_cast<double>(rule.graph.size()) / ranks * job.bytes;
      break;
  }
}

// A bound lets ranks run ahead once: in a short recording that is a gain which a longer one does not have, since nobody
// stays ahead of the slowest by more than the bound. So the recorded steps are repeated until the slowest takes as long
// for all of them as before, and that is the rate of every rank.
void replay_bounded(const ConsistencyJob& job, size_t bound, ConsistencyReplay& result) {
  constexpr double kSettled = 1e-9;
  constexpr size_t kMostSteps = 4'000'000;  // of all ranks together
  const size_t ranks = job.compute_s.size(), steps = recorded_steps_of(job),
               most = std::max<size_t>(8, kMostSteps / (ranks * steps));
  ConsistencyTrace trace;
  std::vector<double> finished;
  size_t periods = std::min(most, 4 + 4 * (bound + 1) / steps);
  double period_s = 0;
  for (;; periods = std::min(most, 2 * periods)) {
    trace = bounded(job, bound, periods * steps);
    finished = finished_by_all(trace, periods * steps);
    const auto over = [&](size_t period) { return finished[period * steps - 1]; };  // all ranks have done so many
    period_s = over(periods) - over(periods - 1);
    const double before_s = over(periods - 1) - over(periods - 2);
    if (std::abs(period_s - before_s) <= kSettled * period_s) break;
    period_s = (over(periods) - over(periods / 2)) / static_cast<double>(periods - periods / 2);
    if (periods == most) break;
  }
  double compute_s = 0, transfer_s = 0;
  for (size_t step = 0; step < steps; ++step) {
    transfer_s += job.exchange_s[step] * static_cast<double>(ranks);
    for (size_t r = 0; r < ranks; ++r) compute_s += job.compute_s[r][step];
  }
  const double all_s = period_s * static_cast<double>(ranks);
  result.step_s = period_s / static_cast<double>(steps);
  result.transfer_ratio = transfer_s / all_s;
  result.idle_ratio = std::max(0.0, 1 - (compute_s + transfer_s) / all_s);
  result.staleness = steps_ahead(trace, finished, (periods - 1) * steps);
}

}  // namespace

ConsistencyReplay replay_consistency(const ConsistencyJob& job, const ConsistencyRule& rule) {
  check_rule(job, rule);
  ConsistencyReplay result;
  count_bytes(result, job, rule);
  if (rule.kind == Consistency::kBounded) {
    replay_bounded(job, static_cast<size_t>(rule.value), result);
    return result;
  }
  const ConsistencyTrace trace = trace_of(job, rule);
  double per_second = 0, idle_s = 0, transfer_s = 0, all_s = 0;
  for (const RankTrace& rank : trace.ranks) {
    const double time_s = std::max(rank.end_s.back(), rank.until_s);
    per_second += static_cast<double>(rank.end_s.size()) / time_s;
    idle_s += rank.idle_s, transfer_s += rank.transfer_s, all_s += time_s;
  }
  result.step_s = static_cast<double>(trace.ranks.size()) / per_second;
  result.idle_ratio = idle_s / all_s;
  result.transfer_ratio = transfer_s / all_s;
  result.staleness = rule.kind == Consistency::kPartial
                         ? trace.late
                         : steps_ahead(trace, finished_by_all(trace, recorded_steps_of(job)));
  result.missed_updates = mean_missed(trace);
  return result;
}

std::vector<std::pair<size_t, size_t>> gossip_graph(std::string_view name, size_t ranks) {
  std::vector<std::pair<size_t, size_t>> graph;
  if (name == "ring") {
    for (size_t r = 0; r + 1 < ranks; ++r) graph.emplace_back(r, r + 1);
    if (ranks > 2) graph.emplace_back(ranks - 1, 0);
  } else if (name == "all") {
    for (size_t a = 0; a < ranks; ++a)
      for (size_t b = a + 1; b < ranks; ++b) graph.emplace_back(a, b);
  } else if (name == "hypercube") {
    if ((ranks & (ranks - 1)) != 0)
      throw Error(fmt::format("a hypercube needs a power of two of ranks, not {}", ranks),
                  "use ring or all, or another number of ranks", ExitCode::kUsage);
    for (size_t a = 0; a < ranks; ++a)
      for (size_t bit = 1; bit < ranks; bit <<= 1)
        if ((a & bit) == 0) graph.emplace_back(a, a | bit);
  } else {
    throw Error(fmt::format("unknown graph '{}'", name), "ring, hypercube, all, or a FILE.csv with columns from, to",
                ExitCode::kUsage);
  }
  return graph;
}

}  // namespace ddl::models
