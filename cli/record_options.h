// The options of `ddl record`, as the environment of the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flavour.h"
#include "cli/mpirun.h"
#include "cli/stall_helper.h"

namespace ddl::cli {

struct RecordOptions {
  bool help = false;                 ///< --help has been printed
  std::string directory;             ///< -o; empty: default name
  std::vector<std::string> command;  ///< never empty unless help
  std::optional<Flavour> flavour;    ///< --mpi; else the command decides
  bool python = true;                ///< not --no-python: Python processes of the job get python/ddl_hooks
  bool horovod_timeline = false;     ///< --horovod-timeline: the job's Horovod writes it into the run directory
  StallOptions stall;                ///< --stall, --on-stall
  Settings window;                   ///< DDL_STEPS, DDL_AFTER, ...: those given
};

RecordOptions parse_record_options(const std::vector<std::string>& arguments);

/// The variables by which other libraries find ours, for the collectors in DDL_COLLECTORS of `settings`, else for all.
/// Variables set by the user stay: another tool came first.
void add_injections(const std::string& library, Settings& settings);

}  // namespace ddl::cli
