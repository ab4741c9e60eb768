// Pipelines: their shape by the order of messages, their bubble against what the schedule says, and what
// only looks like one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "analyzer/models/pipeline.h"
#include "analyzer/passes/pipeline_shape.h"
#include "tests/analyzer/analyzed.h"

namespace ddl::test {
namespace {

using Messages = std::vector<std::vector<StageMessage>>;

/// 1F1B of Megatron: warm-up forwards, then forward and backward in turns, then the remaining backwards.
Messages one_f_one_b(int stages, int micro_batches, int64_t first_process = 0) {
  Messages all(static_cast<size_t>(first_process + stages));
  for (int s = 0; s < stages; ++s) {
    auto& own = all[static_cast<size_t>(first_process + s)];
    const auto peer = [&](int stage) { return static_cast<int32_t>(first_process + stage); };
    const auto forward = [&] {
      if (s > 0) own.push_back({true, peer(s - 1), 1000});
      if (s + 1 < stages) own.push_back({false, peer(s + 1), 1000});
    };
    const auto backward = [&] {
      if (s + 1 < stages) own.push_back({true, peer(s + 1), 1000});
      if (s > 0) own.push_back({false, peer(s - 1), 1000});
    };
    const int warmup = std::min(stages - s, micro_batches);
    for (int i = 0; i < warmup; ++i) forward();
    for (int i = warmup; i < micro_batches; ++i) backward(), forward();
    for (int i = 0; i < warmup; ++i) backward();
  }
  return all;
}

TEST(PipelineShape, OneForwardOneBackward) {
  for (const int stages : {2, 3, 5, 8}) {
    for (const int micro_batches : {2, 4, 16}) {
      const auto places = find_pipelines(one_f_one_b(stages, micro_batches, 3));
      for (int s = 0; s < stages; ++s) {
        ASSERT_TRUE(places[static_cast<size_t>(3 + s)]) << stages << " " << micro_batches << " " << s;
        EXPECT_EQ(*places[static_cast<size_t>(3 + s)], (PipelinePlace{3, s, stages, micro_batches, 1}));
      }
      EXPECT_FALSE(places[0]);
    }
  }
}

TEST(PipelineShape, ReplicasAreSeveralPipelines) {
  Messages both = one_f_one_b(3, 4);
  const Messages second = one_f_one_b(3, 4, 3);
  both.insert(both.end(), second.begin() + 3, second.end());
  const auto places = find_pipelines(both);
  EXPECT_EQ(*places[2], (PipelinePlace{0, 2, 3, 4, 1}));
  EXPECT_EQ(*places[5], (PipelinePlace{3, 2, 3, 4, 1}));
}

TEST(PipelineShape, SeveralMessagesPerMicroBatch) {
  Messages messages = one_f_one_b(3, 4);
  for (auto& own : messages) {  // the shape goes ahead of each tensor
    std::vector<StageMessage> more;
    for (const StageMessage& m : own) {
      more.push_back({m.receive, m.peer, 8});
      more.push_back(m);
    }
    own = more;
  }
  EXPECT_EQ(find_pipelines(messages)[1]->micro_batches, 4);
}

TEST(PipelineShape, InterleavedStagesCloseARing) {
  // 3 devices, 2 chunks, 3 micro-batches: all forwards, then all backwards.
  const int p = 3, v = 2, m = 3;
  Messages messages(p);
  for (int d = 0; d < p; ++d) {
    auto& own = messages[static_cast<size_t>(d)];
    for (int chunk = 0; chunk < v; ++chunk) {
      for (int i = 0; i < m; ++i) {
        if (d > 0 || chunk > 0) own.push_back({true, (d + p - 1) % p, 1000});
        if (d + 1 < p || chunk + 1 < v) own.push_back({false, (d + 1) % p, 1000});
      }
    }
    for (int chunk = v - 1; chunk >= 0; --chunk) {
      for (int i = 0; i < m; ++i) {
        if (d + 1 < p || chunk + 1 < v) own.push_back({true, (d + 1) % p, 1000});
        if (d > 0 || chunk > 0) own.push_back({false, (d + p - 1) % p, 1000});
      }
    }
  }
  const auto places = find_pipelines(messages);
  for (int d = 0; d < p; ++d) EXPECT_EQ(*places[static_cast<size_t>(d)], (PipelinePlace{0, d, p, m, v}));
}

TEST(PipelineShape, WhatIsNoPipeline) {
  // Halo on a line: everybody sends first.
  Messages halo(4);
  for (int32_t r = 0; r < 4; ++r) {
    for (const int32_t peer : {r - 1, r + 1})
      if (peer >= 0 && peer < 4) halo[static_cast<size_t>(r)].push_back({false, peer, 100});
    for (const int32_t peer : {r - 1, r + 1})
      if (peer >= 0 && peer < 4) halo[static_cast<size_t>(r)].push_back({true, peer, 100});
  }
  // The same, odd ranks receiving first.
  Messages red_black(4);
  for (int32_t r = 0; r < 4; ++r) {
    for (const bool receive : {r % 2 == 1, r % 2 == 0})
      for (const int32_t peer : {r - 1, r + 1})
        if (peer >= 0 && peer < 4) red_black[static_cast<size_t>(r)].push_back({receive, peer, 100});
  }
  // Question and answer, ten times.
  Messages ping_pong(2);
  for (int i = 0; i < 10; ++i) {
    ping_pong[0].push_back({false, 1, 100}), ping_pong[0].push_back({true, 1, 100});
    ping_pong[1].push_back({true, 0, 100}), ping_pong[1].push_back({false, 0, 100});
  }
  // A server and its clients.
  Messages server(4);
  for (int32_t r = 1; r < 4; ++r) {
    for (int i = 0; i < 3; ++i) {
      server[0].push_back({false, r, 100}), server[static_cast<size_t>(r)].push_back({true, 0, 100});
    }
  }
  for (int32_t r = 1; r < 4; ++r) {
    for (int i = 0; i < 3; ++i) {
      server[0].push_back({true, r, 100}), server[static_cast<size_t>(r)].push_back({false, 0, 100});
    }
  }
  // One direction only.
  Messages one_way(3);
  for (int32_t r = 0; r < 3; ++r) {
    for (int i = 0; i < 4; ++i) {
      if (r > 0) one_way[static_cast<size_t>(r)].push_back({true, r - 1, 100});
      if (r < 2) one_way[static_cast<size_t>(r)].push_back({false, r + 1, 100});
    }
  }
  const Messages talks_to_a_stranger = [] {
    Messages messages = one_f_one_b(3, 4);
    messages.resize(4);
    messages[1].push_back({false, 3, 100});
    messages[3].push_back({true, 1, 100});
    return messages;
  }();
  for (const Messages& messages : {halo, red_black, ping_pong, server, one_way, talks_to_a_stranger}) {
    for (const auto& place : find_pipelines(messages)) EXPECT_FALSE(place);
  }
  EXPECT_TRUE(find_pipelines({}).empty());
}

// ---------------------------------------------------------------------------------------------------------- whole runs

constexpr int64_t kForward = 10_ms, kBackward = 20_ms;

/// GPipe: all micro-batches forward, then all backward, and an allreduce that lets the pipeline drain. Transfers
/// take next to nothing.
SyntheticRun gpipe(int stages, int micro_batches, int64_t slow_stage_ns = 0) {
  SyntheticRun job = run().ranks(stages).steps(12);
  for (const bool forward : {true, false}) {
    for (int i = 0; i < micro_batches; ++i) {
      for (int k = 0; k < stages; ++k) {
        const int s = forward ? k : stages - 1 - k;
        const int next = forward ? s + 1 : s - 1;
        job.on_rank(s).compute((forward ? kForward : kBackward) + (s == 1 ? slow_stage_ns : 0));
        if (next >= 0 && next < stages) job.message(s, next, 1_MiB, 1_ns);
      }
    }
  }
  return job.allreduce(1_MiB, 1_ms);
}

TEST(Pipelines, BubbleIsThatOfTheSchedule) {
  for (const auto& [stages, micro_batches] : std::map<int, int>{{2, 4}, {4, 8}}) {
    Analyzed run(gpipe(stages, micro_batches));
    EXPECT_EQ(
        run.integer("SELECT count(*) FROM v_pipeline WHERE pipeline = 0 AND stage = rank AND stages = " +
                    std::to_string(stages) + " AND chunks = 1 AND micro_batches = " + std::to_string(micro_batches)),
        stages);
    expect_steps(run);
    const double model = models::pipeline_bubble(stages, micro_batches).of_total;
    const auto metric = [&](const char* id) {
      return run.db.execAndGet("SELECT value FROM metric WHERE id = '" + std::string(id) + "'").getDouble();
    };
    EXPECT_DOUBLE_EQ(metric("bubble_model"), model);
    EXPECT_NEAR(metric("bubble_model"), metric("bubble_model_ideal") / (1 + metric("bubble_model_ideal")), 1e-12);
    // The allreduce adds 1 ms to the step, which is not a bubble: the share is that much smaller.
    const double busy_ms = 30.0 * micro_batches, step_ms = busy_ms / (1 - model) + 1;
    EXPECT_NEAR(metric("bubble"), (step_ms - 1 - busy_ms) / step_ms, 1e-3);
    EXPECT_NEAR(metric("bubble_excess"), metric("bubble") - model, 1e-12);
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE bubble_ns > wait_ns OR bubble_ns IS NULL"), 0);
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "bubble");
  }
}

TEST(Pipelines, AnUnevenStageShowsBeyondTheSchedule) {
  Analyzed even(gpipe(4, 8)), uneven(gpipe(4, 8, 8_ms));
  const char* excess = "SELECT value FROM metric WHERE id = 'bubble_excess'";
  EXPECT_LT(even.db.execAndGet(excess).getDouble(), 0.001);
  EXPECT_GT(uneven.db.execAndGet(excess).getDouble(), 0.1);
}

TEST(Pipelines, WithoutClocksWhatLiesOutsideTheStepsIsNoBubble) {
  SyntheticRun job = gpipe(4, 8, 8_ms);
  Analyzed run(job.hosts(4, 0));
  const auto forget_clocks = [&](const char* more) {
    run.db.exec("UPDATE host SET sigma_ns = NULL, offset_ns = id");
    run.db.exec(more);
    ddl::analyze(run.db);
    EXPECT_EQ(run.findings().front(), "pipeline_bubble");
    return run.integer("SELECT saving_ns FROM finding WHERE id = 'pipeline_bubble'");
  };
  const int64_t saving_ns = forget_clocks("SELECT 1");
  EXPECT_EQ(run.text("SELECT coalesce(why, '') FROM metric WHERE id = 'bubble'"), "CLOCK_UNTRUSTED");
  // An evaluation between the epochs: calls that the profile knows, in no step.
  EXPECT_EQ(
      forget_clocks("UPDATE profile SET time_ns = 2 * time_ns WHERE op = (SELECT id FROM op WHERE name = 'MPI_Recv')"),
      saving_ns);
}

/// Hooks open the first step at the first forward pass: the stages behind the first have received its input before.
TEST(Pipelines, TheFirstStepMayBeginBehindItsFirstMessage) {
  Analyzed run(gpipe(4, 8));
  run.db.exec(
      "UPDATE step SET start_ns = start_ns + 10005000 * (process - (SELECT min(id) FROM process)), duration_ns = duration_ns - 10005000 * (process -"
      " (SELECT min(id) FROM process)) WHERE step = 0");
  ddl::analyze(run.db);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_pipeline WHERE stage = rank AND stages = 4 AND micro_batches = 8"), 4);
}

TEST(Pipelines, NoneInOtherJobs) {
  Analyzed run(test::run().ranks(4).steps(6).compute(10_ms).halo(1_MiB, 1_ms).allreduce(1_MiB, 1_ms));
  EXPECT_EQ(run.integer("SELECT count(*) FROM pipeline"), 0);
  EXPECT_EQ(run.integer("SELECT count(*) FROM step_part WHERE bubble_ns IS NOT NULL"), 0);
  for (const char* id : {"bubble", "f_bub", "bubble_model", "bubble_model_ideal", "bubble_excess"})
    EXPECT_EQ(run.text("SELECT why FROM metric WHERE id = '" + std::string(id) + "'"), "NOT_APPLICABLE") << id;
}

// Two hosts that no collective joins: nobody knows who waited for a message, and time inside receives is all there is.
TEST(Pipelines, WithoutClocksTheBubbleIsAtMostTheTimeInsideReceives) {
  Analyzed whole(gpipe(4, 4)), apart(gpipe(4, 4).hosts(2));
  ASSERT_EQ(apart.findings(), Ids{"pipeline_bubble"});
  EXPECT_EQ(apart.integer("SELECT count(*) FROM metric WHERE id = 'bubble' AND value IS NULL"), 1);
  const auto saving_ns = [](Analyzed& run) { return run.db.execAndGet("SELECT saving_ns FROM finding").getDouble(); };
  EXPECT_NEAR(saving_ns(apart), saving_ns(whole), 1e5)
      << "what more micro-batches save is known by what the stages compute";
  EXPECT_TRUE(has(apart.text("SELECT sentence FROM finding"), "stands still for at most "))
      << apart.text("SELECT sentence FROM finding");
  EXPECT_EQ(apart.text("SELECT coalesce(saving_bound, 'known') FROM finding"), "known");
  Analyzed beyond(gpipe(4, 8, 30_ms).hosts(2));
  ASSERT_EQ(beyond.findings().front(), "pipeline_bubble");
  EXPECT_EQ(beyond.text("SELECT saving_bound FROM finding"), "upper") << "what is beyond the schedule is not";
}

/// Steps of three stages with twice the micro-batches of half the size are as much shorter: a quarter of the step
/// is no pipeline's.
TEST(Pipelines, MoreMicroBatchesShortenWhatFillsThePipeline) {
  const auto job_of = [](int micro_batches, int64_t forward_ns) {
    SyntheticRun job = run().ranks(3).steps(12);
    for (const bool forward : {true, false}) {
      for (int i = 0; i < micro_batches; ++i) {
        for (int k = 0; k < 3; ++k) {
          const int s = forward ? k : 2 - k, next = forward ? s + 1 : s - 1;
          job.on_rank(s)
              .phase(forward ? "forward" : "backward")
              .on_rank(s)
              .compute(forward ? forward_ns : 2 * forward_ns);
          job.on_rank(s).end_phase();
          if (next >= 0 && next < 3) job.message(s, next, 1_MiB, 1_ns);
        }
      }
    }
    return job.allreduce(1_MiB, 1_ms).compute(60_ms);
  };
  Analyzed few(job_of(4, 10_ms)), more(job_of(8, 5_ms));
  ASSERT_EQ(few.findings(), Ids{"pipeline_bubble"});
  const char* step = "SELECT avg(duration_ns) FROM v_step WHERE step > 5 AND rank = 0";
  const double truth_ns = few.db.execAndGet(step).getDouble() - more.db.execAndGet(step).getDouble();
  EXPECT_NEAR(truth_ns, 30e6, 1e5) << "two stages wait for one micro-batch less";
  EXPECT_NEAR(few.db.execAndGet("SELECT saving_ns FROM finding").getDouble(), truth_ns, 0.02 * truth_ns);
}

/// A message that is waited for takes its time after the sender's as well: that is no bubble, and who waited for the
/// stage without a record or its messages is not known.
TEST(Pipelines, TransfersBesideAStageWithoutARecordAreNoBubble) {
  const auto job = [] {
    SyntheticRun pipeline = run().ranks(3).steps(12);
    for (const bool forward : {true, false}) {
      for (int i = 0; i < 56; ++i) {
        for (int k = 0; k < 3; ++k) {
          const int s = forward ? k : 2 - k, next = forward ? s + 1 : s - 1;
          pipeline.on_rank(s).compute(forward ? 100_us : 200_us);
          if (next >= 0 && next < 3) pipeline.message(s, next, 40_KiB, 6_us);
        }
      }
    }
    return pipeline.allreduce(40_KiB, 6_us);
  };
  Analyzed whole(job()), part(job().missing(1));
  EXPECT_EQ(whole.findings(), Ids{});
  EXPECT_EQ(part.findings(), Ids{}) << part.text("SELECT coalesce(max(sentence), '') FROM finding");
}

TEST(Pipelines, AStageWithoutARecordIsToldByItsNeighbours) {
  constexpr int kStages = 4, kMicroBatches = 4;
  Analyzed whole(gpipe(kStages, kMicroBatches));
  const double bubble = whole.db.execAndGet("SELECT value FROM metric WHERE id = 'bubble'").getDouble();
  EXPECT_NEAR(bubble, 3.0 / 7, 0.01);
  for (int missing = 0; missing < kStages; ++missing) {
    Analyzed run(gpipe(kStages, kMicroBatches).missing(missing));
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_pipeline WHERE stage = rank AND stages = 4 AND micro_batches = 4"),
              kStages - 1)
        << missing;
    EXPECT_EQ(run.integer("SELECT count(DISTINCT pipeline) FROM v_pipeline"), 1);
    const double known = run.db.execAndGet("SELECT value FROM metric WHERE id = 'bubble'").getDouble();
    EXPECT_GT(known, 0);
    EXPECT_LT(known, bubble + 1e-9) << "a lower bound without stage " << missing;
    EXPECT_EQ(run.findings(), Ids{"pipeline_bubble"});
    EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"),
                    "4 micro-batches are too few for 4 stages: the pipeline stands still for at "))
        << run.text("SELECT sentence FROM finding");
  }
}

TEST(Pipelines, ReplicasReduceAcrossPipelines) {
  // Two pipelines of two stages, ranks 0-1 and 2-3; the second is slower. What the first waits for it in the
  // gradients is not a bubble.
  SyntheticRun job = run().ranks(4).steps(8).split("stage", 2, true);
  for (const bool forward : {true, false}) {
    for (int i = 0; i < 4; ++i) {
      for (const int first : {0, 2}) {
        for (int k = 0; k < 2; ++k) {
          const int s = forward ? k : 1 - k;
          job.on_rank(first + s).compute(10_ms + (first == 2 ? 3_ms : 0));
          if (k == 0) job.message(first + s, first + 1 - s, 1_MiB, 1_ns);
        }
      }
    }
  }
  Analyzed run(job.on_comm("stage").allreduce(1_MiB, 1_ms));
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_pipeline WHERE pipeline = rank - stage AND stages = 2"), 4);
  // 8 micro-batch passes of 10 ms or 13 ms; the stages of the first pipeline wait 24 to 27 ms for the
  // second in the end.
  EXPECT_GT(run.integer("SELECT min(wait_ns - bubble_ns) FROM v_step WHERE rank < 2 AND step > 0"), 20_ms);
  EXPECT_LT(run.integer("SELECT max(wait_ns - bubble_ns) FROM v_step WHERE rank >= 2"), 4_ms);
}

/// Two pipelines of two stages, ranks 0-1 and 2-3; `longer_ns`: by which a stage computes longer, of 10 ms.
SyntheticRun two_stages(int64_t first_longer_ns, int64_t second_longer_ns) {
  SyntheticRun job = run().ranks(4).steps(20).jitter(200_us).split("stage", 2, true);
  for (const bool forward : {true, false}) {
    for (int i = 0; i < 4; ++i) {
      for (const int first : {0, 2}) {
        for (int k = 0; k < 2; ++k) {
          const int s = forward ? k : 1 - k;
          job.on_rank(first + s).compute(10_ms + (s == 0 ? first_longer_ns : second_longer_ns));
          if (k == 0) job.message(first + s, first + 1 - s, 1_MiB, 1_ns);
        }
      }
    }
  }
  return job.on_comm("stage").allreduce(1_MiB, 1_ms);
}

constexpr const char* kNamed = "SELECT coalesce(group_concat(sentence), '') FROM finding WHERE id = 'straggler'";

/// A stage is half of the ranks then: no minority, but not to be taken for the others.
TEST(Pipelines, OfTwoStagesTheLongerOneIsNamed) {
  const auto step_ns = [](Analyzed& run) {
    return run.db.execAndGet("SELECT value FROM metric WHERE id = 'step_time'").getDouble();
  };
  Analyzed even(two_stages(0, 0));
  EXPECT_EQ(even.text(kNamed), "");
  for (const int stage : {0, 1}) {
    Analyzed run(two_stages(stage == 0 ? 4_ms : 0, stage == 1 ? 4_ms : 0));
    EXPECT_TRUE(has(run.text(kNamed),
                    stage == 0 ? "all 2 ranks of pipeline stage 0 (ranks 0 and 2) compute longest in 100% of steps"
                               : "all 2 ranks of pipeline stage 1 (ranks 1 and 3) compute longest in 100% of steps"))
        << run.text(kNamed);
    EXPECT_TRUE(has(run.text("SELECT try FROM finding WHERE id = 'straggler'"),
                    "give stage " + std::to_string(stage) + " less to do"));
    const auto saving_ns = static_cast<double>(run.integer("SELECT saving_ns FROM finding WHERE id = 'straggler'"));
    EXPECT_NEAR(saving_ns / (step_ns(run) - step_ns(even)), 1, 0.1)
        << "stage " << stage << ": " << saving_ns << " of " << step_ns(run);
    const auto evidence = [&] {
      return run.text("SELECT coalesce(min(evidence), '') FROM finding WHERE id = 'straggler'");
    };
    EXPECT_TRUE(has(evidence(), " inside MPI for ")) << evidence();
    run.db.exec("UPDATE op SET name = 'gloo::' || name WHERE name LIKE 'MPI%'");
    ddl::analyze(run.db);
    EXPECT_TRUE(has(evidence(), " inside collectives and messages for ")) << evidence();
  }
}

/// Noise, a layer more on one side that takes next to nothing, and one slow replica are no longer stage.
TEST(Pipelines, OfTwoEvenStagesNoneIsNamed) {
  for (const auto& [first_ns, second_ns] : {std::pair(0_ns, 0_ns), std::pair(100_us, 0_ns), std::pair(0_ns, 100_us)}) {
    Analyzed run(two_stages(first_ns, second_ns));
    EXPECT_EQ(run.text(kNamed), "") << first_ns << " " << second_ns;
  }
  Analyzed uneven(two_stages(0, 0).jitter(3_ms));
  EXPECT_EQ(uneven.text(kNamed), "");
  Analyzed replica(two_stages(0, 0).slow(3, 30_ms));
  EXPECT_FALSE(has(replica.text(kNamed), "stage")) << replica.text(kNamed);
}

// -------------------------------------------------------------------------------------------------------- loading data

TEST(InputRanges, AreTakenOutOfComputing) {
  Analyzed run(test::run()
                   .ranks(2)
                   .steps(12)
                   .phase("input")
                   .compute(30_ms)
                   .end_phase()
                   .phase("forward")
                   .compute(60_ms)
                   .end_phase()
                   .allreduce(1_MiB, 10_ms));
  EXPECT_EQ(run.integer("SELECT min(input_ns) FROM v_step"), 30_ms);
  EXPECT_EQ(run.integer("SELECT max(input_ns) FROM v_step"), 30_ms);
  EXPECT_NEAR(run.db.execAndGet("SELECT value FROM metric WHERE id = 'f_input'").getDouble(), 0.3, 1e-3);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "input");
}

TEST(InputRanges, NotNamedIsNotKnown) {
  Analyzed run(test::run().ranks(2).steps(12).compute(30_ms).allreduce(1_MiB, 10_ms));
  EXPECT_EQ(run.integer("SELECT count(input_ns) FROM v_step"), 0);
  EXPECT_EQ(run.text("SELECT why FROM metric WHERE id = 'f_input'"), "NO_DATA");
}

}  // namespace
}  // namespace ddl::test
