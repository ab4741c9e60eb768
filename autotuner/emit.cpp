#include "autotuner/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotuner/emit/format.h"
#include "autotuner/emit/manifest.h"
#include "autotuner/emit/write_files.h"
#include "core/error.h"
#include "core/secrets.h"
#include "store/text.h"

namespace ddl::tune {
namespace {

constexpr Format kFormats[] = {
#define FORMAT(name, file, comment, reader, undo) {file, comment, reader, undo},
#include "autotuner/emit/formats.def"
#undef FORMAT
};
constexpr Content (*kEmitters[])(const Emission&, const Format&) = {
#define FORMAT(name, ...) emit_##name,
#include "autotuner/emit/formats.def"
#undef FORMAT
};

void set(Variables& variables, const std::string& name, const std::string& value) {
  const auto there = std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == name; });
  if (there == variables.end()) {
    variables.emplace_back(name, value);
  } else {
    there->second = value;
  }
}

void check_variable(const std::string& name, const std::string& value) {
  constexpr std::string_view kDigits = "0123456789",
                             kOf = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  if (name.empty() || name.find_first_not_of(kOf) != std::string::npos ||
      kDigits.find(name[0]) != std::string_view::npos)
    throw Error(fmt::format("invalid name of an environment variable '{}'", name),
                "use letters, digits and _, and no digit first");
  if (is_secret_name(name.data(), name.size()))
    throw Error(fmt::format("{} has the name of a secret, and these files are passed on", name),
                "set it where the job is started");
  if (without_secrets(name + "=" + value) != name + "=" + value)
    throw Error(fmt::format("the value of {} contains a secret, and these files are passed on", name),
                "set it where the job is started");
  if (value.find('\0') != std::string::npos) throw Error(fmt::format("the value of {} has a NUL", name));
}

/// The variables that were tuned, and those by which the files of `directory` are found.
Variables environment_of(const Tuned& tuned, const std::filesystem::path& directory) {
  Variables variables;
  for (const auto& [name, value] : tuned.environment) {
    check_variable(name, value);
    set(variables, name, value);
  }
  for (const auto& [name, value] : tuned.default_environment) check_variable(name, value);
  for (const std::string& name : tuned.unset) check_variable(name, "");
  if (!tuned.allreduce_rules.empty()) {
    set(variables, "OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
    set(variables, "OMPI_MCA_coll_tuned_dynamic_rules_filename", (directory / "allreduce.rules").string());
    set(variables, "OMPI_MCA_coll_han_priority", "0");
  }
  if (std::any_of(tuned.nccl_rules.begin(), tuned.nccl_rules.end(), can_write)) {
    check_variable("NCCL_TUNER_PLUGIN", tuned.nccl_tuner_plugin);
    set(variables, "NCCL_TUNER_PLUGIN", tuned.nccl_tuner_plugin);
    set(variables, "NCCL_TUNER_CONFIG_FILE", (directory / "nccl_tuner.csv").string());
  }
  return variables;
}

/// Where the default is kept no file changes anything, whatever else is known of the search.
Tuned in_force(const Tuned& tuned) {
  Tuned result = tuned;
  if (tuned.gain) return result;
  result.allreduce_rules.clear();
  result.nccl_rules.clear();
  result.environment.clear();
  result.unset.clear();
  result.bucket_bytes.reset();
  result.batch_per_rank.reset();
  return result;
}

}  // namespace

std::vector<EmittedFile> emit(const Tuned& found, const std::filesystem::path& where) {
  const std::filesystem::path directory = absolute_directory(where);
  const Tuned tuned = in_force(found);
  const Emission emission{tuned, directory, environment_of(tuned, directory)};
  std::vector<EmittedFile> emitted;
  std::vector<std::pair<std::string, std::string>> files;
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    const Format& format = kFormats[i];
    const Content content = kEmitters[i](emission, format);
    const std::string head =
        *format.comment == '\0' ? "" : commented(heading(emission, format, content), format.comment);
    files.emplace_back(format.file, head + content.text);
    const std::string& text = files.back().second;
    emitted.push_back(
        {format.file, format.reader, sha256(text), static_cast<int64_t>(text.size()), content.changes, content.note});
  }
  files.emplace_back("manifest.json", manifest(emission, emitted));
  write_files(directory, files);
  return emitted;
}

std::vector<std::string> emitted_names() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.emplace_back(format.file);
  return names;
}

bool is_decided_by_rules(const std::string& variable) {
  return variable.starts_with("OMPI_MCA_coll_tuned_allreduce_algorithm") ||
         variable == "OMPI_MCA_coll_tuned_use_dynamic_rules" ||
         variable == "OMPI_MCA_coll_tuned_dynamic_rules_filename" || variable == "OMPI_MCA_coll_han_priority";
}

std::vector<std::string> overridden_by_rules(const Tuned& tuned) {
  std::vector<std::string> notes;
  if (tuned.allreduce_rules.empty()) return notes;
  for (const Choice& choice : tuned.choices)
    if (is_decided_by_rules(choice.name) && choice.value != choice.default_value)
      notes.push_back(
          fmt::format("{}={} was tuned as well, and is in no file: the rules for MPI_Allreduce decide in its place",
                      choice.name, choice.value));
  return notes;
}

}  // namespace ddl::tune
