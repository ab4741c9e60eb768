#include "store/job.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "store/text.h"

namespace ddl {

namespace {

using nlohmann::json;

constexpr int64_t kKnownSchema = 1;
constexpr std::uintmax_t kMaxFileBytes = 16 << 20;

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
  return name == "schema" || name == "command" || name == "started_realtime_ns" || name == "ended_realtime_ns" || name == "exit_code" ||
         name == "signal";
}

}  // namespace

Job read_job(const std::filesystem::path& path) {
  Job job;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return job;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMaxFileBytes) {
    job.problem = "job.json is not a file of a job";
    return job;
  }
  std::ifstream file(path);
  const json root = json::parse(file, nullptr, false);
  if (!root.is_object()) {
    job.problem = file.good() || file.eof() ? "job.json is not valid JSON" : "job.json cannot be read";
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
