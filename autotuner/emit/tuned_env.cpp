#include "autotuner/emit/format.h"

namespace ddl::tune {

Content emit_tuned_env(const Emission& emission, const Format&) {
  const std::string taken_away = shell_unset(emission, "");
  if (emission.environment.empty())
    return {taken_away, !taken_away.empty(), taken_away.empty() ? "no variables to set" : ""};
  std::string unset = "# unset", forwarded;
  for (const auto& [name, value] : emission.environment) {
    unset += " " + name;
    if (!name.starts_with("OMPI_MCA_")) forwarded += " -x " + name;
  }
  std::string text = unset + "\n";
  if (!forwarded.empty())
    text += "# Open MPI's mpirun takes OMPI_MCA_ variables to other nodes by itself, these only so:\n# mpirun" +
            forwarded + "\n";
  return {text + taken_away + shell_assignments(emission.environment), true, ""};
}

}  // namespace ddl::tune
