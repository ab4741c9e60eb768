#include "store/job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/regular_file.h"
#include "store/text.h"

namespace ddl {

namespace {

using nlohmann::json;

constexpr int64_t kKnownSchema = 1;
constexpr size_t kMaxFileBytes = 16 << 20;

std::optional<std::string> as_text(const json& value) {
  if (value.is_string()) return clean_text(value.get_ref<const std::string&>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

std::optional<int64_t> integer(const json& job, const char* name) {
  const auto found = job.find(name);
  if (found == job.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

bool is_own_field(const std::string& name) {
  return name == "schema" || name == "command" || name == "started_realtime_ns" || name == "ended_realtime_ns" ||
         name == "exit_code" || name == "signal";
}

}  // namespace

Job read_job(const std::filesystem::path& path) {
  Job job;
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::not_found) return job;
  std::string content;
  try {
    content = read_regular_file(path, NamedBy::kFolder, kMaxFileBytes);
  } catch (const Error& unreadable) {
    job.problem = unreadable.what();
    return job;
  }
  const json root = json::parse(content, nullptr, false);
  if (!root.is_object()) {
    job.problem = "job.json is not valid JSON";
    return job;
  }
  if (integer(root, "schema").value_or(kKnownSchema) > kKnownSchema)
    job.problem = "job.json is of a newer schema; what this program knows of it was used";
  if (const auto command = root.find("command"); command != root.end() && command->is_array()) {
    for (const json& argument : *command) {
      if (const auto text = as_text(argument)) job.command.push_back(*text);
    }
  }
  job.started_realtime_ns = integer(root, "started_realtime_ns");
  job.ended_realtime_ns = integer(root, "ended_realtime_ns");
  job.exit_code = integer(root, "exit_code");
  job.signal = integer(root, "signal");
  for (const auto& [name, value] : root.items()) {
    if (is_own_field(name)) continue;
    if (const auto text = as_text(value)) job.facts[clean_text(name)] = *text;
    if (!value.is_object()) continue;
    for (const auto& [inner, inner_value] : value.items()) {
      if (const auto text = as_text(inner_value)) job.facts[clean_text(fmt::format("{}.{}", name, inner))] = *text;
    }
  }
  return job;
}

}  // namespace ddl
