#include "analyzer/models/ring_plan.h"

#include <algorithm>

namespace ddl::models {
namespace {

class Search {
 public:
  Search(const Cluster& cluster, double bytes, size_t most) : cluster_(cluster), bytes_(bytes), most_(most) {}

  std::vector<RingPlan> run() {
    extend(ranks_of(cluster_));
    return std::move(best_);
  }

 private:
  void extend(int64_t left) {
    if (left == 1) return keep();
    for (int64_t factor = 2; factor <= left; ++factor) {
      if (left % factor != 0) continue;
      factors_.push_back(factor);
      extend(left / factor);
      factors_.pop_back();
    }
  }

  void keep() {
    const double seconds = multi_ring_seconds(dimensions_of(factors_, cluster_), bytes_);
    const auto before = [](const RingPlan& a, const RingPlan& b) {
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.factors.size() < b.factors.size();
    };
    RingPlan plan{factors_, seconds};
    if (best_.size() == most_ && !before(plan, best_.back())) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), plan, before), std::move(plan));
    if (best_.size() > most_) best_.pop_back();
  }

  const Cluster& cluster_;
  double bytes_;
  size_t most_;
  std::vector<int64_t> factors_;
  std::vector<RingPlan> best_;
};

}  // namespace

int64_t ranks_of(const Cluster& cluster) {
  int64_t ranks = 1;
  for (const Dimension& tier : cluster) ranks *= tier.ranks;
  return ranks;
}

Cluster first_ranks(const Cluster& cluster, int64_t ranks) {
  Cluster some;
  for (const Dimension& tier : cluster) {
    if (ranks % tier.ranks == 0) {
      some.push_back(tier);
      ranks /= tier.ranks;
    } else if (ranks < tier.ranks) {
      some.push_back({ranks, tier.link, tier.alone_s_per_byte});
      ranks = 1;
    } else {
      return {};
    }
    if (ranks == 1) return some;
  }
  return {};
}

std::vector<Dimension> dimensions_of(const std::vector<int64_t>& factors, const Cluster& cluster) {
  std::vector<Dimension> dimensions;
  int64_t span = 1;  // consecutive ranks that the dimensions so far cover
  for (const int64_t factor : factors) {
    const int64_t rings = span;  // beside each other, of neighbours
    span *= factor;
    int64_t inside = 1;  // ranks in a group of the tier below
    size_t t = 0;
    for (; t + 1 < cluster.size() && inside * cluster[t].ranks % span != 0; ++t) inside *= cluster[t].ranks;
    Dimension dimension = {factor, cluster[t].link};
    // What leaves a rack leaves a host before: the narrowest of all links on the way, by the rings that share each.
    if (cluster[t].alone_s_per_byte) {
      double narrowest = 0;
      for (size_t u = 0; u <= t; ++u)
        if (const auto& alone = cluster[u].alone_s_per_byte)
          narrowest =
              std::max(narrowest, std::min(*alone * static_cast<double>(rings), cluster[u].link.beta_s_per_byte));
      dimension.link.beta_s_per_byte = narrowest;
    }
    dimensions.push_back(dimension);
  }
  return dimensions;
}

std::vector<RingPlan> best_ring_plans(const Cluster& cluster, double bytes, size_t most) {
  return Search(cluster, bytes, most).run();
}

}  // namespace ddl::models
