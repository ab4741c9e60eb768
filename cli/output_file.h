// A file that the user asked for.
#pragma once

#include <string>
#include <string_view>

namespace ddl::cli {

/// Writes all of `text` to `path` ("-": standard output), aside first and then renamed, so that nobody ever reads half of it and a full
/// disk leaves the old file. What is not a regular file (a pipe, /dev/null) is written to as it is. Throws ddl::Error.
void write_output(const std::string& path, std::string_view text);

}  // namespace ddl::cli
