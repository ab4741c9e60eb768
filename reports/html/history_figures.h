// Figures of the page of ddl history html.
#pragma once

#include <vector>

#include "reports/history.h"
#include "reports/html/figure.h"

namespace ddl::reports::html {

constexpr size_t kHistoryFigures = 12;  ///< jobs that are drawn

/// For each job, the newest first: step times of its runs with their changes; what a step consists of between these.
std::vector<Figure> history_figures(const HistoryView& view);

}  // namespace ddl::reports::html
