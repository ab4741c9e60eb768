#include "store/import/rank_hints.h"

#include <algorithm>
#include <iterator>

#include "core/number.h"

namespace ddl::store {

namespace {

/// The variables by which launchers tell a process its rank, and how many there are. The nearest launcher first: mpirun
/// may run in a job of Slurm, and torchrun under either.
struct RankLauncher {
  const char *rank, *size;
};
constexpr RankLauncher kLaunchers[] = {{"RANK", "WORLD_SIZE"},
                                       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                       {"PMIX_RANK", nullptr},
                                       {"PMI_RANK", "PMI_SIZE"},
                                       {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                       {"PALS_RANKID", nullptr},
                                       {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

std::optional<int64_t> told_rank(const RankHints& file, const char* variable) {
  if (variable == nullptr) return std::nullopt;
  const auto found = file.environment.find(variable);
  return found == file.environment.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

void RankHints::add_variable(std::string_view name, std::string_view value) {
  const bool is_known = std::any_of(std::begin(kLaunchers), std::end(kLaunchers), [&](const RankLauncher& l) {
    return name == l.rank || (l.size != nullptr && name == l.size);
  });
  if (!is_known) return;
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
  if (const auto number = number_in<int64_t>(value)) environment[std::string(name)] = *number;
}

bool rank_by_environment(ImportedRun& run, const std::vector<RankHints>& files) {
  if (!std::all_of(files.begin(), files.end(), [](const RankHints& file) { return file.processes.size() == 1; }))
    return false;
  for (const RankLauncher& launcher : kLaunchers) {
    std::set<int64_t> ranks;
    for (const RankHints& file : files) {
      const std::optional<int64_t> rank = told_rank(file, launcher.rank);
      if (rank && *rank >= 0 && *rank < kMaxRanks) ranks.insert(*rank);
    }
    if (ranks.size() != files.size()) continue;  // not told, or told of a launcher that started several of them as one
    for (const RankHints& file : files) {
      ImportedProcess& process = run.process(file.processes.front());
      process.rank = told_rank(file, launcher.rank);
      const std::optional<int64_t> size = told_rank(file, launcher.size);
      if (size && *size > *process.rank && *size <= kMaxRanks) process.world_size = size;
    }
    return true;
  }
  return false;
}

void rank_by_device(ImportedRun& run, const RankHints& file) {
  std::map<int64_t, size_t> by_device;
  for (const auto& [process, devices] : file.devices)
    if (devices.size() == 1) by_device.emplace(*devices.begin(), process);
  if (by_device.size() != file.processes.size()) return;
  int64_t rank = 0;
  for (const auto& [device, process] : by_device) run.process(process).rank = rank++;
}

namespace {

// By hand: std::regex for these five patterns cost 2 s of compiling.
bool is_number(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (is_letter(c)) c = static_cast<char>(c | 0x20);
  return text;
}
size_t digits_at(std::string_view text, size_t at) {
  const size_t begin = at;
  while (at < text.size() && is_number(text[at])) ++at;
  return at - begin;
}

struct NumberAfter {
  std::vector<std::string_view> words;
  std::string_view separators;  ///< one of them may be between word and number
  size_t most_digits;
  bool own_word = false;  ///< no letter may be in front of it
};
/// The first one, whether in capitals or not.
std::optional<int64_t> number_in(const std::string& name, const NumberAfter& pattern) {
  const std::string text = in_lower_case(name);
  for (size_t at = 0; at < text.size(); ++at) {
    if (pattern.own_word && at > 0 && is_letter(text[at - 1])) continue;
    for (const std::string_view word : pattern.words) {
      if (text.compare(at, word.size(), word) != 0) continue;
      size_t number = at + word.size();
      if (number < text.size() && pattern.separators.find(text[number]) != std::string_view::npos) ++number;
      const size_t digits = digits_at(text, number);
      if (digits >= 1 && digits <= pattern.most_digits) return std::stoll(text.substr(number, digits));
    }
  }
  return std::nullopt;
}

/// "": true; ".pickle", ".json.gz": true.
bool is_ending(std::string_view text) {
  return text.empty() ||
         (text.size() > 1 && text[0] == '.' && is_letter(text[1]) &&
          std::all_of(text.begin(), text.end(), [](char c) { return c == '.' || is_number(c) || is_letter(c); }));
}

/// The number, of eight digits at most, with which a name ends in front of its file's ending.
std::optional<int64_t> number_at_end(const std::string& name) {
  for (size_t at = 0; at < name.size(); ++at) {
    const size_t digits = digits_at(name, at);
    if (digits > 0 && is_ending(std::string_view(name).substr(at + digits))) {
      const size_t kept = std::min<size_t>(digits, 8);
      return std::stoll(name.substr(at + digits - kept, kept));
    }
    at += digits;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> rank_in_trace_name(const std::string& file) {
  return number_in(file, {{"worker", "rank"}, "-_", 9});
}

std::optional<int64_t> rank_in_dump_name(const std::string& file) {
  const std::optional<int64_t> rank = number_in(file, {{"rank"}, "-_=", 8});
  return rank ? rank : number_at_end(file);
}

std::optional<int64_t> rank_in_process_name(const std::string& name) {
  return number_in(name, {{"rank"}, " _:-", 9, true});
}

std::optional<std::string> host_in_trace_name(const std::string& file) {
  const size_t process = file.rfind('_');
  if (process == 0 || process == std::string::npos) return std::nullopt;
  const size_t process_digits = digits_at(file, process + 1), dot = process + 1 + process_digits;
  if (process_digits == 0 || dot == file.size() || file[dot] != '.') return std::nullopt;
  const size_t time_digits = digits_at(file, dot + 1);
  const std::string ending = file.substr(dot + 1 + time_digits);
  if (time_digits == 0 || (ending != ".pt.trace.json" && ending != ".pt.trace.json.gz")) return std::nullopt;
  const std::string name = file.substr(0, process), lower = in_lower_case(name);
  for (const char* word : {"worker", "rank", "step", "epoch", "\n", "\r"})
    if (lower.find(word) != std::string::npos) return std::nullopt;
  return name;
}

}  // namespace ddl::store
