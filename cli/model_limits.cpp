// ddl model limits: where data parallelism ends for a job.
#include <fmt/format.h>

#include "analyzer/models/parallel_limits.h"
#include "analyzer/models/run_facts.h"
#include "cli/model.h"

namespace ddl::cli {

using reports::Unit;
using reports::Value;

int model_limits(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "limits", "[RUN] [options]",
      "Which limits of data parallelism a job has reached: exposed transfer of half the step or more, fewer samples than ranks, samples\n"
      "that do not fit into memory, a global batch beyond what is known to converge. RUN gives ranks, batch and share of transfer as\n"
      "recorded; a rule of which nothing is known is left out, and said so.");
  options.add()("ranks", takes<int64_t>("N"), "instead of the run's; then its batch and share of transfer do not hold")(
      "global-batch", takes<double>("B"), "samples of a step, all ranks")("transfer-share", takes<double>("F"),
                                                                          "exposed transfer in the step, 0 to 1")(
      "memory", takes<std::string>("SIZE"), "of a rank: 80GB")("sample-memory", takes<std::string>("SIZE"),
                                                               "activations and their gradients of a sample")(
      "fixed-memory", takes<std::string>("SIZE"), "weights, gradients, optimiser")(
      "safe-batch", takes<double>("B"), "largest global batch known to converge, or the noise scale");
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  const auto wanted = count_option(options, "ranks");
  models::ParallelJob job;
  job.ranks = static_cast<double>(wanted ? *wanted
                                  : run  ? run->view.ranks
                                         : needed(wanted, "ranks", "or a recorded run"));
  job.global_batch = number_option(options, "global-batch", 0, true);
  job.transfer_share = share_option(options, "transfer-share");
  job.memory_bytes = bytes_option(options, "memory");
  job.sample_bytes = bytes_option(options, "sample-memory");
  job.fixed_bytes = bytes_option(options, "fixed-memory");
  job.safe_batch = number_option(options, "safe-batch", 0, true);
  if (run) {
    const bool as_recorded = !wanted || *wanted == run->view.ranks;
    if (!job.global_batch && as_recorded) job.global_batch = models::samples_per_step(run->view.db, run->view.world);
    if (!job.safe_batch) job.safe_batch = models::metric_of(run->view.db, run->view.world, "noise_scale");
    if (const models::MeanStep step = models::mean_step(run->view.db, run->view.world);
        !job.transfer_share && as_recorded && step.split)
      job.transfer_share = step.parts.transfer_s / step.parts.step_s;
  }
  Answer answer("limits");
  answer.given("ranks", "ranks", Value::number(job.ranks));
  if (job.global_batch) answer.given("global_batch", "global batch", Value::number(*job.global_batch));
  if (job.transfer_share) answer.given("transfer_share_ratio", "exposed transfer", Value::ratio(*job.transfer_share));
  auto& table = answer.table("limits", "Limits reached",
                             {{"limit", "limit", Unit::kText}, {"sentence", "what it means", Unit::kText}});
  for (const models::LimitReached& reached : limits_reached(job))
    table.rows.push_back({Value::text(name_of(reached.limit)), Value::text(reached.sentence)});
  table.when_empty = "None of the limits that could be checked.";
  const std::pair<bool, const char*> known[] = {
      {job.transfer_share.has_value(), "communication: --transfer-share, or a run"},
      {job.global_batch.has_value(), "samples: --global-batch, or a run that reports its samples"},
      {job.memory_bytes && job.sample_bytes, "memory: --memory and --sample-memory"},
      {job.global_batch && job.safe_batch, "recipe: --safe-batch, or a run that reports its gradient norms"}};
  for (const auto& [checked, what] : known)
    if (!checked) answer.note(fmt::format("Not checked: {}.", what));
  return answer.print(options);
}

}  // namespace ddl::cli
