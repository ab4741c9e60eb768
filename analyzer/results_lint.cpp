#include "analyzer/results_lint.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "core/number.h"

namespace ddl {
namespace {

constexpr LintKey kKeys[] = {
    {"accuracy", "reached, or the target: 76.3% top-1"},
    {"accuracy_on", "test, validation or train"},
    {"accuracy_options", "options with which the accuracy was reached, as in options"},
    {"runs", "repetitions behind each number"},
    {"interval", "spread of the numbers: 95% CI, min-max; ddl fills it in where it has one"},
    {"tuned", "yes: rows are the best of several configurations"},
    {"trials", "how many of those were tried"},
    {"hardware", "what it ran on"},
    {"scope", "application or kernel"},
    {"data", "real or synthetic"},
    {"io", "included or excluded: reading the input"},
    {"precision", "fp32, bf16, ..."},
    {"options", "what else was switched on"},
    {"global_batch", "samples of a step, all workers"},
    {"safe_batch", "largest global batch known to converge"},
    {"steps", "that were measured"},
    {"warmup", "steps left out before them"},
    {"scaling", "weak, strong or mixed"},
    {"base", "smallest, or how the base was chosen"},
    {"superlinear", "yes: some efficiency is above 1"},
};

constexpr double kFewestSteps = 30;
constexpr double kFewestRuns = 3;

std::optional<double> number(std::string_view text) { return take_number<double>(text); }

class Table {
 public:
  explicit Table(const std::vector<Stated>& rows) : rows_(rows) {}

  /// Values of a key; "" stands for rows that do not say it.
  std::set<std::string> values(const std::string& key) const {
    std::set<std::string> found;
    for (const Stated& row : rows_) {
      const auto at = row.find(key);
      found.insert(at == row.end() ? "" : at->second);
    }
    return found;
  }
  bool says(const std::string& key) const { return !values(key).contains(""); }
  bool any(const std::string& key, const std::string& value) const { return values(key).contains(value); }
  bool differs(const std::string& key) const { return says(key) && values(key).size() > 1; }
  std::optional<double> least(const std::string& key) const { return extreme(key, false); }
  std::optional<double> most(const std::string& key) const { return extreme(key, true); }

 private:
  std::optional<double> extreme(const std::string& key, bool most) const {
    std::optional<double> found;
    for (const std::string& value : values(key))
      if (const auto n = number(value); n && (!found || (most ? *n > *found : *n < *found))) found = n;
    return found;
  }
  const std::vector<Stated>& rows_;
};

}  // namespace

std::span<const LintKey> lint_keys() { return kKeys; }

std::vector<LintRemark> lint_results(const std::vector<Stated>& rows) {
  std::vector<LintRemark> remarks;
  if (rows.empty()) return remarks;
  const Table table(rows);
  const auto remark = [&](const char* code, std::string text) { remarks.push_back({code, std::move(text)}); };
  const bool strong = table.values("scaling") == std::set<std::string>{"strong"};  // the same training, only faster

  if (!table.says("accuracy") && !strong)
    remark("LINT-01", "accuracy or target is not said: a larger batch may need more epochs, or miss it");
  if (table.says("accuracy") && table.values("accuracy_on") != std::set<std::string>{"test"} &&
      table.values("accuracy_on") != std::set<std::string>{"validation"})
    remark("LINT-02", table.says("accuracy_on") ? "accuracy is not that on test data"
                                                : "on which data the accuracy was reached is not said");
  if (!table.says("runs") || !table.says("interval")) {
    remark("LINT-03", "the number of runs or the spread of their numbers is not said");
  } else if (table.least("runs").value_or(0) < kFewestRuns) {
    remark("LINT-03", fmt::format("fewer than {:g} runs: the spread between runs is not known", kFewestRuns));
  }
  if (table.any("tuned", "yes") && !table.says("trials"))
    remark("LINT-03", "how many configurations were tried before the best is not said");
  if (!table.says("hardware")) remark("LINT-04", "hardware is not said");
  if (table.differs("hardware"))
    remark("LINT-04", fmt::format("rows ran on different hardware: {}", fmt::join(table.values("hardware"), ", ")));
  if (!table.says("scope")) remark("LINT-05", "whether the whole application was measured is not said");
  if (table.any("scope", "kernel")) remark("LINT-05", "kernels, not the whole application");
  if (table.any("data", "synthetic") || table.any("io", "excluded")) {
    remark("LINT-06", "reading the input is not in the numbers");
  } else if (!table.says("data") && !table.says("io")) {
    remark("LINT-06", "whether reading real input is in the numbers is not said");
  }
  if (!table.says("precision")) remark("LINT-07", "precision is not said");
  if (table.differs("precision"))
    remark("LINT-07", fmt::format("precision differs: {}", fmt::join(table.values("precision"), ", ")));
  if (table.differs("options"))
    remark("LINT-08", fmt::format("rows ran with different options: {}", fmt::join(table.values("options"), ", ")));
  if (table.says("options") && table.says("accuracy_options") &&
      table.values("options") != table.values("accuracy_options"))
    remark("LINT-08", "speed was measured with other options than accuracy");
  if (!table.says("global_batch")) {
    remark("LINT-09", "batch sizes are not said");
  } else if (const auto batch = table.most("global_batch"), safe = table.least("safe_batch");
             batch && safe && *batch > *safe) {
    remark("LINT-09", fmt::format("a global batch of {:g} is larger than is known to converge, {:g}", *batch, *safe));
  }
  if (!table.says("steps")) {
    remark("LINT-10", "how many steps were measured is not said");
  } else if (const auto steps = table.least("steps"); steps && *steps < kFewestSteps) {
    remark("LINT-10", fmt::format("only {:g} steps were measured", *steps));
  }
  if (!table.says("warmup")) {
    remark("LINT-10", "whether warm-up is in the numbers is not said");
  } else if (table.least("warmup").value_or(1) == 0) {
    remark("LINT-10", "warm-up is in the numbers");
  }
  if (!table.says("scaling") || table.any("scaling", "not known"))
    remark("LINT-11", "weak or strong scaling is not said");
  if (table.any("scaling", "mixed")) remark("LINT-11", "neither weak nor strong: local and global batch both change");
  for (const Stated& row : rows) {
    const auto said = row.find("scaling"), told = row.find("scaling_of_batches");
    if (said == row.end() || told == row.end() || said->second == told->second) continue;
    remark("LINT-11", fmt::format("{} scaling is said, but by the batches it is {}", said->second, told->second));
    break;
  }
  if (!table.says("base")) remark("LINT-12", "what the base is, is not said");
  if (table.says("base") && table.values("base") != std::set<std::string>{"smallest"})
    remark("LINT-12", fmt::format("the base was chosen: {}", fmt::join(table.values("base"), ", ")));
  if (table.differs("base_size"))
    remark("LINT-12", fmt::format("efficiencies of series with different bases cannot be compared: {}",
                                  fmt::join(table.values("base_size"), ", ")));
  if (table.any("superlinear", "yes"))
    remark("LINT-12", "efficiency above 1: the base is slower than it should be, or the work is not the same");
  return remarks;
}

}  // namespace ddl
