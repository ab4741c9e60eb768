// What a tuning has found, as a report.
#pragma once

#include "cli/tune.h"
#include "reports/document.h"
#include "reports/html/figure.h"

namespace ddl::cli {

/// `every_trial`: with a row for each; a terminal is spared them.
reports::Document tune_document(const TuneRequest& request, const Tuning& tuning, bool every_trial);

/// What report.html draws.
std::vector<reports::html::Figure> tune_figures(const Tuning& tuning);

}  // namespace ddl::cli
