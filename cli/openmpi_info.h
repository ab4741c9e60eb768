// What the Open MPI of this machine says of itself.
#pragma once

#include <string>

namespace ddl::cli {

/// Parameters of its collectives, as `ompi_info --parsable` prints them; empty if it cannot be asked.
std::string openmpi_parameters();

}  // namespace ddl::cli
