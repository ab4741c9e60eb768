// Option --threads of the verbs that read and analyze a run.
#pragma once

#include "cli/options.h"

namespace ddl::cli {

void add_threads_option(VerbOptions& options);

/// As open_run() takes it. Throws Error (kUsage): none, or more than any machine has use for.
unsigned threads_of(const VerbOptions& options);

}  // namespace ddl::cli
