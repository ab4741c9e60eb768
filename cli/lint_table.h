// What tables of results do not say (analyzer/results_lint.h), for the verbs that print such tables.
#pragma once

#include <vector>

#include "analyzer/results_lint.h"
#include "cli/options.h"
#include "reports/document.h"

namespace ddl::cli {

/// --state KEY=VALUE,KEY=VALUE. Throws ddl::Error (usage) for a key that no rule knows.
Stated stated_by_user(const VerbOptions& options);

/// `rows` with what the user states in place of what is known otherwise.
reports::Table lint_table(std::vector<Stated> rows, const Stated& by_user);

/// Lines of a --help text, one for each key.
std::string lint_help();

}  // namespace ddl::cli
