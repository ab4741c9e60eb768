// Child processes: the job, and small helpers whose output we read.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddl::cli {

struct Ended {
  int exit_code = 0;         ///< valid if signal is 0
  int signal = 0;            ///< that killed it; 0: none
  bool told_to_end = false;  ///< SIGINT or SIGTERM came while it ran, to it or to us
  /// As a shell gives it: 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// Runs `command` (searched in PATH) with `settings` added to our environment, and waits. It has our terminal, our standard streams and our
/// process group. Signals that somebody sends to us alone are passed on; Ctrl-C reaches it by itself. Throws ddl::Error with
/// ExitCode::kCannotLaunch if it cannot be started. `output`: a file that takes its standard output and standard error instead (mode 0600,
/// written anew); standard input is empty then. `beside`: runs in a process of its own as long as the job does, with the job's process id; what it does
/// cannot delay a signal that is passed on. It is killed when the job ends, and ends with us.
Ended run_job(const std::vector<std::string>& command, const std::vector<std::pair<std::string, std::string>>& settings,
              const std::string& output = {}, const std::function<void(pid_t job)>& beside = {});

/// A job, as run_job() takes it.
struct Launch {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> settings;
  std::string output;
};

/// A job that the caller looks at while it runs. Until it is gone, signals that come to us wait for wait(), which passes them on; one at a time. Ended by
/// SIGTERM and waited for where it still runs when this goes.
class RunningJob {
 public:
  /// Throws as run_job().
  explicit RunningJob(const Launch& launch);
  ~RunningJob();
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  /// Waits so long for its end. Nothing: it runs on.
  std::optional<Ended> wait(std::chrono::milliseconds most);
  /// Waits for it.
  Ended wait();
  /// SIGTERM to it, of us: it is no sign that somebody told the job to end.
  void end();
  /// SIGINT or SIGTERM have come.
  bool told_to_end() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

struct LaneEnd {
  Ended ended;
  double wall_s = 0;  ///< from its start to its end
};

/// Runs the jobs of each lane one after the other, those of different lanes side by side; signals go to all that run. How they ended, by lane: fewer
/// than were asked for where somebody told us to end. Throws as run_job(), once all have ended.
std::vector<std::vector<LaneEnd>> run_lanes(const std::vector<std::vector<Launch>>& lanes);

struct Captured {
  bool started = false;
  Ended ended;
  std::string output;  ///< standard output and standard error, at most 64 KiB
};

/// The executable that a word of a command starts: a path, or a name that $PATH finds. Empty: there is none, or the word is an option.
std::filesystem::path find_program(const std::string& word);

/// Runs a helper with standard input closed; it is killed after `patience`.
Captured run_and_capture(const std::vector<std::string>& command, const std::vector<std::pair<std::string, std::string>>& settings = {},
                         std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace ddl::cli
