// The lint of result tables (analyzer/results_lint.h), for verbs that print such tables.
#pragma once

#include <vector>

#include "analyzer/results_lint.h"
#include "cli/options.h"
#include "reports/document.h"

namespace ddl::cli {

/// --state KEY=VALUE,KEY=VALUE. Throws ddl::Error (usage) for an unknown key.
Stated stated_by_user(const VerbOptions& options);

/// `rows`, overridden by the user's statements.
reports::Table lint_table(std::vector<Stated> rows, const Stated& by_user);

/// Lines of --help, one for each key.
std::string lint_help();

}  // namespace ddl::cli
