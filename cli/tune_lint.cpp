#include "cli/tune_report.h"

#include <fmt/format.h>

#include "autotuner/predict.h"

namespace ddl::cli {
namespace {

// Whatever changes what is computed, but for the batch, of which the rules know by itself.
std::string options_at(const Tuning& tuning, size_t point) {
  std::vector<std::string> words;
  for (size_t i = 0; i < tuning.tunables.size(); ++i)
    if (tuning.tunables[i].numeric && tuning.tunables[i].name != tune::kBatch)
      words.push_back(fmt::format("{}={}", tuning.tunables[i].name, tuning.space.value(point, i)));
  return fmt::format("{}", fmt::join(words, " "));
}

// The first values are today's, as the user says; those that ddl offers by itself are a guess.
std::string base_words(const Tuning& tuning) {
  std::vector<std::string> guessed;
  for (const tune::JobTunable& tunable : tuning.tunables)
    if (tunable.guessed) guessed.push_back(fmt::format("{}={}", tunable.name, tunable.values[0]));
  return guessed.empty() ? "smallest"
                         : fmt::format("{}, which nobody said that the job runs with today", fmt::join(guessed, " "));
}

Stated row_of(const Tuning& tuning, const tune::TrialFacts& facts, size_t point) {
  Stated row = {{"scope", "application"}, {"tuned", "yes"}, {"trials", fmt::format("{}", tuning.result.trials.size())}};
  if (facts.steps > 0) {  // else the job was judged by its own words
    row["steps"] = fmt::format("{}", facts.steps);
    row["warmup"] = fmt::format("{}", facts.warmup_steps);
  }
  row["options"] = options_at(tuning, point);
  if (facts.samples) row["global_batch"] = fmt::format("{:g}", *facts.samples);
  if (tuning.base.noise_scale) row["safe_batch"] = fmt::format("{:g}", *tuning.base.noise_scale);
  if (tuning.goal.target_loss) {
    row["accuracy"] = fmt::format("loss {:g}", *tuning.goal.target_loss);
    row["accuracy_on"] = "train";
  }
  row["base"] = base_words(tuning);
  return row;
}

}  // namespace

std::vector<Stated> stated_of(const Tuning& tuning, const std::string& machine) {
  std::vector<Stated> rows = {row_of(tuning, tuning.base, 0)};
  if (tuning.result.winner != 0 && tuning.best) rows.push_back(row_of(tuning, *tuning.best, tuning.result.winner));
  const bool same_work =
      rows.front()["global_batch"] == rows.back()["global_batch"] && rows.front()["options"] == rows.back()["options"];
  for (Stated& row : rows) {
    row["scaling"] = same_work ? "strong" : "mixed";
    if (tuning.base.nodes == 1) row["hardware"] = machine;  // of the others nothing is known
    if (!tuning.result.gain) continue;
    row["runs"] = fmt::format("{}", tuning.result.gain->rounds);
    row["interval"] = fmt::format("{:g}% over paired rounds", 100 * tuning.result.gain->confidence);
  }
  return rows;
}

}  // namespace ddl::cli
