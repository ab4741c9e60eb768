// Where libddl.so and libddl-mpich.so are, and what they drag into a job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/flavour.h"

namespace ddl::cli {

/// $DDL_LIBRARY, else ../lib/libddl.so or libddl-mpich.so beside this program: the same in the build tree and where it is installed. Throws
/// ddl::Error.
std::filesystem::path find_library(Flavour flavour);

/// A library of ours, by its file's name, ../lib/ beside this program. Throws ddl::Error.
std::filesystem::path find_own_library(const char* name);

/// PYTHONPATH for a job: the folder of python/ddl_hooks first, then what was there. Empty: the folder is not where it should be, or its path cannot be
/// written in PYTHONPATH; the job is recorded without.
std::string python_path();

/// The shared libraries that an ELF program or library asks for (DT_NEEDED). Throws ddl::Error if it is not one for this machine.
std::vector<std::string> needed_libraries(const std::filesystem::path& path);

/// LD_PRELOAD for a job: the library first, then what was there. Throws ddl::Error if the path cannot be written in LD_PRELOAD.
std::string preload_value(const std::filesystem::path& library);

}  // namespace ddl::cli
