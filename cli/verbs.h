// The table of verbs. To add one: a file with its function, and a row in verbs.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options.h"

namespace ddl::cli {

using Arguments = std::vector<std::string>;

struct Verb {
  const char* name;
  const char* summary;                                ///< for `ddl --help`
  int (*run)(const Arguments& arguments);             ///< returns the exit code; throws ddl::Error
  std::vector<std::string> (*questions)() = nullptr;  ///< of verbs whose first word has options of its own
};

std::span<const Verb> verbs();

/// Its declared options; `question`: for verbs that have several.
CommandTable command_table(const Verb& verb, const std::string& question = "");

/// Tables of all commands in the order of `ddl --help`; a verb with several questions has one for each ("model fit").
std::vector<CommandTable> command_tables();

int run_record(const Arguments& arguments);
int run_report(const Arguments& arguments);
int run_query(const Arguments& arguments);
int run_analyze(const Arguments& arguments);
int run_merge(const Arguments& arguments);
int run_model(const Arguments& arguments);
int run_diff(const Arguments& arguments);
int run_goodput(const Arguments& arguments);
int run_history(const Arguments& arguments);
std::vector<std::string> history_questions();
int run_scaling(const Arguments& arguments);
int run_tune(const Arguments& arguments);
int run_import(const Arguments& arguments);
int run_export(const Arguments& arguments);
int run_top(const Arguments& arguments);
int run_collect(const Arguments& arguments);
int run_mcp(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_completion(const Arguments& arguments);
int run_complete(const Arguments& typed);  ///< `ddl __complete`, used by the scripts of `ddl completion`
int run_manual(const Arguments& arguments);

/// `ddl ARGUMENTS`, all but main(): finds the verb, prints errors and hints, returns the exit code.
int run_ddl(const Arguments& arguments);

}  // namespace ddl::cli
