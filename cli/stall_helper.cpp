#include "cli/stall_helper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "cli/job_file.h"
#include "cli/open_run.h"
#include "cli/stacks.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "core/number.h"
#include "store/run_directory.h"
#include "store/stalls.h"
#include "store/text.h"
#include "tui/observer.h"
#include "tui/spool_source.h"
#include "tui/stall_watch.h"

namespace ddl::cli {
namespace {

using std::chrono::nanoseconds;

constexpr auto kMostBetweenLooks = std::chrono::seconds(10);
constexpr int64_t kBetweenNotesNs = 10'000'000'000;  // of when the job was last seen
constexpr auto kLeastBetweenLooks = std::chrono::milliseconds(250);
constexpr double kBusy = 0.5;  // of a core: the thread computes, whatever it did in the moment of the look
constexpr size_t kMostGroups = 8;
constexpr auto kGrace = std::chrono::seconds(
    // torchrun itself takes 30 s until it kills a rank that does not heed SIGTERM: killed before, it would
    // leave that one behind
    60);

void sleep_for(nanoseconds span) {
  timespec left{span.count() / 1'000'000'000, span.count() % 1'000'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

/// One write: beside the job's own lines.
void append_line(const std::filesystem::path& file, std::string line) {
  line += '\n';
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  if (fd < 0) return;
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(fd, line.data() + done, line.size() - done);
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  close(fd);
}

class Helper {
 public:
  Helper(const std::filesystem::path& directory, const StallOptions& options, pid_t job)
      : run_(find_run(directory.string())),
        options_(options),
        job_(job),
        source_(run_, shown_path(directory), tui::SpoolSource::Join::kWhole),
        watch_(options.limit->count()) {}

  void run() {
    const auto between = std::clamp<nanoseconds>(*options_.limit / 8, kLeastBetweenLooks, kMostBetweenLooks);
    for (;;) {
      sleep_for(between);
      while (waitpid(-1, nullptr, WNOHANG) > 0) {  // commands of --on-stall that have ended
      }
      note_look();
      try {
        source_.poll(seen_, 0);
      } catch (const Error&) {  // nothing has been recorded yet
        continue;
      }
      const auto news = watch_.look(seen_);
      tui::forget_events(seen_);
      note_cpu_times();
      if (news) tell(*news);
    }
  }

 private:
  /// Ranks that wait record nothing, and whoever kills `ddl record` with the job leaves no word of its end: this tells
  /// how long it ran at least.
  void note_look() {
    const int64_t now_ns = realtime_ns();
    if (now_ns - noted_ns_ < kBetweenNotesNs) return;
    noted_ns_ = now_ns;
    const std::string text = fmt::format("{:020}\n", now_ns);
    const int fd = open(run_.last_look().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (pwrite(fd, text.data(), text.size(), 0) < 0) noted_ns_ = 0;  // a full disk may have room at the next look
    close(fd);
  }

  struct CpuTime {
    int64_t at_ns = 0;
    uint64_t ticks = 0;
    std::optional<double> ratio;
    std::string state;
  };

  void note_cpu_times() {
    if (seen_.generation != generation_) cpu_.clear();  // of other processes
    generation_ = seen_.generation;
    static const double ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
    for (const tui::Rank& rank : seen_.ranks) {
      if (!rank.here || rank.pid == 0) continue;
      const ThreadState state = main_thread_state(static_cast<pid_t>(rank.pid));
      CpuTime& known = cpu_[rank.rank];
      const int64_t now_ns = realtime_ns();
      if (known.at_ns != 0 && state.cpu_ticks >= known.ticks)
        known.ratio = static_cast<double>(state.cpu_ticks - known.ticks) / ticks_per_s /
                      (static_cast<double>(now_ns - known.at_ns) * 1e-9);
      known.state = state.state == "sleeps" && known.ratio.value_or(0) >= kBusy ? "runs" : state.state;
      known.at_ns = now_ns;
      known.ticks = state.cpu_ticks;
    }
  }

  std::vector<StalledRank> describe_ranks(const tui::StallNews& news) {
    std::vector<StalledRank> ranks;
    for (const tui::Rank& rank : seen_.ranks) {
      StalledRank r;
      const auto is_in = [&](const std::vector<int64_t>& list) {
        return std::binary_search(list.begin(), list.end(), rank.rank);
      };
      r.rank = rank.rank;
      r.pid = rank.pid;
      r.host = rank.host;
      r.role = is_in(news.missing) ? "missing" : is_in(news.waiting) ? "waiting" : "other";
      r.in_call = tui::call_phrase(seen_, rank);
      if (const auto known = cpu_.find(rank.rank); rank.here && known != cpu_.end()) {
        r.state = known->second.state;
        r.cpu_ratio = known->second.ratio;
      }
      if (!rank.here) r.python_why = r.c_why = fmt::format("it runs on {}", rank.host);
      ranks.push_back(std::move(r));
    }
    std::sort(ranks.begin(), ranks.end(), [](const StalledRank& a, const StalledRank& b) { return a.rank < b.rank; });
    return ranks;
  }

  /// What /proc says of those that others wait for, and of those that are stopped whoever waits. The sentence has named
  /// the calls of ranks that wait for each other.
  static std::string states_phrase(const std::vector<StalledRank>& ranks, const tui::StallNews& news) {
    std::map<std::string, std::vector<int64_t>> by_state;
    for (const StalledRank& rank : ranks) {
      const bool is_stopped = rank.state == "stopped" || rank.state == "gone";
      if (!is_stopped &&
          (rank.role != "missing" || std::binary_search(news.waiting.begin(), news.waiting.end(), rank.rank)))
        continue;
      const std::string what = is_stopped || rank.in_call.empty() ? rank.state : "in " + rank.in_call;
      if (!what.empty()) by_state[what].push_back(rank.rank);
    }
    std::string text;
    for (const auto& [state, list] : by_state) {
      const bool one = list.size() == 1;
      const std::string words = state == "stopped"
                                    ? fmt::format("{} stopped by a signal or a debugger", one ? "is" : "are")
                                : state == "gone"   ? fmt::format("{} gone", one ? "is" : "are")
                                : state == "runs"   ? (one ? "computes" : "compute")
                                : state == "sleeps" ? (one ? "sleeps" : "sleep")
                                                    // in a call, in uninterruptible sleep
                                                    : fmt::format("{} {}", one ? "is" : "are", state);
      text += fmt::format("; {} {}", tui::ranks_phrase(list), words);
    }
    return text;
  }

  /// A compilation on all ranks, say: nobody waits for anybody, and all use their CPUs.
  static bool compute(const std::vector<StalledRank>& ranks) {
    return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [](const StalledRank& rank) {
      return rank.state == "runs" && rank.in_call.empty();
    });
  }

  void tell(const tui::StallNews& news) {
    if (news.kind == tui::StallNews::Kind::kResumed) {
      print_note(news.sentence);
      append_line(run_.stalls(), resumed_json_line(number_, realtime_ns()));
      return;
    }
    const bool is_stall = news.kind == tui::StallNews::Kind::kStall;
    ToldStall told;
    told.kind = is_stall ? "stall" : "waiting";
    told.number = ++number_;
    told.told_ns = realtime_ns();
    told.since_ns = told.told_ns - (seen_.now_ns - news.since_ns);
    told.limit_ns = options_.limit->count();
    told.call = news.call;
    told.ranks = describe_ranks(news);
    told.sentence = news.sentence + states_phrase(told.ranks, news);
    const bool all_compute = is_stall && news.waiting.empty() && compute(told.ranks);
    if (all_compute)
      told.sentence += fmt::format("; all compute{}", options_.action.empty() ? "" : ", so --on-stall is not done");
    print_note(told.sentence);
    if (is_stall) {
      if (!all_compute) told.action = without_secrets(std::string_view(options_.action));
      std::vector<StackTarget> targets;
      for (StalledRank& rank : told.ranks)
        if (rank.python_why.empty() && rank.pid > 0) targets.push_back({&rank, static_cast<pid_t>(rank.pid)});
      take_stacks(targets);
      print_stacks(told);
    }
    append_line(run_.stalls(), to_json_line(told));
    if (is_stall && !all_compute) act(told);
  }

  void print_stacks(const ToldStall& told) {
    const std::vector<StackGroup> groups = group_stacks(told);
    for (size_t i = 0; i < groups.size() && i < kMostGroups; ++i) print_note("  " + stack_line(groups[i]));
    if (groups.size() > kMostGroups)
      print_note(fmt::format("  {} more: ddl report {} stacks", groups.size() - kMostGroups,
                             shell_quoted(shown_path(run_.directory))));
  }

  void act(const ToldStall& told) {
    if (options_.action.empty()) return;
    if (options_.action == "abort") {
      print_note("--on-stall abort: ending the job");
      kill(job_, SIGTERM);
      sleep_for(kGrace);  // the end of the job ends us
      kill(job_, SIGKILL);
      return;
    }
    const pid_t child = fork();
    if (child != 0) return;
    for (int signal = 1; signal < SIGSYS; ++signal) ::signal(signal, SIG_DFL);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is the job's
    setenv("DDL_STALL_SENTENCE", told.sentence.c_str(), 1);
    setenv("DDL_STALL_RUN", run_.directory.c_str(), 1);
    std::vector<int64_t> missing;
    for (const StalledRank& rank : told.ranks)
      if (rank.role == "missing") missing.push_back(rank.rank);
    setenv("DDL_STALL_RANKS", fmt::format("{}", fmt::join(missing, ",")).c_str(), 1);
    execl("/bin/sh", "sh", "-c", options_.action.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }

  RunDirectory run_;
  StallOptions options_;
  pid_t job_;
  tui::SpoolSource source_;
  tui::StallWatch watch_;
  tui::Job seen_;
  std::map<int32_t, CpuTime> cpu_;
  uint32_t generation_ = 0;  ///< of the job that `cpu_` tells of
  int64_t number_ = 0;
  int64_t noted_ns_ = 0;
};

}  // namespace

void watch_for_stalls(const std::filesystem::path& directory, const StallOptions& options, pid_t job) {
  if (!options.limit) return;
  setpriority(PRIO_PROCESS, 0, 10);  // the job first
  rlimit limit{};                    // a file per process is open
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  try {
    Helper(directory, options, job).run();
  } catch (const std::exception& error) {
    print_note(fmt::format("no longer watching for stalls: {}", error.what()));
  }
}

std::optional<nanoseconds> parse_stall_limit(const std::string& text) {
  if (text == "off") return std::nullopt;
  std::string_view unit = text;
  const double number = take_number<double>(unit, std::chars_format::fixed).value_or(0);
  const double seconds = number * (unit == "h"                    ? 3600
                                   : unit == "m" || unit == "min" ? 60
                                   : unit.empty() || unit == "s"  ? 1
                                                                  : 0);
  if (!(seconds >= 1) || seconds > 1e7)
    throw Error(fmt::format("--stall: invalid duration '{}'", text), "at least a second, such as 60s or 5m; or off",
                ExitCode::kUsage);
  return nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace ddl::cli
