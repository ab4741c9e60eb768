// Fits of times made from a known link get it back; what cannot carry a fit is refused.
#include "analyzer/models/link_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analyzer/models/run_facts.h"
#include "core/error.h"
#include "tests/analyzer/analyzed.h"

namespace ddl::models {
namespace {

using namespace test::literals;

const Link kTruth = {20e-6, 1 / 12.5e9, 1 / 50e9};

std::vector<Sample> samples(const std::vector<Collective>& collectives, const std::vector<double>& sizes,
                            double noise = 0, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> error(0, noise);
  std::vector<Sample> all;
  for (const Collective c : collectives)
    for (const double bytes : sizes) {
      const double s =
          collective_work(c, Algorithm::kRing, 8, bytes).seconds(kTruth) * (1 + (noise > 0 ? error(random) : 0));
      all.push_back({c, 8, bytes, s, 10});
    }
  return all;
}

const std::vector<double> kSizes = {1e3, 1e4, 1e5, 1e6, 1e7, 1e8};

TEST(LinkFit, AllreduceAloneTellsAlphaAndBetaWithGammaInside) {
  const LinkFit fit = fit_link(samples({Collective::kAllreduce}, kSizes), Algorithm::kRing);
  EXPECT_NEAR(fit.link.alpha_s, kTruth.alpha_s, kTruth.alpha_s * 1e-9);
  EXPECT_NEAR(fit.link.beta_s_per_byte, kTruth.beta_s_per_byte + kTruth.gamma_s_per_byte / 2, 1e-18);
  EXPECT_TRUE(fit.gamma_in_beta);
  EXPECT_EQ(fit.link.gamma_s_per_byte, 0);
  EXPECT_NEAR(fit.r2, 1, 1e-12);
  EXPECT_EQ(fit.sizes, 6u);
}

// Small messages go at once, large ones wait for their receiver and then run at the link's speed.
TEST(LinkFit, TwoProtocolsAreTwoFitsEachWithItsRange) {
  const Link eager = {2e-6, 1 / 1.5e9, 0}, rendezvous = {60e-6, 1 / 12e9, 0};
  std::mt19937 random(20261124);
  for (const double noise : {0.0, 0.03}) {
    std::normal_distribution<double> error(0, noise);
    std::vector<Sample> all;
    for (double bytes = 1024; bytes <= 256 << 20; bytes *= 2) {
      const Link& link = bytes <= 65536 ? eager : rendezvous;
      const double s = collective_work(Collective::kAllgather, Algorithm::kRing, 8, bytes).seconds(link) *
                       (1 + (noise > 0 ? error(random) : 0));
      all.push_back({Collective::kAllgather, 8, bytes, s, 10});
    }
    std::shuffle(all.begin(), all.end(), random);
    const std::vector<LinkFit> fits = fit_links(all, Algorithm::kRing);
    ASSERT_EQ(fits.size(), 2u) << noise;
    EXPECT_EQ(fits[0].from_bytes, 1024);
    EXPECT_EQ(fits[0].to_bytes, 65536);
    EXPECT_EQ(fits[1].from_bytes, 131072);
    EXPECT_EQ(fits[1].to_bytes, 256 << 20);
    EXPECT_NEAR(fits[0].link.alpha_s, eager.alpha_s, (noise + 1e-9) * eager.alpha_s * 4);
    EXPECT_NEAR(fits[1].link.alpha_s, rendezvous.alpha_s, (noise + 1e-9) * rendezvous.alpha_s * 4);
    EXPECT_NEAR(fits[1].link.beta_s_per_byte, rendezvous.beta_s_per_byte,
                (noise + 1e-9) * rendezvous.beta_s_per_byte * 4);
    for (const LinkFit& fit : fits) EXPECT_LE(fit.worst_residual, 4 * noise + 1e-9);
    EXPECT_EQ(fit_link(all, Algorithm::kRing).from_bytes, 131072) << "models take the law of large operations";
  }
}

TEST(LinkFit, OneLawWithNoiseStaysOne) {
  int cut = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::vector<double> sizes;
    for (double bytes = 1024; bytes <= 64 << 20; bytes *= 2) sizes.push_back(bytes);
    cut += fit_links(samples({Collective::kAllreduce}, sizes, 0.1, seed), Algorithm::kRing).size() > 1;
  }
  EXPECT_LE(cut, 6);
}

TEST(LinkFit, AKnownGammaIsTakenOut) {
  const LinkFit fit = fit_link(samples({Collective::kAllreduce}, kSizes), Algorithm::kRing, kTruth.gamma_s_per_byte);
  EXPECT_NEAR(fit.link.beta_s_per_byte, kTruth.beta_s_per_byte, 1e-18);
  EXPECT_EQ(fit.link.gamma_s_per_byte, kTruth.gamma_s_per_byte);
  EXPECT_FALSE(fit.gamma_in_beta);
}

TEST(LinkFit, AllgatherBesideAllreduceTellsGamma) {
  const LinkFit fit = fit_link(samples({Collective::kAllreduce, Collective::kAllgather}, kSizes), Algorithm::kRing);
  EXPECT_FALSE(fit.gamma_in_beta);
  EXPECT_NEAR(fit.link.alpha_s, kTruth.alpha_s, kTruth.alpha_s * 1e-6);
  EXPECT_NEAR(fit.link.beta_s_per_byte, kTruth.beta_s_per_byte, kTruth.beta_s_per_byte * 1e-6);
  EXPECT_NEAR(fit.link.gamma_s_per_byte, kTruth.gamma_s_per_byte, kTruth.gamma_s_per_byte * 1e-6);
}

TEST(LinkFit, NoiseMovesItByAboutTheStatedError) {
  int inside = 0;
  constexpr int kTimes = 200;
  for (uint32_t seed = 0; seed < kTimes; ++seed) {
    const LinkFit fit = fit_link(samples({Collective::kAllreduce, Collective::kReduceScatter}, kSizes, 0.02, seed),
                                 Algorithm::kRing, kTruth.gamma_s_per_byte);
    EXPECT_NEAR(fit.link.alpha_s, kTruth.alpha_s, kTruth.alpha_s * 0.05);
    EXPECT_GT(fit.r2, 0.99);
    inside += std::abs(fit.link.alpha_s - kTruth.alpha_s) < 2 * fit.alpha_error_s ? 1 : 0;
  }
  EXPECT_GE(inside, kTimes * 0.85);  // two standard errors: 93 % with ten degrees of freedom
  EXPECT_LE(inside, kTimes * 0.99);
}

std::string refusal(const std::vector<Sample>& data) {
  try {
    fit_link(data, Algorithm::kRing);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDataMissing);
    EXPECT_FALSE(error.hint().empty());
    return error.what();
  }
  return "";
}

TEST(LinkFit, RefusesWhatCannotCarryIt) {
  EXPECT_TRUE(test::has(refusal({}), "0 distinct sizes"));
  EXPECT_TRUE(test::has(refusal(samples({Collective::kAllreduce}, {1e3, 1e4, 1e5})), "3 distinct sizes"));
  EXPECT_EQ(refusal(samples({Collective::kAllreduce}, {1e3, 1e4, 1e5, 1e6})), "");

  std::vector<Sample> falling = samples({Collective::kAllreduce}, kSizes);
  for (Sample& s : falling) s.transfer_s = 1e-3 / (1 + s.bytes * 1e-6);
  EXPECT_NE(refusal(falling), "");

  std::vector<Sample> scattered = samples({Collective::kAllreduce}, kSizes);
  const double factors[] = {30, 0.1, 40, 0.05, 3, 0.5};
  for (size_t i = 0; i < scattered.size(); ++i) scattered[i].transfer_s *= factors[i];
  EXPECT_TRUE(test::has(refusal(scattered), "R2 is")) << refusal(scattered);
}

TEST(LinkFit, LatencyBelowWhatTheDataShowIsZeroNotNegative) {
  std::vector<Sample> data = samples({Collective::kAllreduce}, {1e7, 2e7, 4e7, 8e7, 16e7});
  for (Sample& s : data) s.transfer_s = 1e-9 * s.bytes - 1e-3;
  const LinkFit fit = fit_link(data, Algorithm::kRing);
  EXPECT_TRUE(fit.alpha_is_zero);
  EXPECT_EQ(fit.link.alpha_s, 0);
}

TEST(LinkFit, OperationsThatHaveAModel) {
  EXPECT_EQ(collective_of("MPI_Allreduce"), Collective::kAllreduce);
  EXPECT_EQ(collective_of("ncclAllReduce"), Collective::kAllreduce);
  EXPECT_EQ(collective_of("MPI_Reduce_scatter_block"), Collective::kReduceScatter);
  EXPECT_EQ(collective_of("MPI_Bcast"), Collective::kBroadcast);
  EXPECT_EQ(collective_of("MPI_Alltoall"), std::nullopt);
  EXPECT_EQ(collective_of("MPI_Barrier"), std::nullopt);
}

TEST(LinkFit, FromARunItReadsTransferNotWaiting) {
  // Rank 1 is 30 ms late for everything: raw times would say alpha is 30 ms.
  auto job = test::run().ranks(4).steps(10).slow(1, 30_ms);
  const Link truth = {50e-6, 1e-9, 0};
  for (const int64_t bytes : {4_KiB, 64_KiB, 1_MiB, 16_MiB})
    job.compute(1_ms).allreduce(
        bytes, std::llround(allreduce_seconds(Algorithm::kRing, 4, static_cast<double>(bytes), truth) * 1e9));
  test::Analyzed run(job);
  const LinkFit fit = fit_link(samples_of(measured_collectives(run.db, 0)), Algorithm::kRing);
  EXPECT_NEAR(fit.link.alpha_s, truth.alpha_s, truth.alpha_s * 1e-3);
  EXPECT_NEAR(fit.link.beta_s_per_byte, truth.beta_s_per_byte, truth.beta_s_per_byte * 1e-3);
  EXPECT_GT(fit.r2, 0.9999);
}

}  // namespace
}  // namespace ddl::models
