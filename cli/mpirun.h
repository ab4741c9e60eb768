// Open MPI's launcher gives its environment to ranks on its own host only; other hosts need an option -x
// for each variable.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddl::cli {

using Settings = std::vector<std::pair<std::string, std::string>>;  ///< names and values, LD_PRELOAD among them

/// True if command[0] is Open MPI's mpirun, mpiexec, orterun or prterun (asked with --version; MPICH's forwards
/// everything by itself).
bool is_open_mpi_launcher(const std::vector<std::string>& command);

/// The command with `-x NAME` for every setting, in each of its programs (separated by ":"). The user's own -x
/// LD_PRELOAD=... and PYTHONPATH=... are merged, since the last one wins; where mca_base_env_list is in use, which Open
/// MPI does not mix with -x, the names are appended to it.
std::vector<std::string> forward_settings(std::vector<std::string> command, const Settings& settings);

/// The program's place in a command of Open MPI's launcher; nothing: an unknown option, or several programs.
std::optional<size_t> program_of(const std::vector<std::string>& command);

}  // namespace ddl::cli
