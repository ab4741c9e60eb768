#include "analyzer/models/collective_traffic.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace ddl::models {
namespace {

/// Messages between members, by their numbers.
class Sender {
 public:
  Sender(Traffic& traffic, const std::vector<size_t>& members, double times)
      : traffic_(traffic), members_(members), times_(times) {}

  size_t count() const { return members_.size(); }
  void send(size_t from, size_t to, double bytes) {
    if (from != to) traffic_[members_[from]][members_[to]] += bytes * times_;
  }
  /// Reduce-scatter or allgather around a ring of members: each sends all parts but one to the next.
  void ring(const std::vector<size_t>& around, double bytes) {
    const auto p = static_cast<double>(around.size());
    for (size_t i = 0; i < around.size(); ++i) send(around[i], around[(i + 1) % around.size()], (p - 1) / p * bytes);
  }
  /// Towards member `root` if `up`, from it otherwise.
  void binomial(size_t root, bool up, double bytes) {
    for (size_t i = 1; i < count(); ++i) {
      const size_t below = (i + root) % count(), above = ((i & (i - 1)) + root) % count();
      up ? send(below, above, bytes) : send(above, below, bytes);
    }
  }
  void exchange(const std::vector<size_t>& participants, size_t distance, double bytes) {
    for (size_t i = 0; i < participants.size(); ++i) send(participants[i], participants[i ^ distance], bytes);
  }

 private:
  Traffic& traffic_;
  const std::vector<size_t>& members_;
  double times_;
};

void add_multi_ring(Sender& sender, const std::vector<int64_t>& dimensions, double bytes) {
  size_t stride = 1;
  for (const int64_t dimension : dimensions) {
    const auto d = static_cast<size_t>(dimension);
    for (size_t i = 0; i < sender.count(); ++i) {
      if (i / stride % d != 0) continue;  // the first of its ring
      std::vector<size_t> around(d);
      for (size_t k = 0; k < d; ++k) around[k] = i + k * stride;
      sender.ring(around, 2 * bytes);  // there and back
    }
    bytes /= static_cast<double>(d);
    stride *= d;
  }
}

void add_allreduce(Sender& sender, const TrafficPlan& plan, double bytes) {
  const size_t p = sender.count();
  std::vector<size_t> all(p);
  std::iota(all.begin(), all.end(), size_t{0});
  const int64_t product =
      std::accumulate(plan.dimensions.begin(), plan.dimensions.end(), int64_t{1}, std::multiplies<>());
  if (!plan.dimensions.empty() && product == static_cast<int64_t>(p))
    return add_multi_ring(sender, plan.dimensions, bytes);
  size_t power = 1;
  while (2 * power <= p) power *= 2;
  // As many pairs of the first neighbours fold as there are surplus members: the odd one hands over before, and gets
  // the result after.
  const size_t surplus = p - power;
  std::vector<size_t> participants;
  for (size_t i = 0; i < p; ++i)
    if (i >= 2 * surplus || i % 2 == 0) participants.push_back(i);
  const auto fold = [&] {
    for (size_t i = 0; i < surplus; ++i) sender.send(2 * i + 1, 2 * i, bytes), sender.send(2 * i, 2 * i + 1, bytes);
  };
  switch (plan.algorithm) {
    case Algorithm::kParameterServer:
      for (size_t i = 1; i < p; ++i) sender.send(i, 0, bytes), sender.send(0, i, bytes);
      break;
    case Algorithm::kTree:
      sender.binomial(0, true, bytes);
      sender.binomial(0, false, bytes);
      break;
    case Algorithm::kButterfly:
      fold();
      for (size_t distance = 1; distance < power; distance *= 2) sender.exchange(participants, distance, bytes);
      break;
    case Algorithm::kRabenseifner: {
      fold();
      double part = bytes;
      for (size_t distance = 1; distance < power; distance *= 2)
        sender.exchange(participants, distance, 2 * (part /= 2));
      break;
    }
    case Algorithm::kRing:
      sender.ring(all, 2 * bytes);
      break;
  }
}

}  // namespace

void add_collective(Traffic& traffic, Collective collective, const TrafficPlan& plan, std::vector<size_t> members,
                    size_t root, double bytes, double times) {
  const size_t root_rank = root < members.size() ? members[root] : 0;
  if (!plan.order.empty()) {
    std::vector<size_t> turn(plan.order.size());
    for (size_t i = 0; i < plan.order.size(); ++i) turn[plan.order[i]] = i;
    std::sort(members.begin(), members.end(), [&](size_t a, size_t b) { return turn[a] < turn[b]; });
    root = static_cast<size_t>(std::find(members.begin(), members.end(), root_rank) - members.begin());
  }
  Sender sender(traffic, members, times);
  std::vector<size_t> all(members.size());
  std::iota(all.begin(), all.end(), size_t{0});
  switch (collective) {
    case Collective::kAllreduce:
      add_allreduce(sender, plan, bytes);
      break;
    case Collective::kReduceScatter:
    case Collective::kAllgather:
      sender.ring(all, bytes);
      break;
    case Collective::kReduce:
    case Collective::kBroadcast:
      sender.binomial(root, collective == Collective::kReduce, bytes);
      break;
  }
}

void add_all_to_all(Traffic& traffic, const std::vector<size_t>& members, double bytes, double times) {
  for (const size_t from : members)
    for (const size_t to : members)
      if (from != to) traffic[from][to] += bytes * times / static_cast<double>(members.size());
}

}  // namespace ddl::models
