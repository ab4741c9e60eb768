// What others may see of a run: secrets are masked again, and --anonymous leaves out hosts and paths.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/output_file.h"

namespace ddl::cli {

/// --share and --anonymous.
void add_share_options(VerbOptions& options);

/// Who may read the files that the verb writes. Throws Error (kUsage): --anonymous without --share.
Readers readers(const VerbOptions& options);

/// With --share, `run` becomes a copy in which every text went through shareable(). Throws ddl::Error.
void share(Run& run, const VerbOptions& options);

/// Masks secrets (core/secrets.h). Unless `hosts` is null, also replaces each of its first names by the second,
/// absolute paths by their last part, what follows "://" in a URL by "...", and IPv4 addresses by "(address)".
std::string shareable(std::string_view text, const std::vector<std::pair<std::string, std::string>>* hosts);

}  // namespace ddl::cli
