// Names of ranges, as frameworks write them.
#include "core/range_names.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace ddl {
namespace {

struct Case {
  const char* written;
  const char* kind;  // step, phase, layer, operator, none; "backward" is an operator of the backward pass
  const char* text;
  int64_t seq = -1, op_id = -1, step = -1;
};

const Case kCases[] = {
    // emit_nvtx, torch/csrc/profiler/util.cpp getNvtxStr
    {"aten::conv2d, seq = 12, op_id = 40", "operator", "aten::conv2d", 12, 40},
    {"aten::conv2d, seq = 0", "operator", "aten::conv2d", 0},
    {"aten::empty, op_id = 7", "operator", "aten::empty", -1, 7},
    {"aten::add, seq = 3, op_id = 9, sizes = [[1, 2], [], [3]]", "operator", "aten::add", 3, 9},
    {"aten::add, seq = 3, op_id = 9, sizes = [[1, 2]], input_op_ids = [(3,0), (4,1)]", "operator", "aten::add", 3, 9},
    {"aten::add, op_id = 9, input_op_ids = [(3,0)]", "operator", "aten::add", -1, 9},
    {"aten::add, sizes = [[64, 3, 224, 224], [64, 3", "operator", "aten::add"},  // cut
    {"ConvolutionBackward0, seq = 12, op_id = 99", "backward", "ConvolutionBackward0", 12, 99},
    {"MyFunctionBackward, seq = 4, op_id = 5", "backward", "MyFunctionBackward", 4, 5},
    {"torch::autograd::AccumulateGrad, op_id = 8", "backward", "torch::autograd::AccumulateGrad", -1, 8},
    {"autograd::engine::evaluate_function: ConvolutionBackward0, op_id = 98", "none", "", -1, 98},
    {"aten::convolution_backward, op_id = 100", "operator", "aten::convolution_backward", -1, 100},
    {"MyFunction, seq = 4, op_id = 5", "operator", "MyFunction", 4, 5},
    {"mylib::op, op_id = 5", "operator", "mylib::op", -1, 5},
    {"layer1, op_id = 41", "layer", "layer1", -1, 41},  // record_function("layer1")
    {"Optimizer.step#SGD.step, op_id = 6", "phase", "update", -1, 6},
    {"Optimizer.zero_grad#SGD.zero_grad", "phase", "zero_grad"},
    {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "phase", "input"},
    {"ProfilerStep#12", "step", "ProfilerStep", -1, -1, 12},
    {"ProfilerStep#3, op_id = 2", "step", "ProfilerStep", -1, 2, 3},
    // names that only look like it
    {"a, seq = x", "layer", "a, seq = x"},
    {"a, seq = 5 of 6", "layer", "a, seq = 5 of 6"},
    {"a, op_id = 5, seq = 6", "operator", "a, op_id = 5", 6},  // the other order
    {"loss, seq = 1, seq = 2", "operator", "loss, seq = 1", 2},
    {"x, seq = 99999999999999999999999", "layer", "x, seq = 99999999999999999999999"},
    {", seq = 1", "operator", "", 1},
    {"", "layer", ""},
    {", ", "layer", ", "},
    // people
    {"step", "step", "step"},
    {"Step 12", "step", "Step", -1, -1, 12},
    {"iteration_7", "step", "iteration", -1, -1, 7},
    {"iter: 0", "step", "iter", -1, -1, 0},
    {"training step 5", "step", "training step", -1, -1, 5},
    {"step 18446744073709551617", "step", "step"},  // no number that fits
    {"step function", "layer", "step function"},
    {"stepper", "layer", "stepper"},
    {"batch 3", "layer", "batch 3"},
    {"my_batch#3", "step", "my_batch", -1, -1, 3},  // DDL_STEP_NAMES
    {"EPOCH 2", "step", "EPOCH", -1, -1, 2},
    {"forward", "phase", "forward"},
    {"FWD", "phase", "forward"},
    {"DeepSpeedEngine.backward", "phase", "backward"},
    {"phase:anything", "phase", "anything"},
    {"layer:step 3", "layer", "step 3"},
    {"layer:input", "layer", "input"},
    {"layer:load_data", "layer", "load_data"},
    // what the analyzer knows by its name is no layer
    {"next_batch", "phase", "next_batch"},
    {"MyDataLoader.get, op_id = 4", "phase", "MyDataLoader.get", -1, 4},
    {"Load", "phase", "Load"},
    {"loader", "layer", "loader"},
    {"gc", "phase", "gc"},
    {"trainer.save_checkpoint", "phase", "trainer.save_checkpoint"},
    {"checkpoint_saver", "layer", "checkpoint_saver"},
    {"torch.compile", "phase", "torch.compile"},
    {"layer:conv1, seq = 3, op_id = 4", "layer", "conv1", 3, 4},
    {"{'Module': 'model.layers.0', 'TrainableParams': {'weight': [2]}}", "layer", "model.layers.0"},
    {"{'Module': 'unterminated", "layer", "unterminated"},
    {"Encoder::attention", "layer", "Encoder::attention"},
    {"layer12", "layer", "layer12"},
    {"gr\xc3\xbc\xc3\x9f \xff\xfe", "layer", "gr\xc3\xbc\xc3\x9f \xff\xfe"},
};

std::string kind_of(const RangeName& name) {
  switch (static_cast<ContextKind>(name.kind)) {
    case ContextKind::kStep:
      return "step";
    case ContextKind::kPhase:
      return "phase";
    case ContextKind::kLayer:
      return "layer";
    case ContextKind::kOperator:
      return name.is_backward ? "backward" : "operator";
    default:
      return "none";
  }
}

TEST(RangeNames, Table) {
  for (const Case& c : kCases) {
    const std::string written = c.written;
    const RangeName name = parse_range_name(written.data(), written.size(), "my_batch,epoch");
    EXPECT_EQ(kind_of(name), c.kind) << written;
    EXPECT_EQ(name.kind != 0 ? std::string(name.text, name.length) : "", c.text) << written;
    EXPECT_EQ(name.numbers.has_seq ? static_cast<int64_t>(name.numbers.seq) : -1, c.seq) << written;
    EXPECT_EQ(name.numbers.has_op_id ? static_cast<int64_t>(name.numbers.op_id) : -1, c.op_id) << written;
    EXPECT_EQ(name.has_step ? static_cast<int64_t>(name.step) : -1, c.step) << written;
  }
}

TEST(RangeNames, LongNamesAreCutBetweenCharacters) {
  for (size_t lead = 240; lead < 260; ++lead) {
    std::string text(lead, 'x');
    while (text.size() < 300) text += "\xe2\x82\xac";  // three bytes each
    const RangeName name = parse_range_name(text.data(), text.size(), nullptr);
    EXPECT_LE(name.length, kMaxRangeNameBytes);
    EXPECT_GT(name.length, kMaxRangeNameBytes - 4);
    EXPECT_TRUE(lead > kMaxRangeNameBytes || (name.length - lead) % 3 == 0) << lead;
  }
}

/// Any bytes: the parts lie within the text, and sanitizers have nothing to say.
TEST(RangeNames, AnyBytes) {
  std::mt19937 random(7);
  const char* parts[] = {", seq = ", ", op_id = ",   ", sizes = [", "]",      "12", "step",    " ",
                         "#",        "{'Module': '", "'",           "layer:", "::", "Backward"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) {
      if (random() % 3 == 0) {
        text += static_cast<char>(random());
      } else {
        text += parts[random() % std::size(parts)];
      }
    }
    const std::string exact(text);  // no room behind it
    const RangeName name = parse_range_name(exact.data(), exact.size(), ",,a,");
    if (name.length == 0) continue;
    EXPECT_LE(name.length, kMaxRangeNameBytes);
    const bool is_within = name.text >= exact.data() && name.text + name.length <= exact.data() + exact.size();
    EXPECT_TRUE(is_within || name.kind == static_cast<uint32_t>(ContextKind::kPhase)) << exact;
  }
}

TEST(RangeNames, WideTextBecomesUtf8) {
  char text[64];
  EXPECT_EQ(narrow(L"conv\u00e9\u20ac\U0001f600", text, sizeof text), 13u);
  EXPECT_STREQ(text, "conv\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  const wchar_t bad[] = {L'a', static_cast<wchar_t>(0xd800), static_cast<wchar_t>(0x7fffffff), L'b', 0};
  EXPECT_EQ(narrow(bad, text, sizeof text), 4u);
  EXPECT_STREQ(text, "a??b");
  EXPECT_EQ(narrow(L"\u20ac\u20ac", text, 6), 3u);  // the second does not fit
  EXPECT_EQ(narrow(L"", text, 1), 0u);
}

TEST(RangeNames, Categories) {
  EXPECT_EQ(kind_of_category("Layer"), 3u);
  EXPECT_EQ(kind_of_category("step"), 1u);
  EXPECT_EQ(kind_of_category("PHASE"), 2u);
  EXPECT_EQ(kind_of_category("layers"), 0u);
}

}  // namespace
}  // namespace ddl
