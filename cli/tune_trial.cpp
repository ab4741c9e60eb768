#include "cli/tune_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "cli/mpirun.h"
#include "cli/open_run.h"
#include "core/error.h"
#include "core/own_library.h"
#include "core/regular_file.h"
#include "reports/format.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

constexpr char kError[] = "error";

// What the job says of itself. Without the file nothing.
std::vector<tune::MetricMatch> told_in(const fs::path& file, const std::string& metric) {
  if (std::error_code error; !fs::is_regular_file(file, error)) return {};  // nobody waits for the writer of a pipe
  std::ifstream stream(file);
  return tune::matches_in(stream, metric);
}

// Those that a trial has added: a job may append to its file or write it anew.
std::vector<tune::MetricMatch> added(const std::vector<tune::MetricMatch>& before,
                                     std::vector<tune::MetricMatch> after) {
  if (after.size() > before.size() && std::equal(before.begin(), before.end(), after.begin()))
    after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return after;
}

// A NaN cannot be ordered: one among them is the answer.
double metric_of(std::vector<double> numbers) {
  const auto nan = std::find_if(numbers.begin(), numbers.end(), [](double number) { return std::isnan(number); });
  return nan != numbers.end() ? *nan : median_of(numbers);
}

}  // namespace

std::string words_of_failure(const fs::path& log) {
  constexpr size_t kMostCharacters = 160, kMostRead = 4096;
  // Jobs that refuse their arguments say which.
  const auto shown = [](const std::string& line) {
    return without_secrets(line.substr(0, kMostRead)).substr(0, kMostCharacters);
  };
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
    if (error != line.end()) return shown(line);
    if (line.find_first_not_of(" \t\r-") != std::string::npos && !line.starts_with("ddl: ")) last = line;
  }
  return shown(last);
}

std::vector<std::string> launched(const tune::PlacedJob& job) {
  return !job.environment.empty() && is_open_mpi_launcher(job.command) ? forward_settings(job.command, job.environment)
                                                                       : job.command;
}

TrialRun::TrialRun(const tune::PlacedJob& job, fs::path run, fs::path log, const tune::Goal& goal)
    : run_(std::move(run)), log_(std::move(log)), goal_(goal) {
  std::error_code ignored;
  fs::remove_all(run_, ignored);
  launch_ = {{own_program().string(), "record", "-o", run_.string(), "--"}, job.environment, log_.string(), job.unset};
  for (std::string& word : launched(job)) launch_.command.push_back(std::move(word));
  if (!goal.metric) return;
  told_ = goal.metric->file.empty() ? log_ : fs::path(goal.metric->file);
  if (goal.metric->file.empty()) return;
  before_ = told_in(told_, goal.metric->pattern);
  written_ = fs::last_write_time(told_, ignored);
}

RanTrial TrialRun::finish(const LaneEnd& end) const {
  const Ended& ended = end.ended;
  if (end.ended_after_s && !ended.told_to_end)
    return {.facts = {}, .why = did_not_end(*end.ended_after_s), .wall_s = end.wall_s};
  RanTrial trial;
  trial.wall_s = end.wall_s;
  trial.told_to_end = ended.told_to_end;
  if (ended.shell_code() != 0) {
    trial.why = fmt::format("{}{}: {}", kExitCode, ended.shell_code(), words_of_failure(log_));
    return trial;
  }
  std::error_code ignored;
  try {
    SQLite::Database db = std::move(open_run(run_.string()).db);
    trial.facts = tune::read_trial(db, goal_.target_loss, goal_.needs_steps());
    for (Query row(db, "SELECT name || ' ' || boot_id FROM host"); row.next();) trial.hosts.insert(row.text(0));
    if (goal_.metric && (goal_.metric->file.empty() || fs::last_write_time(told_, ignored) != written_)) {
      std::vector<double> numbers = tune::numbers_of(added(before_, told_in(told_, goal_.metric->pattern)));
      if (!numbers.empty()) trial.facts->metric = metric_of(std::move(numbers));
    }
  } catch (const Error& error) {
    trial.facts.reset();
    trial.why = error.hint().empty() ? error.what() : fmt::format("{} ({})", error.what(), error.hint());
  } catch (const std::exception& error) {
    trial.why = error.what();
  }
  return trial;
}

void check_pattern(const tune::Metric& metric) {
  size_t groups = 0;
  try {
    groups = std::regex(metric.pattern).mark_count();
  } catch (const std::regex_error& error) {
    throw Error(fmt::format("--metric '{}' is not a regular expression: {}", metric.pattern, error.what()),
                "'images/sec: ([0-9.]+)'", ExitCode::kUsage);
  }
  if (groups == 0)
    throw Error(fmt::format("--metric '{}' does not say where the number is", metric.pattern),
                "put it in parentheses: 'images/sec: ([0-9.]+)'", ExitCode::kUsage);
}

RanTrial run_trial(const tune::PlacedJob& job, const fs::path& run, const fs::path& log, const tune::Goal& goal,
                   double most_s) {
  const TrialRun trial(job, run, log, goal);
  Launch launch = trial.launch();
  launch.most_s = [most_s] { return most_s; };
  return trial.finish(run_lanes({{launch}}).at(0).at(0));
}

double trial_limit_s(double default_s, double work, double left_s) {
  // one that was expected to fit is let through
  constexpr double kLongest = 10, kLongestAtTheEnd = 3, kLeastAtTheEnd_s = 10;
  if (default_s == 0) return std::max(kLeastLimit_s, left_s);
  return std::min(std::max(kLeastLimit_s, kLongest * work * default_s),
                  std::max({kLeastAtTheEnd_s, kLongestAtTheEnd * work * default_s, left_s}));
}

std::string did_not_end(double limit_s) {
  return kDidNotEnd + reports::short_duration(static_cast<int64_t>(limit_s * 1e9));
}

}  // namespace ddl::cli
