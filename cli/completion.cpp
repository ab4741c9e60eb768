// ddl completion: prints the script for a shell.
#include "cli/completion.h"

#include <fmt/format.h>

#include "cli/command_tables.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {

ValueKind value_kind(const OptionRow& option) {
  if (!option.values.empty()) return option.list ? ValueKind::kList : ValueKind::kFixed;
  if (option.argument == "FILE") return ValueKind::kFile;
  return option.argument == "DIR" || option.argument == "NAME.ddl" ? ValueKind::kDirectory : ValueKind::kOther;
}

std::string verb_of(const CommandTable& table) { return table.verb.substr(0, table.verb.find(' ')); }

std::string question_of(const CommandTable& table) {
  const size_t space = table.verb.find(' ');
  return space == std::string::npos ? "" : table.verb.substr(space + 1);
}

std::string short_text(std::string_view text) {
  constexpr size_t kMost = 70;
  text = text.substr(0, text.find('\n'));
  if (text.size() <= kMost) return std::string(text);
  const size_t space = text.rfind(' ', kMost);
  return std::string(text.substr(0, space == std::string_view::npos ? kMost : space)) + " ...";
}

int run_completion(const Arguments& arguments) {
  VerbOptions options({.verb = "completion",
                       .usage = "bash|zsh|fish",
                       .text = "Prints a script that completes verbs, options, their values and run directories of ddl and ddl-top.\n"
                               "cmake --install puts them where the shells look.",
                       .example = "  ddl completion zsh > ~/.zfunc/_ddl                            # with ~/.zfunc in fpath\n"
                                  "  source <(ddl completion bash)                                 # in ~/.bashrc\n"
                                  "  ddl completion fish > ~/.config/fish/completions/ddl.fish"});
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  options.allow_words(1, WordKind::kName, shells);
  if (!options.parse(arguments)) return 0;
  if (options.words().empty()) throw Error("no shell given", "ddl completion SHELL: bash, zsh or fish", ExitCode::kUsage);
  const std::string& shell = options.words()[0];
  const std::vector<CommandTable> tables = command_tables();
  if (shell == "bash") {
    print_out(bash_completion(tables));
  } else if (shell == "zsh") {
    print_out(zsh_completion(tables));
  } else if (shell == "fish") {
    print_out(fish_completion(tables));
  } else {
    throw Error(fmt::format("unknown shell '{}'", shell), did_you_mean(shell, shells, "bash, zsh or fish"), ExitCode::kUsage);
  }
  return 0;
}

}  // namespace ddl::cli
