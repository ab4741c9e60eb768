#include "autotuner/emit/format.h"

namespace ddl::tune {

Variables horovod_variables(const Emission& emission) {
  Variables variables = with_prefix(emission.environment, "HOROVOD_");
  if (emission.tuned.bucket_bytes && with_prefix(variables, kHorovodFusion).empty())
    variables.emplace_back(kHorovodFusion, std::to_string(*emission.tuned.bucket_bytes));
  return variables;
}

Content emit_horovod_env(const Emission& emission, const Format&) {
  const Variables variables = horovod_variables(emission);
  const std::string unset = shell_unset(emission, "HOROVOD_");
  if (variables.empty() && unset.empty()) return {"", false, "Horovod's fusion stays as it is"};
  const bool is_translated = emission.tuned.bucket_bytes && !emission.environment_has(kHorovodFusion);
  return {unset + shell_assignments(variables), true, is_translated ? kBucketTranslated : ""};
}

}  // namespace ddl::tune
