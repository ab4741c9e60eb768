#include "cli/flavour.h"

#include <filesystem>
#include <optional>
#include <string_view>

#include "cli/library.h"
#include "cli/process.h"
#include "core/error.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

std::optional<Flavour> linked_to(const fs::path& file) {
  try {
    for (const std::string& name : needed_libraries(file)) {
      if (name.starts_with("libmpich") || name.starts_with("libmpi.so.12") || name.starts_with("libmpi_intel"))
        return Flavour::kMpich;
      if (name.starts_with("libmpi.so") || name.starts_with("libmpi_mpifh") || name.starts_with("libmpi_usempi"))
        return Flavour::kOpenMpi;
    }
  } catch (const Error&) {  // a script, or for another machine
  }
  return std::nullopt;
}

}  // namespace

bool is_mpich_launcher(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string name = fs::path(command[0]).filename().string();
  if (name.find("mpirun") == std::string::npos && name.find("mpiexec") == std::string::npos) return false;
  const Captured version = run_and_capture({command[0], "--version"});
  for (const std::string_view sign : {"HYDRA", "Intel(R) MPI", "MVAPICH"}) {
    if (version.output.find(sign) != std::string::npos) return true;
  }
  return false;
}

Flavour flavour_of(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    // A path need not be executable here: something before it may start it.
    std::error_code error;
    const bool is_path = word.find('/') != std::string::npos && fs::is_regular_file(word, error);
    const fs::path file = is_path ? fs::path(word) : find_program(word);
    if (file.empty()) continue;
    if (const auto flavour = linked_to(file)) return *flavour;
  }
  return is_mpich_launcher(command) ? Flavour::kMpich : Flavour::kOpenMpi;
}

std::string openmpi_parameters() {
  return run_and_capture({"ompi_info", "--param", "coll", "tuned", "--level", "9", "--parsable"}).output +
         run_and_capture({"ompi_info", "--param", "coll", "libnbc", "--level", "9", "--parsable"}).output;
}

}  // namespace ddl::cli
