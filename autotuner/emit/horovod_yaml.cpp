#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "autotuner/emit/format.h"
#include "core/number.h"

namespace ddl::tune {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// Bytes of the variable as the MiB of the YAML file, which takes whole ones only.
std::string mebibytes(const std::string& bytes) {
  const auto value = number_in<int64_t>(bytes);
  return value >= 0 && *value % kMiB == 0 ? std::to_string(*value / kMiB) : "";
}

std::string yaml_number(const std::string& value) {
  const bool good = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos &&
                    value.front() != '.' && value.back() != '.' && std::count(value.begin(), value.end(), '.') <= 1;
  return good ? value : "";
}

/// Horovod takes a variable's number above 0 for yes.
std::string yaml_switch(const std::string& value) {
  const auto number = number_in<int64_t>(value);
  return !number ? "" : *number > 0 ? "true" : "false";
}

struct Key {
  const char *variable, *key;
  std::string (*text)(const std::string&);
};
constexpr Key kKeys[] = {{kHorovodFusion, "fusion_threshold_mb", mebibytes},
                         {"HOROVOD_CYCLE_TIME", "cycle_time_ms", yaml_number},
                         {"HOROVOD_CACHE_CAPACITY", "cache_capacity", yaml_number},
                         {"HOROVOD_HIERARCHICAL_ALLREDUCE", "hierarchical_allreduce", yaml_switch},
                         {"HOROVOD_HIERARCHICAL_ALLGATHER", "hierarchical_allgather", yaml_switch},
                         {"HOROVOD_TORUS_ALLREDUCE", "torus_allreduce", yaml_switch}};

}  // namespace

Content emit_horovod_yaml(const Emission& emission, const Format&) {
  Content content;
  std::string left_out;
  for (const auto& [name, value] : horovod_variables(emission)) {
    const Key* key = std::find_if(std::begin(kKeys), std::end(kKeys),
                                  [&variable = name](const Key& one) { return variable == one.variable; });
    const std::string text = key == std::end(kKeys) ? "" : key->text(value);
    if (text.empty()) {
      left_out += (left_out.empty() ? "" : ", ") + name;
      continue;
    }
    content.text += fmt::format("  {}: {}\n", key->key, text);
    content.changes = true;
  }
  // Without a key the document is still a mapping.
  content.text = content.changes ? "params:\n" + content.text : "params: {}\n";
  if (!left_out.empty()) {
    content.note =
        "left out, this format cannot hold it (horovod.env has it; fusion_threshold_mb takes whole MiB): " + left_out;
  } else if (!content.changes) {
    content.note = "Horovod's fusion stays as it is";
  } else if (emission.tuned.bucket_bytes && !emission.environment_has(kHorovodFusion)) {
    content.note = kBucketTranslated;
  }
  return content;
}

}  // namespace ddl::tune
