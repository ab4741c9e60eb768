#include "cli/lint_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/scaling_input.h"
#include "core/error.h"

namespace ddl::cli {

using reports::Unit;
using reports::Value;

Stated stated_by_user(const VerbOptions& options) {
  Stated stated = pairs_option(options, "state");
  std::vector<std::string> keys;
  for (const LintKey& key : lint_keys()) keys.emplace_back(key.key);
  for (const auto& [key, value] : stated)
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw Error(fmt::format("--state: unknown statement '{}'", key),
                  did_you_mean(key, keys, "--help lists the statements"), ExitCode::kUsage);
  return stated;
}

reports::Table lint_table(std::vector<Stated> rows, const Stated& by_user) {
  for (Stated& row : rows)
    for (const auto& [key, value] : by_user) row[key] = value;
  reports::Table table{.id = "lint",
                       .caption = "What this table does not say, or should not be read as",
                       .columns = {{"code", "code", Unit::kText}, {"remark", "remark", Unit::kText}},
                       .when_empty = "No remarks."};
  for (const LintRemark& remark : lint_results(rows))
    table.rows.push_back({Value::text(remark.code), Value::text(remark.text)});
  if (!table.rows.empty())
    table.note = "Say what you know: --state precision=fp32,data=real,accuracy=76.3%,accuracy_on=test";
  return table;
}

std::string lint_help() {
  std::string text;
  for (const LintKey& key : lint_keys()) text += fmt::format("  {:<17} {}\n", key.key, key.meaning);
  text.pop_back();
  return text;
}

}  // namespace ddl::cli
