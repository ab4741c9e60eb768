// Checkpoints, garbage collections and loaders that hold a job up. The truth of a saving is the same virtual job played
// without the fault.
#include "analyzer/findings/pauses.h"

#include "analyzer/models/goodput.h"
#include "analyzer/models/replay_run.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

constexpr int kPausedRanks = 16;

/// A step of 60 ms computing and 5 ms of allreduce, with phases in which `ns` are spent in some steps of some ranks.
struct Pause {
  const char* phase;
  uint64_t every = 1;
  int rank = -1;
  int64_t ns = 0;
  bool is_fault = true;
};

SyntheticRun job(const std::vector<Pause>& pauses, bool with_them) {
  SyntheticRun made = run().ranks(kPausedRanks).hosts(2, 0).steps(120).jitter(100_us);
  for (const Pause& pause : pauses) {
    made.phase(pause.phase);
    made.every(pause.every).on_rank(pause.rank).compute(with_them || !pause.is_fault ? pause.ns : 0);
    made.end_phase();
  }
  made.phase("forward").compute(20_ms).end_phase().phase("backward").compute(40_ms).end_phase().allreduce(25_MiB, 5_ms);
  return made;
}

/// Mean time of the steady steps of a job, as its generator knows it.
double step_ns(Analyzed& run) {
  std::map<uint64_t, int64_t> longest;
  for (const StepTruth& step : run.truth.steps) longest[step.step] = std::max(longest[step.step], step.duration_ns);
  double sum_ns = 0, count = 0;
  SQLite::Statement steady(run.db, "SELECT step FROM steady_number");
  while (steady.executeStep()) {
    sum_ns += static_cast<double>(longest.at(static_cast<uint64_t>(steady.getColumn(0).getInt64())));
    ++count;
  }
  return sum_ns / count;
}

struct Judged {
  Judged(const std::vector<Pause>& pauses, const std::string& id)
      : with(job(pauses, true)), without(job(pauses, false)) {
    EXPECT_EQ(without.findings(), Ids{}) << "the same job without it";
    EXPECT_EQ(with.findings(), Ids{id});
    if (with.integer("SELECT count(*) FROM finding") == 0) return;
    const auto saved = static_cast<double>(with.integer("SELECT saving_ns FROM finding"));
    const double truth = step_ns(with) - step_ns(without);
    EXPECT_NEAR(saved, truth, 0.02 * truth + 2e5) << "what a replay without it saves";
    sentence = with.text("SELECT sentence FROM finding");
    EXPECT_GT(with.integer("SELECT count(*) FROM (" + with.text("SELECT evidence_sql FROM finding") + ")"), 0);
  }
  Analyzed with, without;
  std::string sentence;
};

TEST(Pauses, ACheckpointOfOneRankHoldsUpAll) {
  Judged judged({{"checkpoint", 20, 0, 2000_ms}}, "checkpoint_stall");
  EXPECT_TRUE(has(judged.sentence, "the others wait for rank 0 while it writes a checkpoint: in 5 of ") ||
              has(judged.sentence, "the others wait for rank 0 while it writes a checkpoint: in 6 of "))
      << judged.sentence;
  EXPECT_TRUE(has(judged.sentence, ", 2.00 s each")) << judged.sentence;
  EXPECT_EQ(judged.with.integer("SELECT rank FROM finding"), 0);
}

// The writer is last in every third step: that is the checkpoint's doing, and told once.
TEST(Pauses, ACheckpointThatMakesItsWriterAStragglerIsOneFinding) {
  Judged judged({{"checkpoint", 3, 0, 200_ms}}, "checkpoint_stall");
  EXPECT_TRUE(has(judged.sentence, "the others wait for rank 0 while it writes a checkpoint")) << judged.sentence;
}

TEST(Pauses, ACheckpointOfAllRanks) {
  Judged judged({{"save_checkpoint", 30, -1, 500_ms}}, "checkpoint_stall");
  EXPECT_TRUE(has(judged.sentence, "all ranks stand still while they write a checkpoint")) << judged.sentence;
}

// The job writes beside training already: what is left is the copy.
TEST(Pauses, WhatAsyncSaveTakesBeforeItWrites) {
  Judged all({{"async_save", 30, -1, 500_ms}}, "checkpoint_stall");
  EXPECT_TRUE(has(all.sentence, "all ranks stand still while async_save copies their state: in ")) << all.sentence;
  const std::string advice = all.with.text("SELECT try FROM finding");
  EXPECT_TRUE(has(advice, "pinned or shared")) << advice;
  EXPECT_FALSE(has(advice, "checkpoint.async_save")) << advice;
  Judged one({{"async_save", 30, 3, 900_ms}, {"checkpoint", 60, 3, 100_ms}}, "checkpoint_stall");
  EXPECT_TRUE(has(one.sentence, "the others wait for rank 3 while async_save copies its state: in ")) << one.sentence;
  Judged written({{"async_save", 30, -1, 20_ms}, {"checkpoint", 30, -1, 500_ms}}, "checkpoint_stall");
  EXPECT_TRUE(has(written.sentence, "all ranks stand still while they write a checkpoint")) << written.sentence;
}

TEST(Pauses, GarbageCollectionsAtDifferentTimes) {
  Judged judged({{"garbage collection", 7, 3, 100_ms},
                 {"garbage collection", 11, 8, 100_ms},
                 {"garbage collection", 13, 12, 100_ms}},
                "garbage_collection");
  EXPECT_TRUE(has(judged.sentence, "garbage collections of ranks 3, 8 and 12 stop ")) << judged.sentence;
  EXPECT_TRUE(has(judged.sentence, "each rank at other times: 100 ms each")) << judged.sentence;
}

TEST(Pauses, AllRanksCompileAgain) {
  Judged judged({{"compilation", 10, -1, 400_ms}}, "recompilation");
  EXPECT_TRUE(has(judged.sentence, "all ranks compile again in ")) << judged.sentence;
  EXPECT_TRUE(has(judged.sentence, ": 400 ms each")) << judged.sentence;
}

TEST(Pauses, OneSlowLoader) {
  Judged judged({{"input", 1, -1, 1_ms, false}, {"input", 3, 5, 60_ms}}, "loader_stall");
  // 61 ms in 38 steps and 1 in the others, all 0.1 more or less
  EXPECT_TRUE(
      has(judged.sentence, "the others wait for the loader of rank 5 (node0) in 38 of 115 steps: it loads for 20."))
      << judged.sentence;
  EXPECT_TRUE(has(judged.sentence, " ms/step, the others for 1.0") ||
              has(judged.sentence, " ms/step, the others for 99"))
      << judged.sentence;
  EXPECT_EQ(judged.with.integer("SELECT rank FROM finding"), 5);
}

TEST(Pauses, AllLoadersOrOneForAllAreNoFaultOfOneRank) {
  Analyzed all(job({{"input", 1, -1, 15_ms}}, true));
  EXPECT_EQ(all.findings(), Ids{"input_bound"});
}

/// Layers of a network may be called anything.
TEST(Pauses, ALayerIsNoPauseWhateverItsName) {
  for (const char* name : {"input", "data", "load", "checkpoint", "gc", "compilation"}) {
    SyntheticRun made = run().ranks(4).steps(40).phase("forward").layer(name).compute(10_ms);
    made.on_rank(1).compute(20_ms);
    Analyzed layer(made.end_layer()
                       .end_phase()
                       .phase("backward")
                       .compute(30_ms)
                       .end_phase()
                       .layer(name, 1_ms)
                       .allreduce(25_MiB, 5_ms));
    EXPECT_EQ(layer.findings(), (Ids{"straggler", "layer_imbalance"})) << name;
    EXPECT_EQ(layer.integer("SELECT count(input_ns) FROM v_step"), 0) << name;
    const models::RunTimes times = models::read_run_times(layer.db, name).at(0);
    for (const models::WorkerTimes& worker : times.workers)
      EXPECT_EQ(worker.loading.size() + worker.checkpoints.size() + worker.compiling.size(), 0) << name;
    SQLite::Statement outside(layer.db, "SELECT id FROM region WHERE kind = 'layer' AND phase IS NULL");
    ASSERT_TRUE(outside.executeStep());
    EXPECT_FALSE(models::regions_of_samples(layer.db).contains(outside.getColumn(0).getInt64())) << name;
  }
}

TEST(Pauses, WhatAnotherRanksComputingHidesCostsNothing) {
  Analyzed hidden(job({{"checkpoint", 2, 0, 20_ms}, {"evaluation", 2, 1, 40_ms}}, true));
  for (const std::string& id : hidden.findings()) EXPECT_NE(id, "checkpoint_stall");
}

TEST(Pauses, RangesBetweenStepsBelongToTheLaterOne) {
  Tables run(2);
  int64_t now_ns = 0;
  for (int64_t s = 0; s < 20; ++s) {  // rank 0 saves for 30 ms behind every fifth step
    const int64_t saved_ns = s % 5 == 0 && s > 0 ? 30_ms : 0;
    const int64_t begin_ns = now_ns;
    run.step(0, s, begin_ns + saved_ns, begin_ns + saved_ns + 52_ms, 2_ms);
    run.step(1, s, begin_ns, begin_ns + saved_ns + 52_ms, saved_ns + 2_ms);
    if (saved_ns > 0)
      run.exec(
          "INSERT OR IGNORE INTO region VALUES (77, 0, 'phase', 'checkpoint', 'checkpoint', NULL);"
          "INSERT INTO range_event SELECT id, 0, 77, NULL, " +
          std::to_string(begin_ns) + ", " + std::to_string(saved_ns) + ", 0, NULL, NULL FROM process WHERE rank = 0");
    run.allreduce(s + 1, {begin_ns + saved_ns + 50_ms, begin_ns + 50_ms}, 2_ms, 1_MB, s);
    now_ns = begin_ns + saved_ns + 52_ms;
  }
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"checkpoint_stall"});
  const double steps = run.number("SELECT count(*) FROM steady_number");
  const double checkpoints = run.number("SELECT count(*) FROM steady_number WHERE step % 5 = 0 AND step > 0");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), checkpoints * 30e6 / steps, 1e3);
}

}  // namespace
}  // namespace ddl::test
