// Which MPI a job uses, which decides between our libraries.
#pragma once

#include <string>
#include <vector>

namespace ddl::cli {

enum class Flavour { kOpenMpi, kMpich };  ///< kMpich: its ABI, which Intel MPI, MVAPICH and Cray MPI share

/// The first program in the command that is linked to an MPI library decides; if none is (Python, scripts), the
/// launcher's own --version; if that is inconclusive, Open MPI.
Flavour flavour_of(const std::vector<std::string>& command);

/// True if command[0] is a launcher of MPICH or a relative.
bool is_mpich_launcher(const std::vector<std::string>& command);

/// Parameters of its collectives, as `ompi_info --parsable` prints them; empty if it fails.
std::string openmpi_parameters();

}  // namespace ddl::cli
