// An analysis in parts: ddl analyze --prepare, --part K/N, --on, and ddl merge (store/parts.h).
#pragma once

#include "cli/options.h"
#include "store/run_directory.h"

namespace ddl::cli {

void add_parts_options(VerbOptions& options);

/// Does what --prepare and --part ask for. False: neither was given. Throws Error (usage) where one does not go with the other options.
bool prepared_or_part_made(const VerbOptions& options);

/// Does what --on asks for: afterwards the store is there, analyzed. Nothing without it.
void analyze_on_place(const VerbOptions& options);

/// The store of the parts, analyzed; they are removed.
void merge_run(const RunDirectory& run, unsigned threads);

}  // namespace ddl::cli
