#include "cli/command_tables.h"

#include <fmt/format.h>

#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {

std::vector<CommandTable> command_tables() {
  HelpReader reader;
  for (const Verb& verb : verbs()) {
    if (verb.questions == nullptr) {
      verb.run({"--help"});
    } else {
      for (const std::string& question : verb.questions()) verb.run({question, "--help"});
    }
  }
  return std::move(reader.tables);
}

CommandTable command_table(std::string_view verb) {
  for (CommandTable& table : command_tables())
    if (table.verb == verb) return std::move(table);
  throw Error(fmt::format("no command '{}'", verb));
}

}  // namespace ddl::cli
