#include <fmt/format.h>

#include "cli/completion.h"
#include "cli/verbs.h"

namespace ddl::cli {
namespace {

constexpr std::string_view kFishHead = R"(# Completion of ddl and ddl-top for fish, written by: ddl completion fish

function __ddl_is  # the command line begins with these words
    set -l typed (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $typed) -ge $last; and test "$typed[2..$last]" = "$argv"
end

function __ddl_next_is  # ... and nothing stands behind them yet
    set -l typed (commandline -opc)
    test (count $typed) -eq (math 1 + (count $argv)); and __ddl_is $argv
end

function __ddl_no_verb
    test (count (commandline -opc)) -eq 1
end

function __ddl_runs  # run directories, and directories on the way to them
    __fish_complete_directories (commandline -ct) run
end

function __ddl_list  # words with commas between: the last one
    set -l before (string match -r '.*,' -- (commandline -ct))
    for word in $argv
        echo "$before$word"
    end
end

complete -c ddl -f
complete -c ddl-top -f
complete -c ddl -n __ddl_no_verb -s h -l help -d 'what verbs there are'
complete -c ddl -n __ddl_no_verb -s V -l version -d 'print the version'
)";

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string values_of(const OptionRow& option) {
  const std::string names = fmt::format("{}", fmt::join(option.values, " "));
  switch (value_kind(option)) {
    case ValueKind::kFixed:
      return fmt::format(" -x -a {}", fish_quoted(names));
    case ValueKind::kList:
      return fmt::format(" -x -a {}", fish_quoted(fmt::format("(__ddl_list {})", names)));
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kDirectory:
      return " -x -a '(__fish_complete_directories (commandline -ct))'";
    case ValueKind::kOther:
      break;
  }
  return " -x";
}

/// Options before the command of a job that take the word behind them.
std::string with_values(const CommandTable& table) {
  std::string out;
  for (const OptionRow& option : table.options) {
    if (option.argument.empty()) continue;
    if (!option.letter.empty()) out += " -" + option.letter;
    out += " --" + option.name;
  }
  return out;
}

/// `condition`: "-n ..." or nothing.
std::string lines_of(const CommandTable& table, std::string_view program, const std::string& condition) {
  const std::string start = fmt::format("complete -c {}{}", program, condition);
  std::string out;
  for (const OptionRow& option : table.options) {
    out += fmt::format("{}{} -l {}", start, option.letter.empty() ? "" : " -s " + option.letter, option.name);
    if (!option.argument.empty()) out += values_of(option);
    out += fmt::format(" -d {}\n", fish_quoted(short_text(option.text)));
  }
  if (!table.names.empty()) out += fmt::format("{} -a {}\n", start, fish_quoted(fmt::format("{}", fmt::join(table.names, " "))));
  switch (table.words) {
    case WordKind::kCommand:
      return out + fmt::format("{} -a '(__fish_complete_subcommand --fcs-skip=2{})'\n", start, with_values(table));
    case WordKind::kFile:
      return out + start + " -F\n";
    case WordKind::kRunOrTable:
      return out + start + " -F\n";
    case WordKind::kRun:
      return table.most_words == 0 ? out : out + fmt::format("{} -a '(__ddl_runs)'\n", start);
    case WordKind::kName:
      break;
  }
  return out;
}

}  // namespace

std::string fish_completion(const std::vector<CommandTable>& tables) {
  std::string out(kFishHead);
  for (const Verb& verb : verbs()) {
    out += fmt::format("complete -c ddl -n __ddl_no_verb -a {} -d {}\n", verb.name, fish_quoted(verb.summary));
    if (verb.questions != nullptr)
      out += fmt::format("complete -c ddl -n '__ddl_next_is {}' -a {}\n", verb.name,
                         fish_quoted(fmt::format("{}", fmt::join(verb.questions(), " "))));
  }
  for (const CommandTable& table : tables) {
    out += lines_of(table, "ddl", fmt::format(" -n '__ddl_is {}'", table.verb));
    if (table.verb == "top") out += lines_of(table, "ddl-top", "");
  }
  return out;
}

}  // namespace ddl::cli
