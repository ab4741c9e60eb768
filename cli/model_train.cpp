// ddl model train, epochs, compression: time to train, its price, and what shortens it.
#include <fmt/format.h>

#include <cmath>

#include "analyzer/csv_table.h"
#include "analyzer/models/code_bytes.h"
#include "analyzer/models/parallel_forms.h"
#include "analyzer/models/printed.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/models/training_time.h"
#include "cli/model.h"
#include "cli/model_layers.h"
#include "core/error.h"
#include "core/number.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;

models::EpochModel epochs_of(const std::string& file) {
  const CsvTable table = CsvTable::read(file);
  std::vector<models::BatchEpochs> points;
  for (size_t r = 0; r < table.rows(); ++r) points.push_back({table.number(r, "batch"), table.number(r, "epochs")});
  return models::fit_epochs(points);
}

}  // namespace

int model_train(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "train", "[RUN] --samples N [options]",
      "Iterations = ceil(samples / batch) x epochs, time = iterations x step time, price = hours x machines x price per hour. With RUN: its\n"
      "mean step time, and the batch from the samples that the program reported. --epochs-csv: epochs from a fit over batch sizes.");
  options.add()("samples", takes<double>("N"), "in the data set")("epochs", takes<double>("E"), "passes over it")(
      "epochs-csv", takes<std::string>("FILE"), "columns batch, epochs: see ddl model epochs")(
      "batch", takes<double>("B"), "global: of all workers together")("step-ms", takes<double>("MS"), "time of a step")(
      "iterations", takes<int64_t>("I"), "per epoch, instead of samples / batch")(
      "machines", takes<double>("N", 1), "that are paid for")("price", takes<double>("PRICE"), "of a machine per hour")(
      "quoted-days", takes<std::string>("DAYS"), "as somebody printed them: do they follow?");
  if (!options.parse(arguments)) return 0;
  Answer answer("train");
  const auto run = maybe_run(options);
  std::optional<double> step_s = number_option(options, "step-ms", 0, true),
                        batch = number_option(options, "batch", 0, true);
  if (step_s) *step_s *= 1e-3;
  std::string step_from, batch_from;
  if (run) {
    // A recorded step does not tell how long one of another batch size takes: `ddl model whatif --batch` predicts that.
    const auto samples = models::samples_per_step(run->view.db, run->view.world);
    if (!step_s && batch && !(samples && std::round(*samples) == *batch))
      throw Error(
          samples
              ? fmt::format("the step of the run is one of {:g} samples, not of --batch {:g}", *samples, *batch)
              : fmt::format("the run does not report its samples: whether its step is one of --batch {:g} is unknown",
                            *batch),
          samples ? fmt::format("leave --batch out, or give --step-ms: ddl model whatif RUN --batch {:g} estimates it",
                                *batch / *samples)
                  : "give --step-ms as well, if it is",
          ExitCode::kUsage);
    const auto mean_ns = models::mean_step_ns(run->view.db, run->view.world);
    if (!step_s && mean_ns) step_s = *mean_ns * 1e-9, step_from = "(mean of the run's steady steps)";
    if (!batch) {
      if (samples) batch = std::round(*samples), batch_from = "(of the run)";
    }
  }
  const double step = needed(step_s, "step-ms", "or a recorded run with steps");
  const auto iterations_option = count_option(options, "iterations");
  std::optional<double> epochs = number_option(options, "epochs", 0, true);
  std::string epochs_from;
  if (!epochs && options.has("epochs-csv")) {
    epochs = epochs_of(options.get<std::string>("epochs-csv"))
                 .epochs(needed(batch, "batch", "or a run that reports its samples"));
    epochs_from = "(fitted)";
  }
  const double passes = needed(epochs, "epochs", "or --epochs-csv");
  const int64_t per_epoch =
      iterations_option ? *iterations_option
                        : models::steps_per_epoch(
                              needed(number_option(options, "samples", 0, true), "samples", "e.g. --samples 1281167"),
                              needed(batch, "batch", "or a run that reports its samples"));
  answer.given("step_ns", "step", seconds_value(step), step_from);
  if (batch) answer.given("batch", "batch", Value::number(*batch), batch_from);
  answer.given("epochs", "epochs", Value::number(passes), epochs_from);
  const double hours = step * static_cast<double>(per_epoch) * passes / 3600;
  auto& table = answer.table("train", "Time to train",
                             {{"iterations_per_epoch", "iterations/epoch", Unit::kCount},
                              {"epoch_ns", "epoch", Unit::kDuration},
                              {"hours", "hours", Unit::kNumber},
                              {"days", "days", Unit::kNumber}});
  table.rows.push_back({Value::count(per_epoch), seconds_value(step * static_cast<double>(per_epoch)),
                        Value::number(hours), Value::number(hours / 24)});
  if (const auto price = number_option(options, "price", 0)) {
    const double machines = *number_option(options, "machines", 0, true);
    table.columns.push_back({"price", "price", Unit::kNumber});
    table.rows[0].push_back(Value::number(hours * machines * *price));
    answer.given("machines", "machines", Value::number(machines), fmt::format("at {} an hour", *price));
  }
  if (const auto quoted = options.maybe<std::string>("quoted-days")) {
    const models::Printed days = models::Printed::exactly(hours / 24);
    const double said = models::Printed::parse(*quoted).value;
    if (!(said > 0))
      throw Error("--quoted-days is not above 0", "give the days that were quoted, such as 3.5", ExitCode::kUsage);
    switch (check_quote(days, *quoted)) {
      case models::Quote::kAgrees:
        answer.note(fmt::format("The quoted {} days follow.", *quoted));
        break;
      case models::Quote::kTruncated:
        answer.note(fmt::format("The quoted {} days are cut off, not rounded.", *quoted));
        break;
      case models::Quote::kDisagrees:
        answer.note(fmt::format("The quoted {} days do not follow from these numbers, which make {} times as many.",
                                *quoted, models::half_up(hours / 24 / said, 2)));
    }
  }
  answer.note("Not included: evaluation, checkpoints, restarts.");
  return answer.print(options);
}

int model_epochs(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "epochs", "--csv FILE [--batch B,...]",
      "Fits E(B) = E0 (1 + B / B0), the epochs to the target by global batch size, and what they would be at other sizes.");
  options.add()("csv", takes<std::string>("FILE"), "columns batch, epochs: at least three batch sizes")(
      "batch", takes<std::string>("B,..."), "global batch sizes to ask for");
  if (!options.parse(arguments)) return 0;
  const models::EpochModel model = epochs_of(needed(options.maybe<std::string>("csv"), "csv", "columns batch, epochs"));
  Answer answer("epochs");
  auto& fit = answer.table("fit", "Fit",
                           {{"least_epochs", "E0", Unit::kNumber},
                            {"knee_batch", "B0", Unit::kNumber},
                            {"r2", "R2", Unit::kNumber},
                            {"worst_residual_epochs", "worst residual", Unit::kNumber}});
  const bool grows = std::isfinite(model.knee_batch);
  fit.rows.push_back({Value::number(model.least_epochs),
                      grows ? Value::number(model.knee_batch) : Value::absent(Unit::kNumber, "NOT_APPLICABLE"),
                      Value::number(model.r2), Value::number(model.worst_residual_epochs)});
  if (const auto text = options.maybe<std::string>("batch")) {
    auto& table = answer.table("epochs", "Epochs to the target",
                               {{"batch", "batch", Unit::kCount},
                                {"epochs", "epochs", Unit::kNumber},
                                {"efficiency_ratio", "statistical efficiency", Unit::kRatio}});
    for (const int64_t batch : parse_counts(*text)) {
      const double epochs = model.epochs(static_cast<double>(batch));
      table.rows.push_back({Value::count(batch), Value::number(epochs), Value::ratio(model.least_epochs / epochs)});
    }
  }
  answer.note(
      "It holds for one network, target and recipe; very large batches may miss the target whatever the epochs.");
  return answer.print(options);
}

namespace {

std::vector<double> speedups_of(const std::string& text) {
  std::vector<double> speedups;
  for (const std::string& part : split_list(text)) {
    const auto value = number_in<double>(part);
    if (!(value >= 1) || !std::isfinite(*value))
      throw Error(fmt::format("invalid speed-up '{}'", part), "numbers from 1, separated by commas: 2,3.31,8",
                  ExitCode::kUsage);
    speedups.push_back(*value);
  }
  return speedups;
}

void add_layers(Answer& answer, ModelRun& run, double step_s, double speedup) {
  const std::vector<models::LayerTransfer> layers = models::layer_transfers(run.view.db, run.view.world);
  if (layers.empty()) {
    answer.note("No collective lies in a layer of this run, so which layers would profit is unknown.");
    return;
  }
  auto& table =
      answer.table("layers", fmt::format("By layer: communication of this one alone {:g} times as fast", speedup),
                   {{"layer", "layer", Unit::kText},
                    {"bytes", "bytes/step", Unit::kBytes},
                    {"transfer_ns", "exposed transfer", Unit::kDuration},
                    {"fraction_ratio", "of the step", Unit::kRatio},
                    {"speedup", "whole step", Unit::kNumber}});
  bool all = true;
  for (const models::LayerTransfer& layer : layers) {
    std::vector<Value> row = {Value::text(layer.layer), Value::bytes(std::llround(layer.bytes))};
    if (layer.transfer_s && *layer.transfer_s <= step_s) {
      const double share = *layer.transfer_s / step_s;
      row.insert(row.end(), {seconds_value(*layer.transfer_s), Value::ratio(share),
                             Value::number(models::amdahl(share, speedup))});
    } else {
      all = false;
      for (const Unit unit : {Unit::kDuration, Unit::kRatio, Unit::kNumber})
        row.push_back(Value::absent(unit, "NOT_APPLICABLE"));
    }
    table.rows.push_back(std::move(row));
  }
  if (!all) table.note = "It is not known for which non-blocking collectives the calls that complete them waited.";
}

/// For each layer what a rank sends by each code, and the code that sends least.
void add_codes(Answer& answer, const std::vector<models::GradientLayer>& layers, double ranks, double ratio,
               std::optional<double> samples) {
  std::vector<reports::Column> columns{
      {"layer", "layer", Unit::kText}, {"least", "least", Unit::kText}, {"lossless", "without loss", Unit::kText}};
  for (const models::CodedLayer& code : models::coded_bytes({"", 1, 1}, ranks, ratio, samples))
    columns.push_back({code.code + "_bytes", code.code, Unit::kBytes});
  auto& table =
      answer.table("codes", fmt::format("What a rank sends for each layer, of {:g} ranks", ranks), std::move(columns));
  for (const models::GradientLayer& layer : layers) {
    if (layer.values <= 0) continue;
    const std::vector<models::CodedLayer> codes = coded_bytes(layer, ranks, ratio, samples);
    const models::CodedLayer *least = &codes[0], *lossless = &codes[0];
    for (const models::CodedLayer& code : codes) {
      if (code.sent_bytes < least->sent_bytes) least = &code;
      if (code.lossless && code.sent_bytes < lossless->sent_bytes) lossless = &code;
    }
    std::vector<Value> row{Value::text(layer.name), Value::text(least->code), Value::text(lossless->code)};
    for (const models::CodedLayer& code : codes) row.push_back(Value::bytes(std::llround(code.sent_bytes)));
    row.resize(table.columns.size(), Value::absent(Unit::kBytes, "NOT_APPLICABLE"));
    table.rows.push_back(std::move(row));
  }
  table.note = fmt::format(
      "top-k and sparcml of {:g} of the values; sparcml at worst, with no value in common. Factors: of dense layers.",
      ratio);
  answer.note(
      "A code pays off where it saves more transfer than coding costs, which is not included; training may also need more steps.");
}

std::vector<models::GradientLayer> coded_layers(const models::NetworkTable& table) {
  std::vector<models::GradientLayer> layers;
  for (const models::NetworkLayer& layer : table.layers) {
    const models::LayerShape shape = layer_shape(layer);
    const bool dense = shape.kind == models::LayerKind::kDense;
    layers.push_back(
        {layer.name, layer.parameters, dense ? std::optional(shape.input_elements + layer.activations) : std::nullopt});
  }
  return layers;
}

}  // namespace

int model_compression(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "compression", "[RUN] [options]",
      "Amdahl's law: what faster communication is worth to the whole step. With RUN the share is that of exposed transfer, waiting left out\n"
      "(no compression makes a late rank come earlier), for the step and for each layer. --whole asks the other way: which share of\n"
      "communication makes a pair of speed-ups, of communication and of the whole step, true?");
  options.add()("fraction", takes<double>("F"), "share of communication in the step, 0 to 1")(
      "speedup", takes<std::string>("S,...", "2,4,8,32"), "of communication, coding included: 2,3.31")(
      "whole", takes<double>("S"), "of the whole step, with one --speedup: instead of the share")(
      "table", takes<std::string>("NAME"),
      "what each code sends for the layers of a network; with RUN for the run's where left out")(
      "ranks", takes<int64_t>("P"), "with --table; default: those of RUN")(
      "batch", takes<double>("B"), "samples of a rank: sufficient factors")("ratio", takes<double>("R", 0.01),
                                                                            "share that top-k codes send");
  if (!options.parse(arguments)) return 0;
  Answer answer("compression");
  const auto run = maybe_run(options);
  const std::vector<double> speedups = speedups_of(options.get<std::string>("speedup"));
  std::optional<double> fraction = share_option(options, "fraction"), step_s;
  std::string from;
  if (const auto whole = number_option(options, "whole", 1)) {
    if (fraction || run)
      throw Error("--whole excludes RUN and --fraction", "leave them out: --whole and --speedup give the share",
                  ExitCode::kUsage);
    if (speedups.size() != 1)
      throw Error("--whole needs one --speedup, not several", "e.g. --speedup 3.31 --whole 1.55", ExitCode::kUsage);
    fraction = models::amdahl_fraction(speedups[0], *whole);
    from = fmt::format("(for {:g} in all by {:g})", *whole, speedups[0]);
  }
  if (run) {
    const models::MeanStep step = models::mean_step(run->view.db, run->view.world);
    step_s = step.parts.step_s;
    if (!fraction && !step.split)
      throw Error(fmt::format("it is not known how much of the run's communication is transfer: {}", step.why),
                  "ddl report says what could not be split", ExitCode::kDataMissing);
    if (!fraction) fraction = step.parts.transfer_s / step.parts.step_s, from = "(exposed transfer of the run)";
  }
  const auto table_given = table_option(options);
  const auto typed_ranks = count_option(options, "ranks");
  const double ratio = *share_option(options, "ratio", true);
  const auto samples = number_option(options, "batch", 0, true);
  if (table_given && !run) {
    add_codes(answer, coded_layers(*table_given),
              static_cast<double>(needed(typed_ranks, "ranks", "or a recorded run")), ratio, samples);
    if (!fraction) return answer.print(options);
  }
  const double share = needed(fraction, "fraction", "or --whole, --table or a recorded run");
  answer.given("fraction_ratio", "communication", Value::ratio(share), from);
  auto& table = answer.table(
      "compression", "Speed-up",
      {{"communication_speedup", "communication", Unit::kNumber}, {"speedup", "whole step", Unit::kNumber}});
  for (const double s : speedups) table.rows.push_back({Value::number(s), Value::number(models::amdahl(share, s))});
  if (run) {
    add_layers(answer, *run, *step_s, speedups[0]);
    std::vector<models::GradientLayer> layers;
    if (table_given) {
      layers = coded_layers(*table_given);
    } else {
      for (const models::LayerTransfer& layer : models::layer_transfers(run->view.db, run->view.world))
        layers.push_back({layer.layer, std::round(layer.bytes / 4), std::nullopt});
    }
    const int64_t ranks = typed_ranks.value_or(run->view.ranks);
    if (!layers.empty()) add_codes(answer, layers, static_cast<double>(ranks), ratio, samples);
  }
  answer.note(share < 1 ? fmt::format("Free communication would give {:.3g}.", 1 / (1 - share))
                        : "There is nothing but communication.");
  return answer.print(options);
}

}  // namespace ddl::cli
