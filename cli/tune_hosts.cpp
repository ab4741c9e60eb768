#include "cli/tune_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include "cli/model.h"
#include "cli/mpirun.h"
#include "cli/process.h"
#include "core/error.h"
#include "core/number.h"

namespace ddl::cli {
namespace {

constexpr const char* kPlaceholder = "{hosts}";

std::string name_of(const std::string& host) { return host.substr(0, host.find(':')); }

std::string joined_names(const LaneHosts& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) names.push_back(name_of(host));
  return fmt::format("{}", fmt::join(names, ","));
}

/// Slurm's "2(x3),4": 2, 2, 2, 4. Empty if it is not that.
std::vector<std::string> counts_by_node(const std::string& text) {
  std::vector<std::string> counts;
  for (const std::string& part : split_list(text)) {
    int count = 0, times = 1;
    char rest = 0;
    const int read = std::sscanf(part.c_str(), "%d(x%d)%c", &count, &times, &rest);
    if (read < 1 || count < 1 || times < 1) return {};
    counts.insert(counts.end(), static_cast<size_t>(times), std::to_string(count));
  }
  return counts;
}

LaneHosts hosts_of_allocation() {
  const char* const list = std::getenv("SLURM_JOB_NODELIST");
  if (list == nullptr)
    throw Error("--parallel: the nodes are unknown", "give --hosts A,B,..., or run ddl tune within a Slurm allocation",
                ExitCode::kUsage);
  const Captured shown = run_and_capture({"scontrol", "show", "hostnames", list});
  if (!shown.started || shown.ended.shell_code() != 0)
    throw Error(fmt::format("scontrol does not report the nodes of {}", list), "give --hosts A,B,...",
                ExitCode::kUsage);
  LaneHosts hosts;
  std::istringstream lines(shown.output);
  for (std::string host; lines >> host;) hosts.push_back(host);
  const char* tasks = std::getenv("SLURM_TASKS_PER_NODE");
  if (tasks == nullptr) tasks = std::getenv("SLURM_JOB_CPUS_PER_NODE");
  const std::vector<std::string> counts = counts_by_node(tasks != nullptr ? tasks : "");
  for (size_t i = 0; counts.size() == hosts.size() && i < hosts.size(); ++i) hosts[i] += ":" + counts[i];
  return hosts;
}

bool is_srun(const std::string& word) { return word == "srun" || word.ends_with("/srun"); }

/// An option of the launcher that says where the job runs; empty: there is none.
std::string place_in(const std::vector<std::string>& command, size_t program,
                     const std::vector<std::string_view>& options) {
  for (size_t i = 1; i < program; ++i) {
    const std::string option = command[i].substr(0, command[i].find('='));
    if (std::find(options.begin(), options.end(), option) != options.end()) return option;
  }
  return "";
}

}  // namespace

std::string words_of(const LaneHosts& hosts) { return fmt::format("{}", fmt::join(hosts, ",")); }

std::vector<LaneHosts> lanes_of(const std::optional<std::string>& typed, size_t lanes) {
  const LaneHosts hosts = typed ? split_list(*typed) : hosts_of_allocation();
  std::set<std::string> names;
  for (const std::string& host : hosts) {
    const size_t colon = host.find(':');
    const bool is_host = colon != 0 && !host.empty() && !host.starts_with('-') && host.find(' ') == std::string::npos;
    const auto slots = colon == std::string::npos ? 1 : number_in<int>(std::string_view(host).substr(colon + 1));
    if (!is_host || !(slots >= 1))
      throw Error(fmt::format("--hosts: '{}' is not a node", host), "NAME or NAME:SLOTS", ExitCode::kUsage);
    if (!names.insert(name_of(host)).second)
      throw Error(fmt::format("--hosts names {} twice", name_of(host)),
                  "name each node once: two trials never share a node", ExitCode::kUsage);
  }
  if (hosts.size() < lanes)
    throw Error(fmt::format("--parallel {}: {} nodes are too few, since each trial needs its own", lanes, hosts.size()),
                "", ExitCode::kUsage);
  const auto each = static_cast<std::ptrdiff_t>(hosts.size() / lanes);
  std::vector<LaneHosts> result;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const auto first = hosts.begin() + static_cast<std::ptrdiff_t>(lane) * each;
    result.emplace_back(first, first + each);
  }
  return result;
}

tune::PlacedJob placed_on(tune::PlacedJob job, const LaneHosts& hosts) {
  bool is_placed = false;
  for (std::string& word : job.command)
    for (size_t at = word.find(kPlaceholder); at != std::string::npos; at = word.find(kPlaceholder, at)) {
      if (hosts.empty())
        throw Error("the command has {hosts}, but no hosts are given", "give --hosts A,B,...", ExitCode::kUsage);
      word.replace(at, std::string_view(kPlaceholder).size(), words_of(hosts));
      is_placed = true;
    }
  if (is_placed || hosts.empty()) return job;
  constexpr const char* kHint = "write {hosts} where its list of nodes goes, such as -hosts {hosts}";
  std::vector<std::string> options;
  if (is_open_mpi_launcher(job.command)) {
    const std::optional<size_t> program = program_of(job.command);
    if (!program) throw Error("cannot tell where the launcher's options end", kHint, ExitCode::kUsage);
    if (const std::string option =
            place_in(job.command, *program,
                     {"-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile",
                      "-default-hostfile", "--default-hostfile", "-rf", "-rankfile", "--rankfile"});
        !option.empty())
      throw Error(fmt::format("the command chooses its nodes itself, by {}", option),
                  "leave that to --parallel and --hosts, or write {hosts}", ExitCode::kUsage);
    options = {"--host", words_of(hosts)};
  } else if (!job.command.empty() && is_srun(job.command[0])) {
    if (const std::string option = place_in(job.command, job.command.size(), {"-w", "--nodelist", "-N", "--nodes"});
        !option.empty())
      throw Error(fmt::format("the command chooses its nodes itself, by {}", option),
                  "leave that to --parallel and --hosts, or write {hosts}", ExitCode::kUsage);
    options = {"--nodelist=" + joined_names(hosts), fmt::format("--nodes={}", hosts.size())};
  } else {
    throw Error(fmt::format("{} is not a launcher known to ddl, which cannot choose its nodes",
                            job.command.empty() ? "" : job.command[0]),
                kHint, ExitCode::kUsage);
  }
  job.command.insert(job.command.begin() + 1, options.begin(), options.end());
  return job;
}

}  // namespace ddl::cli
