// Lanes and critical paths of virtual jobs whose every moment is known.
#include "reports/html/step_lanes.h"

#include <gtest/gtest.h>

#include "reports/html/figure.h"
#include "tests/analyzer/analyzed.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"
#include "tests/support/training_job.h"

namespace ddl::reports::html {
namespace {

using namespace test::literals;
using test::Analyzed;

struct Part {
  int64_t rank, begin_ns, end_ns;  // since the begin of the step
  friend bool operator==(const Part&, const Part&) = default;
};
void PrintTo(const Part& part, std::ostream* out) {
  *out << "rank " << part.rank << " [" << part.begin_ns << ", " << part.end_ns << ")";
}

std::vector<Part> path_of(StepLanes& lanes) {
  std::vector<Part> parts;
  for (const PathPart& part : critical_path(lanes))
    parts.push_back(
        {part.rank, part.interval.begin_ns - lanes.window().begin_ns, part.interval.end_ns - lanes.window().begin_ns});
  return parts;
}

TEST(StepLanes, TellWaitingFromTransferInTime) {
  Analyzed run(test::run().ranks(3).steps(12).compute(10_ms).allreduce(1_MiB, 2_ms).slow(1, 5_ms));
  const RunView view(run.db, std::nullopt);
  StepLanes lanes(view, 7);
  EXPECT_EQ(lanes.ranks(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(lanes.window().length_ns(), 17_ms);
  const int64_t begin_ns = lanes.window().begin_ns;
  const Lane& waiter = lanes.lane(2);
  EXPECT_EQ(waiter.compute.parts(), (std::vector<Interval>{{begin_ns, begin_ns + 10_ms}}));
  EXPECT_EQ(waiter.wait.parts(), (std::vector<Interval>{{begin_ns + 10_ms, begin_ns + 15_ms}}));
  EXPECT_EQ(waiter.transfer.parts(), (std::vector<Interval>{{begin_ns + 15_ms, begin_ns + 17_ms}}));
  EXPECT_TRUE(lanes.lane(1).wait.empty());
}

TEST(StepLanes, AreThoseOfTheFirstUseOfANumber) {
  Analyzed run(test::run().ranks(3).steps(12).epochs(3).compute(10_ms).allreduce(1_MiB, 2_ms).slow(1, 5_ms));
  const RunView view(run.db, std::nullopt);
  const StepLanes lanes(view, 7);
  EXPECT_EQ(lanes.ranks(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(lanes.window().length_ns(), 17_ms);
}

TEST(StepLanes, ThePathGoesOnWithTheOneThatCameLast) {
  Analyzed run(test::run().ranks(3).steps(12).compute(10_ms).allreduce(1_MiB, 2_ms).slow(1, 5_ms));
  const RunView view(run.db, std::nullopt);
  StepLanes lanes(view, 7);
  EXPECT_EQ(path_of(lanes), (std::vector<Part>{{1, 0, 15_ms}, {0, 15_ms, 17_ms}}));
}

TEST(StepLanes, ThePathGoesOnWithALateSender) {
  Analyzed run(
      test::run().ranks(2).steps(12).on_rank(0).compute(10_ms).message(0, 1, 1_MiB, 1_ms).on_rank(1).compute(4_ms));
  const RunView view(run.db, std::nullopt);
  StepLanes lanes(view, 7);
  EXPECT_EQ(path_of(lanes), (std::vector<Part>{{0, 0, 10_ms}, {1, 10_ms, 15_ms}}));
  EXPECT_EQ(lanes.lane(1).wait.length_ns(), 6_ms) << "its step begins 4 ms after that of rank 0";
}

TEST(StepLanes, ARankThatWaitsForNobodyIsTheWholePath) {
  Analyzed run(test::run().ranks(2).steps(12).compute(3_ms));
  const RunView view(run.db, std::nullopt);
  StepLanes lanes(view, 7);
  EXPECT_EQ(path_of(lanes), (std::vector<Part>{{0, 0, 3_ms}}));
}

TEST(StepLanes, AreThoseOfTheStepsParts) {
  // What the figure draws adds up to what the analyzer told of the same step, whatever the job does.
  Analyzed run(test::run()
                   .ranks(4)
                   .steps(12)
                   .compute(3_ms)
                   .iallreduce(1_MiB, 4_ms)
                   .compute(1_ms)
                   .waitall()
                   .halo(64_KiB, 200_us)
                   .bcast(1_KiB, 10_us)
                   .allreduce(8_B, 5_us)
                   .jitter(300_us)
                   .slow(2, 2_ms));
  const RunView view(run.db, std::nullopt);
  for (const int64_t step : {6, 9}) {
    StepLanes lanes(view, step);
    ASSERT_EQ(lanes.ranks().size(), 4u);
    for (const int64_t rank : lanes.ranks()) {
      SQLite::Statement row(run.db, "SELECT compute_ns, exposed_ns, wait_ns FROM v_step WHERE rank = ? AND step = ?");
      row.bind(1, rank);
      row.bind(2, step);
      ASSERT_TRUE(row.executeStep());
      const Lane& lane = lanes.lane(rank);
      EXPECT_EQ(lane.compute.length_ns(), row.getColumn(0).getInt64()) << "rank " << rank;
      EXPECT_EQ(lane.transfer.length_ns() + lane.wait.length_ns() + lane.unsplit.length_ns(),
                row.getColumn(1).getInt64())
          << "rank " << rank;
      EXPECT_EQ(lane.wait.length_ns(), row.getColumn(2).getInt64()) << "rank " << rank;
    }
    int64_t path_ns = 0;
    for (const PathPart& part : critical_path(lanes)) path_ns += part.interval.length_ns();
    EXPECT_EQ(path_ns, lanes.window().length_ns()) << "the path has no gap";
  }
}

TEST(StepLanes, DrawNoTransferWhereWaitingIsUndefined) {
  for (const char* op :
       {"MPI_Neighbor_alltoall", "MPI_Scan", "MPI_Win_fence", "MPI_Win_wait", "MPI_Ineighbor_alltoall"}) {
    test::SyntheticRun job = test::run().ranks(3).steps(12).compute(10_ms).collective(op, 64_KiB, 2_ms).slow(1, 5_ms);
    if (std::string_view(op).starts_with("MPI_I")) job.waitall();
    Analyzed run(job);
    const RunView view(run.db, std::nullopt);
    StepLanes lanes(view, 7);
    EXPECT_EQ(lanes.lane(0).unsplit.length_ns(), 7_ms) << op;
    EXPECT_EQ(lanes.lane(1).unsplit.length_ns(), 2_ms) << op;
    EXPECT_TRUE(lanes.lane(0).transfer.empty()) << op;
  }
  Analyzed alone(test::run()
                     .ranks(2)
                     .steps(12)
                     .split("alone", 2)
                     .compute(3_ms)
                     .on_comm("alone")
                     .collective("MPI_Win_fence", 64_KiB, 2_ms));
  const RunView view(alone.db, std::nullopt);
  StepLanes lanes(view, 7);
  EXPECT_EQ(lanes.lane(0).transfer.length_ns(), 2_ms) << "nobody to wait for";
}

TEST(StepLanes, OfAPipelineShowWhatIsWaitedForOnThreadsOfMessages) {
  test::Imported run("pipedream", test::Imported::Files{{"whatif.csv", test::what_if_csv()}});
  const RunView view(run.db, std::nullopt);
  StepLanes lanes(view, 3);
  const Lane& receiver = lanes.lane(2);  // stage 1 of replica 0 waits from 50 ms on; the sender computes until 100 ms
  const auto ms = [&](const IntervalSet& set) {
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (const Interval& part : set.parts())
      parts.emplace_back((part.begin_ns - lanes.window().begin_ns) / 1000000,
                         (part.end_ns - lanes.window().begin_ns) / 1000000);
    return parts;
  };
  using Parts = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(ms(receiver.wait), (Parts{{50, 100}}));
  EXPECT_EQ(ms(receiver.compute), (Parts{{110, 160}, {300, 310}}));
  EXPECT_EQ(receiver.transfer.length_ns(), 1_ms);
  for (const int64_t rank : lanes.ranks()) {
    const Lane& lane = lanes.lane(rank);
    EXPECT_EQ(
        std::to_string(lane.compute.length_ns()) + " " + std::to_string(lane.transfer.length_ns()) + " " +
            std::to_string(lane.wait.length_ns()),
        run.text(
            "SELECT compute_ns || ' ' || (exposed_ns - wait_ns) || ' ' || wait_ns FROM v_step WHERE step = 3 AND rank = " +
            std::to_string(rank)));
  }
}

TEST(StepTimeline, NamesTheRankOfThePath) {
  Analyzed run(test::run().ranks(3).steps(12).compute(10_ms).allreduce(1_MiB, 2_ms).slow(1, 8_ms));
  const RunView view(run.db, std::nullopt);
  const std::vector<Figure> figures = step_timeline(view);
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_NE(figures[0].caption.find(
                "90.0% of its critical path is on rank 1, the rest on rank 0; 90.0% of the path is computing."),
            std::string::npos)
      << figures[0].caption;
}

TEST(StepTimeline, IsLeftOutWhereOtherThreadsCommunicateForThoseThatTrain) {
  Analyzed run(test::run().ranks(3).steps(12).compute(10_ms).allreduce(1_MiB, 2_ms).slow(1, 8_ms));
  const auto reading = [&] { return where_a_step_goes(RunView(run.db, std::nullopt)).at(0).reading; };
  EXPECT_EQ(reading().find("drawn in time"), std::string::npos);
  run.db.exec("INSERT INTO background_process VALUES (1, NULL, 1, NULL)");
  EXPECT_TRUE(step_timeline(RunView(run.db, std::nullopt)).empty());
  EXPECT_NE(reading().find("No step is drawn in time, with its critical path"), std::string::npos) << reading();
}

/// A job whose hosts launch too late, analyzed.
SQLite::Database host_bound_job(const test::ScratchFolder& folder) {
  test::write_training_job(test::draw_training_job(7, {test::Fault::kHostBound}), folder / "gpu.ddl");
  const RunDirectory directory = find_run((folder / "gpu.ddl").string());
  ingest(directory);
  SQLite::Database db = open_store(directory.store, Access::kReadWrite);
  analyze(db);
  return db;
}

TEST(IdleClasses, NameTheCauseThatCostsMost) {
  const test::ScratchFolder folder;
  SQLite::Database db = host_bound_job(folder);
  const std::vector<Figure> figures = idle_classes(RunView(db, std::nullopt));
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_NE(figures[0].caption.find("the host launched too late. What helps: launch less often"), std::string::npos)
      << figures[0].caption;
  for (const auto& cells : figures[0].data.rows) {  // rank, device, all, then one by one
    int64_t sum_ns = 0;
    for (size_t c = 3; c < cells.size(); ++c) sum_ns += cells[c].as_integer();
    EXPECT_NEAR(static_cast<double>(sum_ns), static_cast<double>(cells[2].as_integer()), 10);  // means, each rounded
  }
}

TEST(GpuTimeline, AddsUpToTheStepsParts) {
  const test::ScratchFolder folder;
  SQLite::Database db = host_bound_job(folder);
  const RunView view(db, std::nullopt);
  const std::vector<Figure> figures = gpu_timeline(view);
  ASSERT_EQ(figures.size(), 1u);
  const Table& data = figures[0].data;
  ASSERT_GE(data.rows.size(), 4u);
  const auto ns = [&](const std::vector<Value>& cells, const char* title) {
    for (size_t c = 0; c < data.columns.size(); ++c)
      if (data.columns[c].title == title) return cells[c].as_integer();
    ADD_FAILURE() << "no column " << title;
    return int64_t{-1};
  };
  for (const auto& cells : data.rows) {
    SQLite::Statement row(
        db,
        "SELECT compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns FROM v_gpu_part WHERE rank || '/' || device = ? AND step = ?");
    row.bind(1, cells[2].as_text());
    row.bind(2, cells[1].as_integer());
    ASSERT_TRUE(row.executeStep());
    EXPECT_EQ(ns(cells, "compute") + ns(cells, "compute and communication"), row.getColumn(0).getInt64());
    EXPECT_EQ(ns(cells, "exposed transfer") + ns(cells, "waiting for others") + ns(cells, "exposed, waiting not known"),
              row.getColumn(1).getInt64());
    EXPECT_EQ(ns(cells, "exposed copies"), row.getColumn(2).getInt64());
    EXPECT_EQ(ns(cells, "Idle"), row.getColumn(3).getInt64());
  }
}

}  // namespace
}  // namespace ddl::reports::html
