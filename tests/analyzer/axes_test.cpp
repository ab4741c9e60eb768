// Axes of parallelism: by the names that frameworks give, by shape, and what each of them takes.
#include "analyzer/passes/axes.h"

#include <gtest/gtest.h>

#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

struct Named {
  const char* label;
  const char* axis;
};

TEST(Axes, AreInTheNames) {
  // Megatron-LM's descriptions, PyTorch's device meshes, names by hand.
  constexpr Named kNames[] = {{"TENSOR_MODEL_PARALLEL_GROUP", "tensor"},
                              {"PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"},
                              {"DATA_PARALLEL_GROUP", "data"},
                              {"DATA_PARALLEL_GROUP_WITH_CP", "data+context"},
                              {"CONTEXT_PARALLEL_GROUP", "context"},
                              {"MODEL_PARALLEL_GROUP", "model"},
                              {"EMBEDDING_GROUP", "embedding"},
                              {"POSITION_EMBEDDING_GROUP", "embedding"},
                              {"TENSOR_AND_DATA_PARALLEL_GROUP", "tensor+data"},
                              {"EXPERT_MODEL_PARALLEL_GROUP", "expert"},
                              {"EXPERT_DATA_PARALLEL_GROUP", "data"},
                              {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "tensor+expert"},
                              {"mesh_tp", "tensor"},
                              {"mesh_dp_shard", "data"},
                              {"mesh_pp", "pipeline"},
                              {"ep_size_4", "expert"},
                              {"dp0", "data"},
                              {"row 3 of TP", "tensor"},
                              {"default_pg", ""},
                              {"MPI_COMM_WORLD", ""},
                              {"ncclCommInitRank#1", ""},
                              {"MPI_Comm_split#4", ""},
                              {"database", ""},
                              {"temp", ""},
                              {"model", ""},
                              {"", ""}};
  for (const Named& known : kNames) EXPECT_EQ(axis_in_name(known.label), known.axis) << known.label;
}

TEST(Axes, WithoutANameAreShapes) {
  EXPECT_EQ(axis_of_shape({0, 1, 2, 3}, 4), "all ranks");
  EXPECT_EQ(axis_of_shape({2, 3}, 8), "stride 1");
  EXPECT_EQ(axis_of_shape({1, 5}, 8), "stride 4");
  EXPECT_EQ(axis_of_shape({0, 1, 4}, 8), "other");
  EXPECT_EQ(axis_of_shape({3, 2}, 8), "other") << "reordered";
  EXPECT_EQ(axis_of_shape({3}, 8), "other");
}

/// Eight ranks: the world is split into pairs, of which one has a name, then into halves, of which nobody has one; a
/// part of the named pairs' tensor is split again.
TEST(Axes, ComeDownFromWhatWasSplit) {
  const AxisInput world{"world", true, 8, {0, 1, 2, 3, 4, 5, 6, 7}, 8, {}, 0};
  const auto split = [](std::string label, std::vector<int64_t> ranks, size_t parent, int64_t number) {
    const auto size = static_cast<int64_t>(ranks.size());
    return AxisInput{std::move(label), true, size, std::move(ranks), 8, parent, number};
  };
  const std::vector<AxisInput> communicators = {world,
                                                split("ncclCommSplit#1", {0, 1}, 0, 1),
                                                split("mesh_tp", {2, 3}, 0, 1),
                                                split("ncclCommSplit#2", {0, 1, 2, 3}, 0, 2),
                                                split("ncclCommSplit#3", {0, 1}, 1, 1),
                                                split("mesh_dp", {0, 4}, 0, 3),
                                                split("mesh_pp", {1, 5}, 0, 3),
                                                split("ncclCommSplit#4", {2, 6}, 0, 3),
                                                split("ncclCommSplit#5", {0}, 1, 2)};
  const std::vector<AxisOfCommunicator> axes = axes_of(communicators);
  const Named kExpected[] = {{"shape", "all ranks"}, {"lineage", "tensor"}, {"name", "tensor"},
                             {"shape", "stride 1"},  {"lineage", "tensor"}, {"name", "data"},
                             {"name", "pipeline"},   {"shape", "stride 4"}, {"", ""}};
  for (size_t i = 0; i < axes.size(); ++i) {
    EXPECT_EQ(axes[i].axis, kExpected[i].axis) << communicators[i].label;
    EXPECT_EQ(std::string(axes[i].source), kExpected[i].label) << communicators[i].label;
  }
}

TEST(Axes, LineageThatLeadsInCirclesTellsNothing) {
  std::vector<AxisInput> circle(2, {"ncclCommSplit#1", true, 2, {0, 1}, 8, 0, 1});
  circle[0].parent = 1;
  for (const AxisOfCommunicator& axis : axes_of(circle)) EXPECT_EQ(axis.axis, "stride 1");
}

/// Two by two: neighbours share a tensor, every second rank the data. On the first axis rank 1 is 2 ms late, on the
/// second rank 2 by 5 ms.
class TwoByTwo : public ::testing::Test {
 protected:
  TwoByTwo() {
    const int64_t pairs[] = {run_.communicator("TENSOR_MODEL_PARALLEL_GROUP#0", {0, 1}),
                             run_.communicator("TENSOR_MODEL_PARALLEL_GROUP#1", {2, 3})};
    const int64_t rows[] = {run_.communicator("MPI_Comm_split#1", {0, 2}),
                            run_.communicator("MPI_Comm_split#2", {1, 3})};
    for (int64_t rank = 0; rank < 4; ++rank) {
      run_.step(rank, 0, 0, 100_ms, 40_ms);
      add(rank, pairs[rank / 2], rank == 1 ? 12_ms : 10_ms, 20_ms);
      add(rank, rows[rank % 2], rank == 2 ? 45_ms : 40_ms, 50_ms);
    }
    run_.analyze();
  }
  void add(int64_t rank, int64_t comm, int64_t enter_ns, int64_t leave_ns) {
    run_.add(
        {.rank = rank, .enter_ns = enter_ns, .leave_ns = leave_ns, .bytes = 1'000, .comm = comm, .seq = 1, .step = 0});
  }
  Tables run_{4};
};

TEST_F(TwoByTwo, TellWhoWaitsWhere) {
  EXPECT_EQ(
      run_.text(
          "SELECT group_concat(axis || ' ' || source, ', ') FROM (SELECT DISTINCT axis, source FROM communicator_axis ORDER BY axis)"),
      "all ranks shape, stride 2 shape, tensor name");
  EXPECT_EQ(run_.integer("SELECT sum(wait_ns) FROM v_collective WHERE axis = 'tensor'"), 2_ms);
  EXPECT_EQ(run_.integer("SELECT sum(wait_ns) FROM v_collective WHERE axis = 'stride 2'"), 5_ms);
  EXPECT_EQ(run_.integer("SELECT sum(duration_ns) FROM v_collective WHERE axis = 'tensor'"), 38_ms);
  EXPECT_EQ(
      run_.integer(
          "SELECT l.rank FROM late l JOIN communicator_axis a ON a.communicator = l.comm WHERE a.axis = 'tensor' ORDER BY wait_ns DESC"),
      1);
  EXPECT_EQ(
      run_.integer(
          "SELECT l.rank FROM late l JOIN communicator_axis a ON a.communicator = l.comm WHERE a.axis = 'stride 2' ORDER BY wait_ns DESC"),
      2);
}

/// Two by two in tensor and data, and a group of all that shares the loss: there rank 2 keeps the others waiting for 20
/// ms in every step.
TEST(Axes, AreInTheStragglersEvidence) {
  Tables run(4);
  const int64_t tensor[] = {run.communicator("mesh_tp#0", {0, 1}), run.communicator("mesh_tp#1", {2, 3})};
  const int64_t data = run.communicator("mesh_dp", {0, 1, 2, 3});
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t begin_ns = s * 100_ms;
    for (int64_t rank = 0; rank < 4; ++rank) {
      const int64_t late_ns = rank == 2 ? 20_ms : 0;
      const Row one{.rank = rank, .bytes = 1'000, .seq = s + 1, .step = s};
      run.step(rank, s, begin_ns, begin_ns + 100_ms, 50_ms - late_ns);
      Row on_tensor = one, on_data = one;
      on_tensor.comm = tensor[rank / 2];
      on_tensor.enter_ns = begin_ns + 10_ms;
      on_tensor.leave_ns = begin_ns + 20_ms;
      on_data.comm = data;
      on_data.enter_ns = begin_ns + 40_ms + late_ns;
      on_data.leave_ns = begin_ns + 80_ms;
      run.add(on_tensor);
      run.add(on_data);
    }
  }
  run.analyze();
  ASSERT_EQ(run.text("SELECT id FROM finding WHERE position = 1"), "straggler");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 2);
  const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
  EXPECT_NE(evidence.find("100% of it on the axis 'data'."), std::string::npos) << evidence;
}

/// A tensor's neighbours are not slow because the data moves faster: only like is compared with like.
TEST(Axes, AreNotComparedWithEachOther) {
  for (const char* other : {"mesh_tp", "mesh_dp"}) {
    Tables run(4);
    const int64_t pairs[] = {run.communicator("mesh_dp#0", {0, 1}),
                             run.communicator(std::string(other) + "#1", {2, 3})};
    for (int64_t s = 0; s < 20; ++s) {
      for (int64_t rank = 0; rank < 4; ++rank) {
        const int64_t begin_ns = s * 100_ms, takes_ns = rank < 2 ? 20_ms : 10_ms;
        run.step(rank, s, begin_ns, begin_ns + 100_ms, takes_ns);
        run.add({.rank = rank,
                 .enter_ns = begin_ns,
                 .leave_ns = begin_ns + takes_ns,
                 .bytes = 1'000,
                 .comm = pairs[rank / 2],
                 .seq = s + 1,
                 .step = s});
      }
    }
    run.analyze();
    EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'slow_link'"),
              other == std::string("mesh_dp") ? 1 : 0)
        << other;
  }
}

}  // namespace
}  // namespace ddl::test
