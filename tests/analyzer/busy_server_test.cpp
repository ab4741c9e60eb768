// A parameter server is found by its messages, and blamed where it is busy while all workers wait for it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analyzer/models/run_consistency.h"
#include "analyzer/query.h"
#include "reports/run_view.h"
#include "tests/analyzer/analyzed.h"

namespace ddl {
namespace {

using namespace test::literals;
using test::Analyzed;
using test::SyntheticRun;

/// Three workers compute, push one after the other to rank 0 and pull from it.
SyntheticRun server_job(int64_t transfer_ns) {
  SyntheticRun job = test::run().ranks(4).steps(12);
  for (int worker = 1; worker < 4; ++worker) job.on_rank(worker).compute(10_ms);
  for (int worker = 1; worker < 4; ++worker) job.message(worker, 0, 4_MiB, transfer_ns);
  for (int worker = 1; worker < 4; ++worker) job.message(0, worker, 4_MiB, transfer_ns);
  return job;
}

/// What its workers wait for rank 0 to send, mean over workers and steps: its messages, one after the other.
double server_wait_ms(int steps, double compute_ms, double transfer_ms) {
  double server = 0, waited = 0;
  std::array<double, 3> worker{};
  for (int step = 0; step < steps; ++step) {
    for (double& now : worker) {
      now += compute_ms;
      server = std::max(server, now) + transfer_ms;
      now += transfer_ms;
    }
    for (double& now : worker) {
      waited += std::max(0.0, server - now);
      now = std::max(now, server) + transfer_ms;
      server += transfer_ms;
    }
  }
  return waited / (3 * steps);
}

std::string busy_server_of(Analyzed& run) {
  Query row(run.db, "SELECT sentence FROM finding WHERE id = ?1");
  return row.bind(std::string("busy_server")).next() ? row.text(0) : "";
}

TEST(BusyServer, ItsLinkIsBlamed) {
  Analyzed run(server_job(5_ms));
  const std::string wanted = fmt::format(
      "a parameter server whose link cannot keep up: 3 workers wait {:.3g} ms/step for it", server_wait_ms(12, 10, 5));
  EXPECT_TRUE(busy_server_of(run).ends_with(wanted)) << busy_server_of(run) << "\n" << wanted;
}

TEST(BusyServer, AServerThatWaitsIsNotBlamed) {
  Analyzed run(server_job(100_us));
  const auto found = models::parameter_server_of(run.db, reports::RunView(run.db, std::nullopt).world);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->servers, std::vector<int64_t>{0});
  EXPECT_EQ(found->workers, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(found->pushes, 3 * 12);
  EXPECT_EQ(busy_server_of(run), "");
}

/// All ranks of a ring exchange with both neighbours: nobody is served. In a chain of three it takes computing to tell.
TEST(BusyServer, RingsAndChainsHaveNone) {
  for (const int ranks : {3, 4, 6}) {
    Analyzed ring(test::run().ranks(ranks).steps(8).compute(10_ms).halo(1_MiB, 1_ms));
    EXPECT_FALSE(models::parameter_server_of(ring.db, reports::RunView(ring.db, std::nullopt).world)) << ranks;
  }
  SyntheticRun chain = test::run().ranks(3).steps(12).compute(10_ms);
  for (const auto& [from, to] : {std::pair(0, 1), {1, 0}, {1, 2}, {2, 1}}) chain.message(from, to, 1_MiB, 1_ms);
  Analyzed run(chain);
  EXPECT_FALSE(models::parameter_server_of(run.db, reports::RunView(run.db, std::nullopt).world));
}

}  // namespace
}  // namespace ddl
