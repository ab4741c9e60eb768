// ddl diff: two runs as one document.
#pragma once

#include <string>
#include <vector>

#include "analyzer/run_diff.h"
#include "reports/document.h"
#include "reports/run_view.h"

namespace ddl::reports {

struct NamedRun {
  const RunView& view;
  std::string name;
};

/// Findings that are new or gone first, then every metric with its change. `metrics`: compare_metrics() of both.
Document build_diff(const NamedRun& before, const NamedRun& after, const std::vector<MetricChange>& metrics);

}  // namespace ddl::reports
