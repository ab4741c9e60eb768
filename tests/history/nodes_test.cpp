#include "history/nodes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ddl::history {
namespace {

/// Sum over all outcomes.
double tail_by_hand(const std::vector<double>& p, int64_t least) {
  double sum = 0;
  for (uint64_t outcome = 0; outcome < uint64_t{1} << p.size(); ++outcome) {
    double chance = 1;
    int64_t events = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const bool happens = (outcome >> i & 1) != 0;
      chance *= happens ? p[i] : 1 - p[i];
      events += happens ? 1 : 0;
    }
    if (events >= least) sum += chance;
  }
  return sum;
}

TEST(Nodes, TailIsThatOfAllOutcomes) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (size_t n = 1; n <= 12; ++n) {
    std::vector<double> p;
    for (size_t i = 0; i < n; ++i) p.push_back(uniform(random));
    for (int64_t least = 0; least <= static_cast<int64_t>(n) + 1; ++least)
      EXPECT_NEAR(poisson_binomial_tail(p, least), tail_by_hand(p, least), 1e-12) << n << " " << least;
  }
  // Of equal ones it is binomial: 40 of 40 at 1/8.
  EXPECT_NEAR(poisson_binomial_tail(std::vector<double>(40, 0.125), 40) / std::pow(0.125, 40), 1, 1e-9)
      << "small tails keep their digits";
}

RunRow run_on(const std::vector<std::string>& hosts, const std::vector<std::string>& slow,
              const std::string& name = "train", int64_t rank = 0) {
  RunRow row;
  row.name = name;
  for (size_t i = 0; i < hosts.size(); ++i) {
    RunRow::Host host{
        .host = hosts[i], .ranks = 8, .slow = std::count(slow.begin(), slow.end(), hosts[i]) > 0, .slow_rank = {}};
    if (host.slow) host.slow_rank = rank;
    row.on.push_back(host);
  }
  return row;
}

/// Runs on four of forty hosts, one of which is slow; node07 always, if it is there and `bad`.
std::vector<RunRow> cluster(int runs, bool bad, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<RunRow> rows;
  for (int i = 0; i < runs; ++i) {
    std::vector<int> numbers(40);
    for (int k = 0; k < 40; ++k) numbers[static_cast<size_t>(k)] = k;
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::vector<std::string> hosts;
    for (size_t k = 0; k < 4; ++k) hosts.push_back("node" + std::to_string(numbers[k] + 100).substr(1));
    std::string slow = hosts[random() % 4];
    if (bad && std::count(hosts.begin(), hosts.end(), "node07") > 0) slow = "node07";
    rows.push_back(run_on(hosts, {slow}, "job" + std::to_string(i % 3), static_cast<int64_t>(random() % 32)));
  }
  return rows;
}

TEST(Nodes, TheHostThatIsAlwaysSlowIsFound) {
  const std::vector<RunRow> rows = cluster(100, true, 1);
  const SlowHosts found = slow_hosts(rows);
  EXPECT_EQ(found.runs, 100);
  EXPECT_EQ(found.looked_at, 40);
  ASSERT_FALSE(found.hosts.empty());
  const SlowHost& first = found.hosts[0];
  EXPECT_EQ(first.host, "node07");
  EXPECT_EQ(first.slow, first.runs);
  EXPECT_DOUBLE_EQ(first.expected, static_cast<double>(first.runs) / 4);
  EXPECT_NEAR(first.p / std::pow(0.25, static_cast<double>(first.runs)), 1, 1e-9);
  EXPECT_DOUBLE_EQ(first.corrected, first.p * 40);
  EXPECT_TRUE(first.to_drain());
  for (size_t i = 1; i < found.hosts.size(); ++i) EXPECT_FALSE(found.hosts[i].to_drain()) << found.hosts[i].host;
}

TEST(Nodes, ChanceDrainsNobody) {
  int drained = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::vector<RunRow> rows = cluster(60, false, 100 + seed);
    const SlowHosts found = slow_hosts(rows);
    for (const SlowHost& host : found.hosts) drained += host.to_drain() ? 1 : 0;
  }
  EXPECT_LE(drained, 6) << "200 clusters at 1 %";
}

TEST(Nodes, ARankThatIsAlwaysSlowIsNoHost) {
  std::vector<RunRow> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(run_on({"a", "b", "c"}, {"a"}, "train", 0));
  SlowHosts found = slow_hosts(rows);
  EXPECT_LT(found.hosts[0].corrected, kSlowHostP);
  EXPECT_EQ(found.hosts[0].one_rank, 0);
  EXPECT_FALSE(found.hosts[0].to_drain());
  rows.push_back(run_on({"a", "b", "c"}, {"a"}, "train", 3));
  found = slow_hosts(rows);
  EXPECT_TRUE(found.hosts[0].to_drain()) << "another rank on it is slow too";
}

TEST(Nodes, RunsThatTellNothingAreLeftOut) {
  const std::vector<RunRow> rows = {run_on({"a"}, {"a"}), run_on({"a", "b"}, {}), run_on({"a", "b"}, {"a", "b"}),
                                    run_on({"a", "b", "c"}, {"a", "b"})};
  const SlowHosts found = slow_hosts(rows);
  EXPECT_EQ(found.runs, 1);
  EXPECT_EQ(found.looked_at, 3);
  ASSERT_EQ(found.hosts.size(), 2u);
  EXPECT_DOUBLE_EQ(found.hosts[0].p, 2.0 / 3);
}

}  // namespace
}  // namespace ddl::history
