#include "analyzer/models/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "core/error.h"

namespace ddl::models {
namespace {

/// Simplex works to this.
constexpr double kRounding = 1e-7;
constexpr double kNowhere = std::numeric_limits<double>::infinity();
/// Beginnings of the local search: greedy, as is, and drawn ones.
constexpr int kDrawnBeginnings = 4;
constexpr int kMostCuts = 24;
/// Exchanges are judged by the 8-norm of all bounds: the largest alone is the same for most of them.
double eighth_power(double x) { return (x * x) * (x * x) * ((x * x) * (x * x)); }

bool less(double a, double b) { return a < b - kRounding * std::max(std::abs(a), std::abs(b)); }

using Matrix = std::vector<std::vector<double>>;

std::vector<size_t> in_order(size_t ranks) {
  std::vector<size_t> place(ranks);
  std::iota(place.begin(), place.end(), size_t{0});
  return place;
}

}  // namespace

double least_assignment(const Matrix& cost) {
  const size_t rows = cost.size(), columns = rows == 0 ? 0 : cost[0].size();
  // Shortest augmenting paths with potentials; row and column 0 are the unassigned.
  std::vector<double> of_row(rows + 1, 0), of_column(columns + 1, 0);
  std::vector<size_t> row_at(columns + 1, 0), way(columns + 1, 0);
  for (size_t row = 1; row <= rows; ++row) {
    row_at[0] = row;
    size_t column = 0;
    std::vector<double> least(columns + 1, kNowhere);
    std::vector<bool> used(columns + 1, false);
    do {
      used[column] = true;
      double delta = kNowhere;
      size_t next = 0;
      for (size_t c = 1; c <= columns; ++c) {
        if (used[c]) continue;
        const double reduced = cost[row_at[column] - 1][c - 1] - of_row[row_at[column]] - of_column[c];
        if (reduced < least[c]) least[c] = reduced, way[c] = column;
        if (least[c] < delta) delta = least[c], next = c;
      }
      for (size_t c = 0; c <= columns; ++c) {
        if (used[c])
          of_row[row_at[c]] += delta, of_column[c] -= delta;
        else
          least[c] -= delta;
      }
      column = next;
    } while (row_at[column] != 0);
    for (; column != 0; column = way[column]) row_at[column] = row_at[way[column]];
  }
  double sum = 0;
  for (size_t c = 1; c <= columns; ++c)
    if (row_at[c] != 0) sum += cost[row_at[c] - 1][c - 1];
  return sum;
}

Network::Network(size_t places, size_t switches, const std::vector<PlaceLink>& links) : places_(places) {
  if (places == 0)
    throw Error("the links name switches only, no place for a rank",
                "names that begin with switch: are switches; name at least one host", ExitCode::kDataMissing);
  if (places > kMostPlaces)
    throw Error(fmt::format("too many places: {}, at most {} are searched", places, kMostPlaces),
                "merge places whose ranks sit together anyway", ExitCode::kDataMissing);
  network_.nodes = places + switches;
  std::map<std::pair<size_t, size_t>, double> joined;
  for (const PlaceLink& link : links) {
    if (link.a >= network_.nodes || link.b >= network_.nodes || link.a == link.b || !(link.bytes_per_second > 0) ||
        !std::isfinite(link.bytes_per_second))
      throw Error("invalid link: it must join two different places and carry more than 0 GB/s",
                  "correct the table of links", ExitCode::kDataMissing);
    joined[std::minmax(link.a, link.b)] += link.bytes_per_second;
  }
  std::vector<double> per_byte;
  for (const auto& [ends, rate] : joined)
    for (const auto& [from, to] : {ends, std::pair(ends.second, ends.first)})
      network_.arcs.push_back({from, to, rate}), per_byte.push_back(1 / rate);
  per_byte_s_ = distances(network_, per_byte);
  for (size_t i = 0; i < places; ++i)
    if (std::find(per_byte_s_[i].begin(), per_byte_s_[i].begin() + static_cast<std::ptrdiff_t>(places), kNowhere) !=
        per_byte_s_[i].begin() + static_cast<std::ptrdiff_t>(places))
      throw Error("the links do not join all places", "add links until every place can be reached",
                  ExitCode::kDataMissing);
  tree_ = joined.size() + 1 == network_.nodes &&
          std::find(per_byte_s_[0].begin(), per_byte_s_[0].end(), kNowhere) == per_byte_s_[0].end();
}

Traffic Network::at_places(const Traffic& bytes, const std::vector<size_t>& place) const {
  Traffic moved(network_.nodes, std::vector<double>(network_.nodes, 0));
  for (size_t i = 0; i < place.size(); ++i)
    for (size_t j = 0; j < place.size(); ++j)
      if (i != j) moved[place[i]][place[j]] = bytes[i][j];
  return moved;
}

/// One traffic on a network: the bounds that are known, and what is searched with them.
class Placement {
 public:
  Placement(const Network& network, const Traffic& bytes) : network_(network), bytes_(bytes), ranks_(bytes.size()) {
    for (size_t i = 0; i < ranks_; ++i) {
      partners_.emplace_back();
      for (size_t j = 0; j < ranks_; ++j)
        if (i != j && (bytes[i][j] > 0 || bytes[j][i] > 0)) partners_[i].push_back(j);
    }
    add_cuts();
  }

  Mapping evaluate(const std::vector<size_t>& place, bool least_cost, std::vector<double>* length = nullptr) const {
    Mapping mapping{place};
    Flow flow = route(network_.network_, network_.at_places(bytes_, place), least_cost);
    if (length != nullptr) *length = flow.length;
    mapping.busiest_s = flow.busiest_s, mapping.all_s = flow.all_s;
    mapping.load_bytes = std::move(flow.load_bytes);
    mapping.distance_s = sum_over(network_.per_byte_s_, place);
    return mapping;
  }

  /// Exact; `best` is the placement to begin with.
  Mapping branch_and_bound(Mapping best) {
    best_ = std::move(best);
    moved_ = moved(best_.place);
    if (!is_optimal()) {
      taken_.assign(network_.places_, false);
      place_.clear();
      partial_.assign(ranks_ + 1, {});
      descend();
    }
    best_.bound_s = best_.busiest_s;
    best_.exact = true;
    return best_;
  }

  Mapping local_search(Mapping best) {
    std::mt19937_64 random(1);
    std::vector<std::vector<size_t>> beginnings = {greedy(), best.place};
    for (int i = 0; i < kDrawnBeginnings; ++i) {
      std::vector<size_t> all = in_order(network_.places_);
      std::shuffle(all.begin(), all.end(), random);
      all.resize(ranks_);
      beginnings.push_back(std::move(all));
    }
    best.bound_s = bound();
    for (std::vector<size_t>& place : beginnings) {
      for (int cuts = 0; cuts <= kMostCuts; ++cuts) {
        if (!less(best.bound_s, best.busiest_s)) break;
        exchange(place);
        const double known_s = largest(place);
        if (!less(known_s, best.busiest_s)) break;  // at least as long: it need not be routed
        const Mapping found = evaluate_and_learn(place);
        if (less(found.busiest_s, best.busiest_s) ||
            (!less(best.busiest_s, found.busiest_s) && less(found.distance_s, best.distance_s))) {
          const double bound_s = best.bound_s;
          best = found;
          best.bound_s = bound_s;
        }
        if (!less(known_s, found.busiest_s)) break;  // the bounds know all of it
      }
    }
    best.bound_s = std::min(best.busiest_s, bound());
    best.exact = !less(best.bound_s, best.busiest_s);
    return best;
  }

  /// No placement is better: the largest Gilmore-Lawler bound of all lengths that are known.
  double bound() const {
    double bound_s = 0;
    for (const Matrix& metric : metrics_) bound_s = std::max(bound_s, gilmore_lawler(metric));
    return bound_s;
  }

 private:
  double sum_over(const Matrix& metric, const std::vector<size_t>& place) const {
    double sum = 0;
    for (size_t i = 0; i < place.size(); ++i)
      for (const size_t j : partners_[i])
        if (j < place.size()) sum += bytes_[i][j] * metric[place[i]][place[j]];
    return sum;
  }

  double largest(const std::vector<size_t>& place) const {
    double seconds = 0;
    for (const Matrix& metric : metrics_) seconds = std::max(seconds, sum_over(metric, place));
    return seconds;
  }

  static size_t moved(const std::vector<size_t>& place) {
    size_t count = 0;
    for (size_t rank = 0; rank < place.size(); ++rank) count += place[rank] != rank;
    return count;
  }

  Mapping evaluate_and_learn(const std::vector<size_t>& place) {
    std::vector<double> length;
    Mapping mapping = evaluate(place, false, &length);
    if (!network_.tree_ && mapping.busiest_s > 0) add_metric(length);  // of a tree all that lengths can say is known
    return mapping;
  }

  /// `length` with sum rate x length = 1.
  void add_metric(const std::vector<double>& length) {
    Matrix metric = distances(network_.network_, length);
    metric.resize(network_.places_);
    for (auto& row : metric) row.resize(network_.places_);
    std::vector<size_t> alike = in_order(network_.places_);
    for (size_t p = 0; p < network_.places_; ++p)
      for (size_t q = 0; q < p && alike[p] == p; ++q)
        if (alike[q] == q && are_alike(metric, p, q)) alike[p] = q;
    alike_.push_back(std::move(alike));
    metrics_.push_back(std::move(metric));
  }

  /// Whoever sits at p might as well sit at q.
  static bool are_alike(const Matrix& metric, size_t p, size_t q) {
    if (metric[p] != metric[q]) return false;
    return std::all_of(metric.begin(), metric.end(), [&](const std::vector<double>& row) { return row[p] == row[q]; });
  }

  /// What leaves `inside` takes at least its bytes over all rates that leave it; and the same of what comes.
  /// Arcs that are as much alike as several cuts say are also taken together: the busiest of them is at least
  /// as busy as the mean.
  void add_cut(const std::vector<bool>& inside, std::map<std::pair<double, size_t>, std::vector<double>>& alike) {
    const std::vector<Arc>& arcs = network_.network_.arcs;
    size_t count = 0;
    for (size_t node = 0; node < network_.places_; ++node) count += inside[node];
    if (count == 0 || count == network_.places_) return;
    for (const bool out : {true, false}) {
      std::vector<double> length(arcs.size(), 0);
      double rate = 0;
      for (size_t a = 0; a < arcs.size(); ++a)
        if (inside[arcs[a].from] == out && inside[arcs[a].to] != out) length[a] = 1, rate += arcs[a].bytes_per_second;
      auto& together = alike[{rate, std::min(count, network_.places_ - count)}];
      together.resize(arcs.size(), 0);
      for (size_t a = 0; a < arcs.size(); ++a) together[a] += length[a] / rate, length[a] /= rate;
      add_metric(length);
    }
  }

  void add_cuts() {
    const std::vector<Arc>& arcs = network_.network_.arcs;
    const size_t nodes = network_.network_.nodes;
    std::map<std::pair<double, size_t>, std::vector<double>> alike;
    if (network_.tree_) {
      for (size_t a = 0; a < arcs.size(); ++a) {
        std::vector<double> length(arcs.size(), 0);
        length[a] = 1 / arcs[a].bytes_per_second;
        add_metric(length);
        size_t behind = 0;  // places on the side that the arc leads to
        for (size_t p = 0; p < network_.places_; ++p)
          behind += !(network_.per_byte_s_[arcs[a].from][p] < network_.per_byte_s_[arcs[a].to][p]);
        auto& together = alike[{arcs[a].bytes_per_second, std::min(behind, network_.places_ - behind)}];
        together.resize(arcs.size(), 0);
        together[a] += length[a];
      }
    } else {
      std::set<std::vector<bool>> seen;
      const auto cut = [&](const std::vector<bool>& inside) {
        if (seen.insert(inside).second) add_cut(inside, alike);
      };
      for (size_t node = 0; node < network_.places_; ++node) {
        std::vector<bool> alone(nodes, false);
        alone[node] = true;
        cut(alone);
      }
      for (const std::vector<bool>& inside : clusters()) cut(inside);
    }
    for (auto& [kind, length] : alike) {
      double sum = 0;
      for (size_t a = 0; a < arcs.size(); ++a) sum += length[a] * arcs[a].bytes_per_second;
      for (double& one : length) one /= sum;
      add_metric(length);
    }
  }

  /// What is joined by links faster than r, for each r; and each switch with the places that hang on it alone.
  std::vector<std::vector<bool>> clusters() const {
    const std::vector<Arc>& arcs = network_.network_.arcs;
    const size_t nodes = network_.network_.nodes;
    std::vector<std::vector<bool>> found;
    std::set<double> rates;
    for (const Arc& arc : arcs) rates.insert(arc.bytes_per_second);
    for (const double rate : rates) {
      std::vector<size_t> root = in_order(nodes);
      const std::function<size_t(size_t)> find = [&](size_t node) {
        return root[node] == node ? node : root[node] = find(root[node]);
      };
      for (const Arc& arc : arcs)
        if (arc.bytes_per_second > rate) root[find(arc.from)] = find(arc.to);
      std::map<size_t, std::vector<bool>> parts;
      for (size_t node = 0; node < nodes; ++node) {
        auto& part = parts[find(node)];
        part.resize(nodes, false);
        part[node] = true;
      }
      for (auto& [node, part] : parts) found.push_back(std::move(part));
    }
    std::vector<size_t> links(nodes, 0), neighbour(nodes, 0);
    for (const Arc& arc : arcs) ++links[arc.from], neighbour[arc.from] = arc.to;
    for (size_t node = network_.places_; node < nodes; ++node) {
      std::vector<bool> part(nodes, false);
      part[node] = true;
      for (size_t p = 0; p < network_.places_; ++p) part[p] = links[p] == 1 && neighbour[p] == node;
      found.push_back(std::move(part));
    }
    return found;
  }

  double gilmore_lawler(const Matrix& metric) const {
    // A rank at a place has its heaviest partners at the nearest places, at best: of what it sends, for each
    // byte is counted once.
    const size_t places = network_.places_;
    Matrix sorted_bytes(ranks_), sorted_metric(places), cost(ranks_, std::vector<double>(places));
    for (size_t i = 0; i < ranks_; ++i) {
      for (size_t j = 0; j < ranks_; ++j)
        if (i != j) sorted_bytes[i].push_back(bytes_[i][j]);
      std::sort(sorted_bytes[i].begin(), sorted_bytes[i].end(), std::greater<>());
    }
    for (size_t p = 0; p < places; ++p) {
      for (size_t q = 0; q < places; ++q)
        if (p != q) sorted_metric[p].push_back(metric[p][q]);
      std::sort(sorted_metric[p].begin(), sorted_metric[p].end());
    }
    for (size_t i = 0; i < ranks_; ++i)
      for (size_t p = 0; p < places; ++p)
        cost[i][p] = std::inner_product(sorted_bytes[i].begin(), sorted_bytes[i].end(), sorted_metric[p].begin(), 0.0);
    return least_assignment(cost);
  }

  // ---------------------------------------------------------------- exact

  bool is_optimal() const {
    return !less(bound(), best_.busiest_s) && !less(gilmore_lawler(network_.per_byte_s_), best_.distance_s);
  }

  /// What rank `place_.size()` at `at` adds to each bound, and to the distance at the end.
  void add_rank(size_t at, const std::vector<double>& before, std::vector<double>& after) const {
    const size_t rank = place_.size();
    const auto added = [&](const Matrix& metric) {
      double sum = 0;
      for (const size_t other : partners_[rank])
        if (other < rank)
          sum += bytes_[rank][other] * metric[at][place_[other]] + bytes_[other][rank] * metric[place_[other]][at];
      return sum;
    };
    after.resize(metrics_.size() + 1);
    for (size_t k = 0; k < metrics_.size(); ++k)
      after[k] = k + 1 < before.size() ? before[k] + added(metrics_[k]) : sum_with(metrics_[k], at);
    after.back() = (before.empty() ? 0 : before.back()) + added(network_.per_byte_s_);
  }

  /// The sum by a metric that is newer than the sums of the ranks placed so far.
  double sum_with(const Matrix& metric, size_t at) const {
    std::vector<size_t> place = place_;
    place.push_back(at);
    return sum_over(metric, place);
  }

  void descend() {
    if (place_.size() == ranks_) {
      const std::vector<double>& sums = partial_[ranks_];
      const double known_s = sums.size() > 1 ? *std::max_element(sums.begin(), sums.end() - 1) : 0;
      if (!may_be_better(known_s, sums.back(), moved(place_))) return;
      const Mapping found = evaluate_and_learn(place_);
      if (!may_be_better(found.busiest_s, found.distance_s, moved(place_))) return;
      best_ = found;
      moved_ = moved(place_);
      return;
    }
    for (size_t at = 0; at < network_.places_; ++at) {
      if (taken_[at]) continue;
      std::vector<double>& sums = partial_[place_.size() + 1];
      add_rank(at, partial_[place_.size()], sums);
      const double known_s = sums.size() > 1 ? *std::max_element(sums.begin(), sums.end() - 1) : 0;
      if (!may_be_better(known_s, sums.back(), 0)) continue;
      taken_[at] = true;
      place_.push_back(at);
      descend();
      place_.pop_back();
      taken_[at] = false;
    }
  }

  bool may_be_better(double busiest_s, double distance_s, size_t moves) const {
    if (less(busiest_s, best_.busiest_s)) return true;
    if (less(best_.busiest_s, busiest_s)) return false;
    if (less(distance_s, best_.distance_s)) return true;
    return !less(best_.distance_s, distance_s) && moves < moved_;
  }

  // ---------------------------------------------------------------- local

  /// Whoever exchanges most with those that sit already gets the place that is nearest to them.
  std::vector<size_t> greedy() const {
    std::vector<size_t> place(ranks_, SIZE_MAX);
    std::vector<bool> taken(network_.places_, false);
    std::vector<double> pull(ranks_, 0);
    for (size_t count = 0; count < ranks_; ++count) {
      size_t rank = SIZE_MAX;
      for (size_t i = 0; i < ranks_; ++i)
        if (place[i] == SIZE_MAX && (rank == SIZE_MAX || pull[i] > pull[rank])) rank = i;
      size_t best = SIZE_MAX;
      double least = kNowhere;
      for (size_t at = 0; at < network_.places_; ++at) {
        if (taken[at]) continue;
        double cost = 0;
        for (const size_t j : partners_[rank])
          if (place[j] != SIZE_MAX)
            cost += bytes_[rank][j] * network_.per_byte_s_[at][place[j]] +
                    bytes_[j][rank] * network_.per_byte_s_[place[j]][at];
        if (best == SIZE_MAX || cost < least) best = at, least = cost;
      }
      place[rank] = best;
      taken[best] = true;
      for (const size_t j : partners_[rank]) pull[j] += bytes_[rank][j] + bytes_[j][rank];
    }
    return place;
  }

  /// Exchanges places of two ranks, or of a rank and nobody, as long as that helps.
  void exchange(std::vector<size_t>& place) const {
    std::vector<size_t> at(network_.places_, SIZE_MAX);  // rank by place
    for (size_t i = 0; i < ranks_; ++i) at[place[i]] = i;
    std::vector<double> sums(metrics_.size());
    for (size_t k = 0; k < metrics_.size(); ++k) sums[k] = sum_over(metrics_[k], place);
    const auto cost = [](const std::vector<double>& values, double unit) {
      double sum = 0;
      for (const double value : values) sum += eighth_power(value / unit);
      return sum;
    };
    std::vector<double> changed(metrics_.size());
    for (bool better = true; better;) {
      better = false;
      for (size_t p = 0; p < network_.places_; ++p)
        for (size_t q = p + 1; q < network_.places_; ++q) {
          if (at[p] == SIZE_MAX && at[q] == SIZE_MAX) continue;
          const double unit = std::max(*std::max_element(sums.begin(), sums.end()), std::numeric_limits<double>::min());
          for (size_t k = 0; k < metrics_.size(); ++k)
            changed[k] = sums[k] + (alike_[k][p] == alike_[k][q] ? 0 : change(metrics_[k], place, at, p, q));
          if (!less(cost(changed, unit), cost(sums, unit))) continue;
          std::swap(at[p], at[q]);
          if (at[p] != SIZE_MAX) place[at[p]] = p;
          if (at[q] != SIZE_MAX) place[at[q]] = q;
          sums = changed;
          better = true;
        }
    }
  }

  double change(const Matrix& metric, const std::vector<size_t>& place, const std::vector<size_t>& at, size_t p,
                size_t q) const {
    double sum = 0;
    const auto moves = [&](size_t rank, size_t from, size_t to, size_t other_rank) {
      for (const size_t j : partners_[rank]) {
        if (j == other_rank) continue;
        sum += bytes_[rank][j] * (metric[to][place[j]] - metric[from][place[j]]);
        sum += bytes_[j][rank] * (metric[place[j]][to] - metric[place[j]][from]);
      }
    };
    if (at[p] != SIZE_MAX) moves(at[p], p, q, at[q]);
    if (at[q] != SIZE_MAX) moves(at[q], q, p, at[p]);
    if (at[p] != SIZE_MAX && at[q] != SIZE_MAX)
      sum += (bytes_[at[p]][at[q]] - bytes_[at[q]][at[p]]) * (metric[q][p] - metric[p][q]);
    return sum;
  }

  const Network& network_;
  const Traffic& bytes_;
  size_t ranks_;
  std::vector<std::vector<size_t>> partners_;
  std::vector<Matrix> metrics_;  ///< distances between places by lengths with sum rate x length = 1

  /// of each of them, by place: the first place that is as far from all others
  std::vector<std::vector<size_t>> alike_;

  Mapping best_;
  size_t moved_ = 0;
  std::vector<size_t> place_;
  std::vector<bool> taken_;
  std::vector<std::vector<double>> partial_;  ///< by number of ranks placed: sums of the metrics, then of the distance
};

Mapping Network::evaluate(const Traffic& bytes, const std::vector<size_t>& place) const {
  return Placement(*this, bytes).evaluate(place, true);
}

Mapping Network::best(const Traffic& bytes) const {
  if (bytes.size() > places_)
    throw Error(fmt::format("{} ranks on {} places: each needs one", bytes.size(), places_), "add links to more places",
                ExitCode::kDataMissing);
  Placement placement(*this, bytes);
  Mapping best = placement.evaluate(in_order(bytes.size()), false);
  best =
      places_ <= kExactPlaces ? placement.branch_and_bound(std::move(best)) : placement.local_search(std::move(best));
  Mapping routed = placement.evaluate(best.place, true);
  routed.bound_s = best.bound_s, routed.exact = best.exact;
  return routed;
}

}  // namespace ddl::models
