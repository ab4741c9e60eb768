// ddl model largebatch: learning rates, warm-up and optimisers for a larger batch, and how large it may be.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/models/large_batch.h"
#include "analyzer/models/run_facts.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {

using models::BatchRule;
using reports::Unit;
using reports::Value;

int model_largebatch(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "largebatch", "[RUN] --batch B,... [options]",
      "What a larger global batch asks of training, as published: learning rate by the linear and the square-root rule, warm-up, LARS, LARC and "
      "LAMB; and how large it may be, by the gradient noise scale and published results of a network. RUN tells the batch and, if it reports "
      "norms of gradients, the noise scale.");
  options.add()("batch", takes<std::string>("B,..."), "wanted samples of a step, all ranks")(
      "base-batch", takes<double>("B"), "that --rate belongs to; default: RUN's")("rate", takes<double>("LR", 0.1),
                                                                                  "its learning rate")(
      "network", takes<std::string>("NAME"), "whose published batches count")("samples", takes<double>("N"),
                                                                              "of the data set: warm-up in steps")(
      "noise-scale", takes<double>("B"), "gradient noise scale in samples; default: RUN's");
  options.one_of("network", models::published_networks());
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  std::vector<double> batches;
  for (const int64_t batch :
       parse_counts(needed(options.maybe<std::string>("batch"), "batch", "samples of a step, all ranks: 4096,8192")))
    batches.push_back(static_cast<double>(batch));
  std::optional<double> base = number_option(options, "base-batch", 0, true);
  std::optional<double> noise = number_option(options, "noise-scale", 0, true);
  const bool typed_noise = noise.has_value();
  if (run && !base) base = models::samples_per_step(run->view.db, run->view.world);
  if (run && !noise) noise = models::metric_of(run->view.db, run->view.world, "noise_scale");
  const double base_batch =
      needed(base, "base-batch", run ? "the run reports no samples" : "or a recorded run that reports its samples");
  const double rate = *number_option(options, "rate", 0, true);
  const auto network = options.maybe<std::string>("network");
  // Without another optimiser it is the linear rule that holds; attention networks have none that did.
  const auto linear = network ? models::published_safe_batch(*network, BatchRule::kLinear) : std::nullopt;
  const auto safe = linear ? linear : network ? models::published_safe_batch(*network) : std::nullopt;
  const auto rules_for = [&](double batch) {
    std::string names;
    for (const models::RuleAdvice& rule : models::rule_advice())
      if (const auto one = network ? models::published_safe_batch(*network, rule.rule) : std::nullopt;
          one && batch <= one->batch)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(rule.rule));
    return names;
  };
  const auto samples = number_option(options, "samples", 0, true);

  Answer answer("largebatch");
  // What is beyond comes first, whatever else there is to say.
  const double most = *std::max_element(batches.begin(), batches.end());
  std::vector<std::string> beyond;
  if (noise && most > *noise) beyond.push_back(fmt::format("the gradient noise scale of {:.4g}", *noise));
  if (safe && most > safe->batch)
    beyond.push_back(fmt::format("{:g}, the largest published that did: {}", safe->batch, safe->why));
  if (!beyond.empty())
    answer.given("beyond",
                 "BEYOND THE SAFE BATCH:", Value::text(fmt::format("{:g} is more than {}", most, beyond.front())),
                 beyond.size() > 1 ? "; and than " + beyond.back() : "");
  answer.given("base_batch", "batch", Value::number(base_batch),
               run && !options.has("base-batch") ? "(of the run)" : "");
  answer.given("rate", "learning rate", Value::number(rate));
  if (noise)
    answer.given("noise_scale", "noise scale", Value::number(*noise),
                 typed_noise ? "" : "(of the run; it grows as training goes on)");
  if (safe) answer.given("published_batch", "published to", Value::number(safe->batch), fmt::format("({})", safe->why));
  auto& rates = answer.table("rates", "Learning rate and warm-up",
                             {{"batch", "batch", Unit::kNumber},
                              {"factor", "batch x", Unit::kNumber},
                              {"linear", "linear rule", Unit::kNumber},
                              {"square_root", "square root", Unit::kNumber},
                              {"warm_up_steps", "warm-up, steps", Unit::kCount},
                              {"noise_efficiency_ratio", "worth a sample", Unit::kRatio},
                              {"noise_safe", "within the noise scale", Unit::kText},
                              {"published_rules", "published to do with", Unit::kText}});
  for (const double batch : batches) {
    const std::string names = rules_for(batch);
    rates.rows.push_back(
        {Value::number(batch), Value::number(batch / base_batch),
         Value::number(scaled_rate(BatchRule::kLinear, rate, base_batch, batch)),
         Value::number(scaled_rate(BatchRule::kSquareRoot, rate, base_batch, batch)),
         samples ? Value::count(std::llround(std::ceil(models::rule_advice()[0].warm_up_epochs * *samples / batch)))
                 : Value::absent(Unit::kCount, "NOT_APPLICABLE"),
         noise ? Value::ratio((*noise + base_batch) / (*noise + batch)) : Value::absent(Unit::kRatio, "NOT_APPLICABLE"),
         noise ? Value::text(batch <= *noise ? "yes" : "no") : Value::absent(Unit::kText, "NOT_APPLICABLE"),
         network ? Value::text(names.empty() ? "none" : names) : Value::absent(Unit::kText, "NOT_APPLICABLE")});
  }
  rates.note =
      "Warm-up: five epochs, from the rate of the base batch up. Worth a sample: against one of the base batch (specification G4).";
  auto& rules = answer.table("rules", "Rules and optimisers as published",
                             {{"rule", "rule", Unit::kText},
                              {"settings", "settings", Unit::kText},
                              {"valid", "where it held", Unit::kText},
                              {"source", "source", Unit::kText}});
  for (const models::RuleAdvice& rule : models::rule_advice())
    rules.rows.push_back({Value::text(std::string(name_of(rule.rule))), Value::text(rule.settings),
                          Value::text(rule.valid), Value::text(rule.source)});
  if (network) {
    auto& published = answer.table("published", fmt::format("Published batches of {}", *network),
                                   {{"rule", "rule", Unit::kText},
                                    {"batch", "batch", Unit::kNumber},
                                    {"rate", "rate", Unit::kNumber},
                                    {"error_percent", "error, %", Unit::kNumber},
                                    {"source", "source", Unit::kText}});
    for (const models::PublishedBatch& row : models::published_batches()) {
      if (*network != row.network) continue;
      published.rows.push_back(
          {Value::text(std::string(name_of(row.rule))), Value::number(row.batch),
           row.rate > 0 ? Value::number(row.rate) : Value::absent(Unit::kNumber, "NOT_APPLICABLE"),
           row.error_percent > 0 ? Value::number(row.error_percent) : Value::absent(Unit::kNumber, "NOT_APPLICABLE"),
           Value::text(row.source)});
    }
    published.note =
        fmt::format("A batch did if its error is at most {:g} points above a small batch's, or was told to be as good.",
                    models::kAsGoodPoints);
  }
  if (!noise)
    answer.note(
        "Not checked: the noise scale. Give --noise-scale, or a run that reports local_gradient_norm and gradient_norm.");
  if (!network) answer.note("Not checked: published batches. Name a network that has some: --network.");
  answer.note("Published recipes are for other data and other code: a starting point, not a promise.");
  return answer.print(options);
}

}  // namespace ddl::cli
