#include "analyzer/models/step_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/facts.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kToSeconds = 1e-9;
/// A layer table may lack what programs sum beside gradients, such as the loss.
constexpr double kTableTolerance = 0.01;
/// A call that took longer than this waited for something.
constexpr int64_t kWaitedNs = 2000;

struct Post {
  int64_t start_ns = 0;
  int64_t bytes = 0;
};

/// When a time of the step was on the clock that stops inside calls.
class ComputeClock {
 public:
  explicit ComputeClock(int64_t begin_ns) : begin_ns_(begin_ns) {}
  void add_call(int64_t start_ns, int64_t duration_ns) {
    calls_.push_back({start_ns, start_ns + duration_ns, inside_ns_});
    inside_ns_ += duration_ns;
  }
  double at(int64_t ns) const {
    const auto next = std::upper_bound(calls_.begin(), calls_.end(), ns,
                                       [](int64_t t, const Call& call) { return t < call.start_ns; });
    int64_t inside_ns = 0;
    if (next != calls_.begin()) {
      const Call& last = *(next - 1);
      inside_ns = last.before_ns + std::min(ns, last.end_ns) - last.start_ns;
    }
    return static_cast<double>(ns - begin_ns_ - inside_ns) * kToSeconds;
  }

 private:
  struct Call {
    int64_t start_ns, end_ns, before_ns;
  };
  int64_t begin_ns_, inside_ns_ = 0;
  std::vector<Call> calls_;
};

struct BackwardLayer {
  std::string name;
  int64_t start_ns = 0, end_ns = 0;
};

class StepReader {
 public:
  StepReader(SQLite::Database& db, int64_t world) : db_(db), world_(world) {}

  StepGradients read(const std::vector<LayerGradient>& layers) {
    if (!choose_step()) return {};
    read_calls();
    if (posts_.empty()) return {};
    read_ranges();
    for (const Post& post : posts_) result_.posted.push_back({post.bytes, clock_->at(post.start_ns)});
    if (layers.empty()) {
      set_readiness();
    } else {
      take_layers(layers);
    }
    double ready_s = 0;
    for (const Gradient& gradient : result_.gradients) ready_s = std::max(ready_s, gradient.ready_s);
    if (backward_end_ns_) ready_s = std::max(ready_s, clock_->at(*backward_end_ns_));
    result_.update_s = std::max(0.0, result_.compute_s - ready_s);
    return std::move(result_);
  }

 private:
  bool choose_step() {
    double longest = -1;
    for (const RankStep& rank : rank_steps(db_, world_))
      if (rank.compute_s > longest) longest = rank.compute_s, result_.rank = rank.rank;
    Query row(
        db_,
        "SELECT s.process, s.thread, s.step, s.start_ns, s.duration_ns, t.compute_ns FROM step s JOIN process p ON p.id = s.process "
        "JOIN step_part t ON t.process = s.process AND t.step = s.step "
        "JOIN steady_step y ON y.world = p.world AND y.step = s.step AND y.annotated "
        "WHERE p.world = ?1 AND p.rank = ?2 AND s.measured AND t.comm_ns IS NOT NULL ORDER BY s.duration_ns, s.step");
    struct Step {
      int64_t process, thread, step, start_ns;
      double duration_ns, compute_ns;
    };
    std::vector<Step> steps;
    for (row.bind(world_, result_.rank); row.next();)
      steps.push_back({row.integer(0), row.integer(1), row.integer(2), row.integer(3), row.real(4), row.real(5)});
    if (steps.empty()) return false;
    const Step& chosen = steps[(steps.size() - 1) / 2];
    process_ = chosen.process, thread_ = chosen.thread;
    result_.step = chosen.step;
    result_.measured_s = chosen.duration_ns * kToSeconds;
    result_.compute_s = chosen.compute_ns * kToSeconds;
    clock_.emplace(chosen.start_ns);
    return true;
  }

  void read_calls() {
    Query row(
        db_,
        "SELECT e.kind, o.name, e.start_ns, e.duration_ns, coalesce(k.bytes, e.bytes), c.size, k.wait_ns, o.nonblocking, e.seq FROM event e "
        "JOIN op o ON o.id = e.op LEFT JOIN collective k ON k.event = e.id LEFT JOIN communicator c ON c.id = e.comm "
        "WHERE e.process = ?1 AND e.thread = ?2 AND e.step = ?3 AND e.kind IN (1, 2) ORDER BY e.start_ns, e.kind");
    std::map<int64_t, int64_t> call_by_end;  // those that complete something end when it does
    std::vector<int64_t> completions;
    double inside_ns = 0;
    for (row.bind(process_, thread_, result_.step); row.next();) {
      const bool allreduce =
          collective_of(row.text(1)) == Collective::kAllreduce && row.maybe_integer(4).value_or(0) > 0;
      const bool request = row.integer(0) == 2;
      if (!request) {
        clock_->add_call(row.integer(2), row.integer(3));
        call_by_end[row.integer(2) + row.integer(3)] = row.integer(3);
      }
      if (!allreduce) continue;
      const bool nonblocking = row.integer(7) != 0;
      if (!request)
        inside_ns += row.real(3) - (nonblocking ? 0 : static_cast<double>(row.maybe_integer(6).value_or(0)));
      if (!request && nonblocking) result_.posting_s += row.real(3) * kToSeconds;
      if (request != nonblocking) continue;  // the call that posts: its request is the allreduce
      result_.nonblocking |= nonblocking;
      posts_.push_back({row.integer(2), row.integer(4)});
      result_.ranks = std::max(result_.ranks, row.maybe_integer(5).value_or(0));
      if (request) completions.push_back(row.integer(2) + row.integer(3));
    }
    std::sort(completions.begin(), completions.end());
    completions.erase(std::unique(completions.begin(), completions.end()), completions.end());
    for (const int64_t end_ns : completions)
      if (const auto call = call_by_end.find(end_ns); call != call_by_end.end())
        inside_ns += static_cast<double>(call->second);
    result_.exposed_s = inside_ns * kToSeconds;
  }

  /// Takes the last micro-batch: a gradient is whole only after it.
  void read_ranges() {
    Query row(
        db_,
        "SELECT g.kind, g.name, e.start_ns, e.start_ns + e.duration_ns, 2 * e.mpi_ns >= e.duration_ns FROM range_event e JOIN region g ON g.id = e.region JOIN region u "
        "ON u.id = g.parent WHERE e.process = ?1 AND e.thread = ?2 AND e.step = ?3 AND g.phase = 'backward' AND "
        "((g.kind = 'phase' AND u.kind = 'step') OR (g.kind IN ('layer', 'operator') AND u.kind = 'phase')) ORDER BY 4");
    std::unordered_map<std::string, size_t> known;
    std::vector<BackwardLayer> all;
    for (row.bind(process_, thread_, result_.step); row.next();) {
      if (row.text(0) == "phase") {
        backward_end_ns_ = std::max(backward_end_ns_.value_or(INT64_MIN), row.integer(3));
        continue;
      }
      BackwardLayer layer{row.text(1), row.integer(2), row.integer(3)};
      const auto inside = std::lower_bound(posts_.begin(), posts_.end(), layer.start_ns,
                                           [](const Post& post, int64_t start_ns) { return post.start_ns < start_ns; });
      if (inside != posts_.end() && inside->start_ns < layer.end_ns && row.integer(4) != 0) continue;  // around a post
      all.push_back(std::move(layer));
    }
    for (size_t i = 0; i < all.size(); ++i) known[all[i].name] = i;
    for (size_t i = 0; i < all.size(); ++i)
      if (known[all[i].name] == i) layers_.push_back(all[i]);
  }

  bool posted_after_backward() const { return backward_end_ns_ && posts_.front().start_ns >= *backward_end_ns_; }

  void set_readiness() {
    result_.gradients = result_.posted;
    const bool at_once =
        result_.posted.size() > 1 && result_.posted.back().ready_s - result_.posted.front().ready_s <= 0;
    if (!posted_after_backward() && (result_.nonblocking || !at_once || backward_end_ns_)) {
      result_.readiness = "(as posted)";
      return;
    }
    if (layers_.size() == posts_.size()) {
      for (size_t i = 0; i < layers_.size(); ++i) result_.gradients[i].ready_s = clock_->at(layers_[i].end_ns);
      result_.posted = result_.gradients;
      result_.readiness = "(ends of layers in backward)";
      return;
    }
    result_.why =
        layers_.empty()
            ? "its allreduces come when all gradients are there, and it names no layers in a phase 'backward'"
            : fmt::format(
                  "its {} allreduces come after backward, which has {} layers: which gradients are whose is not told",
                  posts_.size(), layers_.size());
  }

  void take_layers(const std::vector<LayerGradient>& given) {
    if (layers_.empty())
      throw Error("the run names no layers in a phase 'backward': a table cannot tell when their gradients are ready",
                  "name them with ddl/annotate.h, ddl_annotate.py or NVTX", ExitCode::kDataMissing);
    std::unordered_map<std::string, int64_t> bytes_of;
    double table_bytes = 0, run_bytes = 0;
    for (const LayerGradient& layer : given)
      bytes_of[layer.layer] += layer.bytes, table_bytes += static_cast<double>(layer.bytes);
    for (const Post& post : posts_) run_bytes += static_cast<double>(post.bytes);
    double found = 0;
    for (const BackwardLayer& layer : layers_) {
      const auto at = bytes_of.find(layer.name);
      if (at == bytes_of.end() || at->second == 0) continue;
      result_.gradients.push_back({at->second, clock_->at(layer.end_ns)});
      found += static_cast<double>(at->second);
    }
    if (std::abs(table_bytes - run_bytes) > kTableTolerance * run_bytes || found < (1 - kTableTolerance) * table_bytes)
      throw Error(
          fmt::format(
              "the table's layers have {:.0f} bytes of gradients, {:.0f} of them in layers that the run names; the run summed "
              "{:.0f} in a step",
              table_bytes, found, run_bytes),
          "is it the table of this network, with 4 bytes for each parameter?", ExitCode::kDataMissing);
    result_.readiness = "(ends of layers in backward, bytes of the table)";
    // The allreduces were ready with the last gradient that they hold.
    double summed = 0, ends = 0;
    size_t next = 0;
    for (Gradient& post : result_.posted) {
      ends += static_cast<double>(post.bytes);
      for (; next < result_.gradients.size() && summed < ends * (1 - kTableTolerance); ++next) {
        summed += static_cast<double>(result_.gradients[next].bytes);
        post.ready_s = result_.gradients[next].ready_s;
      }
    }
  }

  SQLite::Database& db_;
  int64_t world_;
  StepGradients result_;
  int64_t process_ = 0, thread_ = 0;
  std::optional<ComputeClock> clock_;
  std::vector<Post> posts_;
  std::vector<BackwardLayer> layers_;  ///< in the order in which they end
  std::optional<int64_t> backward_end_ns_;
};

}  // namespace

StepGradients step_gradients(SQLite::Database& db, int64_t world, const std::vector<LayerGradient>& layers) {
  if (read_facts(db, world).resource != Resource::kThread)
    throw Error("the job computes on GPUs, where the times at which gradients are ready are unknown",
                "use a job that computes on CPUs, or give --tensors FILE", ExitCode::kDataMissing);
  StepGradients result = StepReader(db, world).read(layers);
  if (result.gradients.empty())
    throw Error("no allreduce was kept in a steady step", "ddl record --steps A:B keeps all events of these steps",
                ExitCode::kDataMissing);
  return result;
}

std::vector<Sample> nonblocking_samples(SQLite::Database& db, int64_t world) {
  struct Member {
    int64_t post_ns = 0, end_ns = 0;
    bool waited = false;
  };
  struct Instance {
    Member last;  // who posted last
    int64_t members = 0, ranks = 0, bytes = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Instance> instances;  // communicator, sequence number
  const auto take = [](Query& row, Instance& one, bool waited) {
    const Member member{row.integer(4), row.integer(5), waited};
    ++one.members;
    one.ranks = row.integer(6), one.bytes = row.integer(7);
    if (one.members == 1 || member.post_ns > one.last.post_ns) one.last = member;
  };
  Query row(
      db,
      "SELECT e.kind, o.name, e.comm, e.seq, e.start_ns, e.start_ns + e.duration_ns, c.size, coalesce(k.bytes, 0), e.process FROM event e "
      "JOIN op o ON o.id = e.op JOIN process p ON p.id = e.process LEFT JOIN communicator c ON c.id = e.comm LEFT JOIN collective k ON "
      "k.event = e.id WHERE p.world = ?1 AND e.kind IN (1, 2) AND e.step IN (SELECT step FROM steady_step WHERE world = ?1 AND annotated "
      "ORDER BY step DESC LIMIT ?2) ORDER BY e.process, 6, e.kind");
  // By their ends a call comes right before the requests that completed in it.
  int64_t process = -1, call_end_ns = 0, call_ns = 0;
  for (row.bind(world, kNonblockingSteps); row.next();) {
    if (row.integer(8) != process) process = row.integer(8), call_end_ns = INT64_MIN;
    if (row.integer(0) == 1) {
      call_end_ns = row.integer(5), call_ns = row.integer(5) - row.integer(4);
    } else if (!row.is_null(2) && !row.is_null(3) && collective_of(row.text(1)) == Collective::kAllreduce) {
      take(row, instances[{row.integer(2), row.integer(3)}], call_end_ns == row.integer(5) && call_ns > kWaitedNs);
    }
  }
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> seconds;  // ranks, bytes
  int64_t comm = -1, free_ns = 0;
  for (const auto& [key, one] : instances) {  // a communicator's come in the order of their numbers
    if (key.first != comm) comm = key.first, free_ns = INT64_MIN;
    const int64_t begin_ns = std::max(one.last.post_ns, free_ns);
    free_ns = std::max(free_ns, one.last.end_ns);
    if (one.members < one.ranks || one.ranks < 2 || one.bytes <= 0 || !one.last.waited || one.last.end_ns <= begin_ns)
      continue;
    seconds[{one.ranks, one.bytes}].push_back(static_cast<double>(one.last.end_ns - begin_ns) * kToSeconds);
  }
  std::vector<Sample> samples;
  for (auto& [size, times] : seconds) {
    const auto count = static_cast<double>(times.size());
    samples.push_back({Collective::kAllreduce, size.first, static_cast<double>(size.second), median_of(times), count});
  }
  return samples;
}

}  // namespace ddl::models
