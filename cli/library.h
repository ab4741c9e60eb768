// Finds libddl.so and libddl-mpich.so, and what they bring into a job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/flavour.h"

namespace ddl::cli {

/// $DDL_LIBRARY, else ../lib/libddl.so or libddl-mpich.so beside this program, in the build tree as in an installation.
/// Throws ddl::Error.
std::filesystem::path find_library(Flavour flavour);

/// One of our libraries, by file name, in ../lib/ beside this program. Throws ddl::Error.
std::filesystem::path find_own_library(const char* name);

/// PYTHONPATH for a job: the folder of python/ddl_hooks, then the present value. Empty: the folder is missing, or
/// PYTHONPATH cannot hold its path; the job is recorded without hooks.
std::string python_path();

/// The shared libraries that an ELF program or library needs (DT_NEEDED). Throws ddl::Error if it is not
/// for this machine.
std::vector<std::string> needed_libraries(const std::filesystem::path& path);

/// LD_PRELOAD for a job: the library, then the present value. Throws ddl::Error if LD_PRELOAD cannot hold the path.
std::string preload_value(const std::filesystem::path& library);

}  // namespace ddl::cli
