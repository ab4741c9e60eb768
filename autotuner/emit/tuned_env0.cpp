#include "autotuner/emit/format.h"

namespace ddl::tune {

/// NAME=value, each ended by a NUL: no quoting, any value.
Content emit_tuned_env0(const Emission& emission, const Format&) {
  Content content;
  for (const auto& [name, value] : emission.environment) {
    content.text += name + "=" + value + '\0';
    content.changes = true;
  }
  content.note =
      content.changes
          ? "sbatch gives the job these and its own variables only: the job script has to set PATH, HOME and the like"
          : "no variables to set";
  return content;
}

}  // namespace ddl::tune
