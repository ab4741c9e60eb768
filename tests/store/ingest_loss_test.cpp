// Runs that are not whole: missing ranks, killed and hung ones, torn spools; what is left is kept and what is gone is
// said.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/store/store_fixture.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;
using test::Truth;

class IngestLossTest : public StoreTest {
 protected:
  int64_t events_of(int rank) {
    return number("SELECT count(*) FROM event e JOIN process p ON p.id = e.process WHERE p.rank = " +
                  std::to_string(rank));
  }
};

TEST_F(IngestLossTest, MissingRanksAreNamed) {
  ingest_run(test::run().ranks(8).steps(2).compute(1_ms).barrier().missing(2).missing(5).missing(6).missing(7));
  EXPECT_EQ(rows("SELECT world, rank, kind, count, note FROM loss"),
            (Rows{{"0", "NULL", "missing_rank", "4", "of 8 ranks left no spool: rank 2, 5-7"}}));
  EXPECT_EQ(number("SELECT count(*) FROM process"), 4);
  EXPECT_EQ(number("SELECT size FROM communicator WHERE kind = 'world'"), 8);
  EXPECT_EQ(number("SELECT count(*) FROM communicator_member"), 8);
}

TEST_F(IngestLossTest, AKilledRankKeepsAllThatItCompleted) {
  const Truth truth = ingest_run(test::run().ranks(3).steps(10).compute(1_ms).allreduce(1_MiB, 1_ms).killed(1, 6));
  EXPECT_EQ(rows("SELECT rank, ended FROM process ORDER BY rank"), (Rows{{"0", "lost"}, {"1", "lost"}, {"2", "lost"}}));
  EXPECT_EQ(number("SELECT count(*) FROM loss WHERE kind = 'killed' AND rank = 1 AND count = 1"), 1);
  EXPECT_EQ(
      number("SELECT count(*) FROM event e JOIN process p ON p.id = e.process WHERE p.rank = 1 AND e.seq IS NOT NULL"),
      6)
      << "steps 0 to 5 were whole";
  ASSERT_TRUE(truth.has_open_call(1));
  EXPECT_EQ(rows("SELECT op, comm, seq, step, start_ns FROM v_open_call WHERE rank = 1"),
            (Rows{{"MPI_Allreduce", "MPI_COMM_WORLD", "7", "6", std::to_string(truth.open_call(1).enter_ns)}}));
  EXPECT_EQ(
      number(
          "SELECT count(*) FROM step s JOIN process p ON p.id = s.process WHERE p.rank = 1 AND s.duration_ns IS NULL"),
      1)
      << "the step it died in";
}

TEST_F(IngestLossTest, AHungJobShowsWhereEverybodySits) {
  const Truth truth = ingest_run(test::run().ranks(4).steps(8).compute(1_ms).allreduce(1_MiB, 1_ms).hang(2, 5));
  EXPECT_FALSE(truth.has_open_call(2));
  EXPECT_EQ(
      rows("SELECT rank, op, seq, step FROM v_open_call ORDER BY rank"),
      (Rows{{"0", "MPI_Allreduce", "6", "5"}, {"1", "MPI_Allreduce", "6", "5"}, {"3", "MPI_Allreduce", "6", "5"}}));
  for (const int rank : {0, 1, 3})
    EXPECT_EQ(number("SELECT start_ns FROM v_open_call WHERE rank = " + std::to_string(rank)),
              truth.open_call(rank).enter_ns);
}

TEST_F(IngestLossTest, AnAbortIsToldWithItsCode) {
  ingest_run(test::run().ranks(2).steps(4).compute(1_ms).allreduce(1_KiB, 1_ms).aborts(1, 2, 42));
  EXPECT_EQ(rows("SELECT ended, abort_code FROM process WHERE rank = 1"), (Rows{{"aborted", "42"}}));
}

TEST_F(IngestLossTest, AThinnedLogKeepsWholeSteps) {
  ingest_run(test::run().ranks(2).steps(16).compute(1_ms).allreduce(1_KiB, 1_ms).keep_level(1, 2));
  EXPECT_EQ(number("SELECT keep_level FROM process WHERE rank = 1"), 2);
  EXPECT_EQ(
      rows(
          "SELECT step FROM event e JOIN process p ON p.id = e.process WHERE p.rank = 1 AND seq IS NOT NULL AND step IS NOT NULL "
          "ORDER BY 1"),
      (Rows{{"0"}, {"4"}, {"8"}, {"12"}}));
  EXPECT_EQ(number("SELECT calls FROM v_call WHERE rank = 1 AND op = 'MPI_Allreduce'"), 16)
      << "the profile counts them all";
  EXPECT_GT(number("SELECT count FROM loss WHERE kind = 'not_kept' AND rank = 1"), 0);
}

TEST_F(IngestLossTest, ATruncatedSpoolGivesWhatIsLeftAndTheBytesThatAreNot) {
  ingest_run(test::run().ranks(2).steps(1000).compute(1_ms).allreduce(1_KiB, 1_ms));
  const int64_t before = events_of(1), other = events_of(0);
  const fs::path spool = folder() / text("SELECT spool FROM process WHERE rank = 1");
  const auto bytes = fs::file_size(spool);
  fs::resize_file(spool, bytes - 20000);
  ingest_again();
  EXPECT_EQ(events_of(0), other);
  EXPECT_LE(events_of(1), before);
  EXPECT_EQ(rows("SELECT rank, kind, count FROM loss"), (Rows{{"1", "torn_spool", "20000"}}));
  EXPECT_NE(text("SELECT note FROM loss").find(spool.filename().string()), std::string::npos);
}

TEST_F(IngestLossTest, ASpoolThatCannotBeReadIsALossOfTheRun) {
  ingest_run(test::run().ranks(3).steps(2).compute(1_ms).barrier());
  const fs::path spool = folder() / text("SELECT spool FROM process WHERE rank = 1");
  std::ofstream(spool, std::ios::in) << "XXXX";  // its magic
  ingest_again();
  EXPECT_EQ(rows("SELECT kind, count FROM loss ORDER BY kind"),
            (Rows{{"missing_rank", "1"}, {"torn_spool", std::to_string(fs::file_size(spool))}}));
  EXPECT_EQ(number("SELECT count(*) FROM process"), 2);
}

TEST_F(IngestLossTest, NothingReadableIsAnError) {
  fs::create_directories(folder());
  const Error empty = error_of([&] { ingest(run()); });
  EXPECT_EQ(empty.code(), ExitCode::kDataMissing);
  EXPECT_FALSE(empty.hint().empty());
  std::ofstream(folder() / "a.spool") << "no spool";
  EXPECT_EQ(error_of([&] { ingest(run()); }).code(), ExitCode::kDataMissing);
  EXPECT_FALSE(fs::exists(run().store));
}

}  // namespace
}  // namespace ddl
