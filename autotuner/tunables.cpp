#include "autotuner/tunables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "autotuner/openmpi_allreduce.h"
#include "autotuner/openmpi_rules.h"
#include "autotuner/predict.h"
#include "autotuner/sweep.h"
#include "core/error.h"
#include "core/number.h"
#include "store/text.h"

namespace ddl::tune {
namespace {

constexpr How command = How::kCommand, variable = How::kVariable, openmpi_allreduce = How::kOpenmpiAllreduce,
              openmpi_iallreduce = How::kOpenmpiIallreduce;

constexpr const char *kUnset = "unset", *kLeftAlone[] = {"default", kUnset};

std::vector<std::string> words_of(const std::string& text, char sign) {
  std::vector<std::string> words;
  for (size_t begin = 0;;) {
    const size_t end = text.find(sign, begin);
    words.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return words;
    begin = end + 1;
  }
}

bool is_name(std::string_view word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// The {words} of a command, in order.
std::vector<std::string> placeholders(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    for (size_t open = word.find('{'); open != std::string::npos; open = word.find('{', open + 1)) {
      const size_t close = word.find('}', open);
      if (close == std::string::npos) break;
      const std::string name = word.substr(open + 1, close - open - 1);
      if (is_name(name)) names.push_back(name);
    }
  }
  return names;
}

std::ptrdiff_t count_of(const std::vector<std::string>& words, const std::string& name) {
  const std::vector<std::string> names = placeholders(words);
  return std::count(names.begin(), names.end(), name);
}

bool has_placeholder(const std::vector<std::string>& words, const std::string& name) {
  return count_of(words, name) > 0;
}

const KnownTunable* known(const std::string& name) {
  for (const KnownTunable& row : known_tunables())
    if (row.name == name) return &row;
  return nullptr;
}

JobTunable from_row(const KnownTunable& row, std::vector<std::string> values) {
  return {row.name, row.how, row.variable, row.numeric, std::move(values), false};
}

/// `value` in every place of `sign`.
std::vector<std::string> with_value(std::vector<std::string> words, const std::string& sign, const std::string& value) {
  for (std::string& word : words)
    for (size_t at = word.find(sign); at != std::string::npos; at = word.find(sign, at + value.size()))
      word.replace(at, sign.size(), value);
  return words;
}

void check_values(const JobTunable& tunable) {
  for (const std::string& value : tunable.values) {
    if (value.empty())
      throw Error(fmt::format("tunable {} has an empty value", tunable.name), "--tunable NAME=1,2,4", ExitCode::kUsage);
    if (std::count(tunable.values.begin(), tunable.values.end(), value) > 1)
      throw Error(fmt::format("tunable {} has the value {} twice", tunable.name, value), "", ExitCode::kUsage);
    const bool whole = tunable.name == kMicroBatches;
    if (tunable.name != kBatch && tunable.name != kBucketMb && !whole) continue;
    const auto number = number_in<double>(value);
    if (!(number >= 0) || number > 1e9 || (tunable.name != kBucketMb && number < 1) ||
        (whole && number != std::floor(*number)))
      throw Error(fmt::format("invalid value '{}' of {}", value, tunable.name), "a number", ExitCode::kUsage);
  }
}

}  // namespace

const std::vector<KnownTunable>& known_tunables() {
  static const std::vector<KnownTunable> rows = {
#define TUNABLE(name, how, variable, numeric, values, sentence) {#name, how, variable, numeric, values, sentence},
#include "autotuner/tunables.def"
#undef TUNABLE
  };
  return rows;
}

JobTunable parse_tunable(const std::string& text, const std::vector<std::string>& words) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const KnownTunable* known_row = known(name);
  const bool has_values = equals != std::string::npos || (known_row != nullptr && *known_row->values != '\0');
  if (!has_values || !is_name(name))
    throw Error(fmt::format("invalid tunable '{}'", text),
                "give --tunable NAME=1,2,4, first the value that the job runs with today", ExitCode::kUsage);
  const std::string list = equals == std::string::npos ? known_row->values : text.substr(equals + 1);
  std::vector<std::string> values = words_of(list, list.find(';') != std::string::npos ? ';' : ',');
  JobTunable tunable = {name, How::kVariable, name, false, values, false};
  if (known_row != nullptr)
    tunable = from_row(*known_row, values);
  else if (has_placeholder(words, name))
    tunable.how = How::kCommand;
  if (tunable.how == How::kCommand && !has_placeholder(words, name))
    throw Error(fmt::format("the command does not say where {} goes", name),
                fmt::format("write {{{}}} in its place, such as --{} {{{}}}", name, name, name), ExitCode::kUsage);
  check_values(tunable);
  tunable.guessed = equals == std::string::npos;
  return tunable;
}

std::vector<JobTunable> tunables_of_command(const std::vector<std::string>& words, const std::vector<JobTunable>& given,
                                            bool has_hosts) {
  std::vector<JobTunable> result;
  std::set<std::string> done;
  for (const JobTunable& tunable : given) done.insert(tunable.name);
  if (has_hosts) done.insert("hosts");
  for (const std::string& name : placeholders(words)) {
    if (!done.insert(name).second) continue;
    const KnownTunable* row = known(name);
    if (row == nullptr || row->how != How::kCommand || *row->values == '\0')
      throw Error(fmt::format("the command has {{{}}}, but no values are given for it", name),
                  fmt::format("give --tunable {}=A,B,C, first the value that the job runs with today", name),
                  ExitCode::kUsage);
    result.push_back(from_row(*row, words_of(row->values, ',')));
    result.back().guessed = true;
  }
  return result;
}

void refuse_secrets(const std::vector<std::string>& words, const std::vector<JobTunable>& tunables) {
  for (const JobTunable& tunable : tunables) {
    if (tunable.how == How::kOpenmpiAllreduce) continue;  // its values are names of algorithms
    const std::string sign = fmt::format("{{{}}}", tunable.name);
    // A variable as one would write it before a command.
    const std::vector<std::string> written =
        tunable.how == How::kCommand ? words : std::vector{tunable.variable + "=" + sign};
    const std::vector<std::string> told = without_secrets(written);
    if (count_of(told, tunable.name) < count_of(written, tunable.name))
      throw Error(fmt::format("{} has the name of a secret, and tuned values are written into files that are passed on",
                              tunable.name),
                  "set it outside of the tuning, or give it another name", ExitCode::kUsage);
    for (const std::string& value : tunable.values)
      if (without_secrets(with_value(written, sign, value)) != with_value(told, sign, value))
        throw Error(
            fmt::format("a value of {} contains a secret, and tuned values are written into files that are passed on",
                        tunable.name),
            "give the path of a file that holds the secret", ExitCode::kUsage);
  }
}

std::string without_effect(const JobTunable& tunable, int64_t nodes) {
  const bool between_hosts =
      tunable.variable == "HOROVOD_HIERARCHICAL_ALLREDUCE" || tunable.variable == "HOROVOD_HIERARCHICAL_ALLGATHER";
  return between_hosts && nodes == 1 ? "Horovod ignores it on one host" : "";
}

std::string not_in_run(const JobTunable& tunable) {
  if (tunable.how == How::kOpenmpiAllreduce || tunable.how == How::kOpenmpiIallreduce)
    return "Open MPI chooses by it when a communicator is made";
  if (tunable.numeric) return "it changes what is computed, which the time of a step does not judge";
  for (const char* name : {"map_by", "rankfile", "distribution", "dims"})
    if (tunable.name == name) return "where ranks belong is settled when they are started";
  if (tunable.name == kMicroBatches) return "the schedule of a pipeline is settled when it is started";
  if (tunable.how != How::kVariable) return "";
  if (std::find_if(tunable.values.begin() + 1, tunable.values.end(), is_left_alone) != tunable.values.end())
    return "a running job does not lose a variable that it was started with: only the first value can be unset or default";
  constexpr std::pair<const char*, const char*> kReadOnce[] = {{"HOROVOD_", "Horovod"},   {"NCCL_", "NCCL"},
                                                               {"OMPI_MCA_", "Open MPI"}, {"UCX_", "UCX"},
                                                               {"MPIR_CVAR_", "MPICH"},   {"FI_", "libfabric"}};
  for (const auto& [prefix, reader] : kReadOnce)
    if (tunable.variable.starts_with(prefix))
      return fmt::format("{} reads {} once, when it starts", reader, tunable.variable);
  return "";
}

bool is_left_alone(std::string_view value) {
  return std::find(std::begin(kLeftAlone), std::end(kLeftAlone), value) != std::end(kLeftAlone);
}

bool is_preset(std::string_view value) {
  return std::find(std::begin(kPresets), std::end(kPresets), value) != std::end(kPresets);
}

std::map<std::string, std::string> values_at(const Space& space, size_t point) {
  std::map<std::string, std::string> values;
  for (size_t i = 0; i < space.tunables().size(); ++i) values[space.tunables()[i].name] = space.value(point, i);
  return values;
}

PlacedJob place(const std::vector<std::string>& words, const std::vector<JobTunable>& tunables,
                const std::map<std::string, std::string>& value_of, const std::string& rules_file) {
  PlacedJob job{words, {}};
  for (const JobTunable& tunable : tunables) {
    const std::string& value = value_of.at(tunable.name);
    if (tunable.how == How::kCommand) {
      job.command = with_value(std::move(job.command), fmt::format("{{{}}}", tunable.name), value);
      continue;
    }
    if (value == kUnset && !tunable.variable.empty()) job.unset.push_back(tunable.variable);
    if (is_left_alone(value)) continue;
    if (tunable.how != How::kOpenmpiAllreduce) {
      job.environment.emplace_back(tunable.variable, value);
      continue;
    }
    // without it a forced algorithm is silently ignored
    job.environment.emplace_back("OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
    // as the emitted files do: what is measured is what they set
    job.environment.emplace_back("OMPI_MCA_coll_han_priority", "0");
    if (value == kRules || is_preset(value)) {
      const std::string file = value == kRules
                                   ? rules_file
                                   : (std::filesystem::path(rules_file).parent_path() / (value + ".rules")).string();
      job.environment.emplace_back("OMPI_MCA_coll_tuned_dynamic_rules_filename", file);
      continue;
    }
    const size_t colon = value.find(':');
    job.environment.emplace_back("OMPI_MCA_coll_tuned_allreduce_algorithm", value.substr(0, colon));
    if (colon != std::string::npos)
      job.environment.emplace_back("OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize",
                                   std::to_string(bytes_of(value.substr(colon + 1))));
  }
  return job;
}

std::map<std::string, int64_t> openmpi_algorithms(std::string_view ompi_info, std::string_view parameter) {
  const std::string mark = fmt::format(":{}:enumerator:value:", parameter);
  std::map<std::string, int64_t> result;
  for (size_t at = ompi_info.find(mark); at != std::string_view::npos; at = ompi_info.find(mark, at + 1)) {
    std::string_view line = ompi_info.substr(at + mark.size(), ompi_info.find('\n', at) - at - mark.size());
    const auto id = take_number<int64_t>(line);
    if (id && line.starts_with(':')) result.emplace(line.substr(1), *id);
  }
  return result;
}

std::optional<AllreduceRule> forced_rule(const std::string& value, const std::map<std::string, int64_t>& ids) {
  const size_t colon = value.find(':');
  const std::string word = value.substr(0, colon);
  const auto found = std::find_if(
      ids.begin(), ids.end(), [&](const auto& id) { return word == id.first || word == std::to_string(id.second); });
  if (found == ids.end() || found->second == kIgnore) return std::nullopt;
  return AllreduceRule{0, found->second, found->first,
                       colon == std::string::npos ? 0 : bytes_of(value.substr(colon + 1))};
}

void check_algorithms(const std::vector<std::string>& values, const std::map<std::string, int64_t>& ids) {
  for (const std::string& value : values) {
    if (is_left_alone(value) || value == kRules) continue;
    if (is_preset(value)) {
      if (preset_rules(value, ids).empty())
        throw Error(fmt::format("algorithm={}: this Open MPI lacks the algorithms that it combines", value), "",
                    ExitCode::kUsage);
    } else if (!forced_rule(value, ids)) {
      std::vector<std::string> names = {"default", kRules};
      names.insert(names.end(), std::begin(kPresets), std::end(kPresets));
      for (const auto& [name, id] : ids)
        if (id != kIgnore) names.push_back(name);
      throw Error(fmt::format("invalid value '{}' of algorithm", value),
                  ids.empty()
                      ? "ompi_info, which knows the algorithms of Open MPI's MPI_Allreduce, is not there or names none"
                      : fmt::format("{}, or NAME:SEGMENT, such as segmented_ring:128K", fmt::join(names, ", ")),
                  ExitCode::kUsage);
    }
  }
}

}  // namespace ddl::tune
