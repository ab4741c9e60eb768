// The manual pages, for man(1), from what --help says.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace ddl::cli {

/// Text of ddl(1): all commands.
std::string ddl_manual(const std::vector<CommandTable>& tables);
/// Text of ddl-top(1): its options and keys.
std::string ddl_top_manual(const CommandTable& top);

}  // namespace ddl::cli
