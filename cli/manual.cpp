// ddl manual: prints a page for man(1).
#include <fmt/format.h>

#include "cli/manual_page.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {

int run_manual(const Arguments& arguments) {
  VerbOptions options({.verb = "manual",
                       .usage = "[ddl|ddl-top]",
                       .text =
                           "Prints the manual page of a program, all verbs with their options, as man(1) reads it. cmake --install puts\n"
                           "both pages where man finds them.",
                       .example = "  ddl manual | man -l -\n"
                                  "  ddl manual ddl-top | man -l -"});
  const std::vector<std::string> programs = {"ddl", "ddl-top"};
  options.allow_words(1, WordKind::kName, programs);
  if (!options.parse(arguments)) return 0;
  const std::string program = options.words().empty() ? "ddl" : options.words()[0];
  if (program == "ddl") {
    print_out(ddl_manual(command_tables()));
  } else if (program == "ddl-top") {
    print_out(ddl_top_manual(command_table({"top", "", run_top})));
  } else {
    throw Error(fmt::format("no manual page for '{}'", program), did_you_mean(program, programs, "ddl or ddl-top"), ExitCode::kUsage);
  }
  return 0;
}

}  // namespace ddl::cli
