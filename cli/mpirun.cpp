#include "cli/mpirun.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/process.h"

namespace ddl::cli {
namespace {

constexpr std::string_view kEnvList = "mca_base_env_list";

std::string names_for_list(const Settings& settings) {
  std::string names;
  for (const auto& [name, value] : settings) names += ";" + name;
  return names;
}

}  // namespace

bool is_open_mpi_launcher(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string name = command[0].substr(command[0].rfind('/') + 1);
  constexpr std::array<std::string_view, 6> kNames = {"mpirun", "mpiexec", "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) return false;
  const Captured version = run_and_capture({command[0], "--version"});
  return version.output.find("Open MPI") != std::string::npos || version.output.find("OpenRTE") != std::string::npos ||
         version.output.find("prterun") != std::string::npos || version.output.find("PRRTE") != std::string::npos;
}

std::vector<std::string> forward_settings(std::vector<std::string> command, const Settings& settings) {
  const auto preload = std::find_if(settings.begin(), settings.end(), [](const auto& setting) { return setting.first == "LD_PRELOAD"; });
  // The user's own.
  for (size_t i = 1; i + 1 < command.size(); ++i) {
    if (command[i] == "-x" && command[i + 1].starts_with("LD_PRELOAD=") && preload != settings.end()) {
      const std::string theirs = command[i + 1].substr(std::string_view("LD_PRELOAD=").size());
      command[i + 1] = "LD_PRELOAD=" + preload->second + (theirs.empty() ? "" : ":" + theirs);
    }
    if (command[i] == kEnvList && command[i - 1].ends_with("mca")) {
      command[i + 1] += names_for_list(settings);
      return command;
    }
  }

  std::vector<std::string> options;
  for (const auto& [name, value] : settings) options.insert(options.end(), {"-x", name});
  std::vector<std::string> result = {command[0]};
  result.insert(result.end(), options.begin(), options.end());
  for (size_t i = 1; i < command.size(); ++i) {
    result.push_back(command[i]);
    if (command[i] == ":") result.insert(result.end(), options.begin(), options.end());
  }
  return result;
}

}  // namespace ddl::cli
