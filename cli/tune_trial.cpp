#include "cli/tune_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <sstream>

#include "cli/mpirun.h"
#include "cli/open_run.h"
#include "cli/process.h"
#include "core/error.h"
#include "core/regular_file.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

constexpr char kError[] = "error";

// What the job says of its failure: the first line with "error" in it, since launchers add paragraphs of their own; else the last line.
std::string words_of_failure(const fs::path& log) {
  constexpr size_t kMostCharacters = 160;
  std::string text;
  try {
    text = read_regular_file(log.string(), NamedBy::kFolder);
  } catch (const Error& error) {
    return error.what();
  }
  std::istringstream file(text);
  std::string line, last;
  while (std::getline(file, line)) {
    const auto error = std::search(line.begin(), line.end(), std::begin(kError), std::end(kError) - 1,
                                   [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
    if (error != line.end()) return line.substr(0, kMostCharacters);
    if (line.find_first_not_of(" \t\r-") != std::string::npos && !line.starts_with("ddl: ")) last = line;
  }
  return last.substr(0, kMostCharacters);
}

}  // namespace

std::vector<std::string> launched(const tune::PlacedJob& job) {
  return !job.environment.empty() && is_open_mpi_launcher(job.command) ? forward_settings(job.command, job.environment) : job.command;
}

RanTrial run_trial(const tune::PlacedJob& job, const fs::path& run, const fs::path& log, std::optional<double> target_loss) {
  using Clock = std::chrono::steady_clock;
  std::error_code ignored;
  fs::remove_all(run, ignored);
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string(), "record", "-o", run.string(), "--"};
  for (std::string& word : launched(job)) command.push_back(std::move(word));

  RanTrial trial;
  const Clock::time_point start = Clock::now();
  const Ended ended = run_job(command, job.environment, log.string());
  trial.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  trial.told_to_end = ended.told_to_end;
  if (ended.shell_code() != 0) {
    trial.why = fmt::format("exit code {}: {}", ended.shell_code(), words_of_failure(log));
    return trial;
  }
  try {
    SQLite::Database db = std::move(open_run(run.string()).db);
    trial.facts = tune::read_trial(db, target_loss);
  } catch (const std::exception& error) {
    trial.why = error.what();
  }
  return trial;
}

}  // namespace ddl::cli
