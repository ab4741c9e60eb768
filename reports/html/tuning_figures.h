// The drawings of a tuning's report: what every trial measured, and how near the prediction was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/html/figure.h"

namespace ddl::reports::html {

/// One trial. Costs are time per sample, or to the target loss: lower is better.
struct TrialMark {
  std::string stage;              ///< of the search; trials of one stage follow each other
  std::string point;              ///< in words: "batch=32 bucket_mb=4"
  std::optional<double> cost_ns;  ///< unset: it failed
  std::optional<double> predicted_ns;
  bool is_default = false, is_winner = false;
};

/// In the order in which trials were made. Nothing is drawn of fewer than two that succeeded.
std::vector<Figure> tuning_figures(const std::vector<TrialMark>& trials, const std::string& cost_name);

}  // namespace ddl::reports::html
