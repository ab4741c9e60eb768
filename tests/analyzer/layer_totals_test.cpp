// Table layer_total, which is summed while steps are cut, against the view that computes the same of each rank
// from what is stored.
#include <gtest/gtest.h>

#include "tests/analyzer/analyzed.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {
namespace {

using namespace literals;

void expect_sums_of_the_view(const std::string& what, SyntheticRun job) {
  Analyzed run(job);
  constexpr const char* kOfView =
      "SELECT world, layer, phase, sum(calls), sum(compute_ns), sum(exposed_ns), sum(wait_ns) FROM v_layer GROUP BY world, layer, phase";
  constexpr const char* kOfTable =
      "SELECT world, layer, phase, calls, compute_ns, exposed_ns, wait_ns FROM layer_total";
  const auto left_of = [&](const std::string& a, const std::string& b) {
    return run.integer("SELECT count(*) FROM (" + a + " EXCEPT " + b + ")");
  };
  EXPECT_GT(run.integer("SELECT count(*) FROM layer_total WHERE wait_ns > 0 AND compute_ns > 0"), 0) << what;
  EXPECT_EQ(left_of(kOfView, kOfTable), 0) << what;
  EXPECT_EQ(left_of(kOfTable, kOfView), 0) << what;
}

TEST(LayerTotals, AreTheSumsOfTheView) {
  const auto of_layers = [] {
    return run()
        .ranks(4)
        .steps(20)
        .slow(2, 3_ms)
        .forward("conv", 4_ms)
        .layer("head")
        .layer("inner", 1_ms)
        .compute(1_ms);
  };
  expect_sums_of_the_view("blocking collectives",
                          of_layers().allreduce(1_MiB, 1_ms).end_layer().backward("conv", 6_ms).allreduce(1_MiB, 1_ms));
  expect_sums_of_the_view("non-blocking collectives",
                          of_layers().iallreduce(1_MiB, 1_ms).compute(1_ms).waitall().end_layer());
  expect_sums_of_the_view(
      "messages",
      of_layers().sendrecv_ring(1_MiB, 1_ms).end_layer().layer("tail").message(2, 0, 1_MiB, 1_ms, true).end_layer());
  expect_sums_of_the_view("a rank without a record", of_layers().allreduce(1_MiB, 1_ms).end_layer().missing(1));
  expect_sums_of_the_view("a rank that keeps every other step",
                          of_layers().allreduce(1_MiB, 1_ms).end_layer().keep_level(1, 1));
  expect_sums_of_the_view("inferred layers", run()
                                                 .ranks(4)
                                                 .steps(30)
                                                 .no_steps()
                                                 .slow(2, 3_ms)
                                                 .compute(5_ms)
                                                 .allreduce(1_MiB, 1_ms)
                                                 .compute(2_ms)
                                                 .allreduce(2_MiB, 1_ms));
}

}  // namespace
}  // namespace ddl::test
