// Folded stacks against the partition of the time in the store: they are two roads to the same numbers.
#include "reports/folded.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "core/error.h"
#include "tests/analyzer/analyzed.h"

namespace ddl::reports {
namespace {

using namespace test::literals;

struct Folded {
  std::map<std::string, int64_t> lines;
  FoldedSummary summary;
};

Folded fold(test::Analyzed& run) {
  std::string text;
  Folded folded;
  const RunView view(run.db, std::nullopt);
  folded.summary = write_folded(view, [&](std::string_view part) { text += part; });
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(folded.lines.emplace(line.substr(0, space), std::stoll(line.substr(space + 1))).second) << line;
  }
  return folded;
}

int64_t sum(const Folded& folded, const std::string& begin, const std::string& part = "") {
  int64_t ns = 0;
  for (const auto& [line, value] : folded.lines)
    if (line.starts_with(begin) && line.find(part) != std::string::npos) ns += value;
  return ns;
}

/// Each rank's lines against v_step.
void expect_partition_of(test::Analyzed& run, const std::function<void(const Folded&)>& more) {
  const Folded folded = fold(run);
  more(folded);
  SQLite::Statement rank(
      run.db,
      "SELECT rank, sum(duration_ns), sum(exposed_ns), sum(wait_ns), count(*) FROM v_step WHERE comm_ns IS NOT NULL GROUP BY rank");
  int64_t ranks = 0, steps = 0;
  while (rank.executeStep()) {
    const std::string name = "rank " + std::to_string(rank.getColumn(0).getInt64()) + ";";
    EXPECT_EQ(sum(folded, name), rank.getColumn(1).getInt64()) << name;
    EXPECT_EQ(sum(folded, name, "MPI_") + sum(folded, name, ";calls that found nothing"), rank.getColumn(2).getInt64())
        << name;
    EXPECT_EQ(sum(folded, name, ";waiting"), rank.getColumn(3).getInt64()) << name;
    ++ranks;
    steps += rank.getColumn(4).getInt64();
  }
  EXPECT_EQ(folded.summary.ranks, ranks);
  EXPECT_EQ(folded.summary.steps, steps);
  EXPECT_GT(ranks, 0);
}

void expect_partition(test::Analyzed& run) {
  expect_partition_of(run, [](const Folded&) {});
}

test::SyntheticRun layered() {
  return test::run()
      .ranks(4)
      .steps(20)
      .forward("conv1", 20_ms)
      .forward("fc", 3_ms)
      .backward("conv1", 30_ms)
      .allreduce(4_MiB, 5_ms)
      .slow(2, 25_ms);
}

TEST(Folded, PathsAreThoseOfTheProgram) {
  test::Analyzed run(layered());
  const Folded folded = fold(run);
  EXPECT_EQ(folded.lines.at("rank 0;step;forward;conv1"), 20 * 20'000'000);
  EXPECT_EQ(folded.lines.at("rank 0;step;forward;fc"), 20 * 3'000'000);
  EXPECT_EQ(folded.lines.at("rank 3;step;backward;conv1"), 20 * 30'000'000);
  EXPECT_EQ(sum(folded, "rank 0;", "MPI_Allreduce;waiting"), 20 * 25'000'000);
  EXPECT_EQ(sum(folded, "rank 0;", "MPI_Allreduce"), 20 * 30'000'000);
  EXPECT_EQ(sum(folded, "rank 2;", "MPI_Allreduce"), 20 * 5'000'000);
  EXPECT_EQ(sum(folded, "rank 2;", "waiting"), 0);
}

TEST(Folded, AddUpToThePartition) {
  test::Analyzed blocking(layered());
  expect_partition(blocking);
  test::Analyzed in_flight(test::run()
                               .ranks(4)
                               .steps(20)
                               .compute(5_ms)
                               .iallreduce(8_MiB, 6_ms)
                               .compute(2_ms)
                               .iallreduce(1_MiB, 1_ms)
                               .compute(1_ms)
                               .jitter(500_us)
                               .waitall()
                               .slow(1, 4_ms));
  expect_partition(in_flight);
  test::Analyzed messages(test::run()
                              .ranks(4)
                              .steps(20)
                              .compute(3_ms)
                              .jitter(1_ms)
                              .sendrecv_ring(1_MiB, 400_us)
                              .halo(64_KiB, 100_us)
                              .slow(1, 2_ms));
  expect_partition(messages);
  test::Analyzed incomplete(layered().missing(3));
  expect_partition(incomplete);
}

TEST(Folded, WaitingThatIsNotKnownIsNoLine) {
  test::Analyzed run(layered());
  run.db.exec("UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'CLOCK_UNTRUSTED' WHERE step < 7");
  expect_partition(run);
}

/// The profile knows 2 ms more inside MPI in every step than its events do: polls.
TEST(Folded, CallsWithoutAnEventAreALineOfTheirOwn) {
  test::Analyzed run(layered());
  run.db.exec("UPDATE step_part SET exposed_ns = exposed_ns + 2000000, compute_ns = compute_ns - 2000000");
  expect_partition_of(run, [](const Folded& folded) {
    EXPECT_EQ(folded.lines.at("rank 0;step;calls that found nothing"), 20 * 2'000'000);
    EXPECT_EQ(folded.lines.at("rank 2;step"), 20 * (25'000'000 - 2'000'000)) << "outside its ranges first";
  });
}

TEST(Folded, StepsWhoseEventsWereNotKeptAreLeftOut) {
  test::Analyzed run(layered());
  run.db.exec("UPDATE step_part SET comm_ns = NULL WHERE step % 2 = 1");
  expect_partition_of(run, [](const Folded& folded) { EXPECT_EQ(folded.summary.left_out, 4 * 10); });
}

TEST(Folded, AJobWithoutStepsIsItsRun) {
  test::Analyzed run(test::run().ranks(2).steps(3).no_steps().compute(10_ms).allreduce(1_MiB, 1_ms).slow(1, 5_ms));
  const Folded folded = fold(run);
  EXPECT_EQ(folded.summary.steps, 0);
  SQLite::Statement rank(run.db, "SELECT rank, duration_ns, exposed_ns, wait_ns FROM v_rank_part");
  while (rank.executeStep()) {
    const std::string name = "rank " + std::to_string(rank.getColumn(0).getInt64()) + ";run";
    EXPECT_EQ(sum(folded, name), rank.getColumn(1).getInt64());
    EXPECT_EQ(sum(folded, name, "MPI_") + sum(folded, name, ";calls that found nothing"), rank.getColumn(2).getInt64());
    EXPECT_EQ(sum(folded, name, ";waiting"), rank.getColumn(3).getInt64());
  }
}

/// Background threads communicate for rank 0: of each of its steps of 83 ms, 50 ms computed, 20 ms exposed, of which it
/// waited 15, 13 ms otherwise blocked. It polls nothing, and where it waits no call of its own says.
TEST(Folded, OfTrainingThreadsThePartsAreKnown) {
  test::Analyzed run(layered());
  run.db.exec("INSERT INTO background_process VALUES (1, NULL, 1, NULL)");
  run.db.exec(
      "UPDATE step_part SET compute_ns = 50000000, comm_ns = 20000000, exposed_ns = 20000000, wait_ns = 15000000,"
      " xfer_ns = 5000000, idle_ns = 13000000 WHERE process = 1");
  const Folded folded = fold(run);
  std::map<std::string, int64_t> own;
  for (const auto& [line, ns] : folded.lines)
    if (line.starts_with("rank 0;")) own.emplace(line, ns / 20);
  EXPECT_EQ(own, (std::map<std::string, int64_t>{{"rank 0;step", 50'000'000},
                                                 {"rank 0;step;exposed transfer", 5'000'000},
                                                 {"rank 0;step;waiting", 15'000'000},
                                                 {"rank 0;step;blocked", 13'000'000}}));
  EXPECT_EQ(sum(folded, "rank 1;", ";waiting"), 20 * 25'000'000) << "the others as before";
  EXPECT_EQ(folded.summary.steps, 4 * 20);

  run.db.exec("UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'NO_DATA' WHERE process = 1");
  const Folded unsplit = fold(run);
  EXPECT_EQ(unsplit.lines.at("rank 0;step;exposed communication"), 20 * 20'000'000);
  EXPECT_EQ(sum(unsplit, "rank 0;", ";waiting") + sum(unsplit, "rank 0;", ";exposed transfer"), 0);
}

TEST(Folded, WhereNoTrainingThreadWasSampledTheErrorSaysSo) {
  test::Analyzed run(layered());
  run.db.exec(
      "INSERT INTO background_process SELECT id, NULL, 0, NULL FROM process; DELETE FROM step_part; DELETE FROM rank_part");
  try {
    fold(run);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no training thread was sampled"), std::string::npos) << error.what();
  }
}

TEST(Folded, NamesCannotBreakALine) {
  test::Analyzed run(layered().names(test::hostile_names()));
  run.db.exec("UPDATE region SET name = 'a;b' || char(10) || '7' WHERE name = 'fc'");
  const Folded folded = fold(run);
  EXPECT_TRUE(folded.lines.contains("rank 0;step;forward;a:b\\x0a7"));
  for (const auto& [line, ns] : folded.lines)
    for (const char c : line) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20) << line;
}

}  // namespace
}  // namespace ddl::reports
