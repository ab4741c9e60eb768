#include "autotuner/emit/format.h"

namespace ddl::tune {

Content emit_mpich_env(const Emission& emission, const Format&) {
  const Variables variables = with_prefix(emission.environment, "MPIR_CVAR_");
  const std::string unset = shell_unset(emission, "MPIR_CVAR_");
  if (variables.empty() && unset.empty()) return {"", false, "parameters of MPICH stay as they are"};
  return {unset + shell_assignments(variables), true, ""};
}

}  // namespace ddl::tune
