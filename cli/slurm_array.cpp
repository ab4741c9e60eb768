#include "cli/slurm_array.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/process.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "store/parts.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

constexpr std::chrono::seconds kPatience{60};  // a busy controller

/// "2,5-7" of 2, 5, 6, 7.
std::string ranges_of(const std::vector<unsigned>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last;
  }
  return text;
}

}  // namespace

SlurmArray::SlurmArray(const RunDirectory& run, const std::vector<unsigned>& missing, unsigned of, unsigned threads)
    : folder_(fs::absolute(parts_folder(run))), parts_(missing.size()) {
  const std::string ddl = shell_quoted(fs::read_symlink("/proc/self/exe").string());
  const std::string directory = shell_quoted(fs::absolute(run.directory).string());
  const std::string cores = fmt::format("--cpus-per-task={}", threads);
  std::vector<std::string> merge = {"--job-name=ddl-merge", "--output=merge.log", cores};
  if (!missing.empty()) {
    array_ = submit(
        {"--job-name=ddl-analyze", fmt::format("--output=part-%a-of-{}.log", of), cores,
         "--array=" + ranges_of(missing)},
        fmt::format("exec {} analyze {} --part \"$SLURM_ARRAY_TASK_ID/{}\" --threads {}", ddl, directory, of, threads));
    merge.push_back("--dependency=afterok:" + array_);
    merge.push_back("--kill-on-invalid-dep=yes");
  }
  try {
    merge_ = submit(merge, fmt::format("exec {} merge {} --threads {}", ddl, directory, threads));
  } catch (const Error&) {
    if (!array_.empty()) run_and_capture({"scancel", array_}, {}, kPatience);
    throw;
  }
}

SlurmArray::~SlurmArray() {
  for (const std::string& job : {array_, merge_}) {
    if (!job.empty()) run_and_capture({"scancel", job}, {}, kPatience);
  }
}

std::string SlurmArray::submit(const std::vector<std::string>& options, const std::string& command) const {
  std::vector<std::string> words = {"sbatch", "--parsable", "--nodes=1", "--ntasks=1", "--chdir=" + folder_.string()};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--wrap=" + command);
  const Captured said = run_and_capture(words, {}, kPatience);
  if (!said.started)
    throw Error("cannot run sbatch", "is this a machine that submits to Slurm? without one: --on local:N",
                ExitCode::kCannotLaunch);
  std::string line;
  for (std::istringstream lines(said.output); said.ended.shell_code() == 0 && std::getline(lines, line);) {
    const std::string id = line.substr(0, line.find(';'));  // ID;CLUSTER
    if (!id.empty() && std::all_of(id.begin(), id.end(), [](unsigned char c) { return isdigit(c) != 0; })) return id;
  }
  throw Error(fmt::format("sbatch refused the job: {}", clean_text(said.output.substr(0, said.output.find('\n')))),
              "partition, account and limits are taken from SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT, ...",
              ExitCode::kCannotLaunch);
}

std::string SlurmArray::sentence() const {
  if (array_.empty()) return fmt::format("all parts are there; the merge is Slurm job {}", merge_);
  return fmt::format("{} part{} {} Slurm job {}, the merge is {}", parts_, parts_ == 1 ? "" : "s",
                     parts_ == 1 ? "is" : "are", array_, merge_);
}

bool SlurmArray::are_queued(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kSlice{100};
  for (auto left = patience; left.count() > 0; left -= kSlice) {
    Interrupts::check();
    std::this_thread::sleep_for(kSlice);
  }
  const Captured queue =
      run_and_capture({"squeue", "--noheader", "--format=%F", fmt::format("--user={}", getuid())}, {}, kPatience);
  if (!queue.started || queue.ended.shell_code() != 0) {
    if (!std::exchange(told_, true)) print_note("squeue does not answer; asking on");
    return true;
  }
  std::istringstream ids(queue.output);
  bool queued = false;
  for (std::string id; ids >> id;) queued = queued || id == array_ || id == merge_;
  if (!queued) array_.clear(), merge_.clear();
  return queued;
}

fs::path SlurmArray::merge_log() const { return folder_ / "merge.log"; }

}  // namespace ddl::cli
