// --steps A:B and --ranks LIST of exported traces.
#pragma once

#include "cli/options.h"
#include "reports/trace/selection.h"

namespace ddl::cli {

/// For options "steps" and "ranks", where they are given. Throws ddl::Error (usage).
reports::TraceRequest trace_request(const VerbOptions& options);

}  // namespace ddl::cli
