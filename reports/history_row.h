// A run as a row of the history: from the same facts, metrics and findings that the report prints.
#pragma once

#include <string>

#include "history/row.h"
#include "reports/run_view.h"

namespace ddl::reports {

/// `path`: what the history shall say where the run lies. Who adds it, and when, is left to the caller. Texts hold no secrets, as far as they can be told
/// (core/secrets.h).
history::RunRow history_row(const RunView& run, const std::string& path);

}  // namespace ddl::reports
