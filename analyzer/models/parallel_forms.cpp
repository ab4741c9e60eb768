#include "analyzer/models/parallel_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "analyzer/models/partition.h"
#include "core/error.h"
#include "core/number.h"

namespace ddl::models {
namespace {

constexpr double kValueBytes = 4;
constexpr size_t kMostPlans = 4096;
constexpr size_t kLayouts = 4;

/// Whole numbers with x between them, up to what is none.
std::vector<double> extents(std::string_view text) {
  std::vector<double> numbers;
  for (;; text.remove_prefix(1)) {
    const auto number = take_number<int64_t>(text);
    if (number < 1) return {};
    numbers.push_back(static_cast<double>(*number));
    if (!text.starts_with('x')) return numbers;
  }
}

/// A machine as the formulas want it.
struct Grid {
  explicit Grid(const ParallelMachine& machine)
      : all(static_cast<double>(machine.ranks)),
        group(static_cast<double>(machine.group)),
        groups(all / group),
        samples(machine.batch / groups) {}
  double all, group, groups, samples;
};

/// Adds a collective by rings among `ranks`: `rounds` 1 for allgather and reduce-scatter, 2 for allreduce.
void add_ring(FormCost& cost, const ParallelMachine& machine, double ranks, double bytes, double rounds) {
  const double sent = rounds * (ranks - 1) / ranks * bytes;
  cost.sent_bytes += sent;
  cost.transfer_s += rounds * (ranks - 1) * machine.alpha_s + sent * machine.beta_s_per_byte;
}

FormCost cost_of(const ParallelLayer& one, const ParallelMachine& machine, Form form, Layout in, Layout out) {
  const Grid grid(machine);
  const double x = kValueBytes * grid.samples * one.shape.input_elements,
               y = kValueBytes * grid.samples * one.layer.activations;
  const double w = kValueBytes * one.layer.parameters;
  // each rank has a part of the sum of all of w
  const bool whole_gradients = form == Form::kSample || form == Form::kSpatial;
  const double own_w = whole_gradients || form == Form::kReplicated ? w : w / grid.group;
  FormCost cost;
  cost.form = form, cost.in = in, cost.out = out;
  cost.compute_s = one.seconds_per_sample * grid.samples / (form == Form::kReplicated ? 1 : grid.group);
  const LayerCost sizes{"", 0, 0, out == Layout::kWhole ? y : y / grid.group, own_w};
  cost.memory_bytes = layer_memory(sizes, machine.optimizer_values).total();
  if (const double over = whole_gradients ? grid.all : grid.groups; w > 0 && over > 1) {
    cost.gradient_bytes = own_w;
    add_ring(cost, machine, over, own_w, 2);
  }
  if (machine.group == 1) return cost;
  switch (form) {
    case Form::kSpatial: {
      const double pad = std::floor(one.shape.kernel_rows / 2), neighbours = machine.group > 2 ? 2 : 1;
      const double halo = neighbours * pad * one.shape.columns * one.shape.in * kValueBytes * grid.samples;
      cost.forward_bytes = cost.backward_bytes = halo;
      cost.sent_bytes += 2 * halo;
      if (halo > 0) cost.transfer_s += 2 * (neighbours * machine.alpha_s + halo * machine.beta_s_per_byte);
      break;
    }
    case Form::kChannel:
      cost.forward_bytes = cost.backward_bytes = y;
      add_ring(cost, machine, grid.group, y, 1), add_ring(cost, machine, grid.group, y, 1);
      break;
    case Form::kFilter:
      cost.forward_bytes = cost.backward_bytes = x;
      add_ring(cost, machine, grid.group, x, 1), add_ring(cost, machine, grid.group, x, 1);
      break;
    case Form::kColumn:
      cost.backward_bytes = x;
      add_ring(cost, machine, grid.group, x, 2);
      break;
    case Form::kRow:
      cost.forward_bytes = y;
      add_ring(cost, machine, grid.group, y, 2);
      break;
    case Form::kSample:
    case Form::kLocal:
    case Form::kReplicated:
      break;
  }
  return cost;
}

/// `cost` behind a layer whose output has that many elements and lies otherwise.
FormCost with_redistribution(FormCost cost, Layout from, double elements, const ParallelMachine& machine) {
  if (from == cost.in || machine.group == 1) return cost;
  const Grid grid(machine);
  const double n = kValueBytes * grid.samples * elements;
  if (from == Layout::kWhole || cost.in == Layout::kWhole) {  // an allgather, forward or backward
    cost.moved_bytes = n;
    add_ring(cost, machine, grid.group, n, 1);
    return cost;
  }
  cost.moved_bytes = 2 * n / grid.group;
  add_ring(cost, machine, grid.group, 2 * n / grid.group, 1);
  cost.transfer_s += (grid.group - 1) * machine.alpha_s;
  return cost;
}

/// The end of a plan for the layers so far; the way back is in the tables of the layers before.
struct PlanEnd {
  double step_s = 0, memory_bytes = 0;
  FormCost cost;
  size_t before = 0, before_layout = 0;
};
using PlanEnds = std::vector<PlanEnd>;

/// Leaves those that no other beats in both; thinned out if they are too many, the ends kept. Whether none was lost.
bool keep_best(PlanEnds& ends) {
  std::sort(ends.begin(), ends.end(), [](const PlanEnd& a, const PlanEnd& b) {
    return a.step_s != b.step_s ? a.step_s < b.step_s : a.memory_bytes < b.memory_bytes;
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(ends, [&](const PlanEnd& end) {
    if (end.memory_bytes >= least) return true;
    least = end.memory_bytes;
    return false;
  });
  if (ends.size() <= kMostPlans) return true;
  PlanEnds kept;
  for (size_t i = 0; i < kMostPlans; ++i) kept.push_back(ends[i * (ends.size() - 1) / (kMostPlans - 1)]);
  ends = std::move(kept);
  return false;
}

void add_up(ParallelPlan& plan) {
  for (const FormCost& cost : plan.layers) {
    plan.compute_s += cost.compute_s, plan.transfer_s += cost.transfer_s;
    plan.sent_bytes += cost.sent_bytes, plan.memory_bytes += cost.memory_bytes;
  }
}

std::optional<FormCost> form_among(const std::vector<FormCost>& forms, Form form, std::optional<Layout> in = {}) {
  const auto at = std::find_if(forms.begin(), forms.end(),
                               [&](const FormCost& f) { return f.form == form && (!in || f.in == *in); });
  return at == forms.end() ? std::nullopt : std::optional(*at);
}

}  // namespace

std::string_view name_of(Form form) {
  constexpr std::string_view kNames[] = {"sample", "spatial", "channel", "filter",
                                         "column", "row",     "local",   "replicated"};
  return kNames[static_cast<size_t>(form)];
}

LayerShape layer_shape(const NetworkLayer& layer) {
  LayerShape shape;
  shape.input_elements = layer.activations;
  const size_t arrow = layer.shape.find("->");
  const std::vector<double> first = extents(std::string_view(layer.shape).substr(0, arrow));
  if (layer.type == "conv" && arrow != std::string::npos && first.size() == 4) {
    const std::vector<double> output = extents(std::string_view(layer.shape).substr(arrow + 2));
    if (output.size() == 2 && first[1] * output[0] * output[1] == layer.activations)
      shape = {LayerKind::kConvolution,          first[0], first[1], first[2], output[0], output[1],
               first[0] * output[0] * output[1], false};
  } else if (layer.type == "fc" && first.size() == 2 && layer.activations > 0 &&
             std::fmod(layer.activations, first[1]) == 0) {
    shape = {LayerKind::kDense, first[0], first[1], 1, 0, 0, layer.activations / first[1] * first[0], false};
  } else if (layer.type == "batchnorm" || layer.type == "layernorm" ||
             (layer.type == "attention" && layer.parameters == 0)) {
    shape.kind = LayerKind::kByElement;
    shape.by_heads = layer.type == "attention";
  }
  return shape;
}

std::vector<FormCost> forms_of(const ParallelLayer& layer, const ParallelMachine& machine) {
  std::vector<FormCost> forms;
  const auto add = [&](Form form, Layout in, Layout out) { forms.push_back(cost_of(layer, machine, form, in, out)); };
  const auto group = static_cast<double>(machine.group);
  add(Form::kSample, Layout::kSamples, Layout::kSamples);
  if (machine.group == 1) return forms;
  add(Form::kReplicated, Layout::kWhole, Layout::kWhole);
  const LayerShape& shape = layer.shape;
  const bool convolution = shape.kind == LayerKind::kConvolution, dense = shape.kind == LayerKind::kDense;
  if (convolution && shape.rows >= group) add(Form::kSpatial, Layout::kRows, Layout::kRows);
  if ((convolution || dense) && shape.in >= group && shape.out >= group) {
    add(Form::kChannel, Layout::kChannels, Layout::kChannels);
    add(Form::kFilter, Layout::kChannels, Layout::kChannels);
  }
  if (dense && shape.out >= group) add(Form::kColumn, Layout::kWhole, Layout::kChannels);
  if (dense && shape.in >= group) add(Form::kRow, Layout::kChannels, Layout::kWhole);
  if (shape.kind == LayerKind::kByElement) {
    add(Form::kLocal, Layout::kChannels, Layout::kChannels);
    if (!shape.by_heads) add(Form::kSpatial, Layout::kRows, Layout::kRows);
  }
  return forms;
}

std::optional<ParallelPlan> best_plan(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine,
                                      std::optional<double> memory_bytes) {
  std::vector<std::array<PlanEnds, kLayouts>> tables;
  ParallelPlan plan;
  for (size_t i = 0; i < layers.size(); ++i) {
    std::array<PlanEnds, kLayouts> table;
    for (const FormCost& form : forms_of(layers[i], machine)) {
      PlanEnds& ends = table[static_cast<size_t>(form.out)];
      const auto extend = [&](const PlanEnd& before, const FormCost& cost, size_t index, size_t layout) {
        PlanEnd end{before.step_s + cost.compute_s + cost.transfer_s, before.memory_bytes + cost.memory_bytes, cost,
                    index, layout};
        if (!memory_bytes || end.memory_bytes <= *memory_bytes) ends.push_back(end);
      };
      if (i == 0) {  // data come as they are wanted
        extend({}, form, 0, 0);
        continue;
      }
      for (size_t from = 0; from < kLayouts; ++from) {
        const FormCost cost =
            with_redistribution(form, static_cast<Layout>(from), layers[i - 1].layer.activations, machine);
        for (size_t k = 0; k < tables.back()[from].size(); ++k) extend(tables.back()[from][k], cost, k, from);
      }
    }
    for (PlanEnds& ends : table) {
      if (!memory_bytes) {  // time alone counts
        const auto fastest = std::min_element(ends.begin(), ends.end(),
                                              [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
        if (fastest != ends.end()) ends = PlanEnds{*fastest};
      } else if (!keep_best(ends)) {
        plan.exact = false;
      }
    }
    tables.push_back(std::move(table));
  }
  if (tables.empty()) return plan;
  const PlanEnd* best = nullptr;
  for (const PlanEnds& ends : tables.back())
    for (const PlanEnd& end : ends)
      if (!best || end.step_s < best->step_s) best = &end;
  if (!best) return std::nullopt;
  for (size_t i = layers.size(); i-- > 0;) {
    plan.layers.push_back(best->cost);
    if (i > 0) best = &tables[i - 1][best->before_layout][best->before];
  }
  std::reverse(plan.layers.begin(), plan.layers.end());
  add_up(plan);
  return plan;
}

ParallelPlan plan_of_one_form(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine,
                              std::string_view name) {
  ParallelPlan plan;
  std::optional<Layout> layout;  // of the layer before
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::vector<FormCost> forms = forms_of(layers[i], machine);
    std::optional<FormCost> chosen;
    if (name == "sample" || machine.group == 1) chosen = form_among(forms, Form::kSample);
    if (name == "spatial") chosen = form_among(forms, Form::kSpatial);
    if (name == "channel") chosen = form_among(forms, Form::kChannel);
    if (name == "filter") chosen = form_among(forms, Form::kFilter);
    if (name == "tensor") chosen = form_among(forms, layout == Layout::kChannels ? Form::kRow : Form::kColumn);
    // What is done element by element stays where it is; spatial forms of it only among rows.
    if (layers[i].shape.kind == LayerKind::kByElement && machine.group > 1) {
      chosen = layout == Layout::kRows ? form_among(forms, Form::kSpatial) : std::nullopt;
      if (layout == Layout::kChannels) chosen = form_among(forms, Form::kLocal);
      if (name == "sample") chosen = form_among(forms, Form::kSample);
    }
    if (!chosen) chosen = form_among(forms, Form::kReplicated);
    if (!chosen) chosen = form_among(forms, Form::kSample);
    if (i > 0) chosen = with_redistribution(*chosen, *layout, layers[i - 1].layer.activations, machine);
    layout = chosen->out;
    plan.layers.push_back(*chosen);
  }
  plan.exact = false;
  add_up(plan);
  return plan;
}

ParallelPlan pipeline_plan(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine,
                           int64_t micro_batches) {
  if (machine.group > static_cast<int64_t>(layers.size()))
    throw Error(fmt::format("a pipeline of {} stages needs as many layers, not {}", machine.group, layers.size()),
                "make --group smaller", ExitCode::kUsage);
  const Grid grid(machine);
  std::vector<LayerCost> costs;
  for (const ParallelLayer& layer : layers)
    costs.push_back({layer.layer.name, layer.seconds_per_sample * grid.samples, 0,
                     kValueBytes * grid.samples * layer.layer.activations, kValueBytes * layer.layer.parameters});
  const Partition partition = partition_layers(costs, machine.group);
  const double micro = static_cast<double>(micro_batches), stages = grid.group;
  ParallelPlan plan;
  plan.exact = false;
  double slowest_s = 0;
  for (const Stage& stage : partition.stages) {
    FormCost cost;
    double parameters = 0, memory = 0, boundary = 0;
    for (size_t i = stage.first; i <= stage.last; ++i) {
      parameters += costs[i].parameter_bytes;
      memory += layer_memory(costs[i], machine.optimizer_values).total();
    }
    if (stage.first > 0) boundary += costs[stage.first - 1].activation_bytes;
    if (stage.last + 1 < costs.size()) boundary += costs[stage.last].activation_bytes;
    cost.sent_bytes = boundary;  // activations behind, gradients before
    const double between_s = 2 * micro * machine.alpha_s + boundary * machine.beta_s_per_byte;
    double gradients_s = 0;
    if (parameters > 0 && grid.groups > 1) {
      FormCost sum;
      add_ring(sum, machine, grid.groups, parameters, 2);
      gradients_s = sum.transfer_s, cost.sent_bytes += sum.sent_bytes;
    }
    plan.sent_bytes = std::max(plan.sent_bytes, cost.sent_bytes);
    plan.memory_bytes = std::max(plan.memory_bytes, memory);
    slowest_s = std::max(slowest_s, stage.compute_s);
    plan.transfer_s = std::max(plan.transfer_s, between_s + gradients_s);
  }
  plan.compute_s = slowest_s * (micro + stages - 1) / micro;
  return plan;
}

double summa_bytes(double m, double n, double k, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  return kValueBytes * (m / r * k * (c - 1) / c + k * n / c * (r - 1) / r);
}

}  // namespace ddl::models
