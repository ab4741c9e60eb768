#include "analyzer/models/replay_operators.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyzer/models/replay_run.h"
#include "analyzer/passes/kernel_arrivals.h"
#include "analyzer/passes/stream_order.h"
#include "analyzer/query.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kNsToSeconds = 1e-9;
constexpr int64_t kRoundedNs = 2000;  // traces round to microseconds
constexpr int64_t kSynchronizes = 4;  // gpu_event.kind
constexpr int64_t kNoStep = -1;       // the whole run, where there are no steps

}  // namespace

class OperatorReplay::Builder {
 public:
  Builder(SQLite::Database& db, const Catalog& catalog, int64_t world, OperatorReplay& into)
      : db_(db), catalog_(catalog), world_(world), into_(into), replay_(into.replay_) {}

  void build() {
    choose_steps();
    read();
    if (ranks_.empty())
      throw Error("nothing ran on a GPU in a steady step: there are no operators to replay", "",
                  ExitCode::kDataMissing);
    kind_ = replay_.add_kind("", false);
    origin_ns_ = INT64_MAX;
    learn();
    for (const Rank& rank : ranks_) origin_ns_ = std::min(origin_ns_, rank.steps.front().window.begin_ns);
    for (const Rank& rank : ranks_) add_rank(rank);
    replay_.finish(true);
    into_.steps_ = static_cast<int64_t>(replay_.steps().size());
    into_.recorded_step_s_ = recorded_step_s();
    into_.replayed_step_s_ = replay_.mean_step_seconds(replay_.recorded());
  }

 private:
  /// A kernel, copy or memset.
  struct Activity {
    Interval interval, launch;
    int64_t step = 0, call = 0, name = 0, region = 0;
    int64_t xfer_ns = 0, group = -1;  ///< of a collective
    size_t stream = 0;
    bool is_launched = false, is_copy = false;

    /// The host waited for it inside its call.
    bool is_awaited_copy() const {
      return is_copy && is_launched && interval.begin_ns >= launch.begin_ns && interval.end_ns > launch.begin_ns &&
             interval.end_ns <= launch.end_ns;
    }
  };

  struct Synchronization {
    Interval call;
    int64_t step = 0;
    std::optional<size_t> stream;  ///< unset: for all of them, or not known
  };

  struct StreamWait {
    int64_t call = 0, on_call = 0;
    size_t stream = 0, on_stream = 0;
  };

  struct Step {
    int64_t number = 0;
    Interval window;
  };

  struct Rank {
    int64_t number = 0;
    std::vector<Activity> activities;    ///< by step, and by call within it
    std::vector<Synchronization> syncs;  ///< by step, and by begin
    std::vector<StreamWait> waits;       ///< by call
    std::vector<Step> steps;
    /// by step with activities, if no waits are known: those of one form launch the same
    std::map<int64_t, size_t> forms;
    size_t streams = 0;
  };

  void choose_steps() {
    chosen_ = last_gpu_steps(db_, world_, {});
    if (!chosen_.empty()) return;
    Query any(db_, "SELECT 1 FROM steady_number WHERE world = ?");
    without_steps_ = !any.bind(world_).next();
  }
  bool is_chosen(int64_t step) const { return std::binary_search(chosen_.begin(), chosen_.end(), step); }

  void read() {
    const KernelArrivals arrivals(db_, catalog_);
    const GpuNameClasses names(db_);
    const bool marked = has_marked_steps(db_);
    std::map<KernelKey, int64_t> groups;
    int64_t held = 0;
    Query rows(db_, R"(
      SELECT kind, step, start_ns, duration_ns, launch_ns, launch_duration_ns, correlation, comm, seq, graph_node, comm_rank, name, region,
             device, context, stream
      FROM gpu_event
      WHERE process = ? AND kind IN (1, 2, 3, 4) AND (duration_ns > 0 OR kind = 4)
      ORDER BY start_ns, duration_ns DESC)");
    for (const auto& [id, process] : catalog_.processes) {
      if (process.world != world_ || process.rank < 0) continue;
      Rank rank;
      rank.number = process.rank;
      KernelNumbers numbers(catalog_, marked);
      std::map<std::pair<int64_t, int64_t>, size_t> streams;  // by context and stream
      const auto stream_number = [&](int64_t context, int64_t stream) {
        return streams.try_emplace({context, stream}, streams.size()).first->second;
      };
      rows.bind(id);
      while (rows.next()) {
        const bool is_kernel = rows.integer(0) == 1;
        std::optional<KernelKey> key;
        if (is_kernel && !rows.is_null(7))
          key = numbers.next(rows.integer(7), rows.maybe_integer(8), rows.maybe_integer(1), rows.maybe_integer(9),
                             rows.maybe_integer(10));
        const int64_t step = without_steps_ ? kNoStep : rows.maybe_integer(1).value_or(kNoStep);
        if (!without_steps_ && !is_chosen(step)) continue;
        const Interval interval{rows.integer(2), rows.integer(2) + rows.integer(3)};
        const Interval launch{rows.integer(4), rows.integer(4) + rows.integer(5)};
        if (rows.integer(0) == kSynchronizes) {
          if (names.is_stream_wait(rows.integer(11))) continue;
          Synchronization sync{rows.is_null(4) ? interval : launch, step, {}};
          sync.call.end_ns = std::max(sync.call.end_ns, interval.end_ns);
          if (!rows.is_null(15)) sync.stream = of_stream(streams, rows.maybe_integer(14), rows.integer(15));
          rank.syncs.push_back(sync);
          continue;
        }
        if (without_steps_ && ++held > kMostReplayedEvents / 2)
          throw Error("without steps the run is too long to be replayed as a whole",
                      "mark its steps: ddl/annotate.h, ddl_annotate.py", ExitCode::kDataMissing);
        Activity a;
        a.interval = interval, a.launch = launch, a.step = step;
        a.is_launched = !rows.is_null(4), a.is_copy = !is_kernel;
        a.call = rows.integer(6), a.name = rows.integer(11), a.region = rows.integer(12);
        a.stream = stream_number(rows.maybe_integer(14).value_or(-1), rows.maybe_integer(15).value_or(-1));
        a.xfer_ns = interval.length_ns();
        Why why = Why::kNone;
        if (const std::optional<int64_t> wait_ns = key ? arrivals.wait_ns(*key, interval, why) : std::nullopt) {
          a.group = groups.try_emplace(*key, static_cast<int64_t>(groups.size())).first->second;
          a.xfer_ns -= *wait_ns;
        }
        rank.activities.push_back(a);
      }
      if (rank.activities.empty()) continue;
      Query waits(db_,
                  "SELECT correlation, on_correlation, context, stream, on_context, on_stream FROM stream_wait"
                  " WHERE process = ? AND on_correlation < correlation ORDER BY correlation");
      for (waits.bind(id); waits.next();)
        rank.waits.push_back({waits.integer(0), waits.integer(1), stream_number(waits.integer(2), waits.integer(3)),
                              stream_number(waits.integer(4), waits.integer(5))});
      rank.streams = streams.size();
      std::stable_sort(rank.activities.begin(), rank.activities.end(), [](const Activity& a, const Activity& b) {
        return std::tie(a.step, a.call) < std::tie(b.step, b.call);
      });
      std::stable_sort(rank.syncs.begin(), rank.syncs.end(), [](const Synchronization& a, const Synchronization& b) {
        return std::tie(a.step, a.call.begin_ns) < std::tie(b.step, b.call.begin_ns);
      });
      add_steps(id, rank);
      if (!rank.steps.empty()) ranks_.push_back(std::move(rank));
    }
  }

  static std::optional<size_t> of_stream(const std::map<std::pair<int64_t, int64_t>, size_t>& streams,
                                         std::optional<int64_t> context, int64_t stream) {
    std::optional<size_t> found;
    for (const auto& [key, number] : streams) {
      if (key.second != stream || (context && key.first != *context)) continue;
      if (found) return {};
      found = number;
    }
    return found;
  }

  void add_steps(int64_t process, Rank& rank) {
    if (without_steps_) {
      Step whole{kNoStep, {INT64_MAX, INT64_MIN}};
      for (const Activity& a : rank.activities) {
        whole.window.begin_ns =
            std::min(whole.window.begin_ns, a.is_launched ? a.launch.begin_ns : a.interval.begin_ns);
        whole.window.end_ns = std::max(whole.window.end_ns, a.is_launched ? a.launch.end_ns : a.interval.begin_ns);
      }
      for (const Synchronization& s : rank.syncs) whole.window.end_ns = std::max(whole.window.end_ns, s.call.end_ns);
      rank.steps.push_back(whole);
      return;
    }
    Query steps(
        db_,
        "SELECT step, start_ns, duration_ns FROM step WHERE process = ? AND measured AND duration_ns IS NOT NULL ORDER BY step");
    for (steps.bind(process); steps.next();) {
      const int64_t number = steps.integer(0);
      if (!is_chosen(number)) continue;
      rank.steps.push_back({number, {steps.integer(1), steps.integer(1) + steps.integer(2)}});
    }
  }

  /// Where a trace tells of no stream that waits for another, what a kernel awaits is read off all steps, as in
  /// replay_gpus.cpp: the last operation of another stream that was given before it, unless it began sooner in some
  /// step, on any rank that launches the same.
  void learn() {
    std::unordered_map<std::string, size_t> forms;
    for (Rank& rank : ranks_) {
      if (!rank.waits.empty()) continue;
      std::vector<std::optional<size_t>> last(rank.streams);
      for (size_t first = 0, end = 0; first < rank.activities.size(); first = end) {
        std::string sequence;
        const auto append = [&sequence](int64_t value) {
          sequence.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        for (; end < rank.activities.size() && rank.activities[end].step == rank.activities[first].step; ++end) {
          append(rank.activities[end].name);
          append(static_cast<int64_t>(rank.activities[end].stream));
        }
        const size_t form = forms.try_emplace(std::move(sequence), forms.size()).first->second;
        rank.forms[rank.activities[first].step] = form;
        if (form == sooner_.size()) sooner_.emplace_back(end - first);
        for (size_t i = first; i < end; ++i) {
          const Activity& a = rank.activities[i];
          std::vector<bool>& sooner = sooner_[form][i - first];
          sooner.resize(std::max(sooner.size(), rank.streams));
          for (size_t s = 0; s < last.size(); ++s)
            if (last[s] && a.interval.begin_ns + kRoundedNs < rank.activities[*last[s]].interval.end_ns)
              sooner[s] = true;
          last[a.stream] = i;
        }
      }
    }
  }

  /// A step ends with its host or with the last operation, and takes from where the one before ended, or from its
  /// begin.
  double recorded_step_s() const {
    std::map<int64_t, Interval> steps;  // of all ranks
    for (const Rank& rank : ranks_)
      for (const Step& step : rank.steps) {
        Interval& all = steps.try_emplace(step.number, step.window).first->second;
        all = {std::min(all.begin_ns, step.window.begin_ns), std::max(all.end_ns, step.window.end_ns)};
      }
    for (const Rank& rank : ranks_)
      for (const Activity& a : rank.activities)
        if (const auto step = steps.find(a.step); step != steps.end())
          step->second.end_ns = std::max(step->second.end_ns, a.interval.end_ns);
    double sum_ns = 0;
    int64_t before_ns = INT64_MIN;
    for (const auto& [number, all] : steps) {
      sum_ns += static_cast<double>(all.end_ns - std::clamp(before_ns, all.begin_ns, all.end_ns));
      before_ns = all.end_ns;
    }
    return sum_ns * kNsToSeconds / static_cast<double>(steps.size());
  }

  Replay::Op add(const Rank& rank, int64_t step, int64_t ns, int64_t group = -1) {
    return replay_.add({rank.number, step, kind_, static_cast<double>(std::max<int64_t>(0, ns)) * kNsToSeconds, group});
  }

  void add_rank(const Rank& rank) {
    nodes_.assign(rank.activities.size(), {});
    over_.assign(rank.streams, {});
    last_.assign(rank.streams, {});
    awaited_.assign(rank.streams, last_);
    given_.assign(rank.streams, {});
    host_.reset();
    size_t activity = 0, sync = 0, wait = 0;
    for (const Step& step : rank.steps) {
      while (activity < rank.activities.size() && rank.activities[activity].step < step.number) ++activity;
      while (sync < rank.syncs.size() && rank.syncs[sync].step < step.number) ++sync;
      const size_t first = activity, first_sync = sync;
      while (activity < rank.activities.size() && rank.activities[activity].step == step.number) ++activity;
      while (sync < rank.syncs.size() && rank.syncs[sync].step == step.number) ++sync;
      begin_step(rank, step, host_ ? step.window.begin_ns : origin_ns_);
      if (rank.waits.empty()) {
        add_likely_operations(rank, first, activity);
      } else {
        add_operations(rank, first, activity, wait);
      }
      add_host(rank, step, {first, activity}, {first_sync, sync});
      add_edges(rank, step, first, activity);
    }
  }

  struct Node {
    Replay::Op begin = 0, end = 0;  ///< of a collective, what comes before it is one of its own
    std::optional<Replay::Op> launch;
    std::vector<size_t> after;  ///< activities
  };

  struct Given {
    std::vector<size_t> operations;  ///< activities, in the order of their launches
    size_t over = 0;                 ///< so many of them were, at the last synchronisation
  };

  void begin_step(const Rank& rank, const Step& step, int64_t since_ns) {
    const Replay::Op begin = add(rank, step.number, step.window.begin_ns - since_ns);
    if (host_) replay_.after(begin, *host_);
    host_ = step_begin_ = begin;
    host_ns_ = step.window.begin_ns;
    aside_.reset();
  }

  /// What each comes after, by the order of the calls, as in critical_path.cpp.
  void add_operations(const Rank& rank, size_t first, size_t last, size_t& wait) {
    enum What { kRecord, kWait, kOperation };
    std::vector<std::tuple<int64_t, What, int64_t, size_t>> calls;  // number, what, begin, place
    int64_t last_call = INT64_MIN;
    for (size_t i = first; i < last; ++i) {
      const Activity& a = rank.activities[i];
      calls.emplace_back(a.call, kOperation, a.interval.begin_ns, i);
      last_call = std::max(last_call, a.call);
    }
    for (; wait < rank.waits.size() && rank.waits[wait].call <= last_call; ++wait) {
      calls.emplace_back(rank.waits[wait].on_call, kRecord, 0, wait);
      calls.emplace_back(rank.waits[wait].call, kWait, 0, wait);
    }
    std::sort(calls.begin(), calls.end());
    std::map<size_t, std::vector<size_t>> recorded;
    for (const auto& [number, what, begin_ns, i] : calls) {
      if (what == kRecord) {
        recorded[i] = over_[rank.waits[i].on_stream];
      } else if (what == kWait) {
        std::vector<size_t>& over = over_[rank.waits[i].stream];
        for (const size_t awaited : recorded[i])
          if (std::find(over.begin(), over.end(), awaited) == over.end()) over.push_back(awaited);
      } else {
        const Activity& a = rank.activities[i];
        for (const size_t before : over_[a.stream]) {
          const Interval& b = rank.activities[before].interval;
          // What did not come before, by the stamps, was not waited for.
          if (b.end_ns <= a.interval.begin_ns + kRoundedNs && b.begin_ns < a.interval.begin_ns)
            nodes_[i].after.push_back(before);
        }
        over_[a.stream] = {i};
      }
    }
  }

  void add_likely_operations(const Rank& rank, size_t first, size_t last) {
    if (first == last) return;
    const std::vector<std::vector<bool>>& sooner = sooner_[rank.forms.at(rank.activities[first].step)];
    for (size_t i = first; i < last; ++i) {
      const Activity& a = rank.activities[i];
      for (size_t s = 0; s < rank.streams; ++s) {
        if (!last_[s] || sooner[i - first][s] || (s != a.stream && awaited_[a.stream][s] == last_[s])) continue;
        awaited_[a.stream][s] = last_[s];
        nodes_[i].after.push_back(*last_[s]);
      }
      last_[a.stream] = i;
    }
  }

  void add_host(const Rank& rank, const Step& step, std::pair<size_t, size_t> operations,
                std::pair<size_t, size_t> syncs) {
    std::vector<std::tuple<int64_t, bool, size_t>> calls;  // begin, a synchronisation, place
    for (size_t i = operations.first; i < operations.second; ++i)
      if (rank.activities[i].is_launched) calls.emplace_back(rank.activities[i].launch.begin_ns, false, i);
    for (size_t i = syncs.first; i < syncs.second; ++i) calls.emplace_back(rank.syncs[i].call.begin_ns, true, i);
    std::sort(calls.begin(), calls.end());
    for (size_t i = operations.first; i < operations.second; ++i) {
      const Activity& a = rank.activities[i];
      nodes_[i].begin = nodes_[i].end = add(rank, a.step, a.xfer_ns, a.group);
      if (a.group >= 0) nodes_[i].begin = add(rank, a.step, 0);
    }
    for (const auto& [begin_ns, is_sync, i] : calls) {
      const Replay::Op call = go_to(rank, step, begin_ns);
      if (is_sync) {
        synchronize(rank, step, rank.syncs[i], call);
        continue;
      }
      const Activity& a = rank.activities[i];
      nodes_[i].launch = call;
      given_[a.stream].operations.push_back(i);
      if (a.is_awaited_copy()) come_back(rank, step, call, {i}, a.launch, a.interval.end_ns);
    }
    const Replay::Op end = add(rank, step.number, step.window.end_ns - host_ns_);
    replay_.after(end, *host_);
    host_ = end;
    host_ns_ = std::max(host_ns_, step.window.end_ns);
  }

  /// The host at a call. One that began while a call before still waited was another thread's.
  Replay::Op go_to(const Rank& rank, const Step& step, int64_t begin_ns) {
    std::pair<Replay::Op, int64_t> from{*host_, host_ns_};
    const bool is_aside = aside_ && begin_ns < host_ns_;
    if (is_aside) from = *aside_;
    const Replay::Op call = add(rank, step.number, begin_ns - from.second);
    replay_.after(call, from.first);
    if (is_aside) {
      aside_ = {call, std::max(begin_ns, from.second)};
    } else {
      host_ = call;
      host_ns_ = std::max(begin_ns, from.second);
      aside_.reset();
    }
    return call;
  }

  /// Waits for the last operation of each stream (or one) that was over when the call returned and had been given
  /// before.
  void synchronize(const Rank& rank, const Step& step, const Synchronization& sync, Replay::Op call) {
    std::vector<size_t> awaited;
    int64_t released_ns = INT64_MIN;
    for (size_t s = 0; s < given_.size(); ++s) {
      if (sync.stream && s != *sync.stream) continue;
      Given& given = given_[s];
      for (; given.over < given.operations.size(); ++given.over) {
        const Interval& next = rank.activities[given.operations[given.over]].interval;
        if (next.end_ns > sync.call.end_ns + kRoundedNs || next.begin_ns >= sync.call.end_ns) break;
      }
      if (given.over == 0) continue;
      awaited.push_back(given.operations[given.over - 1]);
      released_ns = std::max(released_ns, rank.activities[awaited.back()].interval.end_ns);
    }
    come_back(rank, step, call, awaited, sync.call, released_ns);
  }

  void come_back(const Rank& rank, const Step& step, Replay::Op call, const std::vector<size_t>& awaited,
                 const Interval& interval, int64_t released_ns) {
    const bool is_aside = host_ != call;  // another thread's, that began while the host waits
    if (is_aside && host_ns_ > interval.end_ns) return;
    const int64_t since_ns =
        std::clamp(is_aside ? std::max(released_ns, host_ns_) : released_ns, interval.begin_ns, interval.end_ns);
    const Replay::Op back = add(rank, step.number, interval.end_ns - since_ns);
    replay_.after(back, call);
    if (is_aside) replay_.after(back, *host_);
    for (const size_t i : awaited) replay_.after(back, nodes_[i].end);
    aside_ = {call, interval.begin_ns};
    host_ = back;
    host_ns_ = std::max(host_ns_, interval.end_ns);
  }

  /// What each operation took before it began, from when all that it awaited was over.
  void add_edges(const Rank& rank, const Step& step, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      const Activity& a = rank.activities[i];
      Node& node = nodes_[i];
      int64_t ready_ns = INT64_MIN;
      if (node.launch) {
        replay_.after(node.begin, *node.launch);
        ready_ns = a.launch.begin_ns;
      }
      for (const size_t before : node.after) {
        replay_.after(node.begin, nodes_[before].end);
        ready_ns = std::max(ready_ns, rank.activities[before].interval.end_ns);
      }
      if (ready_ns == INT64_MIN) {
        replay_.after(node.begin, step_begin_);
        ready_ns = step.window.begin_ns;
      }
      const int64_t delay_ns = std::max<int64_t>(0, a.interval.begin_ns - ready_ns);
      if (node.begin != node.end) replay_.after(node.end, node.begin);
      replay_.lengthen(node.begin, static_cast<double>(delay_ns) * kNsToSeconds);
      if (a.xfer_ns > 0)
        into_.scaled_.push_back({node.end, static_cast<double>(a.xfer_ns) * kNsToSeconds, a.name, a.region});
    }
  }

  SQLite::Database& db_;
  const Catalog& catalog_;
  int64_t world_;
  OperatorReplay& into_;
  Replay& replay_;
  std::vector<int64_t> chosen_;
  bool without_steps_ = false;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::vector<bool>>> sooner_;  ///< by form, place and stream: it began before that was over
  size_t kind_ = 0;
  int64_t origin_ns_ = 0;

  // About the rank that is being added.
  std::vector<Node> nodes_;  ///< by activity
  /// by stream: what is over before what it is given next begins
  std::vector<std::vector<size_t>> over_;
  /// by stream: what it was given last, where no waits are known
  std::vector<std::optional<size_t>> last_;
  std::vector<std::vector<std::optional<size_t>>> awaited_;  ///< and what it already came after, by the other stream
  std::vector<Given> given_;                                 ///< by stream
  std::optional<Replay::Op> host_;                           ///< where the host has come
  int64_t host_ns_ = 0;                                      ///< and when that was
  std::optional<std::pair<Replay::Op, int64_t>> aside_;      ///< the same of other threads, while the host waits
  Replay::Op step_begin_ = 0;
};

OperatorReplay::OperatorReplay(SQLite::Database& db, const Catalog& catalog, int64_t world) {
  Builder(db, catalog, world, *this).build();
}

int64_t OperatorReplay::operations(const IsOfOperator& is_of) const {
  return std::count_if(scaled_.begin(), scaled_.end(), [&](const Scaled& s) { return is_of(s.name, s.region); });
}

double OperatorReplay::saving_s(const IsOfOperator& is_of, double scale) const {
  std::vector<double> durations = replay_.recorded();
  for (const Scaled& s : scaled_)
    if (is_of(s.name, s.region)) durations[s.op] -= (1 - scale) * s.seconds;
  return replayed_step_s_ - replay_.mean_step_seconds(durations);
}

std::optional<IsOfOperator> operator_named(SQLite::Database& db, const std::string& name) {
  const auto mark = [](std::vector<bool>& numbers, int64_t number) {
    if (number >= static_cast<int64_t>(numbers.size())) numbers.resize(static_cast<size_t>(number) + 1);
    numbers[static_cast<size_t>(number)] = true;
  };
  std::vector<bool> names, regions;
  Query kernels(db, "SELECT id FROM gpu_name WHERE name = ?");
  for (kernels.bind(name); kernels.next();) mark(names, kernels.integer(0));
  Query inside(db, R"(
    WITH RECURSIVE of_this (id) AS (
      SELECT id FROM region WHERE name = ?1 AND kind NOT IN ('none', 'step')
      UNION
      SELECT r.id FROM region r JOIN of_this o ON r.parent = o.id)
    SELECT id FROM of_this)");
  for (inside.bind(name); inside.next();) mark(regions, inside.integer(0));
  if (names.empty() && regions.empty()) return std::nullopt;
  return [names = std::move(names), regions = std::move(regions)](int64_t of_name, int64_t region) {
    const auto has = [](const std::vector<bool>& numbers, int64_t number) {
      return static_cast<uint64_t>(number) < numbers.size() && numbers[static_cast<size_t>(number)];
    };
    return has(names, of_name) || has(regions, region);
  };
}

std::vector<std::string> names_of_operators(SQLite::Database& db) {
  std::vector<std::string> names;
  Query row(db,
            "SELECT name FROM gpu_name UNION SELECT name FROM region WHERE kind NOT IN ('none', 'step') ORDER BY 1");
  while (row.next()) names.push_back(row.text(0));
  return names;
}

std::vector<OperatorOnPath> operators_on_path(SQLite::Database& db, int64_t world, size_t most) {
  struct OnPath {
    int64_t name, region, time_ns;
  };
  std::vector<OnPath> all;
  std::map<std::string, int64_t> innermost;  // times by label
  int64_t steps = 0;
  Query row(db, R"(
    SELECT c.name, c.region, sum(c.time_ns), iif(r.kind IN ('operator', 'layer', 'inferred'), r.name, n.name),
           (SELECT count(*) FROM (SELECT DISTINCT process, step FROM critical_path s JOIN process p ON p.id = s.process
                                  WHERE p.world = ?1 AND iif(?2, s.step IN (SELECT step FROM steady_number WHERE world = ?1), 1)))
    FROM critical_path c
    JOIN process p ON p.id = c.process AND p.world = ?1
    JOIN gpu_name n ON n.id = c.name
    JOIN region r ON r.id = c.region
    WHERE c.kind IN ('compute', 'transfer', 'collective', 'copy') AND iif(?2, c.step IN (SELECT step FROM steady_number WHERE world = ?1), 1)
    GROUP BY c.name, c.region)");
  Query any(db, "SELECT 1 FROM steady_number WHERE world = ?");
  const bool has_steps = any.bind(world).next();
  for (row.bind(world, has_steps); row.next();) {
    all.push_back({row.integer(0), row.integer(1), row.integer(2)});
    innermost[row.text(3)] += row.integer(2);
    steps = row.integer(4);
  }
  std::vector<std::pair<std::string, int64_t>> longest(innermost.begin(), innermost.end());
  std::stable_sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (longest.size() > most) longest.resize(most);
  std::vector<OperatorOnPath> found;
  for (const auto& [name, of_innermost_ns] : longest) {
    const std::optional<IsOfOperator> is_of = operator_named(db, name);
    if (!is_of) continue;
    int64_t time_ns = 0;
    for (const OnPath& on_path : all)
      if ((*is_of)(on_path.name, on_path.region)) time_ns += on_path.time_ns;
    found.push_back({name, *is_of, static_cast<double>(time_ns) / static_cast<double>(steps)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const OperatorOnPath& a, const OperatorOnPath& b) { return a.path_ns > b.path_ns; });
  return found;
}

}  // namespace ddl::models
