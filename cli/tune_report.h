// What a tuning has found, as a report.
#pragma once

#include <vector>

#include "analyzer/results_lint.h"
#include "cli/tune.h"
#include "reports/document.h"
#include "reports/html/figure.h"

namespace ddl::cli {

/// `every_trial`: with a row for each; a terminal is spared them.
reports::Document tune_document(const TuneRequest& request, const Tuning& tuning, bool every_trial);

/// What report.html draws.
std::vector<reports::html::Figure> tune_figures(const Tuning& tuning);

// ---- What is known of how the numbers of a tuning were got, for the lint of results: two rows, the default and what won.
/// `machine`: in words. One row where the default stays.
std::vector<Stated> stated_of(const Tuning& tuning, const std::string& machine);

}  // namespace ddl::cli
