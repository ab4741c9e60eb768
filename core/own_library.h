// Tool side: where the libraries of ddl lie that a program of ddl loads, or has a job load.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddl {

/// The library beside the running program, whether it is there or not. An installed copy has them in lib/ddl, where no
/// linker finds them by name; a build folder has them in lib.
std::filesystem::path own_library(std::string_view name);

/// What starts the running program again, also where its file has been replaced or removed meanwhile: a tuning is
/// to end as it began.
std::filesystem::path own_program();

}  // namespace ddl
