#include "store/import/rank_hints.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <regex>

namespace ddl::store {

namespace {

/// The variables by which launchers tell a process its rank, and how many there are. The nearest launcher first: mpirun may run in a job of
/// Slurm, and torchrun under either.
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
  const bool is_known = std::any_of(std::begin(kLaunchers), std::end(kLaunchers),
                                    [&](const RankLauncher& l) { return name == l.rank || (l.size != nullptr && name == l.size); });
  if (!is_known) return;
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size()) environment[std::string(name)] = number;
}

bool rank_by_environment(ImportedRun& run, const std::vector<RankHints>& files) {
  if (!std::all_of(files.begin(), files.end(), [](const RankHints& file) { return file.processes.size() == 1; })) return false;
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

std::optional<int64_t> number_in(const std::string& name, const std::regex& pattern) {
  std::smatch match;
  return std::regex_search(name, match, pattern) ? std::optional<int64_t>(std::stoll(match[1].str())) : std::nullopt;
}

}  // namespace

std::optional<int64_t> rank_in_trace_name(const std::string& file) {
  static const std::regex pattern(R"((?:worker|rank)[-_]?(\d{1,9})(?!\d))", std::regex::icase);
  return number_in(file, pattern);
}

std::optional<int64_t> rank_in_dump_name(const std::string& file) {
  static const std::regex named(R"(rank[-_=]?(\d{1,8})(?!\d))", std::regex::icase), last(R"((\d{1,8})(?:\.[A-Za-z][A-Za-z0-9.]*)?$)");
  const std::optional<int64_t> rank = number_in(file, named);
  return rank ? rank : number_in(file, last);
}

std::optional<int64_t> rank_in_process_name(const std::string& name) {
  static const std::regex pattern(R"((?:^|[^a-z])rank[ _:-]?(\d{1,9})(?!\d))", std::regex::icase);
  return number_in(name, pattern);
}

std::optional<std::string> host_in_trace_name(const std::string& file) {
  static const std::regex pattern(R"((.+)_\d+\.\d+\.pt\.trace\.json(\.gz)?)"), of_worker("worker|rank|step|epoch", std::regex::icase);
  std::smatch match;
  if (!std::regex_match(file, match, pattern)) return std::nullopt;
  const std::string name = match[1].str();
  return std::regex_search(name, of_worker) ? std::nullopt : std::optional(name);
}

}  // namespace ddl::store
