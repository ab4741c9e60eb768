// What a tuning has found, as a report.
#pragma once

#include "cli/tune.h"
#include "reports/document.h"

namespace ddl::cli {

/// `every_trial`: with a row for each; a terminal is spared them.
reports::Document tune_document(const TuneRequest& request, const Tuning& tuning, bool every_trial);

}  // namespace ddl::cli
