// Jobs whose MPI calls come from background threads (specification.md J2, J3): what their training threads did, who was
// late, what only coordinates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "analyzer/facts.h"
#include "analyzer/findings/unready_case.h"
#include "analyzer/passes/background.h"
#include "analyzer/passes/requested_bytes.h"
#include "analyzer/passes/training_thread.h"
#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr int64_t kSteps = 12;
constexpr int64_t kIdle = 3;  ///< bits of status

struct BackgroundJob {
  bool marks = true;
  bool sampled = true;
  bool by_bits = true;  ///< cycles are bitwise ANDs; else requests to rank 0
  bool bits_read = true;
  int64_t computes_ms[2] = {50, 80};
  int64_t sleeps_ms[2] = {0, 0};  ///< before computing
  int64_t awake = -1;             ///< but not in this step
  int64_t silent_ms = 0;          ///< cycles at the end that lead to nothing, and then both are killed
  int64_t ready[2] = {1, 0};      ///< in those: brought what is to be reduced next
  /// before the first step both ask for a tensor by lists, rank 1 a cycle later, and get it
  bool lists_first = false;
  /// a timeline of Horovod says when each rank was ready, as rank 0 heard 50 us into the cycle
  bool told = false;
  int64_t unrecorded = 0;  ///< more ranks than these two, which left no record
  /// from this step on both training threads meet in a barrier of their own, from 0 and 4 ms to 10 ms
  int64_t own_from = kSteps;
  int64_t own_steps = 2;  ///< in so many steps
  int64_t meetings = 0;   ///< so many barriers of their own before the first step
  bool counts = false;    ///< what is reduced are two counters: sums of 16 bytes of integers
  /// nothing is reduced: each step's batches are broadcasts of one integer, whether to stop
  bool flags = false;
  int64_t cycle_ms = 10;  ///< from one cycle to the next
  bool loads = false;     ///< while they sleep, as a range of the training thread says
  /// each also "reduces" for 3 ms in a group of its own, while its training thread computes
  bool alone = false;
  /// of what they compute, a layer takes 5 ms, but 20 ms on rank 1 in each third step, and on rank 0 in the others
  bool uneven = false;
  int64_t steps = kSteps;
  bool turns = false;     ///< in every second step they swap what they sleep
  bool one_core = false;  ///< may run on one CPU only
};

/// Steps of 100 ms, which both ranks begin at once. Cycles every 10 ms; each rank sleeps, computes and is ready; the
/// cycle that begins when the last one is (within 80 ms) is the last: it agrees on 5 tensors, whose data moves in the
/// last 10 ms of the step, in batches that differ.
Tables background_training(const BackgroundJob& job) {
  Tables run(2);
  run.exec("BEGIN");
  run.exec("INSERT INTO thread VALUES (1, 1, 5001, 'hvd'), (2, 1, 5002, 'hvd')");
  run.exec(
      "INSERT OR IGNORE INTO datatype VALUES (1, 'MPI_BYTE'), (12, 'MPI_LONG_LONG'), (14, 'MPI_FLOAT'), (30, 'MPI_INT64_T')");
  run.exec("INSERT OR IGNORE INTO reduction VALUES (1, 'MPI_SUM'), (6, 'MPI_BAND')");
  const int64_t own_comm = run.communicator("script", {0, 1});
  int64_t alone[2] = {0, 0};
  for (int64_t rank = 0; rank < 2 && job.alone; ++rank)
    alone[rank] = run.communicator("group of " + std::to_string(rank), {rank});
  if (job.loads) run.exec("INSERT INTO region VALUES (50, 0, 'phase', 'input', 'input', NULL)");
  if (job.uneven) {
    run.exec("INSERT OR IGNORE INTO region VALUES (0, NULL, 'none', '', NULL, NULL)");
    run.exec("INSERT INTO region VALUES (60, 0, 'layer', 'a', NULL, 'a'), (61, 0, 'layer', 'b', NULL, 'b')");
  }
  const int64_t setup_comm = run.communicator("setup", {0, 1});
  for (int64_t n = 1; n <= job.meetings; ++n)
    for (int64_t rank = 0; rank < 2; ++rank)
      run.add({.rank = rank,
               .op = "MPI_Barrier",
               .enter_ns = 500_ms + n * 1_ms,
               .leave_ns = 500_ms + n * 1_ms + 10_us,
               .comm = setup_comm,
               .seq = n});
  int64_t seq = 0, busy_ns[2] = {0, 0};
  if (job.lists_first) {
    for (const auto& [op, bytes] : std::vector<std::pair<const char*, std::array<int64_t, 2>>>{
             {"MPI_Gather", {225, 25}}, {"MPI_Gather", {25, 225}}, {"MPI_Allreduce", {5_MB, 5_MB}}}) {
      ++seq;
      for (int64_t rank = 0; rank < 2; ++rank) {
        const int64_t enter_ns = 500_ms + seq * 10_ms;
        run.add({.rank = rank,
                 .op = op,
                 .enter_ns = enter_ns,
                 .leave_ns = enter_ns + 1_ms,
                 .bytes = bytes[rank],
                 .seq = seq,
                 .thread = 1});
      }
    }
  }
  for (int64_t s = 0; s < job.steps; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    const std::optional<int64_t> step = job.marks ? std::optional(s) : std::nullopt;
    const int64_t turn = job.turns ? s % 2 : 0;
    const int64_t sleeps_ms[2] = {s == job.awake ? 0 : job.sleeps_ms[turn],
                                  s == job.awake ? 0 : job.sleeps_ms[1 - turn]};
    const int64_t all_ready_ms = std::max(job.computes_ms[0] + sleeps_ms[0], job.computes_ms[1] + sleeps_ms[1]);
    const int64_t last_ms = (all_ready_ms + job.cycle_ms - 1) / job.cycle_ms * job.cycle_ms;
    for (int64_t at_ms = 0; at_ms < 100; at_ms += 10) {
      const int64_t now_ns = begin_ns + at_ms * 1_ms;
      for (int64_t rank = 0; rank < 2; ++rank) {
        const int64_t ready_ms = job.computes_ms[rank] + sleeps_ms[rank];
        if (job.sampled) {
          run.exec("INSERT INTO thread_sample VALUES (" + std::to_string(rank + 1) + ", " + std::to_string(now_ns) +
                   ", " + std::to_string(busy_ns[rank] + 1'000 * s) + ", 0, " + std::to_string(1'000 * s) + ", NULL)");
        }
        if (at_ms >= sleeps_ms[rank] && at_ms < ready_ms) busy_ns[rank] += 10_ms;
        if (at_ms > last_ms || at_ms == 90 || at_ms % job.cycle_ms != 0) continue;
        const bool ready = at_ms >= ready_ms && at_ms <= last_ms;
        const bool sends = at_ms >= ready_ms && at_ms < ready_ms + job.cycle_ms;
        const Row cycle{.rank = rank,
                        .op = job.by_bits ? "MPI_Allreduce" : "MPI_Gather",
                        .enter_ns = now_ns,
                        .leave_ns = now_ns + 100_us,
                        .bytes = job.by_bits ? 8
                                 : rank == 0 ? 0
                                 : sends     ? 225
                                             : 25,
                        .seq = seq + 1,
                        .peer = job.by_bits ? std::nullopt : std::optional<int64_t>(0),
                        .step = step,
                        .thread = 1};
        run.add(cycle);
        if (job.by_bits && job.bits_read) {
          const int64_t agreed = at_ms == last_ms ? kIdle + 5 : kIdle;
          run.exec("INSERT INTO agreement VALUES (" + std::to_string(rank + 1) + ", 1, " + std::to_string(seq + 1) +
                   ", " + std::to_string(ready ? kIdle + 5 : kIdle) + ", " + std::to_string(agreed) + ")");
        }
      }
      if (at_ms <= last_ms && at_ms < 90 && at_ms % job.cycle_ms == 0) ++seq;
    }
    const std::vector<std::pair<int64_t, int64_t>> batches =
        s % 2 == 0 ? std::vector<std::pair<int64_t, int64_t>>{{90, 5_MB}, {95, 3_MB}}
                   : std::vector<std::pair<int64_t, int64_t>>{{90, 8_MB}};
    for (size_t b = 0; b < batches.size(); ++b) {
      ++seq;
      if (job.told) {
        run.exec(
            "INSERT INTO horovod_operation (op, name, tensors, start_ns, end_ns, comm, seq) VALUES ('ALLREDUCE', 'a and 1 more', 2, 0, 0, 1, " +
            std::to_string(seq) + ")");
        for (int64_t rank = 0; rank < 2; ++rank)
          run.exec("INSERT INTO horovod_ready VALUES (last_insert_rowid(), " + std::to_string(rank) + ", " +
                   std::to_string(begin_ns + (job.computes_ms[rank] + sleeps_ms[rank]) * 1_ms + 50'000) + ")");
      }
      const int64_t end_ms = b + 1 < batches.size() ? batches[b + 1].first : 100;
      for (int64_t rank = 0; rank < 2; ++rank) {
        run.add({.rank = rank,
                 .op = job.flags ? "MPI_Bcast" : "MPI_Allreduce",
                 .enter_ns = begin_ns + batches[b].first * 1_ms,
                 .leave_ns = begin_ns + end_ms * 1_ms,
                 .bytes = batches[b].second,
                 .seq = seq,
                 .step = step,
                 .thread = 1});
      }
    }
    for (int64_t rank = 0; rank < 2 && s >= job.own_from && s < job.own_from + job.own_steps; ++rank) {
      run.add({.rank = rank,
               .op = "MPI_Barrier",
               .enter_ns = begin_ns + rank * 4_ms,
               .leave_ns = begin_ns + 10_ms,
               .comm = own_comm,
               .seq = 1 + s - job.own_from,
               .step = step});
    }
    for (int64_t rank = 0; rank < 2 && job.alone; ++rank) {
      run.add({.rank = rank,
               .op = "MPI_Allreduce",
               .enter_ns = begin_ns + 34_ms,
               .leave_ns = begin_ns + 37_ms,
               .bytes = 5_MB,
               .comm = alone[rank],
               .seq = s + 1,
               .step = step,
               .thread = 1});
    }
    for (int64_t rank = 0; rank < 2 && job.marks; ++rank) run.step(rank, s, begin_ns, begin_ns + 100_ms, 0);
    for (int64_t rank = 0; rank < 2 && job.loads; ++rank) {
      run.exec("INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (" +
               std::to_string(rank + 1) + ", 0, 50, " + std::to_string(s) + ", " + std::to_string(begin_ns) + ", " +
               std::to_string(sleeps_ms[rank] * 1_ms) + ", 0)");
    }
    for (int64_t rank = 0; rank < 2 && job.uneven; ++rank) {
      const int64_t computes_ns = begin_ns + sleeps_ms[rank] * 1_ms;
      const int64_t uneven_ns = (s % 3 == 0) == (rank == 1) ? 20_ms : 5_ms;
      run.exec(
          fmt::format("INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES"
                      " ({0}, 0, 60, {1}, {2}, {3}, 0), ({0}, 0, 61, {1}, {4}, 10000000, 0)",
                      rank + 1, s, computes_ns, uneven_ns, computes_ns + 25_ms));
    }
  }
  const int64_t end_ns = 1_s + job.steps * 100_ms;
  for (int64_t at_ms = 0; at_ms < job.silent_ms; at_ms += 50) {
    ++seq;
    for (int64_t rank = 0; rank < 2; ++rank) {
      const std::string process = std::to_string(rank + 1), now = std::to_string(end_ns + at_ms * 1_ms);
      const bool sends = at_ms == 0 && job.ready[rank] == 1;
      run.add({.rank = rank,
               .op = job.by_bits ? "MPI_Allreduce" : "MPI_Gather",
               .enter_ns = end_ns + at_ms * 1_ms,
               .leave_ns = end_ns + at_ms * 1_ms + 100_us,
               .bytes = job.by_bits ? 8
                        : rank == 0 ? 0
                        : sends     ? 225
                                    : 25,
               .seq = seq,
               .peer = job.by_bits ? std::nullopt : std::optional<int64_t>(0),
               .thread = 1});
      if (job.by_bits) {
        run.exec("INSERT INTO agreement VALUES (" + process + ", 1, " + std::to_string(seq) + ", " +
                 std::to_string(kIdle + (job.ready[rank] == 1 ? 5 : 0)) + ", " + std::to_string(kIdle) + ")");
      }
      // Rank 1 sleeps; rank 0 polls for it.
      const int64_t polled_ns = rank == 0 ? at_ms * 1_ms : 0;
      run.exec("INSERT INTO thread_sample VALUES (" + process + ", " + now + ", " +
               std::to_string(busy_ns[rank] + polled_ns) + ", 0, " + std::to_string(1'000 * job.steps + polled_ns) +
               ", " + (rank == 1 && at_ms >= 1000 ? "'clock_nanosleep'" : "NULL") + ")");
    }
  }
  run.exec(
      "INSERT INTO thread_sample SELECT process, max(at_ns) + 10000000, max(cpu_ns), 0, max(spun_ns), NULL FROM thread_sample GROUP BY process");
  run.exec(
      "UPDATE event SET datatype = CASE WHEN bytes > 1000 THEN 14 WHEN bytes = 8 THEN 12 WHEN bytes > 0 THEN 1 END,"
      " reduction = CASE WHEN bytes > 1000 THEN 1 WHEN bytes = 8 THEN 6 END");
  if (job.counts) run.exec("UPDATE event SET datatype = 30, bytes = 16 WHERE bytes > 1000");
  if (job.flags) run.exec("UPDATE event SET datatype = 30, reduction = NULL, bytes = 8 WHERE bytes > 1000");
  run.exec(fmt::format("UPDATE process SET end_ns = {0}, init_ns = 1000000000, finalize_ns = {0}", end_ns));
  if (job.one_core) run.exec("INSERT INTO process_fact VALUES (1, 'cpus', '3'), (2, 'cpus', '3')");
  for (int64_t rank = 2; rank < 2 + job.unrecorded; ++rank) {
    const std::string number = std::to_string(rank);
    run.exec("UPDATE process SET world_size = " + std::to_string(rank + 1));
    run.exec("UPDATE communicator SET size = " + std::to_string(rank + 1) + " WHERE id = 1");
    run.exec("INSERT INTO communicator_member VALUES (1, 0, " + number + ", " + number + ")");
  }
  for (int64_t rank = 0; rank < 2 && job.silent_ms > 0; ++rank) run.ended(rank, "lost", end_ns + job.silent_ms * 1_ms);
  run.exec("COMMIT");
  run.analyze();
  return run;
}

std::vector<int64_t> parts_of(Tables& run, int64_t rank) {
  const std::string from = " FROM step_part WHERE process = " + std::to_string(rank + 1) + " AND step = 6";
  std::vector<int64_t> parts;
  for (const char* column : {"compute_ns", "wait_ns", "xfer_ns", "idle_ns"})
    parts.push_back(run.integer(std::string("SELECT ") + column + from) / 1'000'000);
  return parts;
}

using Parts = std::vector<int64_t>;

TEST(Background, WhereTheTrainingThreadsTimeWent) {
  for (const bool by_bits : {true, false}) {
    Tables run = background_training({.by_bits = by_bits});
    EXPECT_EQ(run.integer("SELECT count(*) FROM background_process WHERE sampled AND thread = 0"), 2);
    EXPECT_EQ(run.integer("SELECT count(*) FROM coordination"), 2 * 9 * kSteps) << by_bits;
    EXPECT_EQ(parts_of(run, 0), (Parts{50, 30, 10, 10})) << by_bits;
    EXPECT_EQ(parts_of(run, 1), (Parts{80, 0, 10, 10})) << by_bits;
    EXPECT_EQ(run.integer("SELECT max(abs(compute_ns + exposed_ns + idle_ns - 100000000)) FROM step_part"), 0);
    EXPECT_EQ(run.integer("SELECT count(*) FROM collective k JOIN event e ON e.id = k.event WHERE e.bytes <= 1000"), 0)
        << "coordination is split";
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
  }
}

/// Steps from the fourth on take 60 ms. How long a step took is known without samples of what was done in it: the first
/// ones, which were sampled, are the warm-up.
TEST(Background, StepsTakeAsLongAsTheyTakeWhoeverWasSampled) {
  constexpr const char* kShorter = "UPDATE step SET duration_ns = 60000000 WHERE step >= 4";
  const auto steps = [](Tables& run) {
    run.analyze();
    const Facts facts = read_facts(run.db(), 0);
    return std::array{facts.step.used, facts.step.timed, facts.step.timed_warmup, facts.step.p50_ns.value_or(0),
                      run.integer("SELECT value FROM metric WHERE id = 'step_time'")};
  };
  Tables all = background_training({});
  all.exec(kShorter);
  EXPECT_EQ(steps(all), (std::array<int64_t, 5>{7, 0, 0, 60_ms, 60_ms}));
  EXPECT_EQ(all.integer("SELECT count(*) FROM timed_step"), 0);
  Tables some = background_training({});
  some.exec(kShorter);
  some.exec("DELETE FROM thread_sample WHERE process = 2 AND at_ns > 1410000000");
  EXPECT_EQ(steps(some), (std::array<int64_t, 5>{4, 7, 5, 60_ms, 60_ms}));
  Tables none = background_training({});
  none.exec(kShorter);
  none.exec("DELETE FROM thread_sample");
  EXPECT_EQ(steps(none), (std::array<int64_t, 5>{0, 7, 5, 60_ms, 60_ms}));
}

// Both are ready at 30 ms and asleep until the cycle that begins at 40 ms, and on until the data moves at 90 ms.
TEST(Background, ACycleThatIsLongAgainstTheStepIsNamedAsTheCause) {
  const auto found = [](const char* set_ms, int64_t cycle_ms) {
    Tables run = background_training({.computes_ms = {30, 30}, .cycle_ms = cycle_ms});
    if (set_ms) {
      run.meta("env.HOROVOD_CYCLE_TIME", set_ms);
      run.analyze();
    }
    return run;
  };
  Tables run = found("50", 40);
  ASSERT_EQ(run.findings(), Ids{"long_cycle"});
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "training threads wait up to 40.0 ms/step for the next cycle of the negotiation, one every 40.0 ms");
  EXPECT_TRUE(
      has(run.text("SELECT evidence FROM finding WHERE position = 1"), "HOROVOD_CYCLE_TIME was set to 50 (ms)."));
  EXPECT_TRUE(has(run.text("SELECT try FROM finding WHERE position = 1"), "HOROVOD_CYCLE_TIME=1"));
  EXPECT_EQ(run.text("SELECT saving_bound FROM finding WHERE position = 1"), "upper");
  EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "likely");
  Tables unset = found(nullptr, 40);
  EXPECT_EQ(unset.text("SELECT confidence FROM finding WHERE id = 'long_cycle'"), "maybe");
  Tables other = found("1", 40);  // the rhythm is not what was asked for
  EXPECT_EQ(other.integer("SELECT count(*) FROM finding WHERE id = 'long_cycle'"), 0);
  Tables usual = found(nullptr, 10);
  EXPECT_EQ(usual.integer("SELECT count(*) FROM finding WHERE id = 'long_cycle'"), 0);
}

/// mpi4py's COMM_WORLD.Barrier() in a script of Horovod: the training thread's own calls are time in MPI,
/// with their waiting.
TEST(Background, AFewCallsOfTheTrainingThreadsOwn) {
  for (const bool marks : {true, false}) {
    Tables run = background_training({.marks = marks, .own_from = 6});
    EXPECT_EQ(run.integer("SELECT count(*) FROM background_process WHERE sampled AND thread = 0"), 2) << marks;
    EXPECT_EQ(run.integer("SELECT count(*) FROM coordination"), 2 * 9 * kSteps) << marks;
    EXPECT_EQ(parts_of(run, 0), (Parts{40, 34, 16, 10})) << marks;
    EXPECT_EQ(parts_of(run, 1), (Parts{74, 0, 16, 10})) << marks;
    EXPECT_EQ(run.integer("SELECT max(abs(compute_ns + exposed_ns + idle_ns - 100000000)) FROM step_part"), 0) << marks;
    EXPECT_EQ(run.findings().front(), "straggler") << marks;
  }
}

TEST(Background, WhoCallsMpiInEachStepCommunicatesItself) {
  Tables run = background_training({.own_from = 0, .own_steps = kSteps});
  EXPECT_EQ(run.integer("SELECT count(*) FROM background_process"), 0);
}

/// In a short run the calls at its ends are many against the collectives of its steps, and say nothing of these.
TEST(Background, CallsOutsideOfStepsAreNotOfThem) {
  Tables run = background_training({.meetings = 30});
  EXPECT_EQ(run.integer("SELECT count(*) FROM background_process"), 2);
  EXPECT_EQ(parts_of(run, 0), (Parts{50, 30, 10, 10}));
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'straggler'"), 1);
  Tables unmarked = background_training({.marks = false, .meetings = 30});
  EXPECT_EQ(unmarked.integer("SELECT count(*) FROM background_process"), 0);
}

/// Three ranks in steps of 100 ms, each of whose main threads reduces something itself, for 1 ms from 80 ms on. From 5
/// to 45 ms a thread beside it reduces, too. Main threads were off the CPU for `off_ns` of the run.
Tables two_communicate(int64_t late_ns, int64_t off_ns) {
  Tables run(3);
  const int64_t comm = run.communicator("beside", {0, 1, 2});
  constexpr int64_t kRun = 30;
  for (int64_t s = 0; s < kRun; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    for (int64_t rank = 0; rank < 3; ++rank) {
      const int64_t enter_ns = begin_ns + 80_ms - (rank == 1 ? 0 : late_ns);
      run.add({.rank = rank, .enter_ns = enter_ns, .leave_ns = begin_ns + 81_ms, .bytes = 8, .seq = s + 1, .step = s});
      run.add({.rank = rank,
               .enter_ns = begin_ns + 5_ms,
               .leave_ns = begin_ns + 45_ms,
               .bytes = 1_MB,
               .comm = comm,
               .seq = s + 1,
               .step = s,
               .thread = 1});
      run.step(rank, s, begin_ns, begin_ns + 100_ms, begin_ns + 81_ms - enter_ns);
    }
  }
  run.exec("UPDATE process SET init_ns = 1000000000, end_ns = 4000000000, finalize_ns = 4000000000");
  run.exec("INSERT INTO thread SELECT id, 1, pid + 5000, 'comm' FROM process");
  run.exec(fmt::format(
      "INSERT INTO process_fact (process, key, value) SELECT id, 'cpu_account_ns', '3000000000' FROM process"
      " UNION ALL SELECT id, 'run_queue_wait_ns', '0' FROM process"
      " UNION ALL SELECT id, 'on_cpu_ns', '{}' FROM process",
      3_s - off_ns));
  run.analyze();
  return run;
}

/// It hands a reduction over and sleeps until that is done: nothing but the scheduler's account tells.
TEST(Background, AMainThreadThatCommunicatesMayWaitForTheOther) {
  const std::string verdict = "SELECT value FROM meta WHERE key = 'verdict'";
  const std::string text = "SELECT value FROM meta WHERE key = 'verdict.text'";
  Tables computes = two_communicate(0, 0);
  EXPECT_EQ(computes.integer("SELECT count(*) FROM background_process"), 0);
  EXPECT_EQ(computes.text(verdict), "compute") << "it computes beside the other";
  Tables sleeps = two_communicate(0, 2_s);
  EXPECT_EQ(sleeps.text(verdict), "undecided");
  EXPECT_TRUE(has(sleeps.text(text), "up to 40.0% more may be waiting, off the CPU")) << sleeps.text(text);
  Tables briefly = two_communicate(0, 60_ms);  // 2.4 ms of each of the 25 steady steps
  EXPECT_EQ(briefly.text(verdict), "compute") << briefly.text(text);

  const std::string confidence = "SELECT confidence FROM finding WHERE id = 'straggler'";
  const std::string evidence = "SELECT evidence FROM finding WHERE id = 'straggler'";
  Tables late = two_communicate(20_ms, 0);
  EXPECT_EQ(late.text(verdict), "wait");
  EXPECT_EQ(late.text(confidence), "sure");
  Tables late_and_sleeps = two_communicate(20_ms, 2_s);
  EXPECT_EQ(late_and_sleeps.text(verdict), "wait");
  EXPECT_TRUE(has(late_and_sleeps.text(text), "up to 40.0% more may be waiting"));
  EXPECT_EQ(late_and_sleeps.text(confidence), "likely");
  EXPECT_TRUE(has(late_and_sleeps.text(evidence), "Up to 40.0 ms/step of what rank")) << late_and_sleeps.text(evidence);
}

/// Nor does a helper thread that polls for messages make a job one that communicates in the background.
TEST(Background, PollingForMessagesIsNoCollective) {
  Tables run(2);
  run.exec("INSERT INTO thread VALUES (1, 1, 5001, 'helper'), (2, 1, 5002, 'helper')");
  run.allreduce(1, {10_ms, 12_ms}, 1_ms, 1_MB);
  for (int64_t i = 0; i < 100; ++i)
    for (int64_t rank = 0; rank < 2; ++rank)
      run.add({.rank = rank,
               .op = "MPI_Iprobe",
               .enter_ns = i * 1_ms,
               .leave_ns = i * 1_ms + 1_us,
               .peer = 1 - rank,
               .thread = 1});
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM background_process"), 0);
}

TEST(Background, CountersAreNoCoordination) {
  Tables run = background_training({.counts = true});
  EXPECT_EQ(run.integer("SELECT count(*) FROM coordination"), 2 * 9 * kSteps);
  EXPECT_EQ(parts_of(run, 0), (Parts{50, 30, 10, 10}));
  EXPECT_EQ(run.findings().front(), "straggler");

  for (const char* reduction : {"MPI_SUM", "MPI_PROD", "MPI_MIN", "MPI_MAX"})
    EXPECT_EQ(coordination_vote(OpClass::kAllToAll, "MPI_INT64_T", reduction, 16), -1) << reduction;
  EXPECT_EQ(coordination_vote(OpClass::kAllToAll, "MPI_LONG_LONG", "MPI_BAND", 16), 1);
  EXPECT_EQ(coordination_vote(OpClass::kAllToAll, "MPI_INT", "MPI_MAX", 8), 1) << "members of a process set";
  EXPECT_EQ(coordination_vote(OpClass::kAllToAll, "MPI_INT", "", 8), 1);
  EXPECT_EQ(coordination_vote(OpClass::kAllToAll, "MPI_INT64_T", "MPI_SUM", 0), 0);
}

/// hvd.broadcast(torch.tensor([step])): Horovod's tensors have types of fixed width, its own words the types of C.
TEST(Background, ABroadcastOfOneIntegerIsNoCoordination) {
  for (const bool by_bits : {true, false}) {
    Tables run = background_training({.by_bits = by_bits, .flags = true});
    EXPECT_EQ(run.integer("SELECT count(*) FROM coordination"), 2 * 9 * kSteps) << by_bits;
    EXPECT_EQ(parts_of(run, 0), (Parts{50, 30, 10, 10})) << by_bits;
    EXPECT_EQ(parts_of(run, 1), (Parts{80, 0, 10, 10})) << by_bits;
    EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1}) << by_bits;
  }
  for (const char* type : {"MPI_INT32_T", "MPI_UINT32_T", "MPI_INT64_T", "MPI_UINT64_T"}) {
    EXPECT_EQ(coordination_vote(OpClass::kRootToAll, type, "", 8), -1) << type;
    EXPECT_EQ(coordination_vote(OpClass::kAllToAll, type, "", 8), -1) << type;
  }
  EXPECT_EQ(coordination_vote(OpClass::kRootToAll, "MPI_INT", "", 4), 1) << "the length of an answer";
}

/// Ranks on threads 1 that say by bits and lists how far they are, as Horovod does.
struct Horovod {
  Tables run;
  std::map<int64_t, int64_t> seqs = {};  ///< last one, by communicator
  std::vector<int64_t> busy_ns = {};

  explicit Horovod(int64_t ranks) : run(ranks), busy_ns(static_cast<size_t>(ranks)) {
    run.exec("BEGIN");
    for (int64_t rank = 0; rank < ranks; ++rank)
      run.exec("INSERT INTO thread VALUES (" + std::to_string(rank + 1) + ", 1, " + std::to_string(5000 + rank) +
               ", 'hvd')");
    run.exec("INSERT OR IGNORE INTO datatype VALUES (1, 'MPI_BYTE'), (12, 'MPI_LONG_LONG'), (14, 'MPI_FLOAT')");
    run.exec("INSERT OR IGNORE INTO reduction VALUES (1, 'MPI_SUM'), (6, 'MPI_BAND')");
  }

  /// Made by rank `first` and all behind it.
  void call(const char* op, int64_t comm, int64_t first, int64_t begin_ns, int64_t end_ns,
            const std::vector<int64_t>& bytes, std::optional<int64_t> step = {}) {
    const int64_t seq = ++seqs[comm];
    for (int64_t rank = first; rank < run.ranks(); ++rank) {
      run.add({.rank = rank,
               .op = op,
               .enter_ns = begin_ns,
               .leave_ns = end_ns,
               .bytes = bytes[static_cast<size_t>(rank - first)],
               .comm = comm,
               .seq = seq,
               .peer = std::string(op) == "MPI_Gather" ? std::optional<int64_t>(0) : std::nullopt,
               .step = step,
               .thread = 1});
    }
  }
  void bits(int64_t comm, int64_t first, int64_t begin_ns, const std::vector<int64_t>& own,
            std::optional<int64_t> step = {}) {
    call("MPI_Allreduce", comm, first, begin_ns, begin_ns + 100_us, std::vector<int64_t>(own.size(), 8), step);
    for (size_t i = 0; i < own.size(); ++i)
      run.exec("INSERT INTO agreement VALUES (" + std::to_string(first + static_cast<int64_t>(i) + 1) + ", " +
               std::to_string(comm) + ", " + std::to_string(seqs[comm]) + ", " + std::to_string(own[i]) + ", " +
               std::to_string(*std::min_element(own.begin(), own.end())) + ")");
  }
  /// The training thread has been busy for so long by then.
  void sample(int64_t rank, int64_t at_ns) {
    run.exec("INSERT INTO thread_sample VALUES (" + std::to_string(rank + 1) + ", " + std::to_string(at_ns) + ", " +
             std::to_string(busy_ns[static_cast<size_t>(rank)]) + ", 0, 0, NULL)");
  }
  /// All ranks are sampled every 10 ms, and those in `computing` are busy until the next one.
  void cycle(int64_t at_ns, const std::vector<bool>& computing) {
    for (int64_t rank = 0; rank < run.ranks(); ++rank) {
      sample(rank, at_ns);
      if (computing[static_cast<size_t>(rank)]) busy_ns[static_cast<size_t>(rank)] += 10_ms;
    }
  }
  void analyze(int64_t end_ns) {
    for (int64_t rank = 0; rank < run.ranks(); ++rank) sample(rank, end_ns);
    run.exec(
        "UPDATE event SET datatype = CASE WHEN bytes > 1000 THEN 14 WHEN bytes = 8 THEN 12 WHEN bytes > 0 THEN 1 END,"
        " reduction = CASE WHEN bytes > 1000 THEN 1 WHEN bytes = 8 THEN 6 END");
    run.exec("UPDATE process SET init_ns = 1000000000, end_ns = " + std::to_string(end_ns) +
             ", finalize_ns = " + std::to_string(end_ns));
    run.exec("COMMIT");
    run.analyze();
  }
};

/// hvd.barrier(), or hvd.reducescatter(), which no cache holds: one rank asks for it at 20 ms, the other at 60 ms; both
/// compute until they do, and from there to 80 ms, when a tensor is ready. A rank asks by a list, of which none but the
/// others' are seen, and cycles by bits go on; lists are sent by all when somebody asks.
Tables meeting(int64_t early, const char* op) {
  Horovod job(2);
  for (int64_t s = 0; s < kSteps; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    for (int64_t at_ms = 0; at_ms < 100; at_ms += 10) {
      const int64_t now_ns = begin_ns + at_ms * 1_ms;
      const bool both = at_ms >= 60 && at_ms < 80;
      job.cycle(now_ns, {both || at_ms < (early == 0 ? 20 : 60), both || at_ms < (early == 1 ? 20 : 60)});
      if (at_ms == 0 || at_ms == 90) continue;
      const bool asks = at_ms == 20 || at_ms == 60;
      const int64_t who = at_ms == 20 ? early : 1 - early;
      std::vector<int64_t> own(2, at_ms == 80 ? kIdle + 5 : kIdle);
      if (asks) --own[static_cast<size_t>(who)];
      job.bits(1, 0, now_ns - 1_ms, own, s);
      if (asks) job.call("MPI_Gather", 1, 0, now_ns, now_ns + 100_us, {0, who == 1 ? 129 : 25}, s);
      const int64_t bytes = std::string(op) == "MPI_Barrier" ? 0 : 1_MB;
      if (at_ms == 60) job.call(op, 1, 0, now_ns + 200_us, now_ns + 300_us, {bytes, bytes}, s);
    }
    job.call("MPI_Allreduce", 1, 0, begin_ns + 90_ms, begin_ns + 100_ms, {5_MB, 5_MB}, s);
    for (int64_t rank = 0; rank < 2; ++rank) job.run.step(rank, s, begin_ns, begin_ns + 100_ms, 0);
  }
  job.analyze(1_s + kSteps * 100_ms);
  return std::move(job.run);
}

TEST(Background, WhoIsLateAtABarrier) {
  for (const int64_t early : {0, 1}) {
    Tables run = meeting(early, "MPI_Barrier");
    EXPECT_EQ(parts_of(run, early), (Parts{40, 40, 10, 10})) << early;
    EXPECT_EQ(parts_of(run, 1 - early), (Parts{80, 0, 10, 10})) << early;
    EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1 - early});
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame"), kSteps * 40'000'000) << early;
    EXPECT_EQ(run.integer("SELECT count(*) FROM coordination c JOIN event e ON e.id = c.event JOIN op o ON o.id = e.op"
                          " WHERE o.name = 'MPI_Barrier'"),
              2 * kSteps);
    EXPECT_EQ(run.findings().front(), "straggler") << early;
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
  }
}

/// The early rank waits so long in each step for the other one, which is ready 80 ms after the step's begin.
void expect_waiting(Tables run, int64_t early, int64_t wait_ms) {
  EXPECT_EQ(parts_of(run, early), (Parts{80 - wait_ms, wait_ms, 10, 10})) << early;
  EXPECT_EQ(parts_of(run, 1 - early), (Parts{80, 0, 10, 10})) << early;
  EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1 - early});
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame"), kSteps * wait_ms * 1'000'000) << early;
  EXPECT_EQ(run.findings().front(), "straggler") << early;
}

TEST(Background, WhoIsLateForWhatNoCacheHolds) {
  for (const int64_t early : {0, 1}) expect_waiting(meeting(early, "MPI_Reduce_scatter"), early, 40);
}

/// One rank is ready at 20 ms, the other at 80 ms. At 50 ms the first one's tensors have waited for too long: they are
/// dropped from the cache, and both ask for them by lists.
Tables stalled(int64_t early) {
  Horovod job(2);
  for (int64_t s = 0; s < kSteps; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    for (int64_t at_ms = 0; at_ms < 100; at_ms += 10) {
      const int64_t now_ns = begin_ns + at_ms * 1_ms;
      job.cycle(now_ns, {at_ms < (early == 0 ? 20 : 80), at_ms < (early == 1 ? 20 : 80)});
      if (at_ms == 0 || at_ms == 90) continue;
      std::vector<int64_t> own(2, kIdle);
      if (at_ms >= 20 && at_ms < 50) own[static_cast<size_t>(early)] += 5;
      if (at_ms == 50) own[static_cast<size_t>(early)] -= 2;
      if (at_ms == 80) own[static_cast<size_t>(1 - early)] -= 1;
      job.bits(1, 0, now_ns - 200_us, own, s);
      if (at_ms == 50) job.call("MPI_Gather", 1, 0, now_ns, now_ns + 100_us, {0, early == 1 ? 225 : 25}, s);
      if (at_ms == 80) job.call("MPI_Gather", 1, 0, now_ns, now_ns + 100_us, {0, early == 0 ? 225 : 25}, s);
    }
    job.call("MPI_Allreduce", 1, 0, begin_ns + 90_ms, begin_ns + 100_ms, {5_MB, 5_MB}, s);
    for (int64_t rank = 0; rank < 2; ++rank) job.run.step(rank, s, begin_ns, begin_ns + 100_ms, 0);
  }
  job.analyze(1_s + kSteps * 100_ms);
  return std::move(job.run);
}

TEST(Background, WaitingGoesOnWhereTheCacheDropsWhatIsStalled) {
  for (const int64_t early : {0, 1}) expect_waiting(stalled(early), early, 60);
}

/// Adasum: what was agreed on is moved by messages and sums on communicators of its own. Rank 0 computes for 50 ms,
/// rank 1 for 80 ms. `a_set`: the tensors are reduced as usual, and what moves by messages, at 60 ms, is a process
/// set's, on which all negotiate, too.
Tables adasum(bool a_set) {
  Horovod job(2);
  const int64_t messages = job.run.communicator("messages", {0, 1}), sums = job.run.communicator("sums", {0, 1});
  const int64_t set = job.run.communicator("set", {0, 1});
  const auto exchange = [&](int64_t begin_ns, int64_t end_ns, int64_t s) {
    for (int64_t rank = 0; rank < 2; ++rank)
      job.run.add({.rank = rank,
                   .op = "MPI_Sendrecv",
                   .enter_ns = begin_ns,
                   .leave_ns = end_ns,
                   .bytes = 1_MB,
                   .comm = messages,
                   .peer = 1 - rank,
                   .step = s,
                   .thread = 1});
  };
  for (int64_t s = 0; s < kSteps; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    for (int64_t at_ms = 0; at_ms < 100; at_ms += 10) {
      const int64_t now_ns = begin_ns + at_ms * 1_ms;
      job.cycle(now_ns, {at_ms < 50, at_ms < 80});
      if (at_ms == 90) continue;
      job.bits(1, 0, now_ns, {at_ms >= 50 ? kIdle + 5 : kIdle, at_ms == 80 ? kIdle + 5 : kIdle}, s);
      if (!a_set) continue;
      job.bits(set, 0, now_ns + 1_ms, std::vector<int64_t>(2, at_ms == 60 ? kIdle + 1 : kIdle), s);
      if (at_ms == 60) exchange(now_ns + 2_ms, now_ns + 3_ms, s);
    }
    if (a_set) {
      job.call("MPI_Allreduce", 1, 0, begin_ns + 90_ms, begin_ns + 100_ms, {5_MB, 5_MB}, s);
    } else {
      exchange(begin_ns + 90_ms, begin_ns + 94_ms, s);
      job.call("MPI_Allreduce", sums, 0, begin_ns + 94_ms, begin_ns + 95_ms, {1200, 1200}, s);
      exchange(begin_ns + 95_ms, begin_ns + 100_ms, s);
    }
    for (int64_t rank = 0; rank < 2; ++rank) job.run.step(rank, s, begin_ns, begin_ns + 100_ms, 0);
  }
  job.analyze(1_s + kSteps * 100_ms);
  return std::move(job.run);
}

TEST(Background, WhoIsLateWhereMessagesMoveTheData) {
  for (const bool a_set : {false, true}) {
    Tables run = adasum(a_set);
    EXPECT_EQ(parts_of(run, 0), (a_set ? Parts{50, 29, 11, 10} : Parts{50, 30, 10, 10})) << a_set;
    EXPECT_EQ(parts_of(run, 1), (Parts{80, 0, 10, 10})) << a_set;
    EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1}) << a_set;
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame"), kSteps * 30'000'000) << a_set;
    ASSERT_FALSE(run.findings().empty()) << a_set;
    EXPECT_EQ(run.findings().front(), "straggler") << a_set;
  }
}

/// Ranks 1 and 2 reduce on a process set of theirs; most calls are the cycles of all ranks, which move nothing.
TEST(Background, StepsOfAProcessSet) {
  Horovod job(3);
  const int64_t set = job.run.communicator("set", {1, 2});
  for (int64_t s = 0; s < kSteps; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    for (int64_t at_ms = 0; at_ms < 100; at_ms += 10) {
      const int64_t now_ns = begin_ns + at_ms * 1_ms;
      job.cycle(now_ns, {at_ms < 40, at_ms < 40, at_ms < 80});
      job.bits(1, 0, now_ns, {kIdle, kIdle, kIdle});
      if (at_ms % 20 == 0) job.bits(set, 1, now_ns, {at_ms >= 40 ? kIdle + 5 : kIdle, at_ms >= 80 ? kIdle + 5 : kIdle});
    }
    if (s % 2 == 0) job.call("MPI_Allreduce", set, 1, begin_ns + 90_ms, begin_ns + 95_ms, {5_MB, 5_MB});
    job.call("MPI_Allreduce", set, 1, begin_ns + (s % 2 == 0 ? 95_ms : 90_ms), begin_ns + 100_ms,
             s % 2 == 0 ? std::vector<int64_t>{3_MB, 3_MB} : std::vector<int64_t>{8_MB, 8_MB});
  }
  job.analyze(1_s + kSteps * 100_ms);
  EXPECT_EQ(job.run.integers("SELECT count(*) FROM step GROUP BY process"),
            (std::vector<int64_t>{kSteps - 1, kSteps - 1}));
  EXPECT_EQ(parts_of(job.run, 1), (Parts{40, 40, 10, 10}));
  EXPECT_EQ(parts_of(job.run, 2), (Parts{80, 0, 10, 10}));
  ASSERT_EQ(job.run.findings().front(), "straggler");
  EXPECT_EQ(job.run.integer("SELECT rank FROM finding WHERE id = 'straggler'"), 2);
}

// A third rank may have kept both waiting within what looks like transfer; of two ranks of four nothing is known.
TEST(Background, RanksWithoutARecordLeaveBoundsOrNothing) {
  const std::string split = "SELECT count(*) FROM step_part WHERE wait_ns IS NOT NULL AND coalesce(why, '') = ";
  Tables all = background_training({});
  EXPECT_EQ(all.integer(split + "''"), 2 * kSteps);
  Tables one = background_training({.unrecorded = 1});
  EXPECT_EQ(one.integer(split + "'PARTIAL_RANKS'"), 2 * kSteps);
  EXPECT_EQ(parts_of(one, 0), (Parts{50, 30, 10, 10}));
  EXPECT_EQ(one.integer("SELECT bounded FROM steady_world"), 1);
  Tables two = background_training({.unrecorded = 2});
  EXPECT_EQ(two.integer("SELECT count(*) FROM step_part WHERE wait_ns IS NULL AND why = 'PARTIAL_RANKS'"), 2 * kSteps);
  EXPECT_EQ(two.integer("SELECT bounded FROM steady_world"), 0);
}

TEST(Background, WhoWasLate) {
  for (const bool by_bits : {true, false}) {
    Tables run = background_training({.by_bits = by_bits});
    EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1}) << by_bits;
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame"), kSteps * 30'000'000) << by_bits;
    ASSERT_EQ(run.findings().front(), "straggler") << by_bits;
    EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE id = 'straggler'"),
              "rank 1 (node1) is ready last for 100% of reductions: the other waits 30.0 ms/step");
    EXPECT_EQ(run.integer("SELECT saving_ns FROM finding WHERE id = 'straggler'"), 30'000'000);
  }
}

TEST(Background, RankZeroIsLateWhenAllOthersWereReady) {
  for (const bool by_bits : {true, false}) {
    Tables run = background_training({.by_bits = by_bits, .computes_ms = {80, 50}});
    EXPECT_EQ(parts_of(run, 0), (Parts{80, 0, 10, 10})) << by_bits;
    EXPECT_EQ(parts_of(run, 1), (Parts{50, 30, 10, 10})) << by_bits;
    EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{0}) << by_bits;
  }
}

/// Rank 0 sends no requests to itself: its sleep before it computes could be waiting, unless a timeline says since
/// when it was ready.
TEST(Background, ATimelineSaysWhenRankZeroWasReady) {
  Tables untold = background_training({.by_bits = false, .computes_ms = {40, 80}, .sleeps_ms = {20, 0}});
  EXPECT_EQ(parts_of(untold, 0), (Parts{40, 40, 10, 10}));
  Tables run = background_training({.by_bits = false, .computes_ms = {40, 80}, .sleeps_ms = {20, 0}, .told = true});
  EXPECT_EQ(parts_of(run, 0), (Parts{40, 20, 10, 30}));
  EXPECT_EQ(parts_of(run, 1), (Parts{80, 0, 10, 10}));
  EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1});
}

TEST(Background, SleepIsNeitherComputingNorWaiting) {
  Tables run = background_training({.computes_ms = {40, 40}, .sleeps_ms = {0, 30}});
  EXPECT_EQ(parts_of(run, 0), (Parts{40, 30, 10, 20}));
  EXPECT_EQ(parts_of(run, 1), (Parts{40, 0, 10, 50}));
  EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1});
  EXPECT_NE(run.text("SELECT evidence FROM finding WHERE id = 'straggler'")
                .find("is blocked outside communication for 50.0 ms/step, the other's 20.0 ms"),
            std::string::npos);
  EXPECT_EQ(run.text("SELECT try FROM finding WHERE id = 'straggler'"),
            "see what the training thread of rank 1 sleeps for: input, checkpoints, reading files, locks");
}

/// A share of the mean step is made of the mean saving.
TEST(Background, AStepInWhichItDoesNotSleepSavesNothing) {
  Tables run = background_training({.computes_ms = {40, 40}, .sleeps_ms = {0, 30}, .awake = 8});
  ASSERT_EQ(run.findings().front(), "straggler");
  EXPECT_EQ(run.integer("SELECT saving_ns FROM finding WHERE id = 'straggler'"), 30'000'000 * 6 / 7);
  EXPECT_NEAR(run.number("SELECT share_ratio FROM finding WHERE id = 'straggler'"), 0.3 * 6 / 7, 1e-6);
}

/// Local SGD by groups: torch takes each rank alone in most steps.
TEST(Background, AGroupOfOneDoesNotCommunicate) {
  for (const char* id : {"ccr_raw", "ccr_xfer", "ccr_exposed", "overlap"}) {
    Tables run = background_training({.computes_ms = {50, 50}}),
           more = background_training({.computes_ms = {50, 50}, .alone = true});
    EXPECT_GT(more.integer("SELECT count(*) FROM event"), run.integer("SELECT count(*) FROM event"));
    EXPECT_DOUBLE_EQ(more.metric(id).value_or(-1), run.metric(id).value_or(-2)) << id;
  }
}

/// A layer that is uneven by less does not excuse it.
TEST(Background, SleepBesideAnUnevenLayerIsTold) {
  Tables run = background_training({.computes_ms = {40, 40}, .sleeps_ms = {0, 30}, .uneven = true});
  EXPECT_EQ(run.findings(), (std::vector<std::string>{"straggler", "layer_imbalance"}));
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE id = 'straggler'"), 1);
  EXPECT_EQ(run.integer("SELECT saving_ns FROM finding WHERE id = 'straggler'"), 30'000'000);
}

/// 30 ms in each step, of another rank than in the last: no sampled thread computes it. Cores that ranks share do not
/// explain it either.
TEST(Background, SleepInTurnsIsTold) {
  for (const bool one_core : {false, true}) {
    Tables run = background_training(
        {.computes_ms = {40, 40}, .sleeps_ms = {0, 30}, .steps = 30, .turns = true, .one_core = one_core});
    ASSERT_FALSE(run.findings().empty()) << one_core;
    EXPECT_EQ(run.findings().front(), "layer_imbalance") << one_core;
    const std::string sentence = run.text("SELECT sentence FROM finding WHERE id = 'layer_imbalance'");
    EXPECT_TRUE(has(sentence, "ranks take turns, in each step the slowest sleeps outside communication 1")) << sentence;
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding WHERE id = 'layer_imbalance'"), 15e6, 0.5e6) << one_core;
    EXPECT_TRUE(
        run.text("SELECT try FROM finding WHERE id = 'layer_imbalance'").starts_with("see what training threads"));
  }
}

TEST(Background, LoadingIsToldWhereTheTrainingThreadsAreBlocked) {
  Tables run = background_training({.computes_ms = {20, 20}, .sleeps_ms = {50, 50}, .loads = true});
  for (const int64_t rank : {0, 1}) EXPECT_EQ(parts_of(run, rank), (Parts{20, 0, 10, 70}));
  EXPECT_EQ(run.integers("SELECT DISTINCT input_ns FROM step_part"), std::vector<int64_t>{50'000'000});
  EXPECT_NEAR(*run.metric("f_input"), 0.5, 1e-6);
  EXPECT_EQ(run.findings(), std::vector<std::string>{"input_bound"});
  EXPECT_EQ(run.integer("SELECT saving_ns FROM finding"), 50'000'000);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict.text'"),
            "bound by input: input 50.0%, idling 20.0%, transfer 10.0%, wait 0.0% of the step (threshold 5%)");

  Tables inferred =
      background_training({.marks = false, .computes_ms = {20, 20}, .sleeps_ms = {50, 50}, .loads = true});
  EXPECT_EQ(inferred.integers("SELECT DISTINCT input_ns FROM step_part"), std::vector<int64_t>{50'000'000});
  Tables unnamed = background_training({.computes_ms = {20, 20}, .sleeps_ms = {50, 50}});
  EXPECT_EQ(unnamed.integer("SELECT count(input_ns) FROM step_part"), 0);
  EXPECT_EQ(unnamed.text("SELECT value FROM meta WHERE key = 'verdict'"), "idling");
}

TEST(Background, ASlowLoaderIsThatRanksAlone) {
  Tables run = background_training({.computes_ms = {30, 30}, .sleeps_ms = {10, 50}, .loads = true});
  ASSERT_EQ(run.findings().front(), "loader_stall");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE id = 'loader_stall'"), 1);
  EXPECT_EQ(run.integer("SELECT saving_ns FROM finding WHERE id = 'loader_stall'"), 40'000'000);
}

/// What rank 1 idles longer is what rank 0 waits for.
TEST(Background, OnlyWhatAllRanksIdleIsIdling) {
  Tables run = background_training({.computes_ms = {40, 40}, .sleeps_ms = {0, 40}});
  EXPECT_EQ(parts_of(run, 1), (Parts{40, 0, 10, 50}));
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict.text'"),
            "bound by wait: wait 20.0%, transfer 10.0%, idling 10.0% of the step (threshold 5%)");
}

/// PyTorch over Gloo: the process group's thread reduces two buckets, the second behind the backward pass. The training
/// thread computes for the first 80 ms beside the first one, or waits for each.
Tables two_buckets(bool waits_for_each) {
  Tables run(2);
  run.exec("BEGIN");
  run.exec("INSERT INTO thread VALUES (1, 1, 5001, 'pt_gloo'), (2, 1, 5002, 'pt_gloo')");
  run.exec("INSERT OR IGNORE INTO datatype VALUES (14, 'MPI_FLOAT')");
  run.exec("INSERT OR IGNORE INTO reduction VALUES (1, 'MPI_SUM')");
  int64_t busy_ns = 0;
  const auto sample = [&](int64_t at_ns) {
    for (const char* process : {"1", "2"})
      run.exec(std::string("INSERT OR IGNORE INTO thread_sample VALUES (") + process + ", " + std::to_string(at_ns) +
               ", " + std::to_string(busy_ns) + ", 0, 0, NULL)");
  };
  for (int64_t s = 0; s < 2 * kSteps; ++s) {
    const int64_t begin_ns = 1_s + s * 100_ms;
    sample(begin_ns);
    busy_ns += 20_ms;
    sample(begin_ns + 20_ms);
    busy_ns += waits_for_each ? 0 : 30_ms;
    sample(begin_ns + 50_ms);
    busy_ns += 30_ms;
    sample(begin_ns + 80_ms);
    for (int64_t rank = 0; rank < 2; ++rank) {
      for (const auto& [from_ms, to_ms, n] : {std::array<int64_t, 3>{20, 50, 1}, {80, 95, 2}})
        run.add({.rank = rank,
                 .enter_ns = begin_ns + from_ms * 1_ms,
                 .leave_ns = begin_ns + to_ms * 1_ms,
                 .bytes = 12_MB / n,
                 .seq = 2 * s + n,
                 .step = s,
                 .thread = 1});
      run.step(rank, s, begin_ns, begin_ns + 100_ms, 0);
    }
    sample(begin_ns + 95_ms);
  }
  sample(1_s + 2 * kSteps * 100_ms);
  run.exec("UPDATE event SET datatype = 14, reduction = 1");
  run.exec("UPDATE process SET end_ns = 4000000000, init_ns = 1000000000, finalize_ns = 4000000000");
  run.exec("COMMIT");
  run.analyze();
  return run;
}

TEST(Background, ReductionsBesideTheBackwardPassDoNotBlock) {
  const std::string told = "SELECT count(*) FROM finding WHERE id = 'blocking_collectives'";
  Tables beside = two_buckets(false);
  EXPECT_EQ(beside.integer("SELECT count(*) FROM background_process WHERE sampled"), 2);
  EXPECT_EQ(beside.integer(told), 0);
  Tables each = two_buckets(true);
  ASSERT_EQ(each.integer(told), 1);
  EXPECT_NEAR(each.number("SELECT saving_ns FROM finding WHERE id = 'blocking_collectives'"), 3e7, 10);
}

TEST(Background, AHangSaysWhoseTrainingThreadDoesNotCome) {
  Tables by_bits = background_training({.silent_ms = 4000});
  ASSERT_EQ(by_bits.findings().front(), "missing_rank");
  EXPECT_EQ(
      by_bits.text("SELECT sentence FROM finding WHERE id = 'missing_rank'"),
      "no data was moved since 2.20 s: the training thread of rank 1 is asleep in clock_nanosleep, that of rank 0 waits for it");
  EXPECT_EQ(by_bits.integers("SELECT rank FROM finding WHERE id = 'missing_rank'"), std::vector<int64_t>{1});
  EXPECT_EQ(by_bits.text("SELECT group_concat(thread) FROM pending_negotiation"), "polling,asleep");

  Tables lists = background_training({.silent_ms = 4000, .lists_first = true});
  EXPECT_EQ(lists.text("SELECT sentence FROM finding WHERE id = 'missing_rank'"),
            by_bits.text("SELECT sentence FROM finding WHERE id = 'missing_rank'"));
  EXPECT_EQ(lists.text("SELECT group_concat(requested_bytes) FROM pending_negotiation"), "0,0")
      << "what they asked for has been moved";

  Tables rank_0 = background_training({.silent_ms = 4000, .ready = {0, 1}});
  EXPECT_EQ(rank_0.integers("SELECT rank FROM finding WHERE id = 'missing_rank'"), std::vector<int64_t>{0});
}

TEST(Background, NobodyIsMissingWhereAllAreAsFarOrTheSilenceIsShort) {
  Tables both = background_training({.silent_ms = 4000, .ready = {1, 1}});
  Tables none = background_training({.silent_ms = 4000, .ready = {0, 0}});
  Tables killed = background_training({.silent_ms = 1000});
  for (Tables* run : {&both, &none, &killed})
    EXPECT_EQ(run->integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0);
}

// Where its background thread sits says nothing of where the training thread died.
TEST(Background, ARankDiesMeanwhileNotInWhatItsBackgroundThreadSitsIn) {
  Tables run = background_training({});
  const int64_t next = run.integer("SELECT max(seq) + 1 FROM event WHERE comm = 1"), end_ns = 2'200_ms;
  for (int64_t rank = 0; rank < 2; ++rank) {
    run.open_call(rank, "MPI_Allreduce", 1, next, end_ns);
    run.ended(rank, "lost", end_ns + 5_ms);
  }
  run.meta("exit_code", "137");
  run.analyze();
  const std::string evidence = run.text("SELECT evidence FROM finding WHERE id = 'killed_rank'");
  EXPECT_NE(evidence.find("which all its members had entered: one of them died meanwhile."), std::string::npos)
      << evidence;
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE id = 'killed_rank'"),
            "one of ranks 0 and 1 was killed (SIGKILL), and the others were ended");
}

TEST(UnreadyCase, RequestsNameWhoBroughtLess) {
  const auto found = find_unready_case({{.rank = 0},
                                        {.rank = 1, .requested_bytes = 900},
                                        {.rank = 2, .requested_bytes = 0, .thread = TrainingState::kComputing},
                                        {.rank = 3, .requested_bytes = 880}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->waiting, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(unready_sentence(*found), "the training thread of rank 2 is computing, the others wait for it");
}

TEST(UnreadyCase, RankZeroSendsNoRequests) {
  const Readiness waits{.rank = 1, .requested_bytes = 900, .thread = TrainingState::kPolling};
  const auto found = find_unready_case({{.rank = 0, .thread = TrainingState::kAsleep, .sleeps_in = "read"}, waits});
  ASSERT_TRUE(found);
  EXPECT_EQ(unready_sentence(*found), "the training thread of rank 0 is asleep in read, that of rank 1 waits for it");
  EXPECT_FALSE(find_unready_case({{.rank = 0, .thread = TrainingState::kPolling}, waits}));
  EXPECT_FALSE(find_unready_case({{.rank = 0}, {.rank = 1}}));
}

TEST(UnreadyCase, BitsAndRequestsThatContradictEachOtherNameNobody) {
  const Readiness by_bits{.rank = 0, .requested_bytes = 900, .ready_bits = 3};
  EXPECT_FALSE(find_unready_case({by_bits, {.rank = 1, .requested_bytes = 500, .ready_bits = 9}}));
  EXPECT_TRUE(find_unready_case({by_bits, {.rank = 1, .requested_bytes = 500, .ready_bits = 3}}));
}

TEST(RequestedBytes, StartOverWhenAllHaveAskedForTheSame) {
  RequestedBytes requested;
  for (int step = 0; step < 1000; ++step) {  // lists of member 2 are split: a few bytes more
    requested.add(1, 1000);
    requested.add(2, 1016);
    requested.data_moved();
  }
  EXPECT_EQ(requested.add(1, 0), 0);
  requested.add(1, 1000);
  requested.add(2, 500);
  requested.data_moved();  // half of it
  EXPECT_EQ(requested.add(1, 0), 1000);
  EXPECT_TRUE(RequestedBytes::is_less(requested.add(2, 0), 1000));
}

TEST(Background, LessThanACycleIsNotLate) {
  Tables run = background_training({.computes_ms = {70, 80}});
  EXPECT_EQ(run.integers("SELECT cycle_ns FROM background_process"), (std::vector<int64_t>{10'000'000, 10'000'000}));
  EXPECT_EQ(run.integers("SELECT late FROM blame"), std::vector<int64_t>{1});
  EXPECT_EQ(run.findings(), std::vector<std::string>{});
}

TEST(Background, EqualRanksAreNotLate) {
  Tables run = background_training({.computes_ms = {70, 70}});
  EXPECT_EQ(parts_of(run, 0), (Parts{70, 0, 10, 20}));
  EXPECT_EQ(run.findings(), std::vector<std::string>{});
}

TEST(Background, StepsAreInferredFromBytes) {
  Tables run = background_training({.marks = false});
  // of the first nobody knows when it began
  EXPECT_EQ(run.integer("SELECT count(*) FROM step WHERE process = 1"), kSteps - 1);
  EXPECT_EQ(run.integer("SELECT min(duration_ns) FROM step"), 100'000'000);
  EXPECT_EQ(run.integer("SELECT max(duration_ns) FROM step"), 100'000'000);
  EXPECT_EQ(parts_of(run, 0), (Parts{50, 30, 10, 10}));
  EXPECT_EQ(run.findings().front(), "straggler");
}

/// The kernel may forbid to read the bits (seccomp): then nobody knows who was ready when, and waiting is not 0.
TEST(Background, UnreadReadinessLeavesWaitingUnknown) {
  Tables run = background_training({.bits_read = false});
  EXPECT_EQ(run.integer("SELECT count(*) FROM step_part WHERE wait_ns IS NULL AND xfer_ns IS NULL AND why = 'NO_DATA'"),
            2 * kSteps);
  EXPECT_EQ(run.integer("SELECT compute_ns FROM step_part WHERE process = 1 AND step = 6"), 50'000'000);
  EXPECT_EQ(run.integer("SELECT count(*) FROM blame"), 0);
  EXPECT_NE(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "compute");
}

TEST(Background, WithoutSamplesTheVerdictIsWithheld) {
  Tables run = background_training({.sampled = false});
  EXPECT_EQ(run.findings(), std::vector<std::string>{"unseen_training"});
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "withheld");
  EXPECT_EQ(run.integer("SELECT count(*) FROM step_part"), 0);
  EXPECT_EQ(run.integer("SELECT sentence LIKE '%MPI%' OR try LIKE '%collector ''threads''%' FROM finding"), 0);
  run.exec("INSERT INTO process_fact (process, key, value) VALUES (1, 'threads.off', '1')");
  run.analyze();
  EXPECT_EQ(run.integer("SELECT try LIKE '%collector ''threads''%' FROM finding"), 1);
}

/// The first thread of a JVM sleeps while main() runs on another: that one trains and communicates.
TEST(Background, AThreadThatNeverRunsDoesNotTrain) {
  Tables run = background_training({.marks = false, .computes_ms = {0, 0}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM background_process"), 0);
  EXPECT_EQ(run.integer("SELECT count(*) FROM coordination"), 0);
}

TEST(BusyTime, IsEvenBetweenSamples) {
  const BusyTime busy({{0, 0}, {10'000'000, 10'000'000}, {20'000'000, 12'000'000}});
  EXPECT_EQ(busy.busy_ns({0, 20'000'000}), 12'000'000);
  EXPECT_EQ(busy.blocked_ns(Interval{10'000'000, 20'000'000}), 8'000'000);
  EXPECT_EQ(busy.busy_ns({5'000'000, 15'000'000}), 6'000'000);
  EXPECT_TRUE(busy.covers({1'000'000, 19'000'000}));
  EXPECT_FALSE(busy.covers({0, 40'000'000}));
}

/// A sched_yield from 20 ms to 120 ms, without a CPU: a sample at its end saw one of its two accounts. Before, and from
/// 130 ms on, the thread computes.
TEST(BusyTime, LongYieldsOfWhichASampleSawHalf) {
  const std::string peak = "(1, 120000000, 20000000, 100000000, 0, NULL), ";  // the kernel's
  // the thread's, booked while the sums were read
  const std::string dip = "(1, 120000000, 20000000, 0, 100000000, NULL), ";
  const std::string after =
      "(1, 130000000, 30000000, 100000000, 110000000, NULL), (1, 150000000, 50000000, 100000000, 110000000, NULL)";
  for (const std::string& torn : {peak, dip}) {
    Tables run(1);
    run.exec(
        "INSERT INTO thread_sample VALUES (1, 0, 0, 0, 0, NULL), (1, 20000000, 20000000, 0, 0, NULL), (1, 70000000, 20000000, 0, 0, NULL), " +
        torn + after);
    const BusyTime busy = read_busy_time(run.db(), 1);
    EXPECT_EQ(busy.busy_ns({0, 20'000'000}), 20'000'000) << torn;
    EXPECT_EQ(busy.busy_ns({20'000'000, 130'000'000}), 0) << torn;
    EXPECT_EQ(busy.busy_ns({130'000'000, 150'000'000}), 20'000'000) << torn;
  }
}

}  // namespace
}  // namespace ddl::test
