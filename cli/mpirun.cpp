#include "cli/mpirun.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/process.h"

namespace ddl::cli {
namespace {

// Options of Open MPI's launcher by how many words follow them; with one dash or two.
constexpr std::pair<std::string_view, int> kOptions[] = {
    {"c", 1},
    {"n", 1},
    {"np", 1},
    {"N", 1},
    {"npernode", 1},
    {"ppn", 1},
    {"H", 1},
    {"host", 1},
    {"hostfile", 1},
    {"machinefile", 1},
    {"default-hostfile", 1},
    {"rf", 1},
    {"rankfile", 1},
    {"map-by", 1},
    {"rank-by", 1},
    {"bind-to", 1},
    {"cpus-per-proc", 1},
    {"cpus-per-rank", 1},
    {"cpu-set", 1},
    {"cpu-list", 1},
    {"mca", 2},
    {"gmca", 2},
    {"prtemca", 2},
    {"pmixmca", 2},
    {"am", 1},
    {"tune", 1},
    {"x", 1},
    {"wd", 1},
    {"wdir", 1},
    {"prefix", 1},
    {"path", 1},
    {"timeout", 1},
    {"stdin", 1},
    {"output-filename", 1},
    {"output", 1},
    {"personality", 1},
    {"oversubscribe", 0},
    {"nooversubscribe", 0},
    {"use-hwthread-cpus", 0},
    {"report-bindings", 0},
    {"tag-output", 0},
    {"timestamp-output", 0},
    {"allow-run-as-root", 0},
    {"display-map", 0},
    {"display-allocation", 0},
    {"bynode", 0},
    {"byslot", 0},
    {"bind-to-none", 0},
    {"bind-to-core", 0},
    {"q", 0},
    {"quiet", 0},
    {"v", 0},
    {"verbose", 0},
    {"nolocal", 0},
    {"merge-stderr-to-stdout", 0},
};

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
  constexpr std::array<std::string_view, 6> kNames = {"mpirun",  "mpiexec",        "orterun",
                                                      "prterun", "mpirun.openmpi", "mpiexec.openmpi"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) return false;
  const Captured version = run_and_capture({command[0], "--version"});
  return version.output.find("Open MPI") != std::string::npos || version.output.find("OpenRTE") != std::string::npos ||
         version.output.find("prterun") != std::string::npos || version.output.find("PRRTE") != std::string::npos;
}

std::vector<std::string> forward_settings(std::vector<std::string> command, const Settings& settings) {
  // The user's own.
  for (size_t i = 1; i + 1 < command.size(); ++i) {
    for (const auto& [name, value] : settings) {
      if (command[i] != "-x" || (name != "LD_PRELOAD" && name != "PYTHONPATH") ||
          !command[i + 1].starts_with(name + "="))
        continue;
      const std::string theirs = command[i + 1].substr(name.size() + 1);
      command[i + 1] = name + "=" + value + (theirs.empty() ? "" : ":" + theirs);
      break;
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

std::optional<size_t> program_of(const std::vector<std::string>& command) {
  if (std::find(command.begin(), command.end(), ":") != command.end()) return std::nullopt;
  for (size_t i = 1; i < command.size(); ++i) {
    if (!command[i].starts_with('-')) return i;
    const std::string_view name = std::string_view(command[i]).substr(command[i].starts_with("--") ? 2 : 1);
    const auto option =
        std::find_if(std::begin(kOptions), std::end(kOptions), [&](const auto& row) { return row.first == name; });
    if (option == std::end(kOptions)) return std::nullopt;
    i += static_cast<size_t>(option->second);
  }
  return std::nullopt;
}

}  // namespace ddl::cli
