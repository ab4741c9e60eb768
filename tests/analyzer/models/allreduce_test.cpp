// The cost family against the published table and against a simulation that sends every message of every algorithm; the
// search for ring plans against dynamic programming over divisors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/ring_plan.h"
#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

const std::map<std::string, Link> kMachines = {
    {"alpha 0.5us, 8 GB/s shm, gamma 8 GB/s", {0.5e-6, 1 / 8e9, 1 / 8e9}},
    {"alpha 1us, 12.5 GB/s, gamma 50 GB/s", {1e-6, 1 / 12.5e9, 1 / 50e9}},
    {"alpha 20us, 1.25 GB/s (10GbE), gamma 20 GB/s", {20e-6, 1 / 1.25e9, 1 / 20e9}}};

TEST(AllreduceCost, EqualsThePublishedTableToPrintedDigits) {
  const CsvTable table = test::published("allreduce_cost_model");
  ASSERT_EQ(table.rows(), 72u);
  for (size_t r = 0; r < table.rows(); ++r) {
    const Link& link = kMachines.at(table.text(r, "machine"));
    const auto p = static_cast<int64_t>(table.number(r, "p"));
    const double n = table.number(r, "n_bytes");
    std::string best;
    double least = INFINITY;
    for (const Algorithm algorithm : kAlgorithms) {
      const std::string name(name_of(algorithm));
      const double us = allreduce_seconds(algorithm, p, n, link) * 1e6;
      EXPECT_NEAR(us, table.number(r, name + "_us"), 0.000501) << name << " row " << r;
      if (us < least * (1 - 1e-12)) least = us, best = name;
    }
    EXPECT_EQ(best, table.text(r, "best")) << r;
    EXPECT_EQ(std::llround(butterfly_to_rabenseifner_bytes(p, link)),
              table.number(r, "butterfly_to_rabenseifner_crossover_bytes"))
        << r;
  }
}

/// One rank's view of the messages: clocks move when a message or a reduction is done. Everybody starts at 0.
class Machine {
 public:
  Machine(int64_t ranks, Link link) : clock_(static_cast<size_t>(ranks), 0), link_(link) {}
  /// All pairs at once: `to` has it when both were ready and the bytes have moved, and then reduces it if it is to.
  struct Message {
    int64_t from, to;
    double bytes;
    bool reduce;
  };
  void round(const std::vector<Message>& messages) {
    std::vector<double> after = clock_;
    for (const Message& m : messages) {
      const double arrived =
          std::max(at(clock_, m.from), at(clock_, m.to)) + link_.alpha_s + m.bytes * link_.beta_s_per_byte;
      at(after, m.from) = std::max(at(after, m.from), arrived);
      at(after, m.to) = std::max(at(after, m.to), arrived + (m.reduce ? m.bytes * link_.gamma_s_per_byte : 0));
    }
    clock_ = after;
  }
  double end() const { return *std::max_element(clock_.begin(), clock_.end()); }

 private:
  static double& at(std::vector<double>& clock, int64_t rank) { return clock[static_cast<size_t>(rank)]; }
  std::vector<double> clock_;
  Link link_;
};

using Messages = std::vector<Machine::Message>;

double simulate_server(int64_t p, double n, const Link& link) {  // ranks 0..p-1 are workers, p is the server
  Machine machine(p + 1, link);
  for (int64_t r = 0; r < p; ++r) machine.round({{r, p, n, true}});
  for (int64_t r = 0; r < p; ++r) machine.round({{p, r, n, false}});
  return machine.end();
}

double simulate_tree(int64_t p, double n, const Link& link) {
  Machine machine(p, link);
  std::vector<Messages> rounds;
  for (int64_t distance = 1; distance < p; distance *= 2) {
    Messages messages;
    for (int64_t r = 0; r + distance < p; r += 2 * distance) messages.push_back({r + distance, r, n, true});
    rounds.push_back(messages);
  }
  for (const Messages& messages : rounds) machine.round(messages);
  for (auto messages = rounds.rbegin(); messages != rounds.rend(); ++messages) {
    for (auto& m : *messages) std::swap(m.from, m.to), m.reduce = false;
    machine.round(*messages);
  }
  return machine.end();
}

double simulate_ring(int64_t p, double n, const Link& link) {
  Machine machine(p, link);
  const double part = n / static_cast<double>(p);
  for (int64_t step = 0; step < 2 * (p - 1); ++step) {
    Messages messages;
    for (int64_t r = 0; r < p; ++r) messages.push_back({r, (r + 1) % p, part, step < p - 1});
    machine.round(messages);
  }
  return machine.end();
}

/// Surplus ranks give their data to a partner before and get the result after; in between `inside` runs on a power of
/// two.
double simulate_folded(int64_t p, double n, const Link& link, const std::function<void(Machine&, int64_t)>& inside) {
  Machine machine(p, link);
  int64_t power = 1;
  while (2 * power <= p) power *= 2;
  Messages fold, unfold;
  for (int64_t r = power; r < p; ++r)
    fold.push_back({r, r - power, n, true}), unfold.push_back({r - power, r, n, false});
  machine.round(fold);
  inside(machine, power);
  machine.round(unfold);
  return machine.end();
}

void exchange(Machine& machine, int64_t p, int64_t distance, double bytes, bool reduce) {
  Messages messages;
  for (int64_t r = 0; r < p; ++r) messages.push_back({r, r ^ distance, bytes, reduce});
  machine.round(messages);
}

double simulate_butterfly(int64_t p, double n, const Link& link) {
  return simulate_folded(p, n, link, [&](Machine& machine, int64_t power) {
    for (int64_t distance = 1; distance < power; distance *= 2) exchange(machine, power, distance, n, true);
  });
}

double simulate_rabenseifner(int64_t p, double n, const Link& link) {
  return simulate_folded(p, n, link, [&](Machine& machine, int64_t power) {
    double bytes = n;
    for (int64_t distance = power / 2; distance >= 1; distance /= 2)
      exchange(machine, power, distance, bytes /= 2, true);
    for (int64_t distance = 1; distance < power; distance *= 2, bytes *= 2)
      exchange(machine, power, distance, bytes, false);
  });
}

TEST(AllreduceCost, EqualsTheSimulationOfEveryMessage) {
  const std::map<Algorithm, double (*)(int64_t, double, const Link&)> simulations = {
      {Algorithm::kParameterServer, simulate_server},
      {Algorithm::kTree, simulate_tree},
      {Algorithm::kButterfly, simulate_butterfly},
      {Algorithm::kRabenseifner, simulate_rabenseifner},
      {Algorithm::kRing, simulate_ring}};
  const Link link = {7e-6, 1 / 3e9, 1 / 11e9};
  for (const int64_t p : {2, 3, 4, 5, 6, 7, 8, 12, 16, 31, 32, 33, 64})
    for (const double n : {1.0, 4096.0, 1e6, 1e8})
      for (const auto& [algorithm, simulate] : simulations) {
        const double simulated = simulate(p, n, link);
        EXPECT_NEAR(allreduce_seconds(algorithm, p, n, link), simulated, simulated * 1e-9)
            << name_of(algorithm) << " p=" << p << " n=" << n;
      }
}

TEST(AllreduceCost, GoldenValues) {  // specification.md G-D
  const Link link = {5e-6, 1 / 12.5e9, 1 / 100e9};
  EXPECT_NEAR(allreduce_seconds(Algorithm::kParameterServer, 16, 1e8, link), .27216, 5e-9);
  EXPECT_NEAR(allreduce_seconds(Algorithm::kTree, 16, 1e8, link), .06804, 5e-9);
  EXPECT_NEAR(allreduce_seconds(Algorithm::kButterfly, 16, 1e8, link), .03602, 5e-9);
  EXPECT_NEAR(allreduce_seconds(Algorithm::kRabenseifner, 16, 1e8, link), .0159775, 5e-9);
  EXPECT_NEAR(allreduce_seconds(Algorithm::kRing, 16, 1e8, link), .0160875, 5e-9);
  const Link inner = {3e-6, 1 / 80e9, 1 / 100e9}, outer = {10e-6, 1 / 12.5e9, 1 / 100e9};
  EXPECT_NEAR(multi_ring_seconds({{4, inner}, {64, outer}}, 1e8), .00808659, 5e-9);
  EXPECT_NEAR(allreduce_seconds(Algorithm::kRing, 256, 1e8, outer), .02203359, 5e-9);
}

TEST(AllreduceCost, OneRankHasNothingToDoAndNothingBeatsTheBound) {
  const Link link = {1e-6, 1e-9, 1e-10};
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_EQ(allreduce_seconds(algorithm, 1, 1e6, link), 0);
    for (int64_t p = 2; p < 70; ++p)
      for (const double n : {0.0, 1e3, 1e9})
        EXPECT_GE(allreduce_seconds(algorithm, p, n, link) * (1 + 1e-12), lower_bound_seconds(p, n, link));
  }
}

TEST(RingPlan, OneDimensionIsTheRingAndAllTwosAreRabenseifner) {
  const Link link = {3e-6, 1e-9, 1e-10};
  EXPECT_DOUBLE_EQ(multi_ring_seconds({{12, link}}, 1e6), allreduce_seconds(Algorithm::kRing, 12, 1e6, link));
  EXPECT_DOUBLE_EQ(multi_ring_seconds({{2, link}, {2, link}, {2, link}, {2, link}}, 1e6),
                   allreduce_seconds(Algorithm::kRabenseifner, 16, 1e6, link));
}

/// Ordered factorisations: H(n) = sum over divisors d < n of H(d).
int64_t count_factorisations(int64_t n) {
  if (n == 1) return 1;
  int64_t count = 0;
  for (int64_t d = 1; d < n; ++d)
    if (n % d == 0) count += count_factorisations(d);
  return count;
}

/// The least time to go from `span` ranks covered to all: what comes next depends on nothing else.
double cheapest(const Cluster& cluster, double bytes, int64_t span = 1) {
  const int64_t ranks = ranks_of(cluster);
  if (span == ranks) return 0;
  double least = INFINITY;
  for (int64_t factor = 2; span * factor <= ranks; ++factor) {
    if (ranks % (span * factor) != 0) continue;
    size_t tier = 0;
    for (int64_t inside = cluster[0].ranks; inside % (span * factor) != 0; inside *= cluster[tier].ranks) ++tier;
    const Link& link = cluster[tier].link;
    const double d = static_cast<double>(factor), n = bytes / static_cast<double>(span);
    const double here =
        2 * (d - 1) * link.alpha_s + (d - 1) / d * n * (2 * link.beta_s_per_byte + link.gamma_s_per_byte);
    least = std::min(least, here + cheapest(cluster, bytes, span * factor));
  }
  return least;
}

TEST(RingPlan, TheSearchFindsTheOptimum) {
  for (const auto& [p, g] :
       {std::pair<int64_t, int64_t>{64, 16}, {64, 4}, {48, 6}, {30, 5}, {36, 12}, {17, 1}, {96, 96}, {1, 1}})
    for (const double n : {8.0, 1e4, 1e6, 1e8}) {
      const Cluster cluster = {{g, {2e-6, 1 / 80e9, 1e-11}}, {p / g, {10e-6, 1 / 12.5e9, 1e-11}}};
      const auto plans = best_ring_plans(cluster, n, 1'000'000);
      EXPECT_EQ(static_cast<int64_t>(plans.size()), count_factorisations(p));
      EXPECT_NEAR(plans[0].seconds, cheapest(cluster, n), 1e-12) << p << " " << n;
      for (const RingPlan& plan : plans)
        EXPECT_EQ(std::accumulate(plan.factors.begin(), plan.factors.end(), int64_t{1}, std::multiplies<>()), p);
      EXPECT_TRUE(std::is_sorted(plans.begin(), plans.end(),
                                 [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
      const auto few = best_ring_plans(cluster, n, 3);
      EXPECT_EQ(few.size(), std::min<size_t>(3, plans.size()));
      for (size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].seconds, plans[i].seconds);
    }
}

TEST(RingPlan, TheFastLinkComesFirst) {  // 4 nodes of 16 ranks: most bytes stay inside
  const Cluster cluster = {{16, {2e-6, 1 / 80e9, 0}}, {4, {2e-6, 1 / 12.5e9, 0}}};
  const auto plans = best_ring_plans(cluster, 1e8, 1);
  const auto dimensions = dimensions_of(plans[0].factors, cluster);
  int64_t inside = 1;
  for (const Dimension& d : dimensions)
    if (d.link.beta_s_per_byte == cluster[0].link.beta_s_per_byte) inside *= d.ranks;
  EXPECT_EQ(inside, 16);
  EXPECT_LE(plans[0].seconds, multi_ring_seconds(cluster, 1e8));
}

// The machine of IBM's document: 48 hosts of four GPUs in three racks (Cho, 2018).
TEST(RingPlan, ThreeTiersEqualTheSearchOfAllPlans) {
  const Cluster racks = {{4, {2e-6, 1 / 80e9, 0}}, {16, {5e-6, 1 / 10e9, 0}}, {3, {9e-6, 1 / 4e9, 0}}};
  ASSERT_EQ(ranks_of(racks), 192);
  for (const double n : {1e4, 1e6, 1e8}) {
    const auto plans = best_ring_plans(racks, n, 1'000'000);
    EXPECT_EQ(static_cast<int64_t>(plans.size()), count_factorisations(192));
    EXPECT_NEAR(plans[0].seconds, cheapest(racks, n), 1e-12);
  }
  // By hand, a dimension for each tier: 6 messages and 1.5 n at 80 GB/s, 30 and 1.875 n/4 at 10, 4 and 4/3 n/64 at 4.
  EXPECT_NEAR(multi_ring_seconds(racks, 1e8),
              6 * 2e-6 + 1.5e8 / 80e9 + 30 * 5e-6 + 1.875e8 / 4 / 10e9 + 4 * 9e-6 + 4e8 / 3 / 64 / 4e9, 1e-12);
  // 4 x 16 x 3 beside 12 x 16: rings of twelve do not stay on a host, nor in a rack.
  const auto crossing = dimensions_of({12, 16}, racks);
  EXPECT_EQ(crossing[0].link.beta_s_per_byte, 1 / 4e9);
  const auto fitting = dimensions_of({2, 2, 16, 3}, racks);
  EXPECT_EQ(fitting[1].link.beta_s_per_byte, 1 / 80e9);
  EXPECT_EQ(fitting[2].link.beta_s_per_byte, 1 / 10e9);
  EXPECT_EQ(fitting[3].link.beta_s_per_byte, 1 / 4e9);
  EXPECT_NEAR(leader_seconds(racks, 1e6), 4 * 2e-6 + 4e6 / 80e9 + 8 * 5e-6 + 8e6 / 10e9 + 4 * 9e-6 + 4e6 / 3 / 4e9,
              1e-12);
}

TEST(RingPlan, RingsShareTheLinkOfTheirHost) {  // 10 GB/s for four ranks
  const Cluster hosts = {{4, {0, 1 / 80e9, 0}}, {2, {0, 4 / 10e9, 0}, 1 / 10e9}};
  EXPECT_DOUBLE_EQ(dimensions_of({8}, hosts)[0].link.beta_s_per_byte, 1 / 10e9) << "one ring leaves each host";
  EXPECT_DOUBLE_EQ(dimensions_of({4, 2}, hosts)[1].link.beta_s_per_byte, 4 / 10e9) << "a ring for each rank";
  EXPECT_DOUBLE_EQ(dimensions_of({2, 4}, hosts)[1].link.beta_s_per_byte, 2 / 10e9);
  EXPECT_NEAR(multi_ring_seconds(dimensions_of({8}, hosts), 1e8), 1.75e8 / 10e9, 1e-12);
  EXPECT_NEAR(multi_ring_seconds(dimensions_of({4, 2}, hosts), 1e8), 1.5e8 / 80e9 + 1e8 / 10e9, 1e-12)
      << "four rings of a quarter each";
  EXPECT_EQ(best_ring_plans(hosts, 1e8, 1)[0].factors, (std::vector<int64_t>{4, 2}));
}

TEST(RingPlan, FewerRanksFillTheInnermostTiersFirst) {
  const Cluster racks = {{4, {}}, {16, {}}, {3, {}}};
  const auto shape = [&](int64_t ranks) {
    std::vector<int64_t> counts;
    for (const Dimension& tier : first_ranks(racks, ranks)) counts.push_back(tier.ranks);
    return counts;
  };
  EXPECT_EQ(shape(2), (std::vector<int64_t>{2}));
  EXPECT_EQ(shape(4), (std::vector<int64_t>{4}));
  EXPECT_EQ(shape(8), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(shape(64), (std::vector<int64_t>{4, 16}));
  EXPECT_EQ(shape(128), (std::vector<int64_t>{4, 16, 2}));
  EXPECT_EQ(shape(192), (std::vector<int64_t>{4, 16, 3}));
  EXPECT_TRUE(shape(6).empty());
  EXPECT_TRUE(shape(96).empty()) << "a rack and a half";
  EXPECT_TRUE(shape(256).empty());
}

}  // namespace
}  // namespace ddl::models
