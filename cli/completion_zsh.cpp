#include <fmt/format.h>

#include <algorithm>

#include "cli/completion.h"
#include "cli/verbs.h"
#include "store/text.h"

namespace ddl::cli {
namespace {

constexpr std::string_view kZshHead = R"(#compdef ddl ddl-top
# Completion of ddl and ddl-top for zsh, written by: ddl completion zsh

_ddl_runs() { _files -g '*.(ddl|sqlite)(-/,-.)' "$@"; }

)";

/// Inside of an _arguments specification: brackets and colons mean something there.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string value_part(const OptionRow& option) {
  const std::string message = fmt::format(":{}:", escaped(option.argument));
  switch (value_kind(option)) {
    case ValueKind::kFixed:
      return message + fmt::format("({})", fmt::join(option.values, " "));
    case ValueKind::kList:
      return message + fmt::format("_values -s , {} {}", option.argument, fmt::join(option.values, " "));
    case ValueKind::kFile:
      return message + "_files";
    case ValueKind::kDirectory:
      return message + "_files -/";
    case ValueKind::kOther:
      break;
  }
  return message + " ";
}

std::string option_lines(const OptionRow& option) {
  const bool takes = !option.argument.empty();
  const std::string text = fmt::format("[{}]{}", escaped(short_text(option.text)), takes ? value_part(option) : "");
  if (option.letter.empty()) return fmt::format("    {}", shell_quoted(fmt::format("--{}{}{}", option.name, takes ? "=" : "", text)));
  return fmt::format("    '(-{0} --{1})'{{-{0}{2},--{1}{3}}}{4}", option.letter, option.name, takes ? "+" : "", takes ? "=" : "",
                     shell_quoted(text));
}

std::string word_lines(const CommandTable& table) {
  const std::string names = fmt::format("{}", fmt::join(table.names, " "));
  const std::string given = table.names.empty() ? "" : fmt::format("word:({})", names);
  switch (table.words) {
    case WordKind::kCommand:
      return " \\\n    '(-)1:command: _command_names -e' \\\n    '*::argument: _normal'";
    case WordKind::kName:
      return fmt::format(" \\\n    '1:{}'", given);
    case WordKind::kFile:
      return (given.empty() ? "" : fmt::format(" \\\n    '1:{}'", given)) + " \\\n    '*:file:_files'";
    case WordKind::kRunOrTable:
      return " \\\n    '*:run or table:_files -g \"*.(ddl|csv)\"'";
    case WordKind::kRun:
      break;
  }
  if (table.most_words == 0) return "";
  if (given.empty()) return " \\\n    '*:run:_ddl_runs'";
  return fmt::format(" \\\n    '*:run or word:{{ _alternative \"words:word:({})\" \"runs:run:_ddl_runs\" }}'", names);
}

std::string function_name(const CommandTable& table) {
  std::string name = "_ddl_" + table.verb;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::string described(std::string_view name, std::string_view text) {
  std::string out;
  for (const char c : text) out += c == ':' ? std::string("\\:") : std::string(1, c);
  return shell_quoted(fmt::format("{}:{}", name, out));
}

}  // namespace

std::string zsh_completion(const std::vector<CommandTable>& tables) {
  std::string out(kZshHead), verb_list, cases;
  for (const CommandTable& table : tables) {
    std::vector<std::string> options;
    for (const OptionRow& option : table.options) options.push_back(option_lines(option));
    out +=
        fmt::format("{}() {{\n  _arguments -s -S \\\n{}{}\n}}\n\n", function_name(table), fmt::join(options, " \\\n"), word_lines(table));
  }
  for (const Verb& verb : verbs()) {
    verb_list += fmt::format("    {}\n", described(verb.name, verb.summary));
    if (verb.questions == nullptr) {
      cases += fmt::format("        {0}) _ddl_{0} ;;\n", verb.name);
      continue;
    }
    cases += fmt::format(
        "        {0})\n          if ((CURRENT == 2)); then\n            _values question {1}\n          else\n"
        "            shift words\n            ((CURRENT--))\n            (( $+functions[_ddl_{0}_$words[1]] )) && _ddl_{0}_$words[1]\n          fi\n"
        "          ;;\n",
        verb.name, fmt::join(verb.questions(), " "));
  }
  return out + fmt::format(R"(_ddl() {{
  if [[ $service == ddl-top ]]; then
    _ddl_top
    return
  fi
  local curcontext=$curcontext context state state_descr line
  local -a verbs=(
{})
  _arguments -C '(- *)'{{-h,--help}}'[what verbs there are]' '(- *)'{{-V,--version}}'[print the version]' '1:verb:->verb' '*::argument:->argument'
  case $state in
    verb) _describe verb verbs ;;
    argument)
      case $words[1] in
{}      esac
      ;;
  esac
}}

# Autoloaded from fpath this file is the function; sourced it defines it.
if [[ $funcstack[1] == _ddl ]]; then
  _ddl "$@"
else
  compdef _ddl ddl ddl-top
fi
)",
                           verb_list, cases);
}

}  // namespace ddl::cli
