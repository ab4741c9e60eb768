// Hosts with clocks of their own, put on one axis by what their collectives say: against the synthetic run's truth.
#include "store/ingest/align_clocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "tests/store/store_fixture.h"

namespace ddl {
namespace {

using test::SyntheticRun;
using test::Truth;

struct Placement {
  std::string method;
  std::optional<double> sigma_ns, drift_ppm;
  int64_t worst_ns = 0;  ///< largest error of an event in a communicator that joins hosts, against the first host's
};

class AlignClocks : public StoreTest {
 protected:
  /// By host. The truth is on the axis of the true time; so is the store if the first host's clock is right.
  std::map<std::string, Placement> place(const SyntheticRun& job) {
    const Truth truth = ingest_run(job);
    std::map<std::string, Placement> hosts;
    for (const auto& row : rows("SELECT name, method, sigma_ns, drift_ppm FROM host")) {
      Placement& host = hosts[row[0]];
      host.method = row[1];
      if (row[2] != "NULL") host.sigma_ns = std::stod(row[2]);
      if (row[3] != "NULL") host.drift_ppm = std::stod(row[3]);
    }
    // where a clock that is off puts the earliest begin
    const int64_t zero_ns = number("SELECT start_ns FROM process WHERE rank = 0");
    for (const auto& row :
         rows("SELECT c.label, e.seq, p.rank, h.name, e.start_ns FROM event e JOIN process p ON p.id = e.process"
              " JOIN host h ON h.id = p.host JOIN communicator c ON c.id = e.comm WHERE e.seq IS NOT NULL")) {
      for (const test::MemberTruth& m : truth.instance(row[0], static_cast<uint32_t>(std::stoul(row[1]))).members) {
        if (m.rank != std::stoi(row[2])) continue;
        int64_t& worst = hosts[row[3]].worst_ns;
        worst = std::max(worst, std::abs(int64_t{std::stoll(row[4])} - m.enter_ns - zero_ns));
      }
    }
    return hosts;
  }
};

SyntheticRun job(uint64_t seed = 1) {
  SyntheticRun run = test::run().ranks(4).steps(60).jitter(500_us, seed);
  run.compute(2_ms).allreduce(4_KiB, 80_us).compute(1_ms).allreduce(64_B, 30_us);
  return run;
}

void expect_within_three_sigma(const std::map<std::string, Placement>& hosts, uint64_t seed) {
  for (const auto& [name, host] : hosts) {
    if (host.method == "reference") {
      EXPECT_EQ(host.sigma_ns, 0) << seed;
      EXPECT_EQ(host.worst_ns, 0) << seed;
      continue;
    }
    EXPECT_EQ(host.method, "collectives") << name << " " << seed;
    ASSERT_TRUE(host.sigma_ns) << name << " " << seed;
    EXPECT_LT(static_cast<double>(host.worst_ns), 3 * *host.sigma_ns) << name << " " << seed;
  }
}

TEST_F(AlignClocks, ThreeSecondsAndFiftyPpm) {
  for (const double hz : {0.0, 2.7e9}) {
    std::filesystem::remove_all(folder());
    auto hosts = place(job().steps(500).hosts(2, 0).host_clock(1, 3_s, 50).tsc(hz));
    EXPECT_EQ(hosts["node0"].method, "reference");
    EXPECT_EQ(hosts["node0"].drift_ppm, 0);
    EXPECT_NEAR(*hosts["node1"].drift_ppm, 50, 20) << "over 2 s";
    EXPECT_LT(*hosts["node1"].sigma_ns, 60'000) << "the fast operation takes 30 us";
    expect_within_three_sigma(hosts, 0);
    EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
    // 1000 s of uptime apart and 3 s of shift: both are in the offset.
    const auto offsets = rows("SELECT offset_ns FROM host ORDER BY id");
    EXPECT_NEAR(std::stod(offsets[0][0]) - std::stod(offsets[1][0]), 777.7e9 + 3e9, 3 * *hosts["node1"].sigma_ns);
  }
}

TEST_F(AlignClocks, EverySeedIsWithinTheBound) {
  constexpr int kSeeds = 100;
  double sigmas = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); };
    const int hosts = 2 + static_cast<int>(pick(4));
    SyntheticRun run = test::run()
                           .ranks(hosts * (1 + static_cast<int>(pick(3))))
                           .steps(10 + static_cast<uint64_t>(pick(60)))
                           .hosts(hosts, 0);
    run.jitter(1_us << pick(12), seed).tsc(pick(2) ? 2.1e9 : 0);
    for (int host = 1; host < hosts; ++host)
      run.host_clock(host, pick(6'000'000'000) - 3'000'000'000, static_cast<double>(pick(200)) - 100);
    if (pick(3) == 0) run.slow(static_cast<int>(pick(2)), 4_ms);
    const int64_t transfer_ns = 10'000 + pick(300'000);
    run.compute(5_ms)
        .allreduce(1_MiB, 10 * transfer_ns)
        .compute(2_ms)
        .bcast(4_KiB, transfer_ns, static_cast<int>(pick(2)));
    run.compute(1_ms)
        .reduce(8_B, transfer_ns)
        .compute(1_ms)
        .collective("MPI_Allgather", 64_B, transfer_ns)
        .iallreduce(64_KiB, transfer_ns);
    run.compute(1_ms).waitall().compute(1_ms).barrier(transfer_ns / 2);
    std::filesystem::remove_all(folder());
    const auto placed = place(run);
    EXPECT_EQ(placed.size(), static_cast<size_t>(hosts));
    expect_within_three_sigma(placed, seed);
    sigmas += *placed.rbegin()->second.sigma_ns / static_cast<double>(transfer_ns);
  }
  EXPECT_LT(sigmas / kSeeds, 5) << "sigma is of the order of a fast operation";
}

TEST_F(AlignClocks, RootedOperationsBoundOneSideEach) {
  // Root on node0: only "they leave after the root entered". With a reduce to the same root the other side is known
  // too.
  SyntheticRun one_sided = test::run().ranks(4).steps(50).jitter(200_us).hosts(2, 0).host_clock(1, -2_s, 10);
  one_sided.compute(2_ms).bcast(4_KiB, 50_us, 0);
  auto hosts = place(one_sided);
  EXPECT_EQ(hosts["node1"].method, "realtime");
  EXPECT_FALSE(hosts["node1"].sigma_ns);
  EXPECT_EQ(number("SELECT count(*) FROM loss WHERE kind = 'clock' AND note LIKE '%(node1): too few collectives%'"), 1);
  std::filesystem::remove_all(folder());
  hosts = place(one_sided.reduce(8_B, 50_us, 0));
  expect_within_three_sigma(hosts, 0);
  EXPECT_LT(*hosts["node1"].sigma_ns, 300'000);
}

TEST_F(AlignClocks, OperationsWithoutBytesSayNothing) {
  SyntheticRun run = test::run().ranks(4).steps(50).jitter(200_us).hosts(2, 0).host_clock(1, 1_s, 10);
  run.compute(2_ms).allreduce(0, 1_us).collective("MPI_Alltoallv", 1_KiB, 50_us);
  EXPECT_EQ(place(run)["node1"].method, "realtime");
}

SyntheticRun chain(bool whole) {
  SyntheticRun run = test::run().ranks(10).steps(80).jitter(300_us).hosts(5, 0);
  for (int host = 1; host < 5; ++host) run.host_clock(host, host * 500_ms, 30 - 15 * host);
  run.split("a", 4);  // ranks 0-2, 3-4, 5-7, 8-9: hosts 0-1, 1-2, 2-3, 4
  run.split("b", 3);  // ranks 0-3, 4-6, 7-9: hosts 0-1, 2-3, 3-4
  run.compute(2_ms).on_comm("a").allreduce(64_B, 40_us).compute(1_ms);
  if (whole) run.on_comm("b").allreduce(64_B, 40_us);
  return run;
}

TEST_F(AlignClocks, AChainOfHostsAddsUpItsVariances) {
  auto hosts = place(chain(true));
  expect_within_three_sigma(hosts, 0);
  for (int host = 1; host < 5; ++host) {
    const Placement& nearer = hosts["node" + std::to_string(host - 1)];
    EXPECT_GT(*hosts["node" + std::to_string(host)].sigma_ns, *nearer.sigma_ns) << host;
  }
  EXPECT_NEAR(*hosts["node2"].drift_ppm, 0, 300);
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(AlignClocks, AHostThatNothingConnectsIsPlacedByDateAndSaidSo) {
  auto hosts = place(chain(false));
  EXPECT_EQ(hosts["node3"].method, "collectives");
  EXPECT_EQ(hosts["node4"].method, "realtime");
  EXPECT_FALSE(hosts["node4"].sigma_ns);
  EXPECT_FALSE(hosts["node4"].drift_ppm);
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 1);
  EXPECT_EQ(
      number(
          "SELECT count(*) FROM loss WHERE kind = 'clock' AND note LIKE '%(node4): no collective joins it to the others%'"),
      1);
}

TEST_F(AlignClocks, AClockThatJumpsIsNotCorrected) {
  auto hosts = place(job().steps(400).hosts(2, 0).host_clock(1, 3_s, 50).host_clock_step(1, 900_ms, 50_ms));
  EXPECT_FALSE(hosts["node0"].sigma_ns);
  EXPECT_FALSE(hosts["node1"].sigma_ns);
  EXPECT_EQ(number("SELECT count(*) FROM loss WHERE kind = 'clock' AND note LIKE '%even pace%'"), 2);
}

TEST_F(AlignClocks, TheJumpingHostIsTheOneThatIsLeftOut) {
  auto hosts = place(job().ranks(6).steps(400).hosts(3, 0).host_clock(2, 1_s, -20).host_clock_step(0, 900_ms, 50_ms));
  EXPECT_EQ(hosts["node0"].method, "realtime");
  EXPECT_EQ(hosts["node1"].method, "reference");
  EXPECT_EQ(hosts["node2"].method, "collectives");
  EXPECT_LT(*hosts["node2"].sigma_ns, 60'000);
  EXPECT_EQ(number("SELECT count(*) FROM loss WHERE kind = 'clock' AND note LIKE '%(node0)%even pace%'"), 1);
}

TEST_F(AlignClocks, AClockThatChangesItsPaceIsFollowed) {
  SyntheticRun run =
      test::run().ranks(4).steps(1500).jitter(200_us).hosts(2, 0).host_clock(1, 1_s, 20).host_clock_bend(1, 10_s, 100);
  run.compute(15_ms).allreduce(64_B, 30_us);
  auto hosts = place(run);
  expect_within_three_sigma(hosts, 0);
  EXPECT_LT(*hosts["node1"].sigma_ns, 200'000) << "1.2 ms off at the end";
}

TEST_F(AlignClocks, MessagesOfOurOwnPlaceJobsWithoutCollectives) {
  SyntheticRun run =
      test::run().ranks(6).steps(100).hosts(3, 0).host_clock(1, 3_s, 50).host_clock(2, -1_s, -70).clock_sync(40_us);
  run.compute(20_ms).message(0, 5, 1_KiB, 20_us);
  auto hosts = place(run);
  for (const char* name : {"node1", "node2"}) {
    EXPECT_EQ(hosts[name].method, "clock-sync");
    EXPECT_NEAR(*hosts[name].sigma_ns, 20'000 / std::sqrt(3), 1000);
  }
  EXPECT_NEAR(*hosts["node1"].drift_ppm, 50, 0.1) << "the way is as long there as back: nothing pulls the line";
  EXPECT_NEAR(*hosts["node2"].drift_ppm, -70, 0.1);
  EXPECT_EQ(number("SELECT max(start_ns) - min(start_ns) < 1000 FROM process"), 1);
}

TEST_F(AlignClocks, MessagesOfOurOwnNarrowWhatCollectivesTell) {
  SyntheticRun run = test::run().ranks(4).steps(100).jitter(1_ms).hosts(2, 0).host_clock(1, 3_s, 50).slow(3, 20_ms);
  run.compute(20_ms).allreduce(1_MiB, 2_ms);
  const double sigma_ns = *place(run)["node1"].sigma_ns;
  EXPECT_GT(sigma_ns, 3'000'000) << "one host is always last: only one side is known well";
  std::filesystem::remove_all(folder());
  EXPECT_LT(*place(run.clock_sync(60_us))["node1"].sigma_ns, sigma_ns / 2)
      << "CLOCK_MONOTONIC may be slewed between the ends";
  std::filesystem::remove_all(folder());
  auto hosts = place(run.tsc(2.5e9));
  EXPECT_LT(*hosts["node1"].sigma_ns, 30'000);
  EXPECT_EQ(hosts["node1"].method, "clock-sync");
  EXPECT_LT(static_cast<double>(hosts["node1"].worst_ns), 3 * *hosts["node1"].sigma_ns);
}

TEST_F(AlignClocks, ContainersOfOneMachineShareItsClock) {
  auto hosts = place(job().hosts(2, 0).one_boot());
  for (const char* name : {"node0", "node1"}) {
    EXPECT_EQ(hosts[name].method, "single-host");
    EXPECT_EQ(hosts[name].sigma_ns, 0);
    EXPECT_EQ(hosts[name].worst_ns, 0);
  }
}

TEST_F(AlignClocks, OneBootIdWithTwoClocksIsFoundOut) {
  auto hosts = place(job().steps(500).hosts(2, 0).one_boot().host_clock(1, 3_s, 50));
  EXPECT_EQ(hosts["node1"].method, "collectives");
  expect_within_three_sigma(hosts, 0);
}

TEST_F(AlignClocks, ManyMoreInstancesThanAreKept) {
  SyntheticRun run = test::run().ranks(4).steps(9000).no_steps().jitter(20_us).hosts(2, 0).host_clock(1, 3_s, 50);
  run.compute(100_us).allreduce(64_B, 10_us);
  auto hosts = place(run);
  expect_within_three_sigma(hosts, 0);
  EXPECT_LT(*hosts["node1"].sigma_ns, 25'000);
}

TEST_F(AlignClocks, TheSameSpoolsGiveTheSamePlaces) {
  place(chain(true));
  const Rows first = rows("SELECT * FROM host");
  ingest_again();
  EXPECT_EQ(rows("SELECT * FROM host"), first);
}

}  // namespace
}  // namespace ddl
