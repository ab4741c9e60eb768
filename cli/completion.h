// Scripts that complete command lines of ddl and ddl-top in a shell. They hold every verb, option and fixed value; only names of runs and
// files are looked up when the key is pressed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace ddl::cli {

std::string bash_completion(const std::vector<CommandTable>& tables);
std::string zsh_completion(const std::vector<CommandTable>& tables);
std::string fish_completion(const std::vector<CommandTable>& tables);

/// What names the value of an option, for completion. kOther: a number, an expression.
enum class ValueKind { kFixed, kList, kFile, kDirectory, kOther };
ValueKind value_kind(const OptionRow& option);

/// "model" of "model fit", and "fit"; of "record" there is no question.
std::string verb_of(const CommandTable& table);
std::string question_of(const CommandTable& table);

/// The start of an option's text, up to what a menu has room for.
std::string short_text(std::string_view text);

}  // namespace ddl::cli
