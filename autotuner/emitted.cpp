#include "autotuner/emitted.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "autotuner/emit/manifest.h"
#include "autotuner/emit/write_files.h"
#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::tune {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kAgain = "write it again: ddl tune -o DIRECTORY";

[[noreturn]] void refuse(const std::string& message) { throw Error(message, kAgain, ExitCode::kDataMissing); }

std::string read(const fs::path& path) {
  try {
    return read_regular_file(path.string(), NamedBy::kFolder);
  } catch (const Error& error) {
    refuse(error.what());
  }
}

template <typename T>
T value_or(const Json& json, const char* key, T otherwise) {
  return json.at(key).is_null() ? otherwise : json.at(key).get<T>();
}

template <typename T>
std::optional<T> optional(const Json& json, const char* key) {
  return json.at(key).is_null() ? std::nullopt : std::optional<T>(json.at(key).get<T>());
}

Tuned tuned_of(const Json& json) {
  Tuned tuned;
  tuned.command = json.at("command").get<std::vector<std::string>>();
  tuned.tuned_command = json.at("tuned_command").get<std::vector<std::string>>();
  tuned.run = value_or<std::string>(json, "run", "");
  tuned.date = value_or<std::string>(json, "date", "");
  tuned.machine = value_or<std::string>(json, "machine", "");
  tuned.mpi_library = value_or<std::string>(json, "mpi_library", "");
  tuned.goal = value_or<std::string>(json, "goal", "");
  if (json.contains("goal_kind")) {  // older files have the words only
    tuned.goal_kind = value_or<std::string>(json, "goal_kind", "");
    tuned.target_loss = optional<double>(json, "target_loss");
  }
  if (json.contains("metric") && !json.at("metric").is_null()) {
    const Json& m = json.at("metric");
    tuned.metric = Metric{m.at("pattern"), value_or<std::string>(m, "file", ""), m.at("lower_is_better")};
  }
  tuned.ranks = value_or<int64_t>(json, "ranks", 0);
  tuned.nodes = value_or<int64_t>(json, "nodes", 0);
  if (const Json& g = json.at("gain"); !g.is_null())
    tuned.gain = Gain{g.at("ratio"),
                      g.at("lo"),
                      g.at("hi"),
                      g.at("rounds"),
                      g.at("noise_lo"),
                      g.at("noise_hi"),
                      g.value("of_rounds", false),
                      g.value("confidence", 0.95),
                      g.value("spans_search", false)};
  if (json.contains("measured")) tuned.in_run = json.at("measured") == "in_run";
  if (json.contains("kept")) tuned.kept = value_or<std::string>(json, "kept", "");
  if (json.contains("default_environment"))
    for (const auto& [name, value] : json.at("default_environment").items())
      tuned.default_environment.emplace_back(name, value);
  if (json.contains("unset")) {  // older files left variables that the user had set
    tuned.unset = json.at("unset").get<std::vector<std::string>>();
    tuned.default_unset = json.at("default_unset").get<std::vector<std::string>>();
  }
  for (const Json& c : json.at("choices"))
    tuned.choices.push_back({c.at("name"), c.at("value"), c.at("default"), c.at("numeric")});
  for (const Json& r : json.at("allreduce_rules"))
    tuned.allreduce_rules.push_back({r.at("from_bytes"), r.at("algorithm"), r.at("name"), r.at("segment_bytes")});
  for (const Json& r : json.at("nccl_rules")) {
    tuned.nccl_rules.push_back({r.at("collective"), r.at("min_bytes"), value_or<int64_t>(r, "max_bytes", -1),
                                value_or<std::string>(r, "algorithm", ""), value_or<std::string>(r, "protocol", ""),
                                value_or<int64_t>(r, "channels", -1)});
  }
  tuned.bucket_bytes = optional<int64_t>(json, "bucket_bytes");
  tuned.default_bucket_bytes = optional<int64_t>(json, "default_bucket_bytes");
  tuned.batch_per_rank = optional<int64_t>(json, "batch_per_rank");
  tuned.element_bytes = json.at("element_bytes");
  return tuned;
}

std::vector<std::pair<std::string, std::string>> variables_of(const std::string& env0) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (size_t at = 0; at < env0.size();) {
    const size_t end = std::min(env0.find('\0', at), env0.size());
    const std::string pair = env0.substr(at, end - at);
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) variables.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    at = end + 1;
  }
  return variables;
}

}  // namespace

Emitted read_emitted(const fs::path& where) {
  Emitted emitted;
  emitted.directory = absolute_directory(where);
  const fs::path path = emitted.directory / "manifest.json";
  std::error_code error;
  if (!fs::exists(path, error))
    refuse(fmt::format("{} has no manifest.json: not a directory that ddl tune wrote", emitted.directory.string()));
  try {
    const Json json = Json::parse(read(path));
    if (json.at("schema") != 1)
      refuse(
          fmt::format("{} was written by another version of ddl: schema {}", path.string(), json.at("schema").dump()));
    const fs::path written = json.at("directory").get<std::string>();
    if (!fs::equivalent(written, emitted.directory, error))
      refuse(fmt::format("{} was moved: it was written as {}, and its files refer to each other by that path",
                         emitted.directory.string(), written.string()));
    for (const Json& file : json.at("files")) {
      const std::string name = file.at("name"), text = read(emitted.directory / name);
      if (sha256(text) != file.at("sha256").get<std::string>())
        refuse(fmt::format("{} was changed after ddl tune wrote it", (emitted.directory / name).string()));
      if (name == "tuned.env0") emitted.environment = variables_of(text);
      if (name == "allreduce.rules") emitted.allreduce_rules = text;
      emitted.changes_anything |= file.at("changes").get<bool>();
    }
    emitted.tuned = tuned_of(json);
  } catch (const Json::exception& problem) {
    refuse(fmt::format("{} is not a valid manifest: {}", path.string(), problem.what()));
  }
  emitted.tuned.environment = emitted.environment;
  return emitted;
}

}  // namespace ddl::tune
