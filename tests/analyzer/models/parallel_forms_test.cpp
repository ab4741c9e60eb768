// Forms of parallelism: formulas by hand, and the dynamic program against all mixes of forms.
#include "analyzer/models/parallel_forms.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "core/error.h"

namespace ddl::models {
namespace {

ParallelLayer layer_of(const std::string& type, const std::string& shape, double parameters, double activations,
                       double seconds = 1e-6) {
  const NetworkLayer row{"layer", parameters, 0, activations, type, shape};
  return {row, layer_shape(row), seconds};
}

FormCost cost_by(const ParallelLayer& layer, const ParallelMachine& machine, Form form) {
  for (const FormCost& cost : forms_of(layer, machine))
    if (cost.form == form) return cost;
  ADD_FAILURE() << name_of(form);
  return {};
}

TEST(ParallelForms, ShapesOfTables) {
  const LayerShape convolution = layer_of("conv", "64x128x3x3->112x112", 73856, 1605632).shape;
  EXPECT_EQ(convolution.kind, LayerKind::kConvolution);
  EXPECT_EQ(convolution.input_elements, 64 * 112 * 112);
  const LayerShape dense = layer_of("fc", "768x3072", 2362368, 3072 * 128).shape;  // 128 tokens
  EXPECT_EQ(dense.kind, LayerKind::kDense);
  EXPECT_EQ(dense.input_elements, 768 * 128);
  EXPECT_EQ(layer_of("batchnorm", "64", 128, 802816).shape.kind, LayerKind::kByElement);
  EXPECT_EQ(layer_of("attention", "QK^T + AV", 0, 98304).shape.kind, LayerKind::kByElement);
  for (const auto& [type, shape] : {std::pair("conv", "60 of 6x16 connections, 5x5->10x10"),
                                    {"conv", "3x64x7x7"},
                                    {"conv", ""},
                                    {"conv", "3x64x3x3->5x5"},
                                    {"lstm", "1024x1024 tokens=48"},
                                    {"fc", "10x0"}})
    EXPECT_EQ(layer_of(type, shape, 10, 1000).shape.kind, LayerKind::kOther) << shape;
}

/// The table at the top of the header, with numbers: two groups of four ranks, 32 samples, so 16 in a group.
TEST(ParallelForms, BytesAreTheFormulas) {
  const ParallelMachine machine{8, 4, 32, 0, 1e-9, 1};
  const ParallelLayer convolution = layer_of("conv", "64x128x3x3->56x56", 73856, 128 * 56 * 56);
  const double x = 4.0 * 16 * 64 * 56 * 56, y = 2 * x, w = 4.0 * 73856;
  const FormCost spatial = cost_by(convolution, machine, Form::kSpatial);
  // 2 pad W C 4 to each of two
  EXPECT_DOUBLE_EQ(spatial.forward_bytes + spatial.backward_bytes, 2 * (2 * 1 * 56 * 64 * 4.0) * 16);
  EXPECT_DOUBLE_EQ(spatial.gradient_bytes, w);
  EXPECT_DOUBLE_EQ(spatial.sent_bytes, spatial.forward_bytes + spatial.backward_bytes + 2 * 7.0 / 8 * w);
  EXPECT_DOUBLE_EQ(spatial.memory_bytes, 3 * w + 2 * y / 4);
  const FormCost channel = cost_by(convolution, machine, Form::kChannel);
  EXPECT_DOUBLE_EQ(channel.forward_bytes, y);
  EXPECT_DOUBLE_EQ(channel.backward_bytes, y);
  EXPECT_DOUBLE_EQ(channel.gradient_bytes, w / 4);
  EXPECT_DOUBLE_EQ(channel.sent_bytes, 2 * 3.0 / 4 * y + 2 * 1.0 / 2 * w / 4);
  const FormCost filter = cost_by(convolution, machine, Form::kFilter);
  EXPECT_DOUBLE_EQ(filter.forward_bytes + filter.backward_bytes, 2 * x);
  EXPECT_DOUBLE_EQ(filter.memory_bytes, 3 * w / 4 + 2 * y / 4);
  const ParallelLayer dense = layer_of("fc", "768x3072", 2362368, 3072 * 128);
  EXPECT_DOUBLE_EQ(cost_by(dense, machine, Form::kColumn).backward_bytes, 4.0 * 16 * 128 * 768);
  EXPECT_DOUBLE_EQ(cost_by(dense, machine, Form::kRow).forward_bytes, 4.0 * 16 * 128 * 3072);
  EXPECT_DOUBLE_EQ(cost_by(dense, machine, Form::kReplicated).compute_s, 16e-6);
  EXPECT_DOUBLE_EQ(cost_by(dense, machine, Form::kRow).compute_s, 4e-6);
  const FormCost sample = cost_by(convolution, machine, Form::kSample);
  EXPECT_DOUBLE_EQ(sample.sent_bytes, 2 * 7.0 / 8 * w);
  EXPECT_DOUBLE_EQ(sample.transfer_s, sample.sent_bytes * 1e-9);
}

/// A Megatron block: of four dense layers two allreduces forward and two backward.
TEST(ParallelForms, TensorParallelIsColumnsAndRowsInTurn) {
  const ParallelMachine machine{4, 4, 2, 0, 1e-9, 0};
  std::vector<ParallelLayer> block{
      layer_of("layernorm", "768", 1536, 768 * 8),    layer_of("fc", "768x2304", 1, 2304 * 8),
      layer_of("attention", "QK^T + AV", 0, 768 * 8), layer_of("fc", "768x768", 1, 768 * 8),
      layer_of("layernorm", "768", 1536, 768 * 8),    layer_of("fc", "768x3072", 1, 3072 * 8),
      layer_of("fc", "3072x768", 1, 768 * 8)};
  const ParallelPlan plan = plan_of_one_form(block, machine, "tensor");
  std::string forms;
  double forward = 0, backward = 0;
  for (const FormCost& cost : plan.layers)
    forms += std::string(name_of(cost.form)) + " ", forward += cost.forward_bytes, backward += cost.backward_bytes;
  EXPECT_EQ(forms, "replicated column local row replicated column row ");
  EXPECT_DOUBLE_EQ(forward, 2 * 4.0 * 2 * 8 * 768);
  EXPECT_DOUBLE_EQ(backward, 2 * 4.0 * 2 * 8 * 768);
}

ParallelLayer drawn_layer(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  const int in = 1 + below(64), out = 1 + below(64), side = 1 + below(20);
  const double seconds = 1e-6 * (1 + below(1000));
  switch (below(4)) {
    case 0:
      return layer_of(
          "conv",
          std::to_string(in) + "x" + std::to_string(out) + "x3x3->" + std::to_string(side) + "x" + std::to_string(side),
          9.0 * in * out, out * side * side, seconds);
    case 1:
      return layer_of("fc", std::to_string(in) + "x" + std::to_string(out), in * out, out, seconds);
    case 2:
      return layer_of("batchnorm", std::to_string(out), 2 * out, out * side, seconds);
    default:
      return layer_of("lstm", "", in * out, out, seconds);
  }
}

/// Every sequence of forms, with what layouts cost written once more.
double brute_force(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine, double limit) {
  const double g = static_cast<double>(machine.group), samples = machine.batch * g / static_cast<double>(machine.ranks);
  double best = INFINITY;
  const std::function<void(size_t, Layout, double, double)> go = [&](size_t i, Layout layout, double step_s,
                                                                     double memory) {
    if (memory > limit) return;
    if (i == layers.size()) {
      best = std::min(best, step_s);
      return;
    }
    for (const FormCost& cost : forms_of(layers[i], machine)) {
      double move_s = 0;
      if (i > 0 && cost.in != layout) {
        const double n = 4 * samples * layers[i - 1].layer.activations;
        const bool gathers = cost.in == Layout::kWhole || layout == Layout::kWhole;
        move_s = (gathers ? 1 : 2) * (g - 1) * machine.alpha_s +
                 machine.beta_s_per_byte * (g - 1) / g * (gathers ? n : 2 * n / g);
      }
      go(i + 1, cost.out, step_s + move_s + cost.compute_s + cost.transfer_s, memory + cost.memory_bytes);
    }
  };
  go(0, Layout::kSamples, 0, 0);
  return best;
}

TEST(ParallelForms, TheBestMixIsThatOfAllMixes) {
  std::mt19937_64 random(7);
  size_t fit = 0, none = 0, limited = 0;
  for (int trial = 0; trial < 60; ++trial) {
    ParallelMachine machine{8, trial % 2 == 0 ? 4 : 2, 16, 1e-6, 1e-9, 1};
    std::vector<ParallelLayer> layers;
    for (int i = 0; i < 4; ++i) layers.push_back(drawn_layer(random));
    const auto free = best_plan(layers, machine, {});
    ASSERT_TRUE(free);
    EXPECT_NEAR(free->step_s(), brute_force(layers, machine, INFINITY), 1e-12);
    for (const double share : {0.5, 0.8, 0.95}) {
      const double limit = share * free->memory_bytes, wanted = brute_force(layers, machine, limit);
      const auto plan = best_plan(layers, machine, limit);
      ASSERT_EQ(plan.has_value(), std::isfinite(wanted)) << trial << " " << share;
      if (!plan) {
        ++none;
        continue;
      }
      ++fit;
      limited += plan->step_s() > free->step_s() ? 1 : 0;
      EXPECT_NEAR(plan->step_s(), wanted, 1e-12) << trial << " " << share;
      EXPECT_LE(plan->memory_bytes, limit);
      EXPECT_TRUE(plan->exact);
    }
  }
  EXPECT_GT(fit, 20u);
  EXPECT_GT(none, 5u);
  EXPECT_GT(limited, 20u);
}

TEST(ParallelForms, StagesAndGrids) {
  const ParallelMachine machine{4, 4, 8, 0, 1e-9, 0};
  std::vector<ParallelLayer> layers(8, layer_of("fc", "100x100", 10000, 100, 1e-3));
  const ParallelPlan plan = pipeline_plan(layers, machine, 8);
  EXPECT_NEAR(plan.compute_s, 2 * 8e-3 * (8 + 3) / 8, 1e-12);
  EXPECT_DOUBLE_EQ(plan.sent_bytes, 2 * 4.0 * 8 * 100);
  EXPECT_THROW(pipeline_plan({layers[0]}, machine, 1), Error);
  EXPECT_DOUBLE_EQ(summa_bytes(8, 100, 50, 2, 2), 4 * (8 * 50 / 4.0 + 50 * 100 / 4.0));
  EXPECT_DOUBLE_EQ(summa_bytes(8, 100, 50, 4, 1), 4 * (50 * 100 * 3 / 4.0));
}

}  // namespace
}  // namespace ddl::models
