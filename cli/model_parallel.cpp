// ddl model parallel: layers by samples, rows, channels, filters, tensors or stages, and the best mix.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "analyzer/models/parallel_forms.h"
#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "cli/model_layers.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using models::ParallelMachine;
using models::ParallelPlan;
using reports::Unit;
using reports::Value;

constexpr double kAssumedTflops = 10, kAssumedAlphaUs = 5, kAssumedGigabytes = 10, kAssumedSamplesPerRank = 32;
constexpr const char* kAssumed = "(assumed)";
constexpr const char* kPureForms[] = {"sample", "spatial", "channel", "filter", "tensor"};

struct NamedPlan {
  std::string name;
  int64_t group = 1;
  ParallelPlan plan;
};

/// By layer, from the run or from the table's multiply-adds.
std::vector<models::ParallelLayer> parallel_layers(const VerbOptions& options, const models::NetworkTable& table,
                                                   ModelRun* run, Answer& answer) {
  std::vector<models::ParallelLayer> layers;
  for (const models::NetworkLayer& layer : table.layers) layers.push_back({layer, layer_shape(layer), 0});
  if (!run) {
    const auto typed = number_option(options, "tflops", 0, true);
    const double tflops = typed.value_or(kAssumedTflops);
    answer.given("tflops", "computing, TFLOP/s", Value::number(tflops), typed ? "" : kAssumed);
    for (models::ParallelLayer& layer : layers) layer.seconds_per_sample = 6 * layer.layer.macs / (tflops * 1e12);
    return layers;
  }
  if (options.has("tflops"))
    throw Error("--tflops excludes RUN", "leave it out: the run has its own times", ExitCode::kUsage);
  const auto samples = models::samples_per_step(run->view.db, run->view.world);
  if (!samples)
    throw Error("the run does not report its samples, so the time of a sample is not known",
                "call ddl_value(\"samples\", n) in each step", ExitCode::kDataMissing);
  const double per_rank = *samples / static_cast<double>(run->view.ranks);
  std::unordered_map<std::string, size_t> by_name;
  for (size_t i = 0; i < layers.size(); ++i) by_name.emplace(layers[i].layer.name, i);
  double known_s = 0, all_s = 0;
  for (const models::LayerCost& cost : models::layers_of(run->view.db, run->view.world)) {
    all_s += cost.forward_s + cost.backward_s;
    const auto at = by_name.find(cost.name);
    if (at == by_name.end()) continue;
    known_s += cost.forward_s + cost.backward_s;
    layers[at->second].seconds_per_sample += (cost.forward_s + cost.backward_s) / per_rank;
  }
  if (known_s <= 0)
    throw Error(fmt::format("no layer of the run has the name of a layer of {}", table.name),
                "is it the table of this network?", ExitCode::kDataMissing);
  answer.given("known_ratio", "computing in layers of the table", Value::ratio(known_s / all_s));
  return layers;
}

void link_into(ParallelMachine& machine, const VerbOptions& options, ModelRun* run, Answer& answer) {
  std::string alpha_from, bandwidth_from;
  double alpha_us = kAssumedAlphaUs, gigabytes = kAssumedGigabytes;
  if (const auto typed = number_option(options, "alpha-us", 0)) {
    alpha_us = *typed;
  } else {
    alpha_from = kAssumed;
  }
  if (const auto typed = number_option(options, "bandwidth", 0, true)) {
    gigabytes = *typed;
  } else {
    bandwidth_from = kAssumed;
  }
  if (run && !alpha_from.empty() && !bandwidth_from.empty()) {
    const auto samples = models::samples_of(models::measured_collectives(run->view.db, run->view.world));
    try {
      const models::LinkFit fit = models::fit_link(samples, algorithm_option(options), std::nullopt);
      alpha_us = fit.link.alpha_s * 1e6, gigabytes = 1e-9 / fit.link.beta_s_per_byte;
      alpha_from = bandwidth_from = fitted_words(fit);
    } catch (const Error& error) {
      answer.note(fmt::format("Latency and bandwidth are assumed: {}.", error.what()));
    }
  }
  machine.alpha_s = alpha_us * 1e-6, machine.beta_s_per_byte = 1e-9 / gigabytes;
  answer.given("alpha_ns", "latency", seconds_value(machine.alpha_s), alpha_from);
  answer.given("bandwidth_bytes_per_second", "bandwidth", Value::bandwidth(gigabytes * 1e9), bandwidth_from);
}

/// Whether a layer takes the form at all.
bool takes_form(const ParallelPlan& plan, std::string_view name) {
  return name == "sample" || std::any_of(plan.layers.begin(), plan.layers.end(), [&](const models::FormCost& cost) {
           return name_of(cost.form) == (name == "tensor" ? "column" : name);
         });
}

std::vector<int64_t> groups_of(const VerbOptions& options, int64_t ranks) {
  if (const auto typed = count_option(options, "group")) {
    if (ranks % *typed != 0)
      throw Error(fmt::format("--group {} does not divide {} ranks", *typed, ranks),
                  "give a divisor of the number of ranks", ExitCode::kUsage);
    return {*typed};
  }
  std::vector<int64_t> groups;
  for (int64_t group = 1; group <= ranks; ++group)
    if (ranks % group == 0) groups.push_back(group);
  return groups;
}

void add_form_layers(Answer& answer, const NamedPlan& shown, const std::vector<models::ParallelLayer>& layers) {
  auto& table = answer.table(
      "layers", fmt::format("Layers of {}, groups of {}: what a rank does in a step", shown.name, shown.group),
      {{"layer", "layer", Unit::kText},
       {"form", "form", Unit::kText},
       {"compute_ns", "computing", Unit::kDuration},
       {"transfer_ns", "transferring", Unit::kDuration},
       {"forward_bytes", "forward", Unit::kBytes, 5},
       {"backward_bytes", "backward", Unit::kBytes, 4},
       {"gradient_bytes", "gradients", Unit::kBytes, 6},
       {"moved_bytes", "layout", Unit::kBytes, 3},
       {"memory_bytes", "memory", Unit::kBytes, 7}});
  for (size_t i = 0; i < shown.plan.layers.size(); ++i) {
    const models::FormCost& cost = shown.plan.layers[i];
    const auto bytes = [](double value) { return Value::bytes(std::llround(value)); };
    table.rows.push_back({Value::text(layers[i].layer.name), Value::text(std::string(name_of(cost.form))),
                          seconds_value(cost.compute_s), seconds_value(cost.transfer_s), bytes(cost.forward_bytes),
                          bytes(cost.backward_bytes), bytes(cost.gradient_bytes), bytes(cost.moved_bytes),
                          bytes(cost.memory_bytes)});
  }
  table.note = "Bytes as they are handed to MPI; layout: to bring the input into the form's.";
}

/// The largest dense layer as a distributed product: what SUMMA would make a rank receive, by grid.
void add_grids(Answer& answer, const std::vector<models::ParallelLayer>& layers, double batch, int64_t ranks) {
  const models::ParallelLayer* largest = nullptr;
  for (const models::ParallelLayer& layer : layers)
    if (layer.shape.kind == models::LayerKind::kDense &&
        (!largest || layer.layer.parameters > largest->layer.parameters))
      largest = &layer;
  if (!largest || ranks == 1) return;
  auto& table = answer.table(
      "grids", fmt::format("{} as one matrix product over all ranks (SUMMA, forward)", largest->layer.name),
      {{"grid", "grid", Unit::kText}, {"received_bytes", "received by a rank", Unit::kBytes}});
  const double m = batch * largest->layer.activations / largest->shape.out;
  for (int64_t rows = 1; rows <= ranks; ++rows) {
    if (ranks % rows != 0) continue;
    const double bytes = models::summa_bytes(m, largest->shape.out, largest->shape.in, rows, ranks / rows);
    table.rows.push_back({Value::text(fmt::format("{}x{}", rows, ranks / rows)), Value::bytes(std::llround(bytes))});
  }
  table.note = fmt::format("{:g} x {:g} inputs times {:g} x {:g} weights; samples down, outputs across.", m,
                           largest->shape.in, largest->shape.in, largest->shape.out);
}

}  // namespace

int model_parallel(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "parallel", "[RUN] --table NAME [options]",
      "Spreads layers over ranks by samples, rows (spatial), input channels, filters, tensors (Megatron's) or as a pipeline: time, bytes and "
      "memory of a rank in a step. Groups of ranks share the samples; within a group the fastest mix of forms within the memory is found by a "
      "dynamic program over the layers, with the costs of changing layouts.");
  add_layer_options(options, true);
  options.add()("ranks", takes<int64_t>("N"), "default: those of RUN")("group", takes<int64_t>("G"),
                                                                       "only groups of so many ranks")(
      "form", takes<std::string>("NAME"), "shows the layers of sample, spatial, channel, filter or tensor")(
      "memory", takes<std::string>("SIZE"), "of a rank: 16GB")("optimizer", takes<std::string>("NAME", "momentum"),
                                                               "sgd, momentum, adam: 0, 1, 2 more values per weight")(
      "micro-batches", takes<int64_t>("M"), "of the pipelines; default: four a stage, if samples suffice");
  options.one_row({"profile", "table"}, "measured layers (CSV), or a network's: ddl model memory --help");
  options.one_row({"batch", "tflops"}, "samples of a mini-batch; without RUN: 1e12 operations per second");
  options.one_row({"optimizer", "micro-batches"}, "sgd, momentum, adam; of pipelines, else four a stage");
  options.one_row({"ranks", "group", "memory"}, "default: RUN's; only groups of so many; of a rank: 16GB");
  add_link_options(options);
  const std::vector<std::string> optimizers = {"sgd", "momentum", "adam"};
  options.one_of("optimizer", optimizers);
  options.one_of("form", {kPureForms[0], kPureForms[1], kPureForms[2], kPureForms[3], kPureForms[4]});
  if (!options.parse(arguments)) return 0;
  if (options.has("profile"))
    throw Error("--profile has no channels and rows", "give --table NAME instead", ExitCode::kUsage);
  const auto table = needed(table_option(options), "table", "a network: resnet50, gpt2_small, ... as network --list");
  const auto run = maybe_run(options);
  Answer answer("parallel");
  answer.given("network", "network", Value::text(table.name));
  ParallelMachine machine;
  const auto typed_ranks = count_option(options, "ranks");
  machine.ranks = typed_ranks ? *typed_ranks
                  : run       ? run->view.ranks
                              : needed(typed_ranks, "ranks", "or a recorded run");
  answer.given("ranks", "ranks", Value::count(machine.ranks));
  const auto typed_batch = number_option(options, "batch", 0, true);
  const auto run_samples = run ? models::samples_per_step(run->view.db, run->view.world) : std::nullopt;
  machine.batch = typed_batch ? *typed_batch
                  : run_samples
                      ? *run_samples / static_cast<double>(run->view.ranks) * static_cast<double>(machine.ranks)
                      : kAssumedSamplesPerRank * static_cast<double>(machine.ranks);
  answer.given("batch", "samples of a step", Value::number(machine.batch),
               typed_batch   ? ""
               : run_samples ? "(as many a rank as in the run)"
                             : kAssumed);
  const std::vector<models::ParallelLayer> layers = parallel_layers(options, table, run.get(), answer);
  link_into(machine, options, run.get(), answer);
  machine.optimizer_values = static_cast<double>(
      std::find(optimizers.begin(), optimizers.end(), options.get<std::string>("optimizer")) - optimizers.begin());
  const auto limit = bytes_option(options, "memory");
  if (limit) answer.given("memory_bytes", "memory of a rank", Value::bytes(std::llround(*limit)));

  // Each form shows its fastest group within the memory limit, or the group that needs the least memory if none fits.
  std::vector<NamedPlan> plans;
  const auto better = [&](const ParallelPlan& a, const ParallelPlan& b) {
    const bool a_fits = !limit || a.memory_bytes <= *limit, b_fits = !limit || b.memory_bytes <= *limit;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a.step_s() < b.step_s() : a.memory_bytes < b.memory_bytes;
  };
  const auto offer = [&](const std::string& name, int64_t group, std::optional<ParallelPlan> plan) {
    const bool pure = plan && !plan->layers.empty() && name != "best mix";
    if (!plan || (pure && !takes_form(*plan, std::string_view(name).substr(0, name.find(' '))))) return;
    const auto at = std::find_if(plans.begin(), plans.end(), [&](const NamedPlan& p) { return p.name == name; });
    if (at == plans.end()) {
      plans.push_back({name, group, *std::move(plan)});
    } else if (better(*plan, at->plan)) {
      *at = {name, group, *std::move(plan)};
    }
  };
  bool exact = true;
  for (const int64_t group : groups_of(options, machine.ranks)) {
    machine.group = group;
    for (const char* form : kPureForms)
      if (group == machine.ranks || options.has("group") || std::string_view(form) == "sample")
        offer(form, group, plan_of_one_form(layers, machine, form));
    if (group > 1 && group < machine.ranks && !options.has("group"))
      for (const char* form : kPureForms)
        if (std::string_view(form) != "sample")
          offer(fmt::format("{} + sample", form), group, plan_of_one_form(layers, machine, form));
    if (group > 1 && group <= static_cast<int64_t>(layers.size())) {
      const double samples = machine.batch * static_cast<double>(group) / static_cast<double>(machine.ranks);
      const int64_t micro =
          count_option(options, "micro-batches")
              .value_or(std::max<int64_t>(1, std::min<int64_t>(4 * group, static_cast<int64_t>(samples))));
      offer(group == machine.ranks ? "pipeline" : "pipeline + sample", group, pipeline_plan(layers, machine, micro));
    }
    std::optional<ParallelPlan> best = best_plan(layers, machine, limit);
    exact = exact && (!best || best->exact);
    offer("best mix", group, std::move(best));
  }
  auto& forms = answer.table("forms", "Whole networks",
                             {{"form", "form", Unit::kText},
                              {"group", "group", Unit::kCount},
                              {"step_ns", "step", Unit::kDuration},
                              {"compute_ns", "computing", Unit::kDuration},
                              {"transfer_ns", "transferring", Unit::kDuration},
                              {"sent_bytes", "sent by a rank", Unit::kBytes},
                              {"memory_bytes", "memory", Unit::kBytes},
                              {"fits", "fits", Unit::kText}});
  std::stable_sort(plans.begin(), plans.end(),
                   [](const NamedPlan& a, const NamedPlan& b) { return a.plan.step_s() < b.plan.step_s(); });
  for (const NamedPlan& one : plans)
    forms.rows.push_back({Value::text(one.name), Value::count(one.group), seconds_value(one.plan.step_s()),
                          seconds_value(one.plan.compute_s), seconds_value(one.plan.transfer_s),
                          Value::bytes(std::llround(one.plan.sent_bytes)),
                          Value::bytes(std::llround(one.plan.memory_bytes)),
                          Value::text(!limit                            ? "-"
                                      : one.plan.memory_bytes <= *limit ? "yes"
                                                                        : "no")});
  forms.note =
      "Group: ranks that share a layer; groups share the samples. For forms with \"+ sample\" the fastest group is shown.";
  const std::string wanted = options.maybe<std::string>("form").value_or("best mix");
  auto shown = std::find_if(plans.begin(), plans.end(), [&](const NamedPlan& p) { return p.name == wanted; });
  if (shown != plans.end() && !shown->plan.layers.empty()) add_form_layers(answer, *shown, layers);
  add_grids(answer, layers, machine.batch, machine.ranks);
  if (std::none_of(plans.begin(), plans.end(), [](const NamedPlan& p) { return p.name == "best mix"; }))
    answer.note("No mix of forms fits into the memory.");
  if (!exact) answer.note("The dynamic program thinned out its plans: a better mix may exist.");
  answer.note(
      "Layers in the order of the table. Not included: branches, pooling, the step's time outside its layers. Transfers are not hidden; computing shrinks in proportion, though small parts are less efficient. No table has experts.");
  return answer.print(options);
}

}  // namespace ddl::cli
