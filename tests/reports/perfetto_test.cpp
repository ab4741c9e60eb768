// What becomes a track of the Perfetto export, and what does not; perfetto.py reads whole files.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "reports/trace/traces.h"
#include "tests/analyzer/analyzed.h"

namespace ddl::reports {
namespace {

using namespace test::literals;

/// Tracks that show the time between calls as computing.
int compute_tracks(test::Analyzed& run) {
  std::string trace;
  write_perfetto(
      RunView(run.db, std::nullopt), {}, [&](std::string_view part) { trace += part; }, [](double) {});
  int count = 0;
  for (size_t at = 0; (at = trace.find("compute, thread", at)) != std::string::npos; ++at) ++count;
  return count;
}

/// What the thread that opens steps does outside its own calls is computing, unless others communicate for it, or the
/// trace tells what computes.
TEST(Perfetto, TimeBetweenCallsIsComputingOnlyWhereCallsShowIt) {
  test::Analyzed run(test::run().ranks(4).steps(12).compute(10_ms).allreduce(1_MiB, 2_ms));
  EXPECT_EQ(compute_tracks(run), 4);
  run.db.exec("INSERT INTO background_process VALUES (1, NULL, 1, NULL)");
  EXPECT_EQ(compute_tracks(run), 3);
  run.db.exec("INSERT INTO process_fact VALUES (2, 'computes', 'layers')");
  EXPECT_EQ(compute_tracks(run), 2);
}

}  // namespace
}  // namespace ddl::reports
