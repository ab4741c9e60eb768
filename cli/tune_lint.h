// What is known of how the numbers of a tuning were got, for the lint of results: two rows, the default and what won.
#pragma once

#include <vector>

#include "analyzer/results_lint.h"
#include "cli/tune.h"

namespace ddl::cli {

/// `machine`: in words. One row where the default stays.
std::vector<Stated> stated_of(const Tuning& tuning, const std::string& machine);

}  // namespace ddl::cli
