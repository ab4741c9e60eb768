// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddl::tune {

/// The directory as an absolute path without `.` and a slash at its end. Throws ddl::Error if it has a line break,
/// which config files cannot hold.
std::filesystem::path absolute_directory(const std::filesystem::path& directory);

/// Makes `directory` (and what leads to it) if it is missing and writes the files (name, text) aside, then renames them
/// in their order. A disk that is full is noticed before the first rename. Symbolic links are never followed: one in
/// place of the directory is an error, one in place of a file is replaced.
void write_files(const std::filesystem::path& directory, const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace ddl::tune
