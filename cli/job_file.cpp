#include "cli/job_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "core/error.h"
#include "core/secrets.h"
#include "history/commit.h"
#include "store/text.h"

namespace ddl::cli {
namespace {

constexpr std::array<std::string_view, 16> kPrefixes = {"OMPI_",     "PMIX_", "PRTE_",  "SLURM_", "PBS_",     "LSB_",
                                                        "OMP_",      "NCCL_", "UCX_",   "FI_",    "HOROVOD_", "MKL_",
                                                        "OPENBLAS_", "DDL_",  "MPICH_", "I_MPI_"};
constexpr std::array<std::string_view, 3> kNames = {"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "GOMP_CPU_AFFINITY"};
constexpr std::array<const char*, 6> kJobIds = {"SLURM_JOB_ID", "PBS_JOBID",    "LSB_JOBID",
                                                "FLUX_JOB_ID",  "COBALT_JOBID", "JOB_ID"};
constexpr std::array<std::string_view, 9> kLaunchers = {"mpirun", "mpiexec",  "orterun",   "prterun",   "srun",
                                                        "jsrun",  "torchrun", "deepspeed", "horovodrun"};

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool speaks_of_gloo(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.find("gloo") != std::string::npos;
}

/// A word of the command that names Gloo, or a script among the words that does. Backends chosen elsewhere are not
/// found.
std::string gloo_in(const std::vector<std::string>& command) {
  constexpr std::uintmax_t kLongestScript = 1 << 20;
  for (const std::string& word : command) {
    if (word == "gloo" || word == "--gloo" || word.ends_with("=gloo")) return word;
    if (!word.ends_with(".py") && !word.ends_with(".sh")) continue;
    std::error_code error;
    if (!std::filesystem::is_regular_file(word, error) || std::filesystem::file_size(word, error) > kLongestScript ||
        error)
      continue;
    std::ifstream file(word, std::ios::binary);
    if (speaks_of_gloo({std::istreambuf_iterator<char>(file), {}})) return base_name(word);
  }
  return "";
}

template <class T>
nlohmann::ordered_json nullable(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// On a full disk nothing can be written beside the file, but the blocks that it has are ours.
bool overwrite(const std::filesystem::path& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  const bool fits = fd >= 0 && fstat(fd, &status) == 0 && static_cast<int64_t>(text.size()) >= status.st_size &&
                    static_cast<int64_t>(text.size()) <= status.st_blocks * 512;
  const bool done = fits && pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  return (fd < 0 || close(fd) == 0) && done;
}

[[noreturn]] void throw_errno(const std::filesystem::path& path) {
  throw Error(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
              "is the disk full, or the folder read-only?");
}

}  // namespace

bool is_recorded_variable(std::string_view name) {
  if (is_secret_name(name.data(), name.size())) return false;
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string program_name(const std::vector<std::string>& command) {
  if (command.empty()) return "job";
  size_t at = 0;
  if (std::find(kLaunchers.begin(), kLaunchers.end(), base_name(command[0])) != kLaunchers.end()) {
    // Behind the launcher's own options: the first word that is a program. Values of options ("2", "core") hardly ever
    // are.
    for (size_t i = 1; i < command.size(); ++i)
      if (!find_program(command[i]).empty()) {
        at = i;
        break;
      }
  }
  if (base_name(command[at]).starts_with("python"))
    for (size_t i = at + 1; i < command.size(); ++i)
      if (command[i].ends_with(".py")) {
        at = i;
        break;
      }
  std::string name = base_name(command[at]);
  if (name.ends_with(".py")) name.resize(name.size() - 3);
  return name.empty() ? "job" : name;
}

int64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

JobFile describe_job(const std::vector<std::string>& command, const char* const* environment) {
  JobFile job;
  job.command = command;
  job.started_realtime_ns = realtime_ns();
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos && is_recorded_variable(entry.substr(0, equals)))
      job.env.emplace(entry.substr(0, equals), without_secrets(entry.substr(equals + 1)));
  }
  if (!command.empty()) {
    const std::string name = base_name(command[0]);
    for (const std::string_view launcher : kLaunchers)
      if (name == launcher || name.starts_with(std::string(launcher) + ".")) job.launcher = launcher;
  }
  for (const char* variable : kJobIds)
    if (const char* id = std::getenv(variable); id != nullptr && job.job_id.empty()) job.job_id = id;
  job.gloo = gloo_in(command);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  job.host = host;
  std::error_code error;
  job.cwd = std::filesystem::current_path(error).string();
  job.commit = history::commit_now(job.cwd).value_or("");
  return job;
}

std::string to_json(const JobFile& job) {
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
  };
  const nlohmann::ordered_json json = {{"schema", 1},
                                       {"ddl_version", DDL_VERSION},
                                       {"command", without_secrets(job.command)},
                                       {"name", program_name(job.command)},
                                       {"cwd", job.cwd},
                                       {"commit", text(job.commit)},
                                       {"host", job.host},
                                       {"launcher", text(job.launcher)},
                                       {"job_id", text(job.job_id)},
                                       {"gloo", text(job.gloo)},
                                       {"started_realtime_ns", job.started_realtime_ns},
                                       {"ended_realtime_ns", nullable(job.ended_realtime_ns)},
                                       {"exit_code", nullable(job.exit_code)},
                                       {"signal", nullable(job.signal)},
                                       {"told_to_end", nullable(job.told_to_end)},
                                       {"env", job.env}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_job_file(const std::filesystem::path& directory, const JobFile& job) {
  const std::filesystem::path path = directory / "job.json", aside = directory / fmt::format(".job.json.{}", getpid());
  const std::string text = to_json(job);
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size())) error = written < 0 ? errno : ENOSPC;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(aside.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) unlink(aside.c_str());
  }
  if (error == 0 || ((error == ENOSPC || error == EDQUOT) && overwrite(path, text))) return;
  errno = error;
  throw_errno(path);
}

}  // namespace ddl::cli
