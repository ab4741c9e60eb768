#include "autotuner/emit/format.h"

namespace ddl::tune {

Content emit_tuned_env(const Emission& emission, const Format&) {
  if (emission.environment.empty()) return {"", false, "no variables to set"};
  std::string unset = "# unset";
  for (const auto& [name, value] : emission.environment) unset += " " + name;
  return {unset + "\n" + shell_assignments(emission.environment), true, ""};
}

}  // namespace ddl::tune
