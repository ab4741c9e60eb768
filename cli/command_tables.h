// What every command of ddl takes, collected from the verbs themselves: for the manual, the completion of shells, and the test that reads
// the command lines of the documentation.
#pragma once

#include <string_view>
#include <vector>

#include "cli/options.h"

namespace ddl::cli {

/// In the order of `ddl --help`; a verb of several questions has one table for each ("model fit").
std::vector<CommandTable> command_tables();

/// That of one command. Throws ddl::Error if there is none.
CommandTable command_table(std::string_view verb);

}  // namespace ddl::cli
