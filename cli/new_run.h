// The directory of a new run: private, fresh, and never somebody else's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddl::cli {

/// Creates `name` (mode 0700), or takes it over if it is an empty directory of ours. "" = program-YYYYmmdd-HHMMSS.ddl after `command`, made
/// unique. Returns its absolute path. Throws ddl::Error, with ExitCode::kUsage when something is there already.
std::filesystem::path create_run_directory(const std::string& name, const std::vector<std::string>& command);

}  // namespace ddl::cli
