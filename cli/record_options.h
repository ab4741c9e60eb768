// What `ddl record` was asked to do, as the environment of the job.
#pragma once

#include <string>
#include <vector>

#include "cli/mpirun.h"

namespace ddl::cli {

struct RecordOptions {
  bool help = false;                 ///< --help has been printed
  std::string directory;             ///< -o; empty: default name
  std::vector<std::string> command;  ///< never empty unless help
  Settings window;                   ///< DDL_STEPS, DDL_AFTER, ...: only what was given
};

RecordOptions parse_record_options(const std::vector<std::string>& arguments);

}  // namespace ddl::cli
