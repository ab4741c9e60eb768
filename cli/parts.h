// An analysis in parts: ddl analyze --prepare, --part K/N, --on, and ddl merge (store/parts.h).
#pragma once

#include "cli/options.h"
#include "store/run_directory.h"

namespace ddl::cli {

void add_parts_options(VerbOptions& options);

/// Carries out --prepare and --part. False: neither was given. Throws Error (usage) if other options exclude it.
bool prepared_or_part_made(const VerbOptions& options);

/// Carries out --on: the store then exists, analyzed. Does nothing without it.
void analyze_on_place(const VerbOptions& options);

/// Makes the analyzed store from the parts and removes them.
void merge_run(const RunDirectory& run, unsigned threads);

}  // namespace ddl::cli
