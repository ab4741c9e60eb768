// The report of a tuning.
#pragma once

#include <vector>

#include "analyzer/results_lint.h"
#include "cli/tune.h"
#include "reports/document.h"
#include "reports/html/figure.h"

namespace ddl::cli {

/// `every_trial`: a row for each; too many for a terminal.
reports::Document tune_document(const TuneRequest& request, const Tuning& tuning, bool every_trial);

/// What a limit that the search came to left undone: points not tried, a gain not confirmed.
std::string untried_words(const TuneRequest& request, const Tuning& tuning);

/// The figures of report.html.
std::vector<reports::html::Figure> tune_figures(const Tuning& tuning);

// ---- Statements about how a tuning's numbers were got, for the lint of results: two rows, default and winner.
/// `machine`: in words. One row if the default stays.
std::vector<Stated> stated_of(const Tuning& tuning, const std::string& machine);

}  // namespace ddl::cli
