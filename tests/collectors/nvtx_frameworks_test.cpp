// What frameworks say by NVTX: operators of emit_nvtx, and backward ranges that find the layer of their
// forward operator.
#include "tests/collectors/nvtx_fixture.h"

#include <set>
#include <thread>

namespace ddl {
namespace {

// Forward under module hooks, backward on autograd's thread: seq joins them.
TEST_F(NvtxTest, BackwardOperatorsFindTheLayerOfTheirForwardOperator) {
  record([] {
    push("ProfilerStep#1");
    push("layer:conv1");
    push("aten::conv2d, seq = 12, op_id = 40");
    push("aten::convolution, seq = 12, op_id = 41");
    push("aten::cudnn_convolution, op_id = 42");
    pop();
    pop();
    pop();
    pop();
    push("aten::relu, seq = 13, op_id = 43");  // no module: the operator is the layer
    pop();
    std::thread([] {
      push("autograd::engine::evaluate_function: ReluBackward0, op_id = 50");
      push("ReluBackward0, seq = 13, op_id = 51");
      pop();
      pop();
      push("autograd::engine::evaluate_function: ConvolutionBackward0, op_id = 52");
      push("ConvolutionBackward0, seq = 12, op_id = 53");
      push("aten::convolution_backward, op_id = 54");
      pop();
      pop();
      pop();
      push("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad, op_id = 55");
      push("torch::autograd::AccumulateGrad, op_id = 56");
      pop();
      pop();
      push("DivBackward0, seq = 99, op_id = 57");  // nobody went forward with 99
      pop();
    }).join();
    pop();
  });
  const Spool s = spool();
  const std::map<std::string, uint64_t> expected = {
      {":step", 1},
      {":step/conv1:layer", 1},
      {":step/conv1:layer/aten::conv2d:operator", 1},
      {":step/conv1:layer/aten::conv2d:operator/aten::convolution:operator", 1},
      {":step/conv1:layer/aten::conv2d:operator/aten::convolution:operator/aten::cudnn_convolution:operator", 1},
      {":step/aten::relu:operator", 1},
      {"backward:phase/aten::relu:layer", 1},
      {"backward:phase/conv1:layer", 1},
      {"backward:phase/conv1:layer/aten::convolution_backward:operator", 1},
      {"backward:phase/torch::autograd::AccumulateGrad:operator", 1},
      {"backward:phase/DivBackward0:operator", 1}};
  EXPECT_EQ(s.calls, expected);
  const Range conv = s.of("backward:phase/conv1:layer").at(0);
  EXPECT_TRUE(conv.numbers.has_seq && conv.numbers.has_op_id);
  EXPECT_EQ(conv.numbers.seq, 12u);
  EXPECT_EQ(conv.numbers.op_id, 53u);
  const Range inner = s.of("backward:phase/conv1:layer/aten::convolution_backward:operator").at(0);
  EXPECT_FALSE(inner.numbers.has_seq);
  EXPECT_EQ(inner.numbers.op_id, 54u);
  EXPECT_EQ(s.lost(kLossForward), 0u);
  for (const auto& [id, text] : s.strings) EXPECT_EQ(text.find("seq ="), std::string::npos) << text;
}

TEST_F(NvtxTest, NoLayerRatherThanAnothersWhereSeqIsAmbiguous) {
  record([] {
    push("layer:main");
    push("aten::mm, seq = 5, op_id = 1");
    pop();
    pop();
    std::thread([] {
      push("layer:other");
      push("aten::mm, seq = 5, op_id = 2");
      pop();
      pop();
    }).join();
    push("MmBackward0, seq = 5, op_id = 3");
    pop();
    push("aten::mm, seq = 65541, op_id = 4");  // the same place in the table
    pop();
    push("MmBackward0, seq = 5, op_id = 5");
    pop();
  });
  const Spool s = spool();
  EXPECT_EQ(s.calls.at("backward:phase/MmBackward0:operator"), 2u);
  EXPECT_EQ(s.lost(kLossForward), 2u);
}

TEST_F(NvtxTest, LargeNumbersOfFrameworksSurvive) {
  record([] {
    push("aten::add, seq = 70368744177663, op_id = 140737488355327");
    pop();
  });
  const auto ranges = spool().of("aten::add:operator");
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].numbers.seq, kMaxRangeSeq);
  EXPECT_EQ(ranges[0].numbers.op_id, kMaxRangeOpId);
}

}  // namespace
}  // namespace ddl
