#include "cli/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::cli {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

// What somebody may send to us and mean the job: batch systems warn with USR1, TERM and HUP.
constexpr std::array<int, 6> kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::vector<std::string> environment_with(const Settings& settings, const std::vector<std::string>& unset) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name(*entry, std::strcspn(*entry, "="));
    bool replaced = std::find(unset.begin(), unset.end(), name) != unset.end();
    for (const auto& setting : settings) replaced = replaced || setting.first == name;
    if (!replaced) result.emplace_back(*entry);
  }
  for (const auto& [name, value] : settings) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Owns the C structures of posix_spawn.
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~Spawn() {
    if (output_ >= 0) close(output_);
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  void signal_mask(const sigset_t& mask) {
    posix_spawnattr_setsigmask(&attributes_, &mask);
    flags_ |= POSIX_SPAWN_SETSIGMASK;
    posix_spawnattr_setflags(&attributes_, flags_);
  }
  /// What we ignore it does not: of helpers.
  void standard_signals() {
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    flags_ |= POSIX_SPAWN_SETSIGDEF;
    posix_spawnattr_setflags(&attributes_, flags_);
  }
  void redirect(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  /// Opened here, where it can be seen what it is: in the child, opening a FIFO would wait, and we for the child.
  void write_to(const std::string& file) {
    std::string why = why_no_file(file, NamedBy::kFolder);
    if (why.empty()) {
      output_ = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
      if (output_ < 0) why = std::strerror(errno);
    }
    if (!why.empty())
      throw CannotWrite(fmt::format("cannot write {}: {}", file, why), "remove it, or name another folder with -o");
    fcntl(output_, F_SETFL, 0);
    redirect(output_, STDOUT_FILENO);
    redirect(STDOUT_FILENO, STDERR_FILENO);
  }
  void null_input() { posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0); }

  /// 0 or an errno.
  int start(std::vector<std::string> command, const Settings& settings, pid_t& pid,
            const std::vector<std::string>& unset = {}) {
    std::vector<std::string> environment = environment_with(settings, unset);
    return posix_spawnp(&pid, command[0].c_str(), &actions_, &attributes_, pointers(command).data(),
                        pointers(environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  short flags_ = 0;
  int output_ = -1;
};

}  // namespace

// Blocks the signals that are waited for, so that none is missed between two looks, and drops what came too
// late for the job.
class SignalWatch {
 public:
  SignalWatch() {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, nullptr);  // ignored SIGCHLD would take the exit code away
    sigemptyset(&watched_);
    sigaddset(&watched_, SIGCHLD);
    for (const int signal : kForwarded) sigaddset(&watched_, signal);
    pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  }
  ~SignalWatch() {
    const timespec now{};
    while (sigtimedwait(&watched_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  const sigset_t& before() const { return before_; }
  int wait(siginfo_t& info) const { return sigwaitinfo(&watched_, &info); }
  /// Below zero: none came in that time.
  int wait(siginfo_t& info, std::chrono::nanoseconds most) const {
    const timespec span{most.count() / 1'000'000'000, most.count() % 1'000'000'000};
    return sigtimedwait(&watched_, &info, &span);
  }

 private:
  sigset_t watched_, before_;
};

namespace {

std::optional<Ended> reap(pid_t pid, int flags) {
  int status = 0;
  pid_t result = 0;
  do result = waitpid(pid, &status, flags);
  while (result < 0 && errno == EINTR);
  if (result == 0) return std::nullopt;
  if (result < 0) throw Error(fmt::format("lost track of the job: {}", std::strerror(errno)));
  if (WIFSIGNALED(status)) return Ended{.exit_code = 0, .signal = WTERMSIG(status)};
  return Ended{.exit_code = WEXITSTATUS(status), .signal = 0};
}

}  // namespace

/// Jobs that run at the same time, and what is sent to us and meant for them.
class Jobs {
 public:
  struct End {
    pid_t pid;
    Ended ended;
  };
  const sigset_t& mask() const { return watch_.before(); }
  bool told_to_end() const { return told_to_end_ != 0; }

  pid_t start(const Launch& launch) {
    Spawn spawn;
    spawn.signal_mask(watch_.before());
    if (!launch.output.empty()) {
      spawn.write_to(launch.output);
      spawn.null_input();
    }
    pid_t pid = 0;
    if (const int error = spawn.start(launch.command, launch.settings, pid, launch.unset); error != 0)
      throw Error(fmt::format("cannot start {}: {}", launch.command[0], std::strerror(error)),
                  error == ENOENT ? "is the name right, and is it in PATH?" : "is it a program?",
                  ExitCode::kCannotLaunch);
    pids_.push_back(pid);
    return pid;
  }

  /// Waits for one of them.
  End next_end() {
    for (;;) {
      if (const std::optional<End> end = ended()) return *end;
      siginfo_t info{};
      take(watch_.wait(info), info);
    }
  }
  /// The same, for so long. Nothing: none has ended.
  std::optional<End> next_end(std::chrono::nanoseconds most) {
    const auto until = std::chrono::steady_clock::now() + most;
    for (;;) {
      if (const std::optional<End> end = ended()) return end;
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) return std::nullopt;
      siginfo_t info{};
      take(watch_.wait(info, left), info);
    }
  }

 private:
  std::optional<End> ended() {
    for (const pid_t pid : pids_)
      if (std::optional<Ended> ended = reap(pid, WNOHANG)) {
        pids_.erase(std::find(pids_.begin(), pids_.end(), pid));
        // What ended it may have been sent to us as well (Ctrl-C, to the whole group) and wait to be taken.
        siginfo_t info{};
        for (int signal = 0; (signal = watch_.wait(info, std::chrono::nanoseconds(0))) > 0;) take(signal, info);
        ended->told_to_end = told_to_end_;
        return End{pid, *ended};
      }
    return std::nullopt;
  }

  void take(int signal, const siginfo_t& info) {
    if (signal <= 0 || signal == SIGCHLD) return;
    if (told_to_end_ == 0 && (signal == SIGINT || signal == SIGTERM)) told_to_end_ = signal;
    // From the terminal (SI_KERNEL) the whole group has it already. timeout(1) sends twice, to us and to the
    // group: pass one on.
    if (info.si_code != SI_KERNEL) pass_on(signal);
  }

  void pass_on(int signal) {
    const auto now = std::chrono::steady_clock::now();
    const auto last = passed_on_.find(signal);
    if (last != passed_on_.end() && now - last->second < std::chrono::seconds(1)) return;
    passed_on_[signal] = now;
    for (const pid_t pid : pids_) kill(pid, signal);
  }

  SignalWatch watch_;
  std::vector<pid_t> pids_;
  std::map<int, std::chrono::steady_clock::time_point> passed_on_;
  int told_to_end_ = 0;
};

namespace {

using Clock = std::chrono::steady_clock;

/// From /proc/PID/stat.
struct ProcessStat {
  pid_t parent = 0;
  uint64_t start = 0;  ///< tells it from a later process of its number
};

/// Nothing: there is no such process, or it is a zombie.
std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, skipped;
  ProcessStat stat;
  fields >> state >> stat.parent;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> stat.start;
  return fields && state != "Z" ? std::optional(stat) : std::nullopt;
}

/// Ends a job with all that it has started on this host. mpirun gives its ranks groups of their own, and a script that
/// is ended leaves its mpirun behind: what belongs to the job is noted while its parents live.
class Ending {
 public:
  Ending(pid_t job, std::chrono::milliseconds grace) : job_(job), grace_(grace) {
    if (const auto stat = stat_of(job)) members_[job] = stat->start;
    note_started();
    kill(job, SIGTERM);
  }

  /// While the job runs.
  void look() {
    note_started();
    if (Clock::now() - since_ < grace_) return;
    since_ = Clock::now();
    if (++stage_ == Stage::kAgain)
      kill(job_, SIGTERM);
    else
      send(SIGKILL, stage_ == Stage::kKilled);  // `ddl record` may have the recording to read, once its job is gone
  }

  /// Once the job has ended.
  void end_what_is_left() {
    members_.erase(job_);  // the number is free
    send(SIGTERM);
    for (since_ = Clock::now(); Clock::now() - since_ < grace_;
         std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      if (!lives()) return;
    send(SIGKILL);
  }

 private:
  enum class Stage { kTold, kAgain, kStartedKilled, kKilled };
  friend Stage operator++(Stage& stage) {
    return stage = stage == Stage::kKilled ? stage : static_cast<Stage>(static_cast<int>(stage) + 1);
  }

  void note_started() {
    std::map<pid_t, ProcessStat> all;
    std::error_code ignored;
    for (std::filesystem::directory_iterator entry("/proc", ignored), end; !ignored && entry != end;
         entry.increment(ignored))
      if (const pid_t pid = std::atoi(entry->path().filename().c_str()); pid > 0)
        if (const auto stat = stat_of(pid)) all[pid] = *stat;
    for (bool more = true; more;) {
      more = false;
      for (const auto& [pid, stat] : all) {
        const auto parent = members_.find(stat.parent);
        if (parent == members_.end() || all[stat.parent].start != parent->second) continue;
        uint64_t& noted = members_[pid];
        more = more || noted != stat.start;
        noted = stat.start;
      }
    }
  }
  bool is_there(pid_t pid, uint64_t start) const {
    const auto stat = stat_of(pid);
    return stat && stat->start == start;
  }
  bool lives() const {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const auto& member) { return is_there(member.first, member.second); });
  }
  void send(int signal, bool to_job = false) {
    for (const auto& [pid, start] : members_)
      if ((pid != job_ || to_job) && is_there(pid, start)) kill(pid, signal);
  }

  pid_t job_;
  std::chrono::milliseconds grace_;
  Clock::time_point since_ = Clock::now();
  Stage stage_ = Stage::kTold;
  std::map<pid_t, uint64_t> members_;  ///< with their starts
};

/// A fork of ours that runs `work` and nothing else.
class Companion {
 public:
  Companion(const std::function<void(pid_t)>& work, pid_t job, const sigset_t& mask) {
    if (!work) return;
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    // of the terminal: the job may go on after them, and so do we
    for (const int signal : kForwarded) ::signal(signal, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    try {
      work(job);
    } catch (...) {  // has nobody to tell
    }
    _exit(0);
  }
  ~Companion() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

 private:
  pid_t pid_ = -1;
};

}  // namespace

Ended run_job(const Launch& launch, const std::function<void(pid_t job)>& beside) {
  Jobs jobs;
  const pid_t pid = jobs.start(launch);
  const Companion companion(beside, pid, jobs.mask());
  return jobs.next_end().ended;
}

Ended run_job(const std::vector<std::string>& command, const Settings& settings, const std::string& output,
              const std::function<void(pid_t job)>& beside) {
  return run_job({command, settings, output}, beside);
}

struct RunningJob::Parts {
  std::chrono::milliseconds grace;
  Jobs jobs;
  pid_t pid = 0;
  std::optional<Ended> ended;
};

constexpr std::chrono::milliseconds kLook{200};  // whether a job takes longer than it may, or has ended as it was told

RunningJob::RunningJob(const Launch& launch) : parts_(std::make_unique<Parts>()) {
  parts_->grace = launch.grace;
  parts_->pid = parts_->jobs.start(launch);
}

RunningJob::~RunningJob() {
  try {
    end();
  } catch (const Error&) {  // lost track of it
  }
}

std::optional<Ended> RunningJob::wait(std::chrono::milliseconds most) {
  if (!parts_->ended)
    if (const auto end = parts_->jobs.next_end(most)) parts_->ended = end->ended;
  return parts_->ended;
}

Ended RunningJob::wait() {
  if (!parts_->ended) parts_->ended = parts_->jobs.next_end().ended;
  return *parts_->ended;
}

Ended RunningJob::end() {
  if (parts_->ended) return *parts_->ended;
  Ending ending(parts_->pid, parts_->grace);
  while (!wait(std::min(kLook, parts_->grace))) ending.look();
  ending.end_what_is_left();
  return *parts_->ended;
}

bool RunningJob::told_to_end() const { return parts_->jobs.told_to_end(); }

/// Between the first jobs of two lanes. Two mpirun of Open MPI 4.1 that start in the same moment race for the session
/// folder of their user, and one of them fails ("File exists").
constexpr std::chrono::milliseconds kApart{100};

std::vector<std::vector<LaneEnd>> run_lanes(const std::vector<std::vector<Launch>>& lanes) {
  struct Running {
    size_t lane;
    std::chrono::milliseconds grace;
    Clock::time_point since;
    std::optional<double> most_s = {}, ended_after_s = {};
    std::optional<Ending> ending = {};
  };
  Jobs jobs;
  std::map<pid_t, Running> running;
  std::vector<std::vector<LaneEnd>> ends(lanes.size());
  std::optional<Error> failed;
  const auto start_next = [&](size_t lane) {
    if (jobs.told_to_end() || failed || ends[lane].size() == lanes[lane].size()) return;
    try {
      const Launch& launch = lanes[lane][ends[lane].size()];
      Running job{.lane = lane, .grace = launch.grace, .since = Clock::now()};
      if (launch.most_s) job.most_s = launch.most_s();
      running.emplace(jobs.start(launch), job);
    } catch (const Error& error) {
      failed = error;
      for (auto& [pid, job] : running) job.ending.emplace(pid, job.grace);
    }
  };
  const auto finish = [&](const Jobs::End& end) {
    Running job = std::move(running.extract(end.pid).mapped());
    if (job.ending) job.ending->end_what_is_left();
    ends[job.lane].push_back(
        {end.ended, std::chrono::duration<double>(Clock::now() - job.since).count(), job.ended_after_s});
    start_next(job.lane);
  };
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (!running.empty())
      if (const auto end = jobs.next_end(kApart)) finish(*end);
    start_next(lane);
  }
  while (!running.empty()) {
    if (const auto end = jobs.next_end(kLook)) finish(*end);
    for (auto& [pid, job] : running) {
      if (job.ending) {
        job.ending->look();
      } else if (job.most_s && std::chrono::duration<double>(Clock::now() - job.since).count() > *job.most_s) {
        job.ending.emplace(pid, job.grace);
        job.ended_after_s = job.most_s;
      }
    }
  }
  if (failed) throw Error(*failed);
  return ends;
}

std::filesystem::path find_program(const std::string& word) {
  if (word.empty() || word.starts_with('-')) return {};
  const auto is_executable = [](const std::filesystem::path& file) {
    std::error_code error;
    return std::filesystem::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
  };
  if (word.find('/') != std::string::npos)
    return is_executable(word) ? std::filesystem::path(word) : std::filesystem::path();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / word; is_executable(file))
      return file;
  return {};
}

Captured run_and_capture(const std::vector<std::string>& command, const Settings& settings,
                         std::chrono::milliseconds patience) {
  Captured captured;
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return captured;
  Spawn spawn;
  spawn.standard_signals();
  spawn.null_input();
  spawn.redirect(pipe_fds[1], STDOUT_FILENO);
  spawn.redirect(pipe_fds[1], STDERR_FILENO);
  pid_t pid = 0;
  captured.started = spawn.start(command, settings, pid) == 0;
  close(pipe_fds[1]);
  const auto deadline = Clock::now() + patience;
  for (bool open = captured.started; open;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{.fd = pipe_fds[0], .events = POLLIN, .revents = 0};
    const int answer = left <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left));
    if (answer == 0) {
      kill(pid, SIGKILL);
      break;
    }
    if (answer < 0) continue;  // a signal of ours: reading would wait without an end
    char buffer[4096];
    const ssize_t count = read(pipe_fds[0], buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    open = count > 0;
    if (open && captured.output.size() < 65536) captured.output.append(buffer, static_cast<size_t>(count));
  }
  close(pipe_fds[0]);
  if (captured.started) captured.ended = reap(pid, 0).value_or(Ended{});
  return captured;
}

}  // namespace ddl::cli
