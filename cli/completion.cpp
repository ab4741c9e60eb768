// Completion in a shell: its script asks `ddl __complete` what fits at the end of the line typed so far, so that all
// three shells offer the same.
//
// The answer, a line each: "WORD", "WORD<tab>what it is", or what the shell finds itself: ":files", ":dirs",
// ":runs", ":tables" (runs or files), ":command N" (the line from word N on is another command's); ":nospace": more
// may follow the word.
#include <fmt/format.h>

#include <algorithm>

#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

// Nothing of the package bash-completion is needed; where it is there, the command of `ddl record` is completed as that
// command would be.
constexpr std::string_view kBash = R"(# Completion of ddl and ddl-top for bash, written by: ddl completion bash

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

_ddl() {
  local cur=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\~\//$HOME/} word
  COMPREPLY=()
  [[ $cur == = ]] && cur=  # --color=auto comes as three words
  while IFS=$'\t' read -r word _; do
    case $word in
      :nospace) compopt -o nospace ;;
      :files) _ddl_paths -f ;;
      :dirs) _ddl_paths -d ;;
      :runs) _ddl_runs ;;
      :tables) _ddl_runs && _ddl_paths -f -X '!*.csv' ;;
      :command*) _ddl_job "${word#* }" ;;
      *) COMPREPLY+=("$word") ;;
    esac
  done < <("${program%-top}" __complete "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
}

complete -F _ddl ddl ddl-top
)";

constexpr std::string_view kZsh = R"(#compdef ddl ddl-top
# Completion of ddl and ddl-top for zsh, written by: ddl completion zsh

_ddl() {
  local word program=${words[1]/#\~\//$HOME/}
  local -a offered space
  for word in "${(@f)$("${program%-top}" __complete "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
    case $word in
      :nospace) space=(-S '') ;;
      :files) _files ;;
      :dirs) _files -/ ;;
      :runs) _files -g '*.(ddl|sqlite)(-/,-.)' ;;
      :tables) _files -g '*.(ddl|csv)' ;;
      :command*)
        shift ${word#* } words
        ((CURRENT -= ${word#* }))
        _normal
        ;;
      ?*) offered+=("${${word//:/\\:}/$'\t'/:}") ;;
    esac
  done
  ((!$#offered)) || _describe word offered "${space[@]}"
}

# Autoloaded from fpath this file is the function; sourced it defines it.
if [[ $funcstack[1] == _ddl ]]; then
  _ddl "$@"
else
  compdef _ddl ddl ddl-top
fi
)";

constexpr std::string_view kFish = R"(# Completion of ddl and ddl-top for fish, written by: ddl completion fish

function __ddl_complete
    set -l typed (commandline -opc) (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $typed[1] | string replace -r -- '-top$' '')
    for word in ($program __complete $typed 2>/dev/null)
        switch $word
            case ':nospace'
            case ':files' ':tables'
                __fish_complete_path (commandline -ct)
            case ':dirs'
                __fish_complete_directories (commandline -ct)
            case ':runs' # and directories on the way to them
                __fish_complete_directories (commandline -ct) run
            case ':command *'
                set -l first (math 1 + (string split ' ' -- $word)[2])
                complete -C (string join ' ' -- (string escape -- $typed[$first..-2]) (commandline -ct))
            case '*'
                echo $word
        end
    end
end

complete -c ddl -f -a '(__ddl_complete)'
complete -c ddl-top -f -a '(__ddl_complete)'
)";

/// The start of a text, up to what a menu has room for.
std::string short_text(std::string_view text) {
  constexpr size_t kMost = 70;
  text = text.substr(0, text.find('\n'));
  if (text.size() <= kMost) return std::string(text);
  const size_t space = text.rfind(' ', kMost);
  return std::string(text.substr(0, space == std::string_view::npos ? kMost : space)) + " ...";
}

/// What completes the last word of a command line.
class Offers {
 public:
  explicit Offers(std::string_view typed) : typed_(typed) {}

  void word(std::string_view word, std::string_view text = "") {
    if (word.starts_with(typed_))
      out_ += fmt::format("{}{}{}{}\n", before_, word, text.empty() ? "" : "\t", short_text(text));
  }
  void words(const std::vector<std::string>& words) {
    for (const std::string& one : words) word(one);
  }
  void ask_shell(std::string_view what) { out_ += fmt::format("{}\n", what); }

  /// From here on what was typed up to `last` stays as it is.
  void behind(char last) {
    if (const size_t end = typed_.rfind(last) + 1; end != 0)
      before_ += typed_.substr(0, end), typed_.remove_prefix(end);
  }
  void value_of(const OptionRow& option) {
    if (option.list) behind(','), ask_shell(":nospace");
    words(option.values);
    if (!option.values.empty()) return;
    if (option.argument == "FILE") ask_shell(":files");
    if (option.argument == "DIR" || option.argument == "NAME.ddl") ask_shell(":dirs");
  }
  const std::string& text() const { return out_; }

 private:
  std::string_view typed_;
  std::string before_, out_;
};

const OptionRow* option_named(const CommandTable& table, std::string_view word) {
  for (const OptionRow& option : table.options)
    if (word == "--" + option.name || (!option.letter.empty() && word == "-" + option.letter)) return &option;
  return nullptr;
}

/// `line` from its word `at` on is what `table` takes.
void offer(const CommandTable& table, const Arguments& line, size_t at, Offers& offers) {
  const size_t last = line.size() - 1;
  const bool runs_command = table.words == WordKind::kCommand;
  bool named = false;
  for (; at < last; ++at) {
    const std::string& word = line[at];
    if (runs_command && (word == "--" || !word.starts_with('-')))
      return offers.ask_shell(fmt::format(":command {}", at + (word == "--")));
    if (word == "--") return;
    if (const OptionRow* option = option_named(table, word); option != nullptr && !option->argument.empty()) {
      if (line[at + 1] == "=") ++at;  // bash's three words of --color=auto
      if (at + 1 >= last) return offers.value_of(*option);
      ++at;
    } else if (!word.starts_with('-')) {
      named = named || std::find(table.names.begin(), table.names.end(), word) != table.names.end();
    }
  }
  const std::string& typed = line[last];
  if (const size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    offers.behind('=');
    if (const OptionRow* option = option_named(table, typed.substr(0, equals))) offers.value_of(*option);
  } else if (typed.starts_with('-')) {
    for (const OptionRow& option : table.options) {
      offers.word("--" + option.name, option.text);
      if (!option.letter.empty()) offers.word("-" + option.letter, option.text);
    }
  } else if (runs_command) {
    offers.ask_shell(fmt::format(":command {}", last));
  } else {
    if (!named) offers.words(table.names);
    if (table.words == WordKind::kRun && table.most_words > 0) offers.ask_shell(":runs");
    if (table.words == WordKind::kRunOrTable) offers.ask_shell(":tables");
    if (table.words == WordKind::kFile && (named || table.names.empty())) offers.ask_shell(":files");
  }
}

}  // namespace

int run_complete(const Arguments& typed) {
  Arguments line = typed;
  if (line.empty()) return 0;
  if (line[0].ends_with("ddl-top")) line[0] = "ddl", line.insert(line.begin() + 1, "top");
  if (line.size() < 2) return 0;
  Offers offers(line.back() == "=" ? std::string_view() : line.back());
  const auto verb = std::find_if(verbs().begin(), verbs().end(), [&](const Verb& one) { return line[1] == one.name; });
  if (line.size() == 2) {
    for (const Verb& one : verbs()) offers.word(one.name, one.summary);
    offers.words({"--help", "--version"});
  } else if (verb != verbs().end() && verb->questions == nullptr) {
    offer(command_table(*verb), line, 2, offers);
  } else if (verb != verbs().end()) {
    const std::vector<std::string> questions = verb->questions();
    if (line.size() == 3) {
      offers.words(questions);
      offers.word("--help");
    } else if (std::find(questions.begin(), questions.end(), line[2]) != questions.end()) {
      offer(command_table(*verb, line[2]), line, 3, offers);
    }
  }
  print_out(offers.text());
  return 0;
}

int run_completion(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "completion",
       .usage = "bash|zsh|fish",
       .text = "Prints a script that completes verbs, options, their values and run directories of ddl and ddl-top.\n"
               "cmake --install puts them where the shells look.",
       .example = "  ddl completion zsh > ~/.zfunc/_ddl                            # with ~/.zfunc in fpath\n"
                  "  source <(ddl completion bash)                                 # in ~/.bashrc\n"
                  "  ddl completion fish > ~/.config/fish/completions/ddl.fish"});
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  options.allow_words(1, WordKind::kName, shells);
  if (!options.parse(arguments)) return 0;
  if (options.words().empty())
    throw Error("no shell given", "ddl completion SHELL: bash, zsh or fish", ExitCode::kUsage);
  const std::string& shell = options.words()[0];
  if (std::find(shells.begin(), shells.end(), shell) == shells.end())
    throw Error(fmt::format("unknown shell '{}'", shell), did_you_mean(shell, shells, "bash, zsh or fish"),
                ExitCode::kUsage);
  print_out(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  return 0;
}

}  // namespace ddl::cli
