#include "analyzer/models/replay_gpus.h"

#include <algorithm>
#include <array>
#include <boost/functional/hash.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/models/healthy_computing.h"
#include "analyzer/models/replay.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/passes/kernel_arrivals.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kSecondOfNs = 1e-9;
constexpr double kMostUnknown = 0.01;       // of the time in collectives
constexpr int64_t kShortLaunchNs = 20'000;  // from the launch to the begin of a kernel that waits for nothing else
constexpr int64_t kStampErrorNs = 2000;     // traces round to microseconds
constexpr size_t kFewestAlike = 5;          // launches that tell whether the host waited

/// One thing that a GPU did.
struct ReplayedActivity {
  int64_t step = 0;
  int64_t start_ns = 0, end_ns = 0, launch_ns = 0, correlation = 0;
  int64_t comm = -1, seq = 0;  ///< of a collective or message
  int64_t group = -1;
  int64_t name = 0;
  size_t stream = 0;    ///< a number of the rank's own
  int64_t xfer_ns = 0;  ///< without the waiting
  bool is_launched = false;
};

struct ReplayedStep {
  int64_t step = 0, begin_ns = 0, end_ns = 0;
};

/// A step of a rank: its activities are [first, last), in the order of their launches.
struct StepLaunches {
  size_t first = 0, last = 0;
  size_t form = 0;         ///< those of one form have the same sequence of launches
  int64_t between_ns = 0;  ///< from the end of the replayed step before to its begin
};

struct ReplayedGpu {
  int64_t number = 0;
  std::vector<ReplayedActivity> activities;  ///< by launch
  std::vector<ReplayedStep> steps;
  std::vector<StepLaunches> launches;
  size_t streams = 0;
  int64_t latency_ns = 0;  ///< from a launch to its begin, where nothing else is waited for
};

/// What was given to each stream last.
using LastOfStreams = std::vector<std::optional<size_t>>;

/// What is known of a place in a sequence of launches, from all steps of that form.
struct LaunchPlace {
  std::vector<bool> sooner;       ///< by stream: once it began before what that had been given was over
  std::vector<double> gaps_ns;    ///< from the launch before to its own
  std::vector<double> delays_ns;  ///< from when all that had been launched was over to its own
  bool always_over = true;        ///< all that had been launched was, each time
  bool host_waits = false;
};

/// A line through points.
struct LeastSquares {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  void add(double at, double value) { ++n, x += at, y += value, xx += at * at, xy += at * value; }
  double slope() const {
    const double spread = n * xx - x * x;
    return spread > 1e-12 * n * xx ? (n * xy - x * y) / spread : 0;
  }
  double at(double place) const { return y / n + slope() * (place - x / n); }
};

double scatter_of(std::vector<double> values) {
  const double middle = median_of(values);
  for (double& value : values) value = std::abs(value - middle);
  return median_of(values);
}

struct Mean {
  double sum = 0, count = 0;
  void add(double value) { sum += value, ++count; }
  Mean with(const Mean& other) const { return {sum + other.sum, count + other.count}; }
  double mean() const { return sum / count; }
};

/// What all take if late ranks and others share their work in each place of a step, or where not both have it in that
/// step, of all steps.
class EvenWork {
 public:
  template <class IsLateRank>
  EvenWork(const Replay& replay, std::span<const PlacedComputing> computing, const IsLateRank& is_late_rank)
      : replay_(replay) {
    for (const PlacedComputing& one : computing) {
      const ReplayOp& op = replay.ops()[one.op];
      for (Likes* likes : {&in_step_[{op.step, one.place}], &in_all_[one.place]})
        (is_late_rank(op.rank) ? likes->late : likes->others).add(op.seconds);
    }
  }
  /// Nothing: not both have that place.
  std::optional<double> of(const PlacedComputing& one, bool late) const {
    const ReplayOp& op = replay_.ops()[one.op];
    const auto in_step = in_step_.find({op.step, one.place});
    if (in_step == in_step_.end()) return std::nullopt;
    const Likes& likes = in_step->second.shared() ? in_step->second : in_all_.at(one.place);
    if (!likes.shared()) return std::nullopt;
    const double all_s = likes.late.with(likes.others).mean();
    return late ? all_s : likes.others.sum > 0 ? op.seconds * all_s / likes.others.mean() : op.seconds;
  }

 private:
  struct Likes {
    Mean late, others;
    bool shared() const { return late.count > 0 && others.count > 0; }
  };
  const Replay& replay_;
  std::unordered_map<std::pair<int64_t, size_t>, Likes, boost::hash<std::pair<int64_t, size_t>>> in_step_;  // and place
  std::unordered_map<size_t, Likes> in_all_;
};

class GpuReplay {
 public:
  GpuReplay(SQLite::Database& db, const Catalog& catalog, int64_t world, std::optional<int64_t> since)
      : db_(db), catalog_(catalog), world_(world) {
    steps_ = last_gpu_steps(db_, world_, since);
    if (steps_.empty()) return;
    read();
    find_forms();
    learn();
    build();
  }

  std::optional<double> saving(int64_t comm, const TransferFactor& factor) const {
    std::vector<double> durations = replay_.recorded();
    for (const Transfer& t : transfers_)
      if (t.comm == comm) durations[t.op] *= factor(t.seq);
    return saving(durations);
  }

  std::optional<double> saving_without(const std::vector<int64_t>& ranks, LateWork work) const {
    const auto is_late_rank = [&](int64_t rank) { return std::ranges::find(ranks, rank) != ranks.end(); };
    const auto is_late = [&](const PlacedOp& p) { return is_late_rank(replay_.ops()[p.op].rank); };
    const Exchanges exchanges = work == LateWork::kEvenly ? read_exchanges(is_late_rank) : Exchanges();
    // Without exchanges all have the work of all; those with whom the late ranks exchange nothing keep theirs.
    const auto has_other_work = [&](const PlacedOp& p) {
      return !exchanges.ranks.empty() && p.piece == Piece::kActivity &&
             !exchanges.ranks.contains(replay_.ops()[p.op].rank);
    };
    std::vector<size_t> first_place(places_.size() + 1);
    for (size_t form = 0; form < places_.size(); ++form)
      first_place[form + 1] = first_place[form] + places_[form].size();
    std::vector<PlacedComputing> computing;
    std::vector<Piece> pieces;
    for (const PlacedOp& p : placed_) {
      if (has_other_work(p)) continue;
      computing.push_back({p.op, (first_place[p.form] + p.place) * kPieces + static_cast<size_t>(p.piece)});
      pieces.push_back(p.piece);
    }
    const HealthyComputing healthy(replay_, computing, {ranks.begin(), ranks.end()});
    const EvenWork even(replay_, work == LateWork::kEvenly ? std::span(computing) : std::span<PlacedComputing>(),
                        is_late_rank);
    const std::optional<std::array<double, kPieces>> paces = paces_of_others(ranks.size(), is_late);
    if (!paces) return std::nullopt;
    std::vector<double> durations = replay_.recorded();
    for (size_t i = 0; i < computing.size(); ++i) {
      const PlacedComputing& one = computing[i];
      const bool late = is_late_rank(replay_.ops()[one.op].rank);
      const std::optional<double> shared_s = pieces[i] == Piece::kActivity ? even.of(one, late) : std::nullopt;
      if (shared_s)
        durations[one.op] = *shared_s;
      else if (late)
        durations[one.op] = healthy.of(one).value_or(durations[one.op] * (*paces)[static_cast<size_t>(pieces[i])]);
    }
    even_exchanges(exchanges, durations);
    return saving(durations);
  }

 private:
  struct Transfer {
    Replay::Op op;
    int64_t comm, seq;
  };
  /// Computing or copying, or what lies before its launch; collectives and messages are not among these.
  enum class Piece {
    kActivity,
    kBeforeLaunch,
    kBeforeFirst
  };  ///< the last: before a rank's first launch of all there is nothing to count from
  static constexpr size_t kPieces = 3;
  struct PlacedOp {
    Replay::Op op;
    size_t form, place;
    Piece piece;
  };

  /// An all-to-all, with what its members send.
  struct Exchange {
    Mean late, others;
    double largest = 0, largest_of_others = 0;

    /// The largest if the late ranks send what all do in the mean, and the others so much more.
    double even_largest() const {
      const double mean = late.with(others).mean();
      return others.sum > 0 ? std::max(mean, largest_of_others * mean / others.mean()) : mean;
    }
  };
  struct Exchanges {
    std::map<std::pair<int64_t, int64_t>, Exchange> by_number;  ///< and communicator
    std::set<int64_t> ranks;                                    ///< of communicators of which late ranks are members
  };

  template <class IsLateRank>
  Exchanges read_exchanges(const IsLateRank& is_late_rank) const {
    Exchanges exchanges;
    std::map<int64_t, std::set<int64_t>> members;
    Query rows(db_, R"(
      SELECT e.comm, e.seq, p.rank, e.bytes, e.step
      FROM event e
      JOIN process p ON p.id = e.process
      JOIN op o ON o.id = e.op
      WHERE p.world = ? AND e.comm IS NOT NULL AND e.seq IS NOT NULL AND e.step IS NOT NULL AND e.bytes > 0
        AND lower(o.name) LIKE '%alltoall%')");
    for (rows.bind(world_); rows.next();) {
      if (!is_replayed(rows.integer(4))) continue;
      Exchange& one = exchanges.by_number[{rows.integer(0), rows.integer(1)}];
      const bool late = is_late_rank(rows.integer(2));
      (late ? one.late : one.others).add(rows.real(3));
      one.largest = std::max(one.largest, rows.real(3));
      if (!late) one.largest_of_others = std::max(one.largest_of_others, rows.real(3));
      members[rows.integer(0)].insert(rows.integer(2));
    }
    for (const auto& [comm, ranks] : members)
      if (std::ranges::any_of(ranks, is_late_rank)) exchanges.ranks.insert(ranks.begin(), ranks.end());
    return exchanges;
  }

  /// An all-to-all takes what its largest share does: by the line through those of its communicator.
  void even_exchanges(const Exchanges& exchanges, std::vector<double>& durations) const {
    std::map<int64_t, LeastSquares> lines;  // seconds over bytes, by communicator
    const auto exchange_of = [&](const Transfer& t) { return exchanges.by_number.find({t.comm, t.seq}); };
    for (const Transfer& t : transfers_)
      if (const auto one = exchange_of(t); one != exchanges.by_number.end())
        lines[t.comm].add(one->second.largest, durations[t.op]);
    for (const Transfer& t : transfers_) {
      const auto one = exchange_of(t);
      if (one == exchanges.by_number.end() || one->second.late.count == 0) continue;
      const LeastSquares& line = lines.at(t.comm);
      const double now_s = line.at(one->second.largest), even_s = line.at(one->second.even_largest());
      if (line.slope() > 0 && even_s > 0 && now_s > 0) durations[t.op] *= even_s / now_s;
    }
  }

  /// By piece, what the others take of what the late ranks take: of computing and copying for each rank, of launches
  /// for each one, since ranks of another sequence launch more or fewer. Nothing: there are no others.
  template <class IsLate>
  std::optional<std::array<double, kPieces>> paces_of_others(size_t late_ranks, const IsLate& is_late) const {
    std::array<double, kPieces> own_s = {}, own = {}, others_s = {}, others = {};
    for (const PlacedOp& p : placed_) {
      const auto piece = static_cast<size_t>(p.piece);
      (is_late(p) ? own_s : others_s)[piece] += replay_.ops()[p.op].seconds;
      ++(is_late(p) ? own : others)[piece];
    }
    const auto activity = static_cast<size_t>(Piece::kActivity);
    own[activity] = static_cast<double>(late_ranks);
    others[activity] = static_cast<double>(replay_.ranks().size() - late_ranks);
    std::array<double, kPieces> paces = {};
    for (size_t piece = 0; piece < kPieces; ++piece) {
      if (own[piece] > 0 && others[piece] == 0) return std::nullopt;
      paces[piece] = own_s[piece] > 0 ? others_s[piece] / others[piece] / (own_s[piece] / own[piece]) : 1;
    }
    return paces;
  }

  std::optional<double> saving(const std::vector<double>& durations) const {
    if (replay_.ops().empty() || unknown_ns_ > kMostUnknown * comm_ns_) return std::nullopt;
    const double replayed_s = replay_.mean_step_seconds(replay_.recorded());
    double recorded_s = 0;
    for (const auto& [step, longest_s] : longest_s_) recorded_s += longest_s / static_cast<double>(longest_s_.size());
    if (std::abs(replayed_s / recorded_s - 1) > kFarFromRecorded) return std::nullopt;
    return replayed_s - replay_.mean_step_seconds(durations);
  }

  bool is_replayed(int64_t step) const { return std::binary_search(steps_.begin(), steps_.end(), step); }

  void read() {
    const KernelArrivals arrivals(db_, catalog_);
    const bool marked = has_marked_steps(db_);
    std::map<KernelKey, int64_t> groups;
    Query rows(db_, R"(
      SELECT g.kind, g.step, g.start_ns, g.duration_ns, g.launch_ns, g.correlation, g.comm, g.seq, g.graph_node, g.comm_rank, g.name,
             g.device, g.context, g.stream, n.class = 'communication'
      FROM gpu_event g
      JOIN gpu_name n ON n.id = g.name
      WHERE g.process = ? AND g.kind IN (1, 2, 3) AND g.duration_ns > 0
      ORDER BY g.start_ns, g.duration_ns DESC)");
    Query steps(db_, "SELECT start_ns, duration_ns FROM step WHERE process = ? AND step = ? AND measured");
    for (const auto& [id, process] : catalog_.processes) {
      if (process.world != world_ || process.rank < 0) continue;
      ReplayedGpu rank;
      rank.number = process.rank;
      if (!ranks_.empty()) rank.activities.reserve(ranks_.back().activities.size());  // as many, or about
      KernelNumbers numbers(catalog_, marked);
      std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> streams;
      rows.bind(id);
      while (rows.next()) {
        ReplayedActivity a;
        a.start_ns = rows.integer(2);
        a.end_ns = a.start_ns + rows.integer(3);
        std::optional<KernelKey> key;
        if (rows.integer(0) == 1 && !rows.is_null(6))
          key = numbers.next(rows.integer(6), rows.maybe_integer(7), rows.maybe_integer(1), rows.maybe_integer(8),
                             rows.maybe_integer(9));
        if (rows.is_null(1) || !is_replayed(rows.integer(1))) continue;
        a.step = rows.integer(1);
        a.is_launched = !rows.is_null(4);
        a.launch_ns = rows.maybe_integer(4).value_or(a.start_ns);
        a.correlation = rows.integer(5);
        a.name = rows.integer(10);
        a.xfer_ns = rows.integer(3);
        const auto number = [&](int column) { return rows.maybe_integer(column).value_or(-1); };
        a.stream = streams.try_emplace({number(11), number(12), number(13)}, streams.size()).first->second;
        if (rows.integer(0) == 1 && (!rows.is_null(6) || rows.integer(14) != 0)) {
          comm_ns_ += static_cast<double>(a.xfer_ns);
          Why why = Why::kNone;
          const std::optional<int64_t> wait_ns =
              key ? arrivals.wait_ns(*key, {a.start_ns, a.end_ns}, why) : std::nullopt;
          if (wait_ns) {
            a.comm = std::get<0>(*key);
            a.seq = std::get<1>(*key);
            a.group = groups.try_emplace(*key, static_cast<int64_t>(groups.size())).first->second;
            a.xfer_ns -= *wait_ns;
          } else {
            unknown_ns_ += static_cast<double>(a.xfer_ns);
          }
        }
        rank.activities.push_back(a);
      }
      if (rank.activities.empty()) continue;
      rank.streams = streams.size();
      std::stable_sort(
          rank.activities.begin(), rank.activities.end(), [](const ReplayedActivity& a, const ReplayedActivity& b) {
            return std::tie(a.launch_ns, a.correlation, a.start_ns) < std::tie(b.launch_ns, b.correlation, b.start_ns);
          });
      for (const int64_t step : steps_) {
        steps.bind(id, step);
        if (steps.next()) rank.steps.push_back({step, steps.integer(0), steps.integer(0) + steps.integer(1)});
      }
      std::vector<double> latencies_ns;
      for (const ReplayedActivity& a : rank.activities)
        if (a.is_launched && a.start_ns - a.launch_ns < kShortLaunchNs)
          latencies_ns.push_back(static_cast<double>(a.start_ns - a.launch_ns));
      if (!latencies_ns.empty()) rank.latency_ns = static_cast<int64_t>(median_of(latencies_ns));
      ranks_.push_back(std::move(rank));
    }
  }

  /// Steps of ranks that launch the same names on the same streams in the same order.
  void find_forms() {
    std::unordered_map<std::string, size_t> forms;
    for (ReplayedGpu& rank : ranks_) {
      size_t at = 0;
      const ReplayedStep* before = nullptr;
      for (const ReplayedStep& step : rank.steps) {
        StepLaunches launches;
        launches.first = at;
        std::string sequence;
        const auto append = [&sequence](int64_t value) {
          sequence.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        // What was launched belongs to the step in which it was launched, so that steps come one after the other.
        for (; at < rank.activities.size() && rank.activities[at].step <= step.step; ++at) {
          append(rank.activities[at].name);
          append(static_cast<int64_t>(rank.activities[at].stream));
        }
        launches.last = at;
        launches.form = forms.try_emplace(std::move(sequence), forms.size()).first->second;
        launches.between_ns = before == nullptr ? 0 : std::max<int64_t>(0, step.begin_ns - before->end_ns);
        before = &step;
        rank.launches.push_back(launches);
        double& longest_s = longest_s_[step.step];
        longest_s = std::max(longest_s, static_cast<double>(step.end_ns - step.begin_ns) * kSecondOfNs);
        if (places_.size() < forms.size()) places_.resize(forms.size());
        places_[launches.form].resize(launches.last - launches.first);
      }
    }
  }

  /// For all activities of a rank, in the order of their launches: `use(index, its step, what streams were given
  /// before, when all of that was over, index of the launch before, time since then that lies between steps)`.
  template <class Use>
  void walk(const ReplayedGpu& rank, const Use& use) {
    LastOfStreams last(rank.streams);
    int64_t over_ns = INT64_MIN;
    std::optional<size_t> before;
    for (const StepLaunches& launches : rank.launches) {
      for (size_t i = launches.first; i < launches.last; ++i) {
        const int64_t between_ns = i == launches.first ? launches.between_ns : 0;
        use(i, launches, last, over_ns, before, between_ns);
        last[rank.activities[i].stream] = i;
        over_ns = std::max(over_ns, rank.activities[i].end_ns);
        before = i;
      }
    }
  }

  void learn() {
    for (const ReplayedGpu& rank : ranks_) {
      walk(rank, [&](size_t i, const StepLaunches& step, const LastOfStreams& last, int64_t over_ns,
                     std::optional<size_t> before, int64_t between_ns) {
        const ReplayedActivity& a = rank.activities[i];
        LaunchPlace& place = places_[step.form][i - step.first];
        place.sooner.resize(std::max(place.sooner.size(), last.size()));
        for (size_t s = 0; s < last.size(); ++s)
          if (last[s] && a.start_ns + kStampErrorNs < rank.activities[*last[s]].end_ns) place.sooner[s] = true;
        if (!before) return;
        place.always_over = place.always_over && over_ns <= a.launch_ns;
        place.gaps_ns.push_back(static_cast<double>(a.launch_ns - rank.activities[*before].launch_ns - between_ns));
        place.delays_ns.push_back(static_cast<double>(a.launch_ns - over_ns - between_ns));
      });
    }
    for (std::vector<LaunchPlace>& form : places_) {
      for (LaunchPlace& place : form) {
        place.host_waits = place.always_over && place.gaps_ns.size() >= kFewestAlike &&
                           median_of(place.gaps_ns) > static_cast<double>(kShortLaunchNs) &&
                           scatter_of(place.delays_ns) <= scatter_of(place.gaps_ns);
        place.gaps_ns.clear();
        place.delays_ns.clear();
      }
    }
  }

  void build() {
    const size_t kind = replay_.add_kind("", false);
    size_t activities = 0;
    for (const ReplayedGpu& rank : ranks_) activities += rank.activities.size();
    replay_.reserve(2 * activities);
    placed_.reserve(2 * activities);
    int64_t origin_ns = INT64_MAX;
    for (const ReplayedGpu& rank : ranks_)
      if (!rank.steps.empty()) origin_ns = std::min(origin_ns, rank.steps.front().begin_ns);
    for (const ReplayedGpu& rank : ranks_) {
      std::vector<Replay::Op> ops(rank.activities.size());
      // by stream: what its operations already came after
      std::vector<LastOfStreams> awaited(rank.streams, LastOfStreams(rank.streams));
      std::optional<Replay::Op> host;
      int64_t ready_ns = origin_ns;
      walk(rank, [&](size_t i, const StepLaunches& step, const LastOfStreams& last, int64_t over_ns,
                     std::optional<size_t> before, int64_t between_ns) {
        const ReplayedActivity& a = rank.activities[i];
        const LaunchPlace& place = places_[step.form][i - step.first];
        std::optional<Replay::Op> launch;
        if (a.is_launched) {
          const int64_t since_ns = place.host_waits ? std::max(over_ns, ready_ns) : ready_ns;
          // When the launch has reached the GPU.
          const int64_t reached_ns =
              std::max(since_ns, a.launch_ns + std::clamp<int64_t>(a.start_ns - a.launch_ns, 0, rank.latency_ns));
          const int64_t gap_ns = std::max<int64_t>(0, reached_ns - since_ns - between_ns);
          launch = replay_.add({rank.number, a.step, kind, static_cast<double>(gap_ns) * kSecondOfNs});
          if (host) replay_.after(*launch, *host);
          if (place.host_waits)
            for (const std::optional<size_t>& l : last)
              if (l) replay_.after(*launch, ops[*l]);
          host = launch;
          placed_.push_back({*launch, step.form, i - step.first, before ? Piece::kBeforeLaunch : Piece::kBeforeFirst});
          ready_ns = reached_ns;
        }
        ops[i] = replay_.add({rank.number, a.step, kind, static_cast<double>(a.xfer_ns) * kSecondOfNs, a.group});
        if (launch) replay_.after(ops[i], *launch);
        for (size_t s = 0; s < last.size(); ++s) {
          if (!last[s] || place.sooner[s] || (s != a.stream && awaited[a.stream][s] == last[s])) continue;
          awaited[a.stream][s] = last[s];
          replay_.after(ops[i], ops[*last[s]]);
        }
        if (a.comm >= 0)
          transfers_.push_back({ops[i], a.comm, a.seq});
        else
          placed_.push_back({ops[i], step.form, i - step.first, Piece::kActivity});
      });
    }
    replay_.finish(true);
  }

  SQLite::Database& db_;
  const Catalog& catalog_;
  int64_t world_;
  std::vector<int64_t> steps_;
  std::vector<ReplayedGpu> ranks_;
  std::vector<std::vector<LaunchPlace>> places_;  ///< by form
  std::vector<Transfer> transfers_;
  std::vector<PlacedOp> placed_;
  Replay replay_;
  double comm_ns_ = 0, unknown_ns_ = 0;  ///< in collectives
  std::map<int64_t, double> longest_s_;  ///< by step: of a rank, as recorded
};

}  // namespace

std::optional<double> saving_of_transfers(SQLite::Database& db, const Catalog& catalog, int64_t world, int64_t comm,
                                          const TransferFactor& factor, std::optional<int64_t> since) {
  try {
    return GpuReplay(db, catalog, world, since).saving(comm, factor);
  } catch (const Error&) {
    return std::nullopt;  // by the stamps operations wait for one another
  }
}

std::optional<double> saving_without_late_gpus(SQLite::Database& db, const Catalog& catalog, int64_t world,
                                               const std::vector<int64_t>& ranks, LateWork work,
                                               std::optional<int64_t> since) {
  try {
    return GpuReplay(db, catalog, world, since).saving_without(ranks, work);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace ddl::models
