#include "analyzer/models/what_if.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>

#include "analyzer/csv_table.h"
#include "analyzer/models/replay_pipeline.h"
#include "core/error.h"

namespace ddl::models {
namespace {

// -------------------------------------------------------------------------------------------------------- made by hand

constexpr int64_t kRanks = 4;

/// Steps of computing and an allreduce; rank 1 computes 3 s instead of 1 s. A step takes 3 + 0.5 s, ideally 1.5 + 0.5.
Replay straggling(int64_t steps, bool chained) {
  Replay replay;
  const size_t compute = replay.add_kind("compute", false);
  const size_t allreduce = replay.add_kind("allreduce", true);
  std::vector<std::optional<Replay::Op>> before(kRanks);
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      const Replay::Op own =
          replay.add({.rank = rank, .step = step, .kind = compute, .seconds = rank == 1 ? 3.0 : 1.0});
      const Replay::Op all = replay.add({.rank = rank, .step = step, .kind = allreduce, .seconds = 0.5, .group = step});
      replay.after(all, own);
      if (before[static_cast<size_t>(rank)] && chained) replay.after(own, *before[static_cast<size_t>(rank)]);
      before[static_cast<size_t>(rank)] = all;
    }
  replay.finish(chained);
  return replay;
}

TEST(Replay, WaitsForTheLastOne) {
  for (const bool chained : {false, true}) {
    const Replay replay = straggling(3, chained);
    for (const double seconds : replay.step_seconds(replay.recorded())) EXPECT_NEAR(seconds, 3.5, 1e-12);
  }
}

TEST(Replay, RefusesACircle) {
  Replay replay;
  const size_t kind = replay.add_kind("compute", false);
  const Replay::Op a = replay.add({.kind = kind, .seconds = 1});
  const Replay::Op b = replay.add({.kind = kind, .seconds = 1});
  replay.after(a, b);
  replay.after(b, a);
  EXPECT_THROW(replay.finish(false), Error);
}

TEST(WhatIf, OneSlowRankAnswersForAll) {
  const Slowdown slowdown = slowdown_of(straggling(2, true));
  EXPECT_NEAR(slowdown.step_s, 3.5, 1e-12);
  EXPECT_NEAR(slowdown.ideal_step_s, 2.0, 1e-12);
  EXPECT_NEAR(slowdown.slowdown, 1.75, 1e-12);
  EXPECT_EQ(slowdown.types[0].name, "compute");
  EXPECT_NEAR(slowdown.types[0].slowdown, 1.75, 1e-12);
  EXPECT_NEAR(slowdown.types[1].slowdown, 1, 1e-12);
  EXPECT_EQ(slowdown.ranks[0].number, 1);
  EXPECT_NEAR(slowdown.ranks[0].slowdown, 1.75, 1e-12);
  EXPECT_NEAR(slowdown.ranks[1].slowdown, 1, 1e-12);  // the others compute less than the mean: the ideal rank is slower
  EXPECT_EQ(slowdown.worst_ranks, std::vector<int64_t>{1});
  EXPECT_NEAR(*slowdown.fixed_by_ranks, 1, 1e-12);
  EXPECT_TRUE(slowdown.stages.empty());
  EXPECT_FALSE(slowdown.fixed_by_last_stage);
}

TEST(WhatIf, ScenariosOfASlowRank) {
  const Replay replay = straggling(2, true);
  const auto step_s = [&](const std::vector<double>& durations) { return replay.mean_step_seconds(durations); };
  EXPECT_NEAR(step_s(faster_network(replay, 2)), 3.25, 1e-12);
  EXPECT_NEAR(step_s(healthy_rank(replay, 1)), 1.5, 1e-12);
  EXPECT_NEAR(step_s(healthy_rank(replay, 0)), 3.5, 1e-12);
  EXPECT_NEAR(step_s(larger_batch(replay, 2)), 6.5, 1e-12);
  EXPECT_NEAR(step_s(balanced(replay)), 2.0, 1e-12);
  EXPECT_NEAR(overlapped_step_seconds(replay), 3.0, 1e-12);
  EXPECT_THROW(healthy_rank(replay, 4), Error);
}

TEST(WhatIf, AHealthyRankComputesAsTheOthersDoInTheSameStep) {
  Replay replay;
  const size_t common = replay.add_kind("compute", false), rare = replay.add_kind("compute", false);
  for (int64_t step = 0; step < 3; ++step)
    for (int64_t rank = 0; rank < 3; ++rank)
      replay.add(
          {.rank = rank, .step = step, .kind = common, .seconds = (step == 2 ? 10.0 : 1.0) + (rank == 2 ? 4.0 : 0.0)});
  replay.add({.rank = 0, .step = 0, .kind = rare, .seconds = 2});
  replay.add({.rank = 1, .step = 2, .kind = rare, .seconds = 4});
  replay.add({.rank = 2, .step = 1, .kind = rare, .seconds = 8});  // the others have it in other steps
  replay.finish(false);
  EXPECT_EQ(healthy_rank(replay, 2), (std::vector<double>{1, 1, 1, 1, 1, 1, 10, 10, 10, 2, 4, 3}));
}

/// Two others differ from their mean by 1 s, hence a rank does from that of others by sqrt(3) s.
TEST(WhatIf, AHealthyRankVariesAsTheOthersDo) {
  const auto job = [](const std::vector<double>& late_s) {
    Replay replay;
    const size_t compute = replay.add_kind("compute", false);
    for (int64_t step = 0; step < 4; ++step) {
      const double odd_s = step % 2 == 0 ? 1 : -1;
      replay.add({.rank = 0, .step = step, .kind = compute, .seconds = 10 + odd_s});
      replay.add({.rank = 1, .step = step, .kind = compute, .seconds = 10 - odd_s});
      replay.add({.rank = 2, .step = step, .kind = compute, .seconds = late_s[static_cast<size_t>(step)]});
    }
    replay.finish(false);
    std::vector<double> healthy_s;
    for (size_t op = 2; const double seconds : healthy_rank(replay, 2))
      if (op++ % 3 == 1) healthy_s.push_back(seconds);
    return healthy_s;
  };
  EXPECT_EQ(job({13, 15, 15, 13}), (std::vector<double>{9, 11, 11, 9}))
      << "as late in each step: its own variation stays";
  const std::vector<double> rare_s = job({50, 10, 10, 10});
  const double scale = std::sqrt(3) / std::sqrt((900 + 3 * 100) / 4.0);
  EXPECT_NEAR(rare_s[0], 10 + 30 * scale, 1e-9) << "late in one step: that is not its variation";
  EXPECT_NEAR(rare_s[1], 10 - 10 * scale, 1e-9);
}

TEST(WhatIf, WorkThatNoOtherRankHasGoesInProportion) {
  const auto job = [](double common_s, double alone_s) {
    Replay replay;
    const size_t common = replay.add_kind("compute", false), alone = replay.add_kind("compute", false);
    replay.add({.rank = 0, .step = 0, .kind = common, .seconds = 2});
    const Replay::Op first = replay.add({.rank = 1, .step = 0, .kind = common, .seconds = common_s});
    replay.after(replay.add({.rank = 1, .step = 0, .kind = alone, .seconds = alone_s}), first);
    replay.finish(false);
    return replay;
  };
  EXPECT_EQ(healthy_rank(job(1, 3), 1), (std::vector<double>{2, 0.5, 1.5}));
  EXPECT_EQ(healthy_rank(job(1, 3), 0), (std::vector<double>{1, 1, 3}));
  EXPECT_EQ(healthy_rank(job(4, 0.0625), 1), (std::vector<double>{2, 2, 0.0625}));  // a little stays
}

TEST(WhatIf, TransfersLongerThanComputingCannotHide) {
  Replay replay;
  const size_t compute = replay.add_kind("compute", false), allreduce = replay.add_kind("allreduce", true);
  const Replay::Op own = replay.add({.kind = compute, .seconds = 1});
  replay.after(replay.add({.kind = allreduce, .seconds = 5, .group = 0}), own);
  replay.finish(false);
  EXPECT_EQ(overlapped_step_seconds(replay), 5);
}

TEST(WhatIf, NoSlownessHasNobodyToAnswerForIt) {
  Replay replay;
  const size_t compute = replay.add_kind("compute", false);
  for (int64_t rank = 0; rank < 3; ++rank) replay.add({.rank = rank, .kind = compute, .seconds = 1});
  replay.finish(false);
  const Slowdown slowdown = slowdown_of(replay);
  EXPECT_EQ(slowdown.slowdown, 1);
  EXPECT_FALSE(slowdown.fixed_by_ranks);  // 0 / 0
}

// ----------------------------------------------------------------------------------------------------------- pipelines

PipelineOp op(int64_t stage, std::string type, int64_t number, double start_s, double duration_s) {
  return {.replica = 0,
          .stage = stage,
          .step = 1,
          .type = std::move(type),
          .number = number,
          .start_s = start_s,
          .duration_s = duration_s};
}

TEST(PipelineReplay, TransferBeginsWhenBothEndsHaveCome) {
  // The receiver waits 2 s for the sender, then both transfer for 1 s.
  const Replay job = pipeline_replay({op(0, "forward-compute", 0, 0, 2), op(0, "forward-send", 0, 2, 1),
                                      op(1, "forward-recv", 0, 0, 3), op(1, "forward-compute", 0, 3, 2)});
  EXPECT_NEAR(job.mean_step_seconds(job.recorded()), 5, 1e-12);
  EXPECT_NEAR(job.mean_step_seconds(faster_network(job, 2)), 4.5, 1e-12);
}

TEST(PipelineReplay, RefusesHalfAMessageAndTwins) {
  EXPECT_THROW(pipeline_replay({op(0, "forward-send", 0, 0, 1)}), Error);
  EXPECT_THROW(pipeline_replay({op(0, "gc", 0, 0, 1), op(0, "gc", 0, 1, 1)}), Error);
}

// ----------------------------------------------------------------------------------------------------- a published job

constexpr char kTrace[] = DDL_SOURCE_DIR "/../shared/traces/straggler/trace-ST.csv.gz";

std::vector<PipelineOp> published_job() {
  const std::unique_ptr<FILE, int (*)(FILE*)> unpack(popen((std::string("gzip -dc ") + kTrace).c_str(), "r"), pclose);
  std::string text(1 << 20, '\0');
  size_t size = 0;
  for (size_t got; (got = fread(text.data() + size, 1, text.size() - size, unpack.get())) > 0;)
    text.resize(2 * (size += got));
  const CsvTable table = CsvTable::parse(text.substr(0, size), "trace-ST.csv");
  std::vector<PipelineOp> ops;
  for (size_t r = 0; r < table.rows(); ++r) {
    const auto whole = [&](const char* column) { return static_cast<int64_t>(table.number(r, column)); };
    ops.push_back({whole("dp_rank"),
                   whole("stage"),
                   {},
                   whole("step"),
                   table.text(r, "optype"),
                   whole("seq_id"),
                   table.number(r, "start_ts"),
                   table.number(r, "duration")});
  }
  return ops;
}

/// A job of ByteDance, 4 stages x 2 replicas, of which the last stage is slow. All numbers are those that its
/// publishers computed (result-ST.json, ms-ST.json, mw-ST.json): specification.md G-C. Extra:
/// needs ../shared, skipped without it.
TEST(PipelineReplay, PublishedStragglingJob) {
  if (!std::filesystem::exists(kTrace)) GTEST_SKIP() << "an extra that needs a public trace in " << kTrace;
  const Replay job = pipeline_replay(published_job());
  EXPECT_EQ(job.ranks().size(), 4u * 2);
  constexpr int64_t kReplicas = 2;  // of 4 stages
  const std::vector<double> steps = job.step_seconds(job.recorded());
  ASSERT_EQ(steps.size(), 32u);
  EXPECT_NEAR(steps[0], 2.339666260908416, 1e-6);    // step 23
  EXPECT_NEAR(steps[1], 2.3333837408972613, 1e-6);   // step 25
  EXPECT_NEAR(steps[3], 2.0582667741691694, 1e-6);   // step 34
  EXPECT_NEAR(steps[31], 2.1714884880566387, 1e-6);  // step 1048

  const Slowdown slowdown = slowdown_of(job, [](int64_t rank) { return rank / kReplicas; });
  EXPECT_NEAR(slowdown.step_s, 2.172696813310722, 1e-6);
  EXPECT_NEAR(slowdown.ideal_step_s, 1.843295824372035, 1e-6);
  EXPECT_NEAR(slowdown.slowdown, 1.1787021836556841, 1e-6);
  EXPECT_NEAR(*slowdown.fixed_by_last_stage, 1.2193563788811714, 1e-5);
  EXPECT_NEAR(*slowdown.fixed_by_ranks, 0.031404269124045224, 1e-5);
  const std::vector<double> stages = {0.9980450635272368, 0.9830562530894704, 0.9824931309511952, 1.2322559543157936};
  for (size_t s = 0; s < 4; ++s) EXPECT_NEAR(slowdown.stages[s].slowdown, stages[s], 1e-6) << "stage " << s;
  const std::vector<std::pair<std::string, double>> types = {{"forward-compute", 1.0874989663025318},
                                                             {"backward-compute", 1.074156472437866},
                                                             {"embedding-grads-all-reduce", 1.0095504024370303},
                                                             {"grads-reduce-scatter", 1.00266695254219},
                                                             {"optimizer-clip-main-grad", 1.0023506224771044},
                                                             {"optimizer", 1.0014767395023902},
                                                             {"params-all-gather", 1.0011307740825817}};
  for (size_t t = 0; t < types.size(); ++t) {
    EXPECT_EQ(slowdown.types[t].name, types[t].first);
    EXPECT_NEAR(slowdown.types[t].slowdown, types[t].second, 1e-6);
  }
}

}  // namespace
}  // namespace ddl::models
