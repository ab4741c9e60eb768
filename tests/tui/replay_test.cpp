// A replay shows what the live view showed: both are looked at here, of the same virtual job.
#include <gtest/gtest.h>

#include "analyzer/facts.h"
#include "tests/analyzer/analyzed.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"
#include "tests/support/growing_run.h"
#include "tests/support/training_job.h"
#include "tui/observer.h"
#include "tui/spool_source.h"
#include "tui/store_source.h"

namespace ddl::test {
namespace {

using tui::Snapshot;

Snapshot last_frame(SQLite::Database& db) {
  tui::StoreSource source(db, "run.ddl", 1, 1);
  tui::Job job;
  tui::Observer observer;
  source.poll(job, 1);
  return observer.look(job, true);
}

Snapshot live(const std::filesystem::path& folder) {
  tui::SpoolSource source(find_run(folder.string()), "run.ddl");
  tui::Job job;
  tui::Observer observer;
  source.poll(job, 1);
  return observer.look(job, false);
}

SyntheticRun training() { return run().ranks(3).steps(20).compute(10_ms).jitter(1_ms).allreduce(1_MiB, 1_ms); }

TEST(Replay, LastFrameIsTheLiveOne) {
  Analyzed run(training());
  const Snapshot stored = last_frame(run.db), seen = live(run.folder.path());
  EXPECT_EQ(stored.step, seen.step);
  EXPECT_EQ(stored.window, seen.window);
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(stored.ranks[r].wait_ns, seen.ranks[r].wait_ns);
}

/// What is outside MPI on the thread that communicates says nothing of the one that trains: no share, no
/// waiting, nobody to blame.
TEST(Replay, OfBackgroundThreadsNothingIsClaimed) {
  Analyzed run(test::run().ranks(3).steps(20).compute(10_ms).allreduce(1_MiB, 1_ms).slow(1, 20_ms));
  EXPECT_EQ(last_frame(run.db).headline.rank, 1);
  run.db.exec("INSERT INTO background_process VALUES (1, NULL, 1, NULL)");
  const Snapshot s = last_frame(run.db);
  EXPECT_TRUE(s.background);
  EXPECT_FALSE(s.shares);
  EXPECT_EQ(s.window, 20u);
  EXPECT_EQ(s.headline.rank, std::nullopt);
  EXPECT_EQ(s.headline.brief, "MPI in the background: see ddl report");
  for (const auto& rank : s.ranks) EXPECT_EQ(rank.wait_ns, std::nullopt);
}

/// In what background threads only coordinate by, the rank that waits for another one's training thread may come last.
TEST(Replay, CoordinationOfBackgroundThreadsIsNeitherWaitingNorBlame) {
  Analyzed run(
      test::run().ranks(3).steps(20).compute(10_ms).allreduce(8_B, 10_us).allreduce(1_MiB, 1_ms).slow(1, 20_ms));
  const Snapshot before = last_frame(run.db);
  EXPECT_EQ(before.collectives.size(), 2u);
  EXPECT_FALSE(before.blame.empty());
  run.db.exec("INSERT INTO background_process VALUES (1, NULL, 1, NULL)");
  EXPECT_FALSE(last_frame(run.db).blame.empty()) << "Gloo's threads agree on nothing: who enters last is late";
  run.db.exec("INSERT INTO coordination SELECT id FROM event WHERE bytes = 8");
  const Snapshot s = last_frame(run.db);
  ASSERT_EQ(s.collectives.size(), 1u);
  EXPECT_EQ(s.collectives[0].bytes, 1_MiB);
  EXPECT_TRUE(s.blame.empty());
}

/// A step that never ended, before others that did.
TEST(Replay, AStepWithoutAnEndDoesNotBlockTheLaterOnes) {
  Analyzed run(training());
  run.db.exec("UPDATE step SET duration_ns = NULL WHERE step = 5 AND process = 1");
  const Snapshot s = last_frame(run.db);
  EXPECT_EQ(s.step, 19u);
  EXPECT_TRUE(s.ranks[0].trend.back()) << "the rank is in the last step, too";
}

/// Numbers are the program's own and may fall: time does not.
TEST(Replay, StepsComeInTheOrderOfTime) {
  Analyzed run(training());
  run.db.exec("UPDATE step SET step = 100 - step");
  tui::StoreSource source(run.db, "run.ddl", 0.05, std::nullopt);
  tui::Job job;
  tui::Observer observer;
  source.poll(job, 1);
  Snapshot s = observer.look(job, true);
  for (int i = 0; i < 2; ++i) {
    source.poll(job, 1);
    s = observer.look(job, true);
  }
  ASSERT_TRUE(s.step) << "150 ms of the job are a dozen steps";
  EXPECT_LE(s.window, 14u);
  EXPECT_GE(s.window, 8u);
}

/// Requests of messages are not collectives: a step is finished although one is under way at its end.
TEST(Replay, MessagesInFlightDoNotHoldUpSteps) {
  Analyzed run(test::run().ranks(2).steps(20).compute(5_ms).isendrecv_ring(1_MiB, 1_ms).waitall());
  run.db.exec(
      "UPDATE event SET duration_ns = 2000000000 WHERE kind = 2 AND start_ns > 15000000 AND start_ns < 25000000");
  tui::StoreSource source(run.db, "run.ddl", 0.05, std::nullopt);
  tui::Job job;
  source.poll(job, 1);
  for (const tui::Rank& rank : job.ranks) EXPECT_TRUE(rank.posted.empty());
}

/// An import whose messages lie on threads of their own and block the step: 2 steps of 310 ms, in which 4 ranks
/// compute 50 + 60 + 60 + 60 ms and communicate for 51 + 41 + 51 + 51 ms, at no time both. Who waits in
/// messages is for the report.
TEST(Replay, MessagesOfAnImportBlockItsSteps) {
  Imported run("pipedream", Imported::Files{{"trace.csv", what_if_csv()}});
  const Snapshot s = last_frame(run.db);
  ASSERT_TRUE(s.shares);
  EXPECT_NEAR((*s.shares)[tui::kCompute], 230.0 / 1240, 1e-6);
  EXPECT_EQ((*s.shares)[tui::kOverlapped], 0);
  EXPECT_NEAR((*s.shares)[tui::kTransfer], 194.0 / 1240, 1e-6);
  EXPECT_EQ((*s.shares)[tui::kWaiting], 0);
  EXPECT_NEAR((*s.shares)[tui::kIdle], 816.0 / 1240, 1e-6);
  EXPECT_FALSE(s.waiting_known);
  EXPECT_FALSE(s.overhead_ratio) << "what it cost to record is not in the trace";
  EXPECT_FALSE(s.headline.alarm) << s.headline.text;
  for (const tui::RankRow& row : s.ranks) EXPECT_FALSE(row.late_ns || row.wait_ns) << row.rank;
}

/// GPUs are not looked at: nothing that depends on them is claimed.
TEST(Gpus, HostsTimeIsNotTheJobs) {
  ScratchFolder folder;
  TrainingJob job = draw_training_job(1, {Fault::kHostBound});
  job.steps = 8;
  write_training_job(job, folder.path());
  ingest(find_run(folder.path().string()));
  SQLite::Database db = open_store(find_run(folder.path().string()).store, Access::kReadWrite);
  analyze(db);
  for (const Snapshot& s : {live(folder.path()), last_frame(db)}) {  // its ranks wait in MPI
    EXPECT_TRUE(s.gpus);
    EXPECT_FALSE(s.device_collectives);
    EXPECT_FALSE(s.overlap_ratio);
    EXPECT_FALSE(s.gpu_ratios);
    EXPECT_TRUE(s.headline.alarm || s.headline.text.find("GPUs") != std::string::npos) << s.headline.text;
  }
}

/// The same job on GPUs: what was an allreduce of a thread is a kernel, and so is all before it.
constexpr const char* kOnGpus = R"(
  UPDATE event SET kind = 4 WHERE op = (SELECT id FROM op WHERE name = 'MPI_Allreduce');
  UPDATE op SET name = 'ncclAllReduce' WHERE name = 'MPI_Allreduce';
  UPDATE step SET mpi_ns = 0;
  DELETE FROM profile;
  INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication');
  INSERT INTO gpu_event (process, kind, name, device, region, step, start_ns, duration_ns, correlation, comm, seq)
  SELECT process, 1, 2, 0, 0, step, start_ns, duration_ns, 0, comm, seq FROM event WHERE kind = 4;
  INSERT INTO gpu_event (process, kind, name, device, region, step, start_ns, duration_ns, correlation)
  SELECT e.process, 1, 1, 0, 0, e.step, s.start_ns, min(e.start_ns) - s.start_ns, 0
  FROM event e JOIN step s ON s.process = e.process AND s.step = e.step
  WHERE e.kind = 4 GROUP BY e.process, e.step;)";

/// A replay shows what the report says of the same steps.
TEST(Gpus, AReplayLooksAtThem) {
  Analyzed analyzed(run().ranks(3).steps(20).compute(10_ms).allreduce(1_MiB, 1_ms).slow(1, 20_ms));
  SQLite::Database& db = analyzed.db;
  db.exec(kOnGpus);
  analyze(db);
  const Snapshot s = last_frame(db);
  const Facts facts = read_facts(db, 0);
  ASSERT_EQ(facts.resource, Resource::kDevice);
  EXPECT_FALSE(s.gpus || s.device_collectives);
  ASSERT_TRUE(s.shares);
  EXPECT_TRUE(s.gpu_ratios);
  constexpr double kNs = 1e-6;  // means of several GPUs are whole ns
  EXPECT_NEAR((*s.shares)[tui::kCompute] + (*s.shares)[tui::kOverlapped],
              facts.headline.sum.computing_ns() / facts.headline.sum.total_ns(), kNs);
  EXPECT_NEAR((*s.shares)[tui::kTransfer], facts.headline.share(&TimeParts::transfer_ns), kNs);
  EXPECT_NEAR((*s.shares)[tui::kWaiting], facts.headline.share(&TimeParts::wait_ns), kNs);
  EXPECT_NEAR((*s.shares)[tui::kCopy], facts.headline.share(&TimeParts::copy_ns), kNs);
  EXPECT_NEAR((*s.shares)[tui::kIdle], facts.headline.share(&TimeParts::idle_ns), kNs);
  ASSERT_EQ(s.ranks.size(), facts.ranks.size());
  for (size_t i = 0; i < s.ranks.size(); ++i) {
    EXPECT_NEAR(s.ranks[i].late_ns.value_or(-1), static_cast<double>(facts.ranks[i].late_ns.value_or(-1)), 2) << i;
    EXPECT_NEAR(s.ranks[i].wait_ns.value_or(-1), static_cast<double>(facts.ranks[i].wait_ns.value_or(-1)), 2) << i;
  }
  EXPECT_NEAR(s.ranks[1].late_ns.value_or(-1), 20e6, 2);
  EXPECT_EQ(s.headline.rank, 1) << s.headline.text;
  ASSERT_EQ(s.collectives.size(), 1u);
  EXPECT_EQ(s.collectives[0].op, "ncclAllReduce");
}

TEST(Gpus, WithoutTheirCollectivesNobodyIsJudged) {
  Analyzed run(training().slow(1, 20_ms));
  run.db.exec(
      "INSERT INTO communicator(id, world, uid, label, size, kind) VALUES (100, 0, 99, 'ncclCommInitRank#1', 3, 'nccl')");
  for (const auto& spool : find_run(run.folder.path().string()).spools()) {
    change_header(spool, [](FileHeader& h) { h.flags |= kNcclEntered; });
  }
  for (const Snapshot& s : {live(run.folder.path()), last_frame(run.db)}) {
    EXPECT_TRUE(s.device_collectives && s.gpus);
    EXPECT_FALSE(s.waiting_known);
    EXPECT_FALSE(s.headline.alarm) << s.headline.text;
    EXPECT_NE(s.headline.text.find("GPUs"), std::string::npos) << s.headline.text;
    EXPECT_EQ(s.headline.text.find('%'), std::string::npos) << s.headline.text;
    for (const tui::RankRow& row : s.ranks) {
      EXPECT_FALSE(row.wait_ns);
      EXPECT_FALSE(row.late_ns);
    }
    for (const tui::HistoryPoint& point : s.history) EXPECT_FALSE(point.exposed_ratio || point.wait_ratio);
  }
}

}  // namespace
}  // namespace ddl::test
