#include "cli/tune_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <fstream>
#include <regex>
#include <sstream>

#include "analyzer/statistics.h"
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

// What the job says of itself, line by line. Without the file nothing.
std::vector<double> numbers_in(const fs::path& file, const std::regex& pattern) {
  constexpr size_t kMostCharacters = 4096;  // the library's matcher needs stack for every character
  std::vector<double> numbers;
  if (std::error_code error; !fs::is_regular_file(file, error)) return numbers;  // nobody waits for the writer of a pipe
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.size() > kMostCharacters) line.resize(kMostCharacters);
    for (std::sregex_iterator match(line.begin(), line.end(), pattern), none; match != none; ++match) {
      const std::string text = (*match)[1];
      double number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error == std::errc() && end == text.data() + text.size()) numbers.push_back(number);
    }
  }
  return numbers;
}

// Those that a trial has added: a job may append to its file or write it anew.
std::vector<double> added(const std::vector<double>& before, std::vector<double> after) {
  if (after.size() > before.size() && std::equal(before.begin(), before.end(), after.begin()))
    after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return after;
}

}  // namespace

std::vector<std::string> launched(const tune::PlacedJob& job) {
  return !job.environment.empty() && is_open_mpi_launcher(job.command) ? forward_settings(job.command, job.environment) : job.command;
}

RanTrial run_trial(const tune::PlacedJob& job, const fs::path& run, const fs::path& log, const tune::Goal& goal) {
  using Clock = std::chrono::steady_clock;
  std::error_code ignored;
  fs::remove_all(run, ignored);
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string(), "record", "-o", run.string(), "--"};
  for (std::string& word : launched(job)) command.push_back(std::move(word));

  std::optional<std::regex> pattern;
  fs::path told;
  fs::file_time_type written{};
  std::vector<double> before;
  if (goal.metric) {
    pattern.emplace(goal.metric->pattern);
    told = goal.metric->file.empty() ? log : fs::path(goal.metric->file);
    if (!goal.metric->file.empty()) {
      before = numbers_in(told, *pattern);
      written = fs::last_write_time(told, ignored);
    }
  }

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
    trial.facts = tune::read_trial(db, goal.target_loss, goal.needs_steps());
    if (pattern && (goal.metric->file.empty() || fs::last_write_time(told, ignored) != written)) {
      std::vector<double> numbers = added(before, numbers_in(told, *pattern));
      if (!numbers.empty()) trial.facts->metric = median_of(numbers);
    }
  } catch (const Error& error) {
    trial.why = error.hint().empty() ? error.what() : fmt::format("{} ({})", error.what(), error.hint());
  } catch (const std::exception& error) {
    trial.why = error.what();
  }
  return trial;
}

}  // namespace ddl::cli
