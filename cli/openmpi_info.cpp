#include "cli/openmpi_info.h"

#include "cli/process.h"

namespace ddl::cli {

std::string openmpi_parameters() {
  return run_and_capture({"ompi_info", "--param", "coll", "tuned", "--level", "9", "--parsable"}).output +
         run_and_capture({"ompi_info", "--param", "coll", "libnbc", "--level", "9", "--parsable"}).output;
}

}  // namespace ddl::cli
