// Batches too small for the network, or larger than the noise of gradients asks for.
#include <cmath>

#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

/// 30 steps of 100 ms on two ranks: `xfer_ns` of them in an allreduce that nobody is late for.
Tables job(int64_t xfer_ns, double samples) {
  Tables run(2);
  for (int64_t s = 0; s < 30; ++s) {
    const int64_t begin_ns = s * 100_ms, enter_ns = begin_ns + 100_ms - xfer_ns;
    for (int64_t rank : {0, 1}) {
      run.step(rank, s, begin_ns, begin_ns + 100_ms, xfer_ns);
      if (samples > 0) run.value(rank, s, "samples", samples);
    }
    run.allreduce(s + 1, {enter_ns, enter_ns}, xfer_ns, 4'000'000, s);
  }
  return run;
}

/// Norms as if the squared norm of the true gradient were 1 and a sample's variance `noise`.
void norms(Tables& run, double samples, double noise) {
  for (int64_t s = 0; s < 30; ++s) {
    const double sway = 1 + 0.01 * static_cast<double>(s % 5 - 2);
    for (int64_t rank : {0, 1}) {
      run.value(rank, s, "local_gradient_norm", std::sqrt(1 + sway * noise / samples));
      run.value(rank, s, "gradient_norm", std::sqrt(1 + sway * noise / (2 * samples)));
    }
  }
}

TEST(BatchSize, TransfersThatAreALargePartOfTheStepAskForMoreSamples) {
  Tables run = job(30_ms, 32);
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"batch_too_small"});
  EXPECT_EQ(run.integer("SELECT saving_ns FROM finding"), 15'000'000) << "per today's step: half of 30 ms";
  EXPECT_EQ(run.text("SELECT sentence FROM finding"),
            "32 samples per rank are few for the network: 30% of the step are transfers that nothing hides");
  EXPECT_EQ(run.text("SELECT confidence FROM finding"), "maybe");
  EXPECT_EQ(run.integer("SELECT count(*) FROM (" + run.text("SELECT evidence_sql FROM finding") + ")"), 60);

  Tables silent = job(30_ms, 0);
  silent.analyze();
  EXPECT_EQ(silent.findings(), Ids{}) << "nobody said how large the batch is";
  Tables hidden = job(8_ms, 32);
  hidden.analyze();
  EXPECT_EQ(hidden.findings(), Ids{}) << "4 % are not worth it";
}

TEST(BatchSize, TheNoiseScaleBoundsIt) {
  Tables room = job(30_ms, 32);
  norms(room, 32, 1'000);
  room.analyze();
  ASSERT_EQ(room.findings(), Ids{"batch_too_small"});
  EXPECT_EQ(room.text("SELECT confidence FROM finding"), "likely");

  Tables full = job(30_ms, 32);
  norms(full, 32, 100);
  full.analyze();
  EXPECT_EQ(full.findings(), Ids{}) << "128 samples would be more than 100";

  // M = 64, phi = 8: half the batch makes 40 / 36 of today's progress per sample pair; it computes 35 of 70 ms.
  Tables large = job(30_ms, 32);
  norms(large, 32, 8);
  large.analyze();
  ASSERT_EQ(large.findings(), Ids{"batch_too_large"});
  EXPECT_NEAR(large.number("SELECT saving_ns FROM finding"), 100e6 - 65e6 * (16 + 64) / (8 + 64.0), 1e6);
}

TEST(BatchSize, IsKnownOnlyIfEveryRankSaysIt) {
  Tables half = job(30_ms, 32);
  half.exec("DELETE FROM value WHERE process = 2");
  half.analyze();
  EXPECT_EQ(half.findings(), Ids{}) << "what the other rank had nobody knows";

  Tables twice = job(30_ms, 32);  // two micro-batches a step
  for (int64_t s = 0; s < 30; ++s) {
    for (int64_t rank : {0, 1}) twice.value(rank, s, "samples", 32);
  }
  twice.analyze();
  ASSERT_EQ(twice.findings(), Ids{"batch_too_small"});
  EXPECT_TRUE(has(twice.text("SELECT sentence FROM finding"), "64 samples per rank"));
}

}  // namespace
}  // namespace ddl::test
