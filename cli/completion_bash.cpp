#include <fmt/format.h>

#include <set>

#include "cli/completion.h"
#include "cli/verbs.h"
#include "store/text.h"

namespace ddl::cli {
namespace {

// Nothing of the package bash-completion is needed; where it is there, the command of `ddl record` is completed as that command would be.
constexpr std::string_view kBashHead = R"(# Completion of ddl and ddl-top for bash, written by: ddl completion bash

_ddl_offer() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }

_ddl_offer_list() {  # words with commas between: the last one
  local last=${cur##*,} word
  compopt -o nospace
  for word in $(compgen -W "$1" -- "$last"); do COMPREPLY+=("${cur%"$last"}$word"); done
}

_ddl_paths() {  # what `compgen $@` finds
  local path
  compopt -o filenames
  while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$@" -- "$cur")
}

_ddl_runs() {  # run directories; any directory where there are none
  _ddl_paths -d -X '!*.ddl'
  [[ ${#COMPREPLY[@]} -gt 0 ]] || _ddl_paths -d
}

_ddl_job() {  # the command of `ddl record`, from word $1 on
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    _ddl_paths -c
  else
    _ddl_paths -f
  fi
}

)";

constexpr std::string_view kTail = R"(
_ddl() {
  local cur=${COMP_WORDS[COMP_CWORD]} command=top at=1 words= names= takes= offered= given= option= i
  COMPREPLY=()
  if [[ ${COMP_WORDS[0]##*/} != ddl-top ]]; then
    if ((COMP_CWORD == 1)); then
      _ddl_offer "$_ddl_verbs --help --version"
      return
    fi
    command=${COMP_WORDS[1]} at=2
    _ddl_questions "$command"
    if [[ -n $names ]]; then
      if ((COMP_CWORD == 2)); then
        _ddl_offer "$names --help"
        return
      fi
      command+=" ${COMP_WORDS[2]}" at=3
    fi
  fi
  _ddl_table "$command"
  for ((i = at; i < COMP_CWORD; i++)); do
    option=${COMP_WORDS[i]}
    case $option in
      --)
        [[ $words == command ]] && _ddl_job $((i + 1))
        return
        ;;
      -*)
        [[ " $takes " == *" $option "* ]] || continue
        [[ ${COMP_WORDS[i + 1]} == = ]] && ((i += 1))  # --color=auto comes as three words
        if ((i + 1 >= COMP_CWORD)); then
          [[ $cur == = ]] && cur=
          _ddl_value "$command $option"
          return
        fi
        ((i += 1))
        ;;
      *)
        if [[ $words == command ]]; then
          _ddl_job "$i"
          return
        fi
        [[ " $offered " == *" $option "* ]] && given=$option
        ;;
    esac
  done
  if [[ $cur == -* ]]; then
    _ddl_offer "$names"
  elif [[ $words == command ]]; then
    _ddl_job "$COMP_CWORD"
  else
    [[ -n $given ]] || _ddl_offer "$offered"
    case $words in
      run) _ddl_runs ;;
      table) _ddl_runs && _ddl_paths -f -X '!*.csv' ;;
      file) [[ -z $offered || -n $given ]] && _ddl_paths -f ;;
    esac
  fi
}

complete -F _ddl ddl ddl-top
)";

std::string_view word(WordKind kind) {
  switch (kind) {
    case WordKind::kRun:
      return "run";
    case WordKind::kRunOrTable:
      return "table";
    case WordKind::kFile:
      return "file";
    case WordKind::kName:
      return "name";
    case WordKind::kCommand:
      return "command";
  }
  return "";
}

std::vector<std::string> spellings(const OptionRow& option) {
  std::vector<std::string> all = {"--" + option.name};
  if (!option.letter.empty()) all.push_back("-" + option.letter);
  return all;
}

std::string value_action(const OptionRow& option) {
  switch (value_kind(option)) {
    case ValueKind::kFixed:
      return fmt::format("_ddl_offer {}", shell_quoted(fmt::format("{}", fmt::join(option.values, " "))));
    case ValueKind::kList:
      return fmt::format("_ddl_offer_list {}", shell_quoted(fmt::format("{}", fmt::join(option.values, " "))));
    case ValueKind::kFile:
      return "_ddl_paths -f";
    case ValueKind::kDirectory:
      return "_ddl_paths -d";
    case ValueKind::kOther:
      break;
  }
  return "";
}

}  // namespace

std::string bash_completion(const std::vector<CommandTable>& tables) {
  std::string out(kBashHead), names, questions, options, values;
  for (const Verb& verb : verbs()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", verb.name);
    if (verb.questions != nullptr)
      questions += fmt::format("    {}) names={} ;;\n", verb.name, shell_quoted(fmt::format("{}", fmt::join(verb.questions(), " "))));
  }
  for (const CommandTable& table : tables) {
    std::vector<std::string> all, takes;
    for (const OptionRow& option : table.options) {
      for (const std::string& spelling : spellings(option)) {
        all.push_back(spelling);
        if (!option.argument.empty()) takes.push_back(spelling);
      }
      if (const std::string action = value_action(option); !action.empty()) {
        std::vector<std::string> patterns;
        for (const std::string& spelling : spellings(option)) patterns.push_back(fmt::format("'{} {}'", table.verb, spelling));
        values += fmt::format("    {}) {} ;;\n", fmt::join(patterns, " | "), action);
      }
    }
    options += fmt::format("    '{}')\n      words={} names='{}'\n", table.verb,
                           table.most_words == 0 && table.words != WordKind::kCommand ? "none" : word(table.words), fmt::join(all, " "));
    if (!takes.empty()) options += fmt::format("      takes='{}'\n", fmt::join(takes, " "));
    if (!table.names.empty()) options += fmt::format("      offered='{}'\n", fmt::join(table.names, " "));
    options += "      ;;\n";
  }
  out +=
      fmt::format("_ddl_verbs='{}'\n\n_ddl_questions() {{  # verbs whose first word has options of its own\n  case $1 in\n{}  esac\n}}\n\n",
                  names, questions);
  out += fmt::format("_ddl_table() {{\n  names=\n  case $1 in\n{}  esac\n}}\n\n", options);
  out += fmt::format("_ddl_value() {{\n  case $1 in\n{}  esac\n}}\n", values);
  return out + std::string(kTail);
}

}  // namespace ddl::cli
