// What others may see of a run: secrets are masked once more, and with --anonymous hosts and paths are left out.
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

/// With --share, `run` is of a copy from then on, in which every text went through shareable(). Throws ddl::Error.
void share(Run& run, const VerbOptions& options);

/// Without secrets (core/secrets.h). Unless `hosts` is null: each of its first names becomes the second one, absolute paths their last part,
/// what stands behind the "://" of a URL "...", and IPv4 addresses "(address)".
std::string shareable(std::string_view text, const std::vector<std::pair<std::string, std::string>>* hosts);

}  // namespace ddl::cli
