// Replays of virtual runs against other virtual runs: what would have been is simulated by the generator, which knows
// nothing of replays.
#include "analyzer/models/replay_run.h"

#include <gtest/gtest.h>

#include <functional>

#include "analyzer/models/rank_saving.h"
#include "analyzer/models/what_if.h"
#include "core/error.h"
#include "reports/run_view.h"
#include "tests/analyzer/analyzed.h"

namespace ddl::models {
namespace {

using namespace test::literals;
using test::Analyzed;
using test::SyntheticRun;

/// What a job may be made of; halves and doubles are the job that was asked for.
struct Times {
  int64_t compute_ns = 10_ms, transfer_ns = 4_ms, late_ns = 6_ms;
};
using Job = std::function<SyntheticRun(const Times&)>;

/// Mean step of the generator's truth from step `first` on: from the end of one step, on the last rank, to
/// that of the next.
double truth_step_s(const Analyzed& run, int64_t first) {
  int64_t begin = 0, end = 0, last = 0;
  for (const test::StepTruth& step : run.truth.steps) {
    const auto number = static_cast<int64_t>(step.step);
    if (number == first - 1) begin = std::max(begin, step.start_ns + step.duration_ns);
    end = std::max(end, step.start_ns + step.duration_ns);
    last = std::max(last, number);
  }
  return static_cast<double>(end - begin) * 1e-9 / static_cast<double>(last - first + 1);
}

struct Replayed {
  explicit Replayed(const SyntheticRun& job)
      : run(job), view(run.db, std::nullopt), replay(replay_run(run.db, view.world)) {}
  double truth_s() const { return truth_step_s(run, replay.replay.steps().front()); }
  double step_s(const std::vector<double>& durations) const { return replay.replay.mean_step_seconds(durations); }
  Analyzed run;
  reports::RunView view;
  RunReplay replay;
};

constexpr uint64_t kSteps = 16;

/// A reduction to `root`, by rendezvous, whose result all get.
Job rooted(const char* op, int root, int late) {
  return [=](const Times& t) {
    return test::run()
        .ranks(4)
        .steps(kSteps)
        .compute(t.compute_ns)
        .rendezvous()
        .collective(op, 1_MiB, t.transfer_ns, root)
        .bcast(1_MiB, t.transfer_ns, root)
        .slow(late, t.late_ns);
  };
}

const std::pair<const char*, Job> kJobs[] = {
    {"allreduce",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .allreduce(1_MiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"two collectives",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .allreduce(1_MiB, t.transfer_ns)
           .compute(t.compute_ns / 2)
           .collective("MPI_Alltoall", 1_MiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"broadcast",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .bcast(1_MiB, t.transfer_ns, 2)
           .allreduce(1_KiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"reduce",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .reduce(1_MiB, t.transfer_ns, 1)
           .barrier(t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"groups",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .split("pair", 2)
           .compute(t.compute_ns)
           .on_comm("pair")
           .allreduce(1_MiB, t.transfer_ns)
           .compute(t.compute_ns)
           .allreduce(2_MiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"messages",
     [](const Times& t) {
       return test::run()
           .ranks(2)
           .steps(kSteps)
           .compute(t.compute_ns)
           .message(0, 1, 1_MiB, t.transfer_ns)
           .message(1, 0, 1_MiB, t.transfer_ns)
           .slow(1, t.late_ns);
     }},
    {"synchronous messages",
     [](const Times& t) {
       return test::run()
           .ranks(2)
           .steps(kSteps)
           .compute(t.compute_ns)
           .message(0, 1, 1_MiB, t.transfer_ns, true)
           .slow(1, t.late_ns);
     }},
    {"ring",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .sendrecv_ring(1_MiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"ring by rendezvous",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .rendezvous()
           .sendrecv_ring(1_MiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"neighbours",
     [](const Times& t) {
       return test::run()
           .ranks(6)
           .steps(kSteps)
           .compute(t.compute_ns)
           .halo(1_MiB, t.transfer_ns)
           .barrier(t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"neighbours by rendezvous",
     [](const Times& t) {
       return test::run()
           .ranks(6)
           .steps(kSteps)
           .compute(t.compute_ns)
           .rendezvous()
           .halo(1_MiB, t.transfer_ns)
           .slow(2, t.late_ns);
     }},
    {"reduce with a late root, by rendezvous", rooted("MPI_Reduce", 2, 2)},
    {"reduce with another late rank, by rendezvous", rooted("MPI_Reduce", 0, 2)},
    {"gather with a late root, by rendezvous", rooted("MPI_Gather", 2, 2)},
    {"gather with another late rank, by rendezvous", rooted("MPI_Gather", 0, 2)},
    {"exposed non-blocking",
     [](const Times& t) {
       return test::run()
           .ranks(4)
           .steps(kSteps)
           .compute(t.compute_ns)
           .iallreduce(1_MiB, t.transfer_ns)
           .compute(1_ms)
           .waitall()
           .slow(2, t.late_ns);
     }},
};

// posts and root's calls take a microsecond in the generator, whatever the network
constexpr double kCallTolerance = 0.004;

TEST(ReplayRun, IsTheRecordedRun) {
  for (const auto& [name, job] : kJobs) {
    const Replayed run(job({}));
    EXPECT_NEAR(run.step_s(run.replay.replay.recorded()) / run.truth_s(), 1, kCallTolerance) << name;
    EXPECT_EQ(run.replay.steps, static_cast<int64_t>(kSteps) - 5) << name;
  }
}

TEST(ReplayRun, AFasterNetworkIsTheJobOnAFasterNetwork) {
  for (const auto& [name, job] : kJobs) {
    const Replayed run(job({}));
    const Replayed other(job({.transfer_ns = 1_ms}));
    EXPECT_NEAR(run.step_s(faster_network(run.replay.replay, 4)) / other.truth_s(), 1, kCallTolerance) << name;
  }
}

TEST(ReplayRun, AHealthyRankIsTheJobWithoutAStraggler) {
  for (const auto& [name, job] : kJobs) {
    const Replayed run(job({}));
    const Replayed other(job({.late_ns = 0}));
    const int64_t late = run.view.ranks == 2 ? 1 : 2;
    EXPECT_NEAR(run.step_s(healthy_rank(run.replay.replay, late)) / other.truth_s(), 1, kCallTolerance) << name;
    const Slowdown slowdown = slowdown_of(run.replay.replay);
    EXPECT_GT(slowdown.slowdown, 1.03) << name;
  }
}

TEST(ReplayRun, AnEagerSenderDoesNotWaitForItsReceiver) {
  // Rank 3 sends to rank 0, which often comes a little later, while rank 3 still receives. That it need not have waited
  // for that shows in the steps in which rank 0 is so late that rank 3 has left.
  const auto job_of = [](bool late) {
    SyntheticRun job = test::run().ranks(4).steps(kSteps).compute(10_ms).on_rank(3).compute(3_ms);
    if (late) job.on_rank(0).every(2).compute(5_ms).on_rank(0).every(7).compute(20_ms);
    if (!late) job.on_rank(0).compute(1_ms);  // the mean of the others
    return job.sendrecv_ring(1_MiB, 6_ms);
  };
  const Replayed run(job_of(true));
  const Replayed other(job_of(false));
  EXPECT_NEAR(run.step_s(healthy_rank(run.replay.replay, 0)) / other.truth_s(), 1, kCallTolerance);
}

TEST(ReplayRun, AnEvenLayerIsTheJobWhoseRanksShareItsWork) {
  // Before a collective in the layer one rank computes 8 ms longer than the others, behind it another one 4 ms.
  const auto job_of = [](bool spread) {
    SyntheticRun job =
        test::run().ranks(4).steps(kSteps).compute(10_ms).on_rank(3).compute(1_ms).layer("experts").compute(4_ms);
    for (int rank = 0; rank < 4; ++rank)
      if (const int64_t more_ns = spread ? 2_ms : rank == 2 ? 8_ms : 0; more_ns > 0) job.on_rank(rank).compute(more_ns);
    job.allreduce(1_MiB, 4_ms);
    for (int rank = 0; rank < 4; ++rank)
      if (const int64_t more_ns = spread ? 1_ms : rank == 1 ? 4_ms : 0; more_ns > 0) job.on_rank(rank).compute(more_ns);
    return job.compute(1_ms).end_layer().layer("head", 5_ms).allreduce(2_MiB, 4_ms);
  };
  Replayed run(job_of(false));
  const Replayed other(job_of(true));
  const RunReplay layered = replay_run(run.run.db, run.view.world, regions_of_layer(run.run.db, "experts"));
  EXPECT_NEAR(run.truth_s() - other.truth_s(), 8e-3, 1e-4)
      << "6 and 3 ms are saved, but for the one by which rank 3 comes late as well";
  EXPECT_NEAR(run.step_s(even_layer(layered.replay, layered.within_s)) / other.truth_s(), 1, kCallTolerance);
  const RunReplay nowhere = replay_run(run.run.db, run.view.world, regions_of_layer(run.run.db, "decoder"));
  EXPECT_EQ(nowhere.replay.recorded(), even_layer(nowhere.replay, nowhere.within_s));
}

TEST(ReplayRun, ALargerBatchIsTheJobThatComputesMore) {
  for (const auto& [name, job] : kJobs) {
    if (std::string(name) == "exposed non-blocking") continue;  // what is hidden then is not seen here
    const Replayed run(job({.late_ns = 0}));
    const Replayed other(job({.compute_ns = 20_ms, .late_ns = 0}));
    EXPECT_NEAR(run.step_s(larger_batch(run.replay.replay, 2)) / other.truth_s(), 1, kCallTolerance) << name;
  }
}

TEST(ReplayRun, TheOptimizerDoesNotGrowWithTheBatch) {
  const auto job_of = [](int64_t times) {
    return test::run()
        .ranks(4)
        .steps(kSteps)
        .phase("data")
        .compute(times * 1_ms)
        .end_phase()
        .phase("forward")
        .compute(times * 10_ms)
        .end_phase()
        .phase("backward")
        .compute(times * 20_ms)
        .allreduce(1_MiB, 4_ms)
        .end_phase()
        .compute(6_ms);
  };
  Replayed run(job_of(1));
  const Replayed other(job_of(2));
  const RunReplay marked = replay_run(run.run.db, run.view.world, regions_of_samples(run.run.db));
  EXPECT_NEAR(run.step_s(larger_batch(marked.replay, 2, marked.within_s)) / other.truth_s(), 1, kCallTolerance);
  EXPECT_NEAR(saving_of_twice_the_batch(run.run.db, run.view.world).value().seconds,
              run.truth_s() - other.truth_s() / 2, 2e-5)
      << "half of the reduction and of the optimizer";
  Replayed unmarked(
      test::run().ranks(4).steps(kSteps).phase("forward").compute(10_ms).end_phase().compute(6_ms).allreduce(1_MiB,
                                                                                                             4_ms));
  EXPECT_TRUE(regions_of_samples(unmarked.run.db).empty()) << "what computes backwards is not known";
}

/// An Iallreduce goes on behind 20 calls of 200 us, for longer than these or not.
TEST(ReplayRun, OneCallForAllSmallOnes) {
  const auto job_of = [](int64_t behind_ns, int calls, int64_t each_ns) {
    SyntheticRun job = test::run().ranks(4).steps(kSteps).compute(10_ms).iallreduce(1_MiB, behind_ns);
    for (int i = 0; i < calls; ++i) job.allreduce(1_KiB, each_ns);
    return job.waitall().compute(1_ms);
  };
  for (const int64_t behind_ns : {6_ms, 1_ms, 100_us}) {
    Replayed run(job_of(behind_ns, 20, 200_us));
    const Replayed other(job_of(behind_ns, 1, 300_us));
    const int64_t op = run.run.integer("SELECT id FROM op WHERE name = 'MPI_Allreduce'");
    const int64_t comm = run.run.integer("SELECT comm FROM event WHERE op = " + std::to_string(op) + " LIMIT 1");
    const std::optional<FusedSaving> saving =
        saving_of_fused(run.run.db, run.view.world, {op, 64 * 1024, {{comm, 300e-6}}});
    ASSERT_TRUE(saving);
    const double truth_s = run.truth_s() - other.truth_s();
    if (behind_ns == 6_ms) {
      EXPECT_NEAR(saving->seconds, truth_s, 2e-5) << "ranks were seen to wait for it, and still do";
      EXPECT_FALSE(saving->at_most);
    } else {
      EXPECT_TRUE(saving->at_most) << "nobody saw when it was over";
      EXPECT_GE(saving->seconds, truth_s - 2e-5);
      EXPECT_NEAR(saving->seconds, 20 * 200e-6 - 300e-6, 2e-5);
    }
  }
  Replayed blocking(test::run()
                        .ranks(4)
                        .steps(kSteps)
                        .compute(10_ms)
                        .allreduce(1_KiB, 200_us)
                        .allreduce(2_KiB, 200_us)
                        .allreduce(1_MiB, 4_ms));
  const int64_t op = blocking.run.integer("SELECT id FROM op WHERE name = 'MPI_Allreduce'");
  const int64_t comm = blocking.run.integer("SELECT comm FROM event WHERE op = " + std::to_string(op) + " LIMIT 1");
  const std::optional<FusedSaving> saving =
      saving_of_fused(blocking.run.db, blocking.view.world, {op, 64 * 1024, {{comm, 250e-6}}});
  ASSERT_TRUE(saving);
  EXPECT_NEAR(saving->seconds, 150e-6, 5e-6);
  EXPECT_FALSE(saving->at_most);
}

TEST(ReplayRun, TheStragglerAnswersForTheSlowness) {
  const Replayed run(kJobs[0].second({}));
  const Slowdown slowdown = slowdown_of(run.replay.replay);
  // Three ranks compute 10 ms, one 16 ms: 11.5 in the mean; 4 ms of allreduce.
  EXPECT_NEAR(slowdown.step_s, 20e-3, 1e-6);
  EXPECT_NEAR(slowdown.ideal_step_s, 15.5e-3, 1e-6);
  EXPECT_EQ(slowdown.ranks[0].number, 2);
  EXPECT_NEAR(slowdown.ranks[0].slowdown, 20 / 15.5, 1e-4);
  EXPECT_EQ(slowdown.types[0].name, "compute");
  EXPECT_NEAR(*slowdown.fixed_by_ranks, 1, 1e-6);
}

TEST(ReplayRun, WithoutStepsTheRunIsOne) {
  const Replayed run(test::run().ranks(4).steps(2).no_steps().compute(10_ms).allreduce(1_MiB, 4_ms).slow(2, 6_ms));
  EXPECT_EQ(run.replay.steps, 1);
  EXPECT_NEAR(run.step_s(run.replay.replay.recorded()), run.replay.recorded_step_s, 1e-3 * run.replay.recorded_step_s);
  EXPECT_NEAR(run.step_s(run.replay.replay.recorded()) - run.step_s(healthy_rank(run.replay.replay, 2)), 0.012, 1e-6);
}

TEST(ReplayRun, KnowsTheStagesOfAPipeline) {
  // Two stages, four micro-batches forward and back; the last one computes twice as long.
  SyntheticRun job = test::run().ranks(2).steps(12);
  for (int i = 0; i < 4; ++i) job.on_rank(0).compute(10_ms).message(0, 1, 1_MiB, 100_us).on_rank(1).compute(20_ms);
  for (int i = 0; i < 4; ++i) job.on_rank(1).compute(40_ms).message(1, 0, 1_MiB, 100_us).on_rank(0).compute(20_ms);
  const Replayed run(job);
  const std::map<int64_t, int64_t> stages = stages_of(run.view.db, run.view.world);
  ASSERT_EQ(stages, (std::map<int64_t, int64_t>{{0, 0}, {1, 1}}));
  EXPECT_NEAR(run.step_s(run.replay.replay.recorded()) / run.truth_s(), 1, kCallTolerance);
  const Slowdown slowdown = slowdown_of(run.replay.replay, [&](int64_t rank) { return stages.at(rank); });
  ASSERT_EQ(slowdown.stages.size(), 2u);
  EXPECT_GT(slowdown.stages[1].slowdown, slowdown.stages[0].slowdown);
  EXPECT_GT(*slowdown.fixed_by_last_stage, 0.5);
}

TEST(ReplayRun, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(
      Replayed(test::run().ranks(4).steps(16).compute(10_ms).allreduce(1_MiB, 4_ms).missing(1).missing(2).missing(3)),
      Error);
  EXPECT_THROW(Replayed(test::run().ranks(4).steps(16).compute(1_ms).collective("MPI_Scan", 1_MiB, 4_ms)), Error);
  EXPECT_THROW(Replayed(test::run().ranks(2).steps(64).compute(1_ms).allreduce(1_MiB, 4_ms).window(0, 9)), Error);
}

}  // namespace
}  // namespace ddl::models
