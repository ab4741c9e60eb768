// Traces whose kernels of NCCL carry no process group (PyTorch up to 2.1), as the test writes them: who
// entered when is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <tuple>

#include "store/import/kernel_names.h"
#include "tests/import/imported.h"

namespace ddl::test {
namespace {

using store::find_torch_range;
using store::parse_nccl_kernel;
using store::parse_tensors;

constexpr int kRanks = 8, kSteps = 3;
constexpr int64_t kStepNs = 20'000'000, kPlaceNs = 1'000'000;

struct Planned {
  std::string kernel;
  std::string range;                  ///< around the launch; empty: none
  std::string dims = {}, types = {};  ///< of the range; empty: none
  std::string metadata = {};          ///< of the kernel, ", ..." behind other arguments
  std::string around = {};            ///< arguments of a record_param_comms around the range; empty: none
  int stream = 20;
  int kernels = 1;  ///< in the range
};

const std::string kAllReduceKernel = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
                  kAllGather = "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)",
                  kBroadcast = "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)",
                  kSendRecv = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
                  kGeneric = "ncclDevKernel_Generic(ncclDevComm*)";

const Planned kGradients{kAllReduceKernel, "nccl:all_reduce", "[[1000, 250]]", R"(["float"])"};
const Planned kWeights{kAllGather, "nccl:_all_gather_base", "[[4096]]", R"(["c10::BFloat16"])"};
const Planned kBuffers{kBroadcast, "nccl:broadcast", "[[7]]", R"(["long int"])"};

Planned on_stream(Planned planned, int stream) {
  planned.stream = stream;
  return planned;
}

/// For a rank's collective at a place in a step: begin and end, both ns behind the begin of that place's slot.
using Times = std::function<std::pair<int64_t, int64_t>(int rank, int step, int place)>;
/// What a rank does in a step.
using Program = std::function<std::vector<Planned>(int rank, int step)>;

Program same(std::vector<Planned> planned) {
  return [planned](int, int) { return planned; };
}

/// 0, 1, ... 7 times 37.005 us in another order for every collective.
int64_t late_ns(int rank, int step, int place) { return ((rank * 3 + step * 5 + place * 7) % kRanks) * 37'005; }
std::pair<int64_t, int64_t> together(int rank, int step, int place) {
  return {late_ns(rank, step, place), 600'000 + 1000 * place};
}

std::string us(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string trace_of(int rank, int ranks, int steps, const Program& program, const Times& times,
                     bool is_marked = true) {
  std::string events;
  const auto add = [&](const std::string& category, const std::string& name, const std::string& tid, int64_t start_ns,
                       int64_t end_ns, const std::string& args) {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 9, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
        events.empty() ? "" : ",\n", category, name, tid, us(start_ns), us(end_ns - start_ns), args);
  };
  int correlation = 0;
  for (int n = 1; n <= steps; ++n) {
    const int64_t t = n * kStepNs;
    if (is_marked) add("user_annotation", fmt::format("ProfilerStep#{}", n), "9", t, t + kStepNs, "");
    const std::vector<Planned> planned = program(rank, n);
    for (int place = 0; place < static_cast<int>(planned.size()); ++place) {
      const Planned& p = planned[static_cast<size_t>(place)];
      // The host is done with the step long before the device has begun it.
      const int64_t host_ns = t + 10'000 + place * 50'000;
      const auto [begin_ns, end_ns] = times(rank, n, place);
      const int64_t slot_ns = t + 2'000'000 + place * kPlaceNs;
      if (!p.around.empty()) add("cpu_op", "record_param_comms", "9", host_ns - 1000, host_ns + 40'000, p.around);
      if (!p.range.empty())
        add("user_annotation", p.range, "9", host_ns, host_ns + 30'000,
            p.dims.empty() ? "" : fmt::format(R"("Input Dims": {}, "Input type": {})", p.dims, p.types));
      for (int k = 0; k < p.kernels; ++k) {
        ++correlation;
        add("cuda_runtime", "cudaLaunchKernel", "9", host_ns + 5000 + 3000 * k, host_ns + 7000 + 3000 * k,
            fmt::format(R"("correlation": {})", correlation));
        // All ranks leave the first of several together, and enter the next one.
        const int64_t last_ns = end_ns * 2 / 3;
        add("kernel", p.kernel, fmt::to_string(p.stream), slot_ns + (k == 0 ? begin_ns : last_ns + 1000 * k),
            slot_ns + (k + 1 == p.kernels ? end_ns : last_ns),
            fmt::format(R"("device": {}, "context": 1, "stream": {}, "correlation": {}{})", rank, p.stream, correlation,
                        p.metadata));
      }
    }
  }
  return fmt::format(
      R"({{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}}, "traceEvents": [{}]}})",
      rank, ranks, events);
}

Imported::Files job(const Program& program, const Times& times = together, const std::set<int>& missing = {},
                    int steps = kSteps) {
  Imported::Files files;
  for (int rank = 0; rank < kRanks; ++rank)
    if (!missing.contains(rank))
      files.emplace_back(fmt::format("rank{}.json", rank), trace_of(rank, kRanks, steps, program, times));
  return files;
}

std::string loss(Imported& run, const std::string& part) {
  SQLite::Statement row(run.db, "SELECT count FROM loss WHERE kind = 'nccl_kernels' AND note LIKE '%' || ? || '%'");
  row.bind(1, part);
  return row.executeStep() ? row.getColumn(0).getString() : "none";
}

TEST(InferredCommunicators, OrderTellsWhichBelongTogether) {
  const std::vector<Planned> plan{kGradients, kWeights, kBuffers, kGradients};
  Imported run("kineto", job(same(plan)), true);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective"), kRanks * kSteps * 4);
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT comm || ' ' || comm_size) FROM v_collective"), "world (inferred) 8");
  EXPECT_EQ(run.text("SELECT group_concat(kind || size || label) FROM communicator"), "nccl8world (inferred)");
  EXPECT_EQ(run.integer("SELECT count(*) FROM communicator_member WHERE comm_rank = rank"), kRanks);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE comm = 'world (inferred)' AND seq IS NOT NULL"),
            kRanks * kSteps * 4);
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);

  struct Known {
    const char* op;
    int64_t payload, size;
  };
  constexpr Known kKnown[] = {{"ncclAllReduce", 1'000'000, 1'000'000},
                              {"ncclAllGather", 8192, 65536},
                              {"ncclBroadcast", 56, 56},
                              {"ncclAllReduce", 1'000'000, 1'000'000}};
  std::map<std::pair<int64_t, int64_t>, int64_t> blamed, blame;  // by late rank, and who waited
  SQLite::Statement row(
      run.db,
      "SELECT rank, step, seq, op, payload_bytes, bytes, duration_ns, wait_ns, xfer_ns, wait_method, why FROM v_collective");
  int rows = 0;
  for (; row.executeStep(); ++rows) {
    const int rank = row.getColumn(0).getInt(), step = row.getColumn(1).getInt(),
              place = (row.getColumn(2).getInt() - 1) % 4;
    SCOPED_TRACE(fmt::format("rank {}, step {}, place {}", rank, step, place));
    EXPECT_EQ((row.getColumn(2).getInt() - 1) / 4 + 1, step);
    EXPECT_EQ(row.getColumn(3).getString(), kKnown[place].op);
    EXPECT_EQ(row.getColumn(4).getInt64(), kKnown[place].payload);
    EXPECT_EQ(row.getColumn(5).getInt64(), kKnown[place].size);
    const int64_t enter_ns = late_ns(rank, step, place), last_ns = 7 * 37'005, end_ns = 600'000 + 1000 * place;
    EXPECT_EQ(row.getColumn(6).getInt64(), end_ns - enter_ns);
    if (place == 2) {
      // Who has what the others get is not told.
      EXPECT_TRUE(row.isColumnNull(7));
      EXPECT_EQ(row.getColumn(10).getString(), "NOT_APPLICABLE");
      continue;
    }
    EXPECT_EQ(row.getColumn(7).getInt64(), last_ns - enter_ns);
    EXPECT_EQ(row.getColumn(8).getInt64(), end_ns - last_ns);
    EXPECT_EQ(row.getColumn(9).getString(), "max-start");
    EXPECT_TRUE(row.isColumnNull(10));
    for (int late = 0; late < kRanks; ++late)
      if (late_ns(late, step, place) == last_ns && late != rank) blamed[{late, rank}] += last_ns - enter_ns;
  }
  EXPECT_EQ(rows, kRanks * kSteps * 4);
  SQLite::Statement who(run.db, "SELECT late, waiter, wait_ns FROM v_blame WHERE wait_ns > 0");
  while (who.executeStep())
    blame[{who.getColumn(0).getInt64(), who.getColumn(1).getInt64()}] = who.getColumn(2).getInt64();
  EXPECT_EQ(blame, blamed);
}

TEST(InferredCommunicators, SameAsWithMetadata) {
  const auto metadata = [](const char* name, int elements, const char* type) {
    return fmt::format(
        R"(, "Collective name": "{}", "In msg nelems": {}, "Group size": 8, "dtype": "{}", "Process Group Name": "0",)"
        R"( "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]")",
        name, elements, type);
  };
  std::vector<Planned> stripped{
      kGradients, kWeights, kBuffers, {kSendRecv, "nccl:all_to_all", "[[8, 512]]", R"(["c10::Half"])"}};
  std::vector<Planned> told = stripped;
  told[0].metadata = metadata("allreduce", 250'000, "Float");
  told[1].metadata = metadata("_allgather_base", 4096, "BFloat16");
  told[2].metadata = metadata("broadcast", 7, "Long");
  told[3].metadata = metadata("all_to_all", 4096, "Half");
  const std::string all =
      "SELECT group_concat(row, char(10)) FROM (SELECT json_array(rank, step, layer, op, comm_size, seq, payload_bytes, bytes, enter_ns,"
      " leave_ns, wait_ns, xfer_ns, wait_method, why, algorithm, protocol, comm_rank) AS row FROM v_collective ORDER BY rank, seq)";
  for (const bool one_clock : {true, false}) {
    Imported with("kineto", job(same(told)), one_clock), without("kineto", job(same(stripped)), one_clock);
    EXPECT_EQ(with.integer("SELECT count(*) FROM v_collective WHERE comm = 'default_pg'"), kRanks * kSteps * 4);
    EXPECT_EQ(
        without.integer(
            "SELECT count(*) FROM v_collective WHERE comm = 'world (inferred)' AND (wait_ns >= 0 OR op = 'ncclBroadcast')"),
        kRanks * kSteps * 4);
    EXPECT_EQ(without.text(all), with.text(all));
    EXPECT_EQ(without.integer("SELECT count(*) FROM loss"), 0);
  }
}

TEST(InferredCommunicators, GroupsThatRunTheSameAreNotOne) {
  // Ranks 0 to 3 and 4 to 7 communicate among themselves. What the second group is behind the first by differs from
  // collective to collective.
  const auto apart = [](int64_t lag_ns) {
    return [lag_ns](int rank, int step, int place) {
      const int64_t behind_ns = rank < 4 ? 0 : lag_ns * (1 + (step * 4 + place) % 3);
      return std::pair<int64_t, int64_t>{(rank % 4) * 20'000 + behind_ns, 300'000 + behind_ns};
    };
  };
  const std::vector<Planned> plan(12, kGradients);
  for (const bool one_clock : {true, false}) {
    for (const int64_t lag_ns : {200'000, 60'000}) {
      SCOPED_TRACE(fmt::format("{} ns behind, {}", lag_ns, one_clock ? "one clock" : "clocks not known"));
      Imported run("kineto", job(same(plan), apart(lag_ns)), one_clock);
      EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective"), 0);
      EXPECT_EQ(run.integer("SELECT count(*) FROM communicator"), 0);
      EXPECT_EQ(run.integer("SELECT count(*) FROM event"), 0);
      EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_event WHERE comm IS NOT NULL OR seq IS NOT NULL"), 0);
      EXPECT_EQ(loss(run, "do not belong to one communicator of all ranks: of 36 collectives, some rank left"), "288");
      EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 1);
    }
  }
  // Short ones, apart by less than the latency: the first group has left when the second enters.
  const auto brief = [](int rank, int, int) {
    const int64_t behind_ns = rank < 4 ? 0 : 15'000;
    return std::pair<int64_t, int64_t>{(rank % 4) * 1000 + behind_ns, 10'000 + behind_ns};
  };
  Imported short_ones("kineto", job(same(plan), brief), true);
  EXPECT_EQ(short_ones.integer("SELECT count(*) FROM event"), 0);
  EXPECT_EQ(loss(short_ones,
                 "of 36 collectives, some rank left 36 before all had entered, and 0 of 36 apart from the others"),
            "288");

  // With the groups in step to the latency they cannot be told apart; nothing can be wrong by more than they are apart.
  Imported in_step("kineto", job(same(plan), apart(1000)), true);
  EXPECT_EQ(in_step.integer("SELECT max(wait_ns) FROM v_collective"), 60'000 + 3000);
}

TEST(InferredCommunicators, AFewExceptionsDoNotMatter) {
  // One of 36 ends early on one rank: stamps of devices are not perfect.
  const auto times = [](int rank, int step, int place) {
    auto [begin_ns, end_ns] = together(rank, step, place);
    return std::pair{begin_ns, step == 2 && place == 5 && late_ns(rank, step, place) == 0 ? 100'000 : end_ns};
  };
  Imported run("kineto", job(same(std::vector<Planned>(12, kGradients)), times), true);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NOT NULL"), kRanks * 36);
}

TEST(InferredCommunicators, AStepWithoutAgreementIsLeftOut) {
  const std::vector<Planned> plan{kGradients, kWeights, kGradients};
  const auto with = [&](const std::function<void(std::vector<Planned>&)>& change) {
    return [&plan, change](int rank, int step) {
      std::vector<Planned> changed = plan;
      if (rank == 3 && step == 2) change(changed);
      return changed;
    };
  };
  const auto check = [&](const Program& program, const char* count) {
    Imported run("kineto", job(program), true);
    EXPECT_EQ(run.text("SELECT group_concat(DISTINCT step) FROM v_collective"), "1,3");
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns + xfer_ns = duration_ns"), kRanks * 2 * 3);
    EXPECT_EQ(run.integer("SELECT max(seq) FROM v_collective"), 6);
    EXPECT_EQ(loss(run, "in which the ranks show other collectives, or other bytes"), count);
    EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 1);
  };
  check(with([](std::vector<Planned>& p) { p.pop_back(); }), "23");
  check(with([](std::vector<Planned>& p) { p[1] = kGradients; }), "24");
  check(with([](std::vector<Planned>& p) { p[2].dims = "[[1000, 251]]"; }), "24");
  // Two halves of a job that do different things have nothing in common.
  const auto halves = [&](int rank, int) { return rank < 4 ? plan : std::vector<Planned>{kWeights, kGradients}; };
  Imported pipeline("kineto", job(halves), true);
  EXPECT_EQ(pipeline.integer("SELECT count(*) FROM event"), 0);
  EXPECT_EQ(loss(pipeline, "on which the ranks show different sequences in every step"),
            fmt::to_string(4 * kSteps * (3 + 2)));
  // What is not told contradicts nothing.
  Imported untold("kineto", job(with([](std::vector<Planned>& p) { p[2].dims = ""; })), true);
  EXPECT_EQ(untold.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NOT NULL"), kRanks * kSteps * 3);
  EXPECT_EQ(untold.integer("SELECT count(*) FROM v_collective WHERE payload_bytes IS NULL"), 1);
  EXPECT_EQ(untold.integer("SELECT count(*) FROM v_collective WHERE bytes IS NULL"), kRanks);
}

TEST(InferredCommunicators, BytesOfAllToAllsMayDiffer) {
  const auto program = [](int rank, int) {
    return std::vector<Planned>{{kSendRecv, "nccl:all_to_all", fmt::format("[[8, {}]]", 100 + rank), R"(["float"])"},
                                kGradients};
  };
  Imported run("kineto", job(program), true);
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAlltoAll' AND payload_bytes = 32 * (100 + rank)"),
      kRanks * kSteps);
}

TEST(InferredCommunicators, MissingRanksMeanNoWaiting) {
  const std::vector<Planned> plan{kGradients, kWeights};
  Imported one("kineto", job(same(plan), together, {5}), true);
  EXPECT_EQ(
      one.integer(
          "SELECT count(*) FROM v_collective WHERE comm = 'world (inferred)' AND comm_size = 8 AND wait_ns IS NULL"
          " AND why = 'PARTIAL_RANKS'"),
      7 * kSteps * 2);
  EXPECT_EQ(one.integer("SELECT count(*) FROM v_collective"), 7 * kSteps * 2);
  EXPECT_EQ(one.text("SELECT note FROM loss WHERE kind = 'missing_rank'"), "of 8 ranks without a trace: rank 5");
  // Four of eight may be a group of four.
  Imported half("kineto", job(same(plan), together, {0, 1, 2, 3}), true);
  EXPECT_EQ(
      half.integer("SELECT count(*) FROM v_collective WHERE comm LIKE 'NCCL stream 20 of rank _ (members unknown)' AND"
                   " comm_size IS NULL AND wait_ns IS NULL AND why = 'PARTIAL_RANKS' AND payload_bytes > 0"),
      4 * kSteps * 2);
  EXPECT_EQ(half.integer("SELECT count(*) FROM communicator"), 4);
  EXPECT_EQ(half.integer("SELECT count(*) FROM communicator_member"), 0);
  EXPECT_EQ(half.integer("SELECT count(*) FROM collective_group WHERE busbw_raw IS NOT NULL OR busbw_xfer IS NOT NULL"),
            0);
  EXPECT_EQ(half.text("SELECT group_concat(DISTINCT why) FROM collective_group"), "PARTIAL_RANKS");
  // For two ranks nobody else can be in a communicator with one of them.
  Imported pair("kineto", Imported::Files{{"rank1.json", trace_of(1, 2, kSteps, same(plan), together)}});
  EXPECT_EQ(
      pair.integer(
          "SELECT count(*) FROM v_collective WHERE comm = 'world (inferred)' AND comm_size = 2 AND why = 'PARTIAL_RANKS'"),
      kSteps * 2);
}

TEST(InferredCommunicators, StreamsAreMatchedByWhatTheyCarry) {
  // Each rank's streams have numbers of their own: what it carries tells which is which.
  const auto program = [](int rank, int) {
    const int first = 20 + rank % 2, second = 21 - rank % 2;
    return std::vector<Planned>{on_stream(kGradients, first), on_stream(kWeights, second),
                                on_stream(kGradients, first)};
  };
  Imported run("kineto", job(program), true);
  EXPECT_EQ(run.text("SELECT group_concat(label, ', ') FROM (SELECT label FROM communicator ORDER BY id)"),
            "world (inferred), world (inferred)#2");
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM (SELECT 1 FROM v_collective GROUP BY comm, seq, op HAVING count(*) = 8 AND max(wait_ns) > 0)"),
      kSteps * 3);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT comm) FROM v_collective WHERE op = 'ncclAllGather'"), 1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);

  // One is left over: it is matched although a step of it does not agree.
  const auto left_over = [&](int rank, int step) {
    std::vector<Planned> plan = program(rank, step);
    if (rank == 2 && step == 3) plan.pop_back();
    return plan;
  };
  Imported rest("kineto", job(left_over), true);
  EXPECT_EQ(rest.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NOT NULL"), kRanks * (3 * 3 - 2));
  EXPECT_EQ(loss(rest, "in which the ranks show other collectives"), "15");

  // Two that carry the same could be matched in two ways.
  Imported alike("kineto", job(same({on_stream(kGradients, 20), on_stream(kGradients, 21), on_stream(kWeights, 22)})),
                 true);
  EXPECT_EQ(alike.text("SELECT group_concat(DISTINCT op) FROM v_collective"), "ncclAllGather");
  EXPECT_EQ(loss(alike, "on streams that are not matched"), fmt::to_string(kRanks * kSteps * 2));

  // A communicator of some ranks only.
  const auto some = [](int rank, int) {
    std::vector<Planned> plan{kWeights};
    if (rank < 2) plan.push_back(on_stream(kGradients, 24));
    return plan;
  };
  Imported part("kineto", job(some), true);
  EXPECT_EQ(part.text("SELECT group_concat(DISTINCT op) FROM v_collective"), "ncclAllGather");
  EXPECT_EQ(loss(part, "on streams that are not matched"), fmt::to_string(2 * kSteps));
}

TEST(InferredCommunicators, WithoutCollectivesThatShowItNobodyKnows) {
  Imported roots("kineto", job(same({kBuffers, kBuffers})), true);
  EXPECT_EQ(roots.integer("SELECT count(*) FROM v_collective"), 0);
  EXPECT_EQ(loss(roots, "too few collectives to see that all ranks take part"), fmt::to_string(kRanks * kSteps * 2));
  // Clocks that the collectives themselves have to set leave nothing to see if there are few.
  Imported few("kineto", job(same({kGradients, kGradients})));
  EXPECT_EQ(few.integer("SELECT count(*) FROM v_collective"), 0);
  EXPECT_EQ(loss(few, "too few collectives"), fmt::to_string(kRanks * kSteps * 2));
  Imported enough("kineto", job(same({kGradients, kGradients, kGradients})));
  EXPECT_EQ(
      enough.integer(
          "SELECT count(*) FROM v_collective WHERE wait_method = 'min-duration' AND wait_ns + xfer_ns = duration_ns"),
      kRanks * kSteps * 3);
}

TEST(InferredCommunicators, ClocksOfOtherHostsAreFound) {
  // Every rank's clock is off by another time, of seconds.
  Imported::Files files;
  const std::vector<Planned> plan(4, kGradients);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::string trace = trace_of(rank, kRanks, kSteps, same(plan), together);
    trace.insert(1, fmt::format(R"("baseTimeNanoseconds": {}, )", 1'000'000'000'000 + int64_t{rank} * 1'234'567'890));
    files.emplace_back(fmt::format("rank{}.json", rank), trace);
  }
  Imported apart("kineto", files);
  EXPECT_EQ(apart.integer("SELECT count(*) FROM v_collective WHERE wait_method = 'min-duration'"), kRanks * kSteps * 4);
  // If they were one clock, nobody would have met.
  Imported together_("kineto", files, true);
  EXPECT_EQ(together_.integer("SELECT count(*) FROM v_collective"), 0);
  EXPECT_EQ(loss(together_, "do not belong to one communicator"), fmt::to_string(kRanks * kSteps * 4));
}

TEST(InferredCommunicators, RangesTellWhatNamesDoNot) {
  Planned message{kSendRecv, "nccl:send 0->1", "", ""}, contradiction = kGradients, alone{kSendRecv, "", "", ""};
  contradiction.range = "nccl:broadcast";
  Planned generic{kGeneric, "nccl:reduce_scatter", "[[64], [36]]", R"(["float", "float"])"}, split = kWeights;
  split.kernels = 2;
  Planned fused = kGradients;
  fused.range = "nccl:coalesced";
  Imported run("kineto", job(same({message, contradiction, alone, generic, split, fused})), true);
  EXPECT_EQ(loss(run, "carry messages whose peers"), fmt::to_string(kRanks * kSteps));
  EXPECT_EQ(loss(run, "by their names are other collectives"), fmt::to_string(kRanks * kSteps));
  EXPECT_EQ(loss(run, "neither the name nor a range"), fmt::to_string(kRanks * kSteps));
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NOT NULL"), kRanks * kSteps * 4);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclReduceScatter' AND bytes = 400"),
            kRanks * kSteps);
  // Which of two kernels carried how much is not told.
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllGather' AND payload_bytes IS NULL AND bytes IS NULL"),
      kRanks * kSteps * 2);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND bytes IS NULL"),
            kRanks * kSteps);
}

TEST(InferredCommunicators, ARangeThatHasEndedTellsNothing) {
  // Another range began in it and goes on.
  Imported run("kineto",
               Imported::Files{{"rank0.json", R"J({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 1, "dur": 1000},
    {"ph": "X", "cat": "user_annotation", "name": "nccl:all_to_all", "pid": 9, "tid": 9, "ts": 10, "dur": 40},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 9, "tid": 9, "ts": 20, "dur": 80},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 30, "dur": 5, "args": {"correlation": 1}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 70, "dur": 5, "args": {"correlation": 2}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(x)", "pid": 0, "tid": 7, "ts": 200, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(x)", "pid": 0, "tid": 7, "ts": 300, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 2}}]})J"}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAlltoAll' AND duration_ns = 5000"), 1);
  EXPECT_EQ(loss(run, "neither the name nor a range"), "1");
}

TEST(InferredCommunicators, WhatIsToldCounts) {
  // The record_param_comms around the launch tells the group: two of four, so that nothing is inferred.
  const auto program = [](int rank, int) {
    Planned p = kGradients;
    p.around = fmt::format(
        R"("Collective name": "allreduce", "In msg nelems": 10, "dtype": "Half", "Group size": 4, "Process Group Name": "{}",)"
        R"( "Process Group Description": "tensor", "Process Group Ranks": "[{}]")",
        rank / 4, rank < 4 ? "0, 1, 2, 3" : "4, 5, 6, 7");
    return std::vector<Planned>{p};
  };
  Imported run("kineto", job(program), true);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE comm LIKE 'tensor%' AND comm_size = 4 AND bytes = 20 AND algorithm = 'RING'"),
      kRanks * kSteps);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT comm) FROM v_collective"), 2);
  // One that tells nothing beside those that do is left out.
  const auto mixed = [&](int rank, int step) {
    std::vector<Planned> plan = program(rank, step);
    plan.push_back(kGradients);
    return plan;
  };
  Imported beside("kineto", job(mixed), true);
  EXPECT_EQ(beside.integer("SELECT count(*) FROM v_collective"), kRanks * kSteps);
  EXPECT_EQ(loss(beside, "beside others that tell it"), fmt::to_string(kRanks * kSteps));
}

TEST(InferredCommunicators, WithoutStepsOneClockIsNeeded) {
  Imported::Files files;
  for (int rank = 0; rank < kRanks; ++rank)
    files.emplace_back(fmt::format("rank{}.json", rank),
                       trace_of(rank, kRanks, kSteps, same({kGradients}), together, false));
  Imported run("kineto", files);
  EXPECT_EQ(run.integer("SELECT count(*) FROM event"), 0);
  EXPECT_EQ(loss(run, "outside annotated steps"), fmt::to_string(kRanks * kSteps));
  // By one clock each has the waiting that it has in the same trace with steps.
  Imported one("kineto", files, true), with_steps("kineto", job(same({kGradients})), true);
  const std::string waits =
      "SELECT group_concat(rank || ':' || wait_ns, ' ') FROM (SELECT rank, wait_ns FROM v_collective ORDER BY rank, enter_ns)";
  EXPECT_EQ(one.integer("SELECT count(wait_ns) FROM v_collective"), kRanks * kSteps);
  EXPECT_EQ(one.text(waits), with_steps.text(waits));
}

TEST(InferredCommunicators, DamagedShapesAreNoBytes) {
  for (const char* dims : {"[[9223372036854775807, 9223372036854775807]]", "[[99999999999999999999999]]", "[[-4]]",
                           "[[[4]]]", "4", "\"[[4]]\"", "[4]", "[[4], [4]]", "[[4.5]]", "[[\"4\"]]",
                           "[[4, {\"a\": 1}]]", "[]", "null", "[[1099511627776, 1024]]"}) {
    SCOPED_TRACE(dims);
    Planned damaged = kGradients;
    damaged.dims = dims;
    Imported run("kineto", job(same({damaged})), true);
    EXPECT_EQ(
        run.integer(
            "SELECT count(*) FROM v_collective WHERE payload_bytes IS NULL AND bytes IS NULL AND wait_ns IS NOT NULL"),
        kRanks * kSteps);
  }
}

TEST(InferredCommunicators, NamesOfKernels) {
  const auto op = [](const char* name) -> std::string {
    const store::NcclKernel kernel = parse_nccl_kernel(name);
    return !kernel.is_nccl ? "none" : kernel.collective == nullptr ? "untold" : std::string(kernel.collective->op);
  };
  EXPECT_EQ(op("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"), "ncclAllReduce");
  EXPECT_EQ(op("ncclKernel_AllReduce_TREE_LL128_Sum_half(ncclDevComm*, unsigned long, ncclWork*)"), "ncclAllReduce");
  EXPECT_EQ(op("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "ncclAllReduce");
  EXPECT_EQ(op("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "ncclReduceScatter");
  EXPECT_EQ(op("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"), "ncclReduce");
  EXPECT_EQ(op("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "ncclAllGather");
  EXPECT_EQ(op("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), "ncclBroadcast");
  EXPECT_EQ(op("ncclAllReduceRingLLKernel_sum_f32(ncclColl)"), "ncclAllReduce");
  EXPECT_EQ(op("ncclAllReduceTreeLLKernel_sum_f16(ncclColl)"), "ncclAllReduce");
  EXPECT_EQ(op("ncclReduceScatterRingLLKernel_sum_f32(ncclColl)"), "ncclReduceScatter");
  EXPECT_EQ(op("ncclReduceRingLLKernel_sum_f32(ncclColl)"), "ncclReduce");
  EXPECT_EQ(op("ncclAllGatherRingLLKernel_copy_i8(ncclColl)"), "ncclAllGather");
  EXPECT_EQ(op("ncclBroadcastRingLLKernel_copy_i8(ncclColl)"), "ncclBroadcast");
  EXPECT_EQ(op("ncclSendRecvKernel_copy_i8(ncclColl)"), "untold");
  EXPECT_EQ(op("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"), "untold");
  EXPECT_EQ(op("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), "untold");
  EXPECT_EQ(op("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"), "untold");
  EXPECT_EQ(op("void gemm<ncclKernel_AllReduce>(float*)"), "none");
  EXPECT_EQ(op("nccl"), "none");
  EXPECT_EQ(parse_nccl_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)").algorithm, "RING");
  EXPECT_EQ(parse_nccl_kernel("ncclAllReduceRingLLKernel_sum_f32(ncclColl)").algorithm, "")
      << "one kernel for all algorithms";

  for (const auto& [range, known] :
       std::initializer_list<std::pair<const char*, const char*>>{{"nccl:all_reduce", "ncclAllReduce"},
                                                                  {"nccl:all_reduce_barrier", "ncclAllReduce"},
                                                                  {"nccl:_all_gather_base", "ncclAllGather"},
                                                                  {"nccl:_reduce_scatter_base", "ncclReduceScatter"},
                                                                  {"nccl:all_to_all", "ncclAlltoAll"},
                                                                  {"nccl:recv 0<-3", "ncclRecv"},
                                                                  {"nccl:reduce", "ncclReduce"}}) {
    ASSERT_NE(find_torch_range(range), nullptr) << range;
    EXPECT_EQ(find_torch_range(range)->op, known);
  }
  for (const char* range : {"gloo:all_reduce", "nccl:coalesced", "all_reduce", "nccl:"})
    EXPECT_EQ(find_torch_range(range), nullptr) << range;
}

TEST(InferredCommunicators, BytesOfTensors) {
  EXPECT_EQ(parse_tensors("[[8,1024,8816]]", R"(["float"])").bytes, 288'882'688);
  EXPECT_EQ(parse_tensors("[[8],[]]", R"(["c10::Half","c10::Half"])").bytes, 18);
  EXPECT_EQ(parse_tensors("[[8],[]]", R"(["c10::Half","c10::Half"])").datatype, 70u);
  EXPECT_EQ(parse_tensors("[[8],[2]]", R"(["c10::Half","long int"])").bytes, 32);
  EXPECT_EQ(parse_tensors("[[8],[2]]", R"(["c10::Half","long int"])").datatype, 0u);
  EXPECT_EQ(parse_tensors("[[0, 7]]", R"(["bool"])").bytes, 0);
  for (const auto& [dims, types] :
       std::initializer_list<std::pair<const char*, const char*>>{{"", ""},
                                                                  {"[[8]]", ""},
                                                                  {"[[8]]", "[\"Scalar\"]"},
                                                                  {"[[8]]", "[\"float\",\"float\"]"},
                                                                  {"[[8]", "[\"float\"]"},
                                                                  {"[[8]]]", "[\"float\"]"},
                                                                  {"[[8,]]", "[\"float\"]"},
                                                                  {"[8]", "[\"float\"]"},
                                                                  {"[[8]]", "[float]"},
                                                                  {"[[8]]", "[\"float"},
                                                                  {"[[8],[8]]", "[\"float\"]"},
                                                                  {"[[]", "[\"float\"]"}})
    EXPECT_EQ(parse_tensors(dims, types).bytes, std::nullopt) << dims << " " << types;
}

}  // namespace
}  // namespace ddl::test
