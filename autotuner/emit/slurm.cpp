#include <fmt/format.h>

#include "autotuner/emit/format.h"
#include "store/text.h"

namespace ddl::tune {

Content emit_slurm(const Emission& emission, const Format&) {
  const Tuned& tuned = emission.tuned;
  const std::string command = typed(tuned.tuned_command);
  Content content;
  content.changes = !emission.environment.empty() || !tuned.unset.empty();
  if (content.changes) {
    content.text = fmt::format("set -a\n. {}\nset +a\n", shell_quoted((emission.directory / "tuned.env").string()));
    content.text +=
        "# Not by srun --export=NAME=value: it does not replace what is set already, and cannot hold commas.\n";
  } else {
    content.note = "no variables to set";
  }
  // A comment ends with its line, a quoted argument need not.
  if (!command.empty() && tuned.gain) content.text += "# the tuned command:\n#   " + clean_text(command) + "\n";
  return content;
}

}  // namespace ddl::tune
