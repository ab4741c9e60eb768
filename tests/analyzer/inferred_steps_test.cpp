// Steps and layers of jobs that mark none: what repeats, where it begins, and that the numbers are those of the
// same job with marks.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/passes/repetition.h"
#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

/// Calls of 10 us; `pauses` before the calls of one period.
std::vector<Beat> beats(const std::vector<int64_t>& tokens, const std::vector<int64_t>& pauses_ns, size_t repetitions) {
  std::vector<Beat> result;
  int64_t now_ns = 0;
  for (size_t r = 0; r < repetitions; ++r) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      now_ns += pauses_ns[i];
      result.push_back({tokens[i], now_ns, now_ns + 10'000});
      now_ns += 10'000;
    }
  }
  return result;
}

TEST(Repetition, BeginsAfterTheLongestPause) {
  const auto found = find_repetition(beats({1, 2, 3, 4}, {100'000, 200'000, 5'000'000, 100'000}, 10));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 4u);
  EXPECT_DOUBLE_EQ(found->agreement, 1);
  ASSERT_EQ(found->steps.size(), 9u);  // what lies before the first pause and behind the last step's end is cut off
  EXPECT_EQ(found->steps[0], (std::pair<size_t, size_t>{2, 6}));
  EXPECT_EQ(found->steps[8], (std::pair<size_t, size_t>{34, 38}));
}

TEST(Repetition, LastStepEndsWhereTheOthersDo) {
  std::vector<Beat> all = beats({7, 8}, {0, 0}, 1);  // parameters are sent around before the first step
  for (Beat beat : beats({1, 2, 3}, {4'000'000, 100'000, 100'000}, 10)) {
    beat.enter_ns += 1'000'000, beat.leave_ns += 1'000'000;
    all.push_back(beat);
  }
  const auto found = find_repetition(all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->steps.size(), 10u);
  EXPECT_EQ(found->steps.back().second, all.size());
}

TEST(Repetition, ManyEqualCallsAndAnother) {
  std::vector<int64_t> tokens(40, 1), pauses(41, 50'000);
  tokens.push_back(2);
  const auto found = find_repetition(beats(tokens, pauses, 12));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 41u);
}

// The other one is told apart by itself, what comes behind it only together with it.
TEST(Repetition, BeginsAfterTheLongestPauseAmongEqualCalls) {
  const auto found = find_repetition(beats({1, 1, 1, 1, 2}, {5'000'000, 100'000, 100'000, 100'000, 100'000}, 12));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 5u);
  EXPECT_EQ(found->steps.front(), (std::pair<size_t, size_t>{5, 10}));
}

TEST(Repetition, OneCollectiveEachStep) {
  const auto found = find_repetition(beats({1}, {3'000'000}, 20));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 1u);
  EXPECT_EQ(found->steps.size(), 19u);
}

TEST(Repetition, CheckpointsInBetweenDoNotStopIt) {
  std::vector<Beat> all;
  int64_t now_ns = 0;
  const auto add = [&](int64_t token, int64_t pause_ns) {
    now_ns += pause_ns;
    all.push_back({token, now_ns, now_ns + 10'000});
    now_ns += 10'000;
  };
  for (int step = 0; step < 100; ++step) {
    for (int layer = 0; layer < 6; ++layer) add(layer, layer == 0 ? 3'000'000 : 50'000);
    if (step % 10 == 9) add(99, 100'000), add(98, 100'000);
  }
  const auto found = find_repetition(all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 6u);
  EXPECT_EQ(found->steps.size(), 99u);
}

TEST(Repetition, NoneInRandomSequencesAndFastLoops) {
  std::mt19937 random(5);
  std::vector<Beat> noise;
  for (int64_t i = 0; i < 3000; ++i)
    noise.push_back({static_cast<int64_t>(random() % 7), i * 1'000'000, i * 1'000'000 + 10});
  EXPECT_FALSE(find_repetition(noise));
  EXPECT_FALSE(find_repetition(beats({1}, {1'000}, 1000)));
  EXPECT_FALSE(find_repetition(beats({1, 2, 3}, {1'000'000, 1, 1}, 3)));  // three times is not a habit
  EXPECT_FALSE(find_repetition({}));
}

// ---------------------------------------------------------------------------------------------------------- whole runs

/// Three tensors a step; rank 2 computes longer.
SyntheticRun trainer(bool marked) {
  SyntheticRun job = run().ranks(4).steps(30).slow(2, 15_ms).jitter(100_us);
  job.setup().bcast(40_MiB, 5_ms).each_step();
  job.compute(20_ms)
      .allreduce(1_MiB, 2_ms)
      .compute(4_ms)
      .allreduce(2_MiB, 4_ms)
      .compute(3_ms)
      .allreduce(1_MiB, 2_ms)
      .compute(1_ms);
  return marked ? job : job.no_steps();
}

double metric(Analyzed& run, const std::string& id) {
  return run.db.execAndGet("SELECT value FROM metric WHERE id = '" + id + "'").getDouble();
}

TEST(InferredSteps, NumbersAreThoseOfTheMarkedJob) {
  Analyzed marked(trainer(true)), inferred(trainer(false));
  EXPECT_EQ(inferred.integer("SELECT count(*) FROM inferred_steps WHERE period = 3 AND agreement > 0.95"), 4);
  EXPECT_EQ(inferred.integer("SELECT count(DISTINCT step) FROM step"), 30);
  EXPECT_EQ(inferred.text("SELECT value FROM meta WHERE key = 'analysis.basis'"), "inferred steps");
  EXPECT_EQ(marked.integer("SELECT count(*) FROM inferred_steps"), 0);
  for (const char* id :
       {"step_time", "exposed_wait", "exposed_xfer", "f_wait", "f_xfer", "compute_time", "ccr_xfer", "load_balance"})
    EXPECT_NEAR(metric(inferred, id) / metric(marked, id), 1, 0.01) << id;
  EXPECT_EQ(inferred.text("SELECT value FROM meta WHERE key = 'verdict'"),
            marked.text("SELECT value FROM meta WHERE key = 'verdict'"));
  EXPECT_EQ(inferred.integer("SELECT rank FROM finding WHERE position = 1"), 2);
  EXPECT_EQ(inferred.integer("SELECT count(*) FROM v_step WHERE compute_ns + exposed_ns + idle_ns <> duration_ns"), 0);
}

TEST(InferredSteps, LayersByPlaceInTheStep) {
  Analyzed run(trainer(false));
  EXPECT_EQ(run.integer("SELECT count(DISTINCT layer) FROM v_layer WHERE inferred"), 3);
  // Each of the three is called from a place of its own.
  const auto of = [&](const std::string& column, int position) {
    return run.integer("SELECT " + column +
                       " FROM v_layer WHERE rank = 0 AND layer = (SELECT layer FROM v_collective"
                       " WHERE rank = 0 AND step = 7 ORDER BY enter_ns LIMIT 1 OFFSET " +
                       std::to_string(position - 1) + ")");
  };
  for (const int position : {1, 2, 3}) EXPECT_EQ(of("calls", position), 30);
  EXPECT_NEAR(static_cast<double>(of("compute_ns", 2)) / 30, 4e6, 0.1e6);
  EXPECT_NEAR(static_cast<double>(of("compute_ns", 3)) / 30, 3e6, 0.1e6);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_layer"),
            run.integer("SELECT sum(wait_ns) FROM v_collective WHERE step IS NOT NULL"));
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE step IS NOT NULL AND layer IS NULL"), 0);
  EXPECT_EQ(run.integer("SELECT count(*) FROM (SELECT layer FROM v_collective WHERE step IS NOT NULL GROUP BY layer"
                        " HAVING count(DISTINCT bytes) = 1)"),
            3);
}

TEST(InferredSteps, AnalyzingAgainChangesNothing) {
  Analyzed run(trainer(false));
  const char* all = "SELECT group_concat(step || ' ' || start_ns || ' ' || coalesce(wait_ns, '-')) FROM v_step";
  const char* events = "SELECT group_concat(coalesce(step, '-') || ' ' || region) FROM event";
  const std::string steps = run.text(all), regions = run.text(events);
  ddl::analyze(run.db);
  EXPECT_EQ(run.text(all), steps);
  EXPECT_EQ(run.text(events), regions);
}

TEST(InferredSteps, SubgroupsCountTheirOwnSteps) {
  // Nothing is done by all ranks together: two groups of two, each with its own reductions.
  SyntheticRun job = run().ranks(4).steps(20).split("group", 2).no_steps();
  job.compute(20_ms).on_comm("group").allreduce(1_MiB, 2_ms).compute(5_ms).on_comm("group").allreduce(4_MiB, 6_ms);
  Analyzed run(job);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT comm) FROM inferred_steps"), 2);
  // Before the first collective nothing tells where the first step begins.
  EXPECT_EQ(run.integer("SELECT count(*) FROM (SELECT rank FROM v_step GROUP BY rank HAVING count(*) = 19)"), 4);
}

/// Four ranks, two and two of which share a tensor: four reductions of equal size, 5 ms of computing between them, from
/// one place of the program, then one with the same place of the other tensor. `extra_ms`: of rank 3. `all_reduce`:
/// data on all ranks.
Tables grid_job(int64_t steps, int64_t extra_ms, bool all_reduce) {
  Tables run(4);
  const int64_t tensors[] = {run.communicator("tensor", {0, 1}), run.communicator("tensor#2", {2, 3})};
  const int64_t data[] = {run.communicator("data", {0, 2}), run.communicator("data#2", {1, 3})};
  std::vector<int64_t> now_ns(4, 1_s);
  const auto reduce = [&](int64_t comm, const std::vector<size_t>& ranks, int64_t seq, int64_t bytes, int64_t xfer_ns) {
    const std::vector<int64_t> enter_ns = now_ns;
    int64_t last_ns = 0;
    for (const size_t rank : ranks) last_ns = std::max(last_ns, now_ns[rank]);
    for (const size_t rank : ranks) {
      now_ns[rank] = last_ns + xfer_ns;
      run.add({.rank = static_cast<int64_t>(rank),
               .enter_ns = enter_ns[rank],
               .leave_ns = now_ns[rank],
               .bytes = bytes,
               .comm = comm,
               .seq = seq});
    }
  };
  run.exec("BEGIN");
  for (int64_t s = 0; s < steps; ++s) {
    for (size_t rank = 0; rank < 4; ++rank) now_ns[rank] += 20_ms + (rank == 3 ? extra_ms * 1_ms : 0);
    for (int64_t layer = 0; layer < 4; ++layer) {
      for (size_t rank = 0; rank < 4; ++rank) now_ns[rank] += 5_ms + static_cast<int64_t>(rank) * 10_us;
      reduce(tensors[0], {0, 1}, s * 4 + layer + 1, 1_MB, 1_ms);
      reduce(tensors[1], {2, 3}, s * 4 + layer + 1, 1_MB, 1_ms);
    }
    reduce(data[0], {0, 2}, s + 1, 8_MB, 4_ms);
    if (all_reduce) reduce(data[1], {1, 3}, s + 1, 8_MB, 4_ms);
  }
  run.exec("COMMIT");
  run.analyze();
  return run;
}

TEST(InferredSteps, LayersThatAreAllAlikeAreToldByTheReductionsAcrossThem) {
  Tables run = grid_job(30, 15, true);
  EXPECT_EQ(run.integer("SELECT count(*) FROM inferred_steps WHERE period = 5"), 4);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT step) FROM step"), 29) << "nothing tells when the first began";
  EXPECT_NEAR(*run.metric("step_time"), 63e6, 0.2e6);
  EXPECT_EQ(run.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"), "straggler 3");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding WHERE position = 1"), 15e6, 0.5e6);
}

TEST(InferredSteps, WhatAnotherMemberDoesNotSeeTellsNothing) {
  Tables run = grid_job(30, 0, false);
  EXPECT_EQ(run.integer("SELECT count(*) FROM inferred_steps WHERE period = 1"), 4);
}

/// Equal reductions of all three ranks; `messages`: what each rank calls before the first, second ... of each step.
/// `others`: ranks but 0, too.
Tables ring_job_of_equal_reductions(int64_t steps, const std::vector<std::string>& messages, bool others) {
  Tables run(3);
  int64_t now_ns = 1_s, seq = 0;
  run.exec("BEGIN");
  for (int64_t s = 0; s < steps; ++s) {
    for (const std::string& message : messages) {
      for (int64_t rank = 0; rank < 3; ++rank) {
        const int64_t begin_ns = now_ns + 5_ms;
        if (!message.empty() && (rank == 0 || others))
          run.add({.rank = rank,
                   .op = message,
                   .enter_ns = begin_ns,
                   .leave_ns = begin_ns + 100_us,
                   .bytes = 1_MB,
                   .peer = (rank + 1) % 3,
                   .tag = 0});
        run.add(
            {.rank = rank, .enter_ns = begin_ns + 200_us, .leave_ns = begin_ns + 1_ms, .bytes = 1_MB, .seq = seq + 1});
      }
      now_ns += 6_ms;
      ++seq;
    }
  }
  run.exec("COMMIT");
  run.analyze();
  return run;
}

TEST(InferredSteps, EqualCollectivesAreToldByTheMessagesBetweenThem) {
  const auto period = [](const std::vector<std::string>& messages, bool others = true) {
    return ring_job_of_equal_reductions(40, messages, others).integers("SELECT DISTINCT period FROM inferred_steps");
  };
  EXPECT_EQ(period({"", "MPI_Isend", "MPI_Sendrecv"}), (std::vector<int64_t>{3}));
  EXPECT_EQ(period({"MPI_Isend", ""}), (std::vector<int64_t>{2}));
  EXPECT_EQ(period({"MPI_Isend", "MPI_Isend"}), (std::vector<int64_t>{1})) << "a halo before each";
  EXPECT_EQ(period({"", "", "", "", "MPI_Isend"}), (std::vector<int64_t>{1})) << "every fifth step something is sent";
  EXPECT_EQ(period({"", "MPI_Isend", "MPI_Sendrecv"}, false), (std::vector<int64_t>{1}))
      << "only one rank would see it";
}

/// Two ranks with a GPU each that reduce twice in a step of 100 ms: rank 1 computes 70 ms before the first, rank 0 40.
/// Calls are enqueued a step ahead.
Tables nccl_job(int64_t steps) {
  Tables run(2);
  run.exec(
      "UPDATE communicator SET kind = 'nccl'; INSERT INTO op (id, name, class, nonblocking) VALUES (90, 'ncclAllReduce', 'all_to_all', 1);"
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication')");
  int64_t event = 0;
  const auto collective = [&](int64_t rank, int64_t kind, int64_t seq, int64_t begin_ns, int64_t end_ns) {
    const std::string id = std::to_string(++event), process = std::to_string(rank + 1);
    const std::string times = std::to_string(begin_ns) + ", " + std::to_string(end_ns - begin_ns);
    run.exec(
        "INSERT INTO event (id, process, thread, kind, op, comm, seq, region, start_ns, duration_ns, bytes) VALUES (" +
        id + ", " + process + ", 0, " + std::to_string(kind) + ", 90, 1, " +
        (kind == 4 ? std::to_string(seq) : "NULL") + ", 0, " + times + ", " + (seq % 2 == 0 ? "4000" : "9000") + ")");
    if (kind == 4)
      run.exec("INSERT INTO nccl_collective VALUES (" + id + ", 'kernel', 'RING', 'LL', 2, 1, " + times +
               ", 0, 1, 1, NULL, NULL, NULL, NULL)");
  };
  const auto kernel = [&](int64_t rank, int64_t name, int64_t begin_ns, int64_t end_ns, int64_t seq) {
    run.exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, start_ns, duration_ns, correlation, comm, seq)"
        " VALUES (" +
        std::to_string(rank + 1) + ", 1, " + std::to_string(name) + ", 0, 1, 7, 0, " + std::to_string(begin_ns) + ", " +
        std::to_string(end_ns - begin_ns) + ", 0, " + (seq == 0 ? "NULL, NULL" : "1, " + std::to_string(seq)) + ")");
  };
  run.exec("BEGIN");
  for (int64_t rank : {0, 1}) {
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t t = (s + 1) * 100_ms, computed_ns = t + (rank == 0 ? 40_ms : 70_ms);
      collective(rank, 3, 2 * s + 1, t - 90_ms, t - 90_ms + 5_us);
      collective(rank, 3, 2 * s + 2, t - 80_ms, t - 80_ms + 5_us);
      collective(rank, 4, 2 * s + 1, computed_ns, t + 75_ms);
      collective(rank, 4, 2 * s + 2, t + 85_ms, t + 90_ms);
      kernel(rank, 1, t, computed_ns, 0);
      kernel(rank, 2, computed_ns, t + 75_ms, 2 * s + 1);
      kernel(rank, 1, t + 75_ms, t + 85_ms, 0);
      kernel(rank, 2, t + 85_ms, t + 90_ms, 2 * s + 2);
    }
  }
  run.exec("UPDATE process SET end_ns = " + std::to_string((steps + 1) * 100_ms) + "; COMMIT");
  return run;
}

TEST(InferredSteps, OfNcclByWhatDevicesDid) {
  Tables run = nccl_job(30);
  for (int i = 0; i < 2; ++i) {  // and again: what was there before is taken back
    ddl::analyze(run.db());
    EXPECT_EQ(run.integer("SELECT count(*) FROM inferred_steps WHERE period = 2"), 2);
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'analysis.basis'"), "inferred steps");
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE duration_ns = 100000000"), 2 * 29)
        << "nothing tells when the first began";
    EXPECT_EQ(run.metric("step_time"), 100e6);
    EXPECT_EQ(run.integers("SELECT DISTINCT compute_ns FROM v_gpu_part WHERE step IS NOT NULL ORDER BY rank"),
              (std::vector<int64_t>{50_ms, 80_ms}));
    EXPECT_EQ(run.integers("SELECT DISTINCT exposed_wait_ns FROM v_gpu_part WHERE step IS NOT NULL ORDER BY rank"),
              (std::vector<int64_t>{30_ms, 0}));
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE step = 7"), 8);
    EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE id = 'straggler'"), 1);
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_layer"), 0);
  }
  run.exec("DELETE FROM nccl_collective; DELETE FROM event WHERE kind = 4");
  ddl::analyze(run.db());
  EXPECT_EQ(run.integer("SELECT count(*) FROM inferred_steps"), 0)
      << "calls tell when the host enqueued, not when anything ran";
}

TEST(InferredSteps, NoneWhereNothingRepeats) {
  SyntheticRun job = run().ranks(2).steps(1).no_steps();
  for (int i = 0; i < 50; ++i) job.compute(1_ms).allreduce(1_KiB << (i * i % 13), 100_us);
  Analyzed run(job);
  EXPECT_EQ(run.integer("SELECT count(*) FROM step"), 0);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'analysis.basis'"), "run");
}

}  // namespace
}  // namespace ddl::test
