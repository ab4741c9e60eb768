#include "cli/describe_metric.h"

#include <fmt/format.h>

#include "reports/text.h"

namespace ddl::cli {

std::string describe_metric(const Metric& metric) {
  std::string text = fmt::format("{}  ({}; {}; {}; of a {}; {})\n", metric.id, metric.name, metric.unit,
                                 metric.better == "none" ? "neither is better" : metric.better + " is better", metric.scope, metric.source);
  for (const std::string& line : reports::wrap(metric.sentence, 96)) text += "    " + line + "\n";
  return text;
}

}  // namespace ddl::cli
