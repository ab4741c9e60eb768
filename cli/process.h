// Child processes: the job, and small helpers with captured output.
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
  int exit_code = 0;    ///< valid if signal is 0
  int signal = 0;       ///< the signal that killed it; 0: none
  int told_to_end = 0;  ///< SIGINT or SIGTERM, the first that reached it or us while it ran; 0: none
  /// As a shell gives it: 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// A job to be started.
struct Launch {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> settings;
  std::string output;
  std::vector<std::string> unset = {};  ///< variables of ours that it does not get
  /// For run_lanes(): how long it may take, asked when it starts; unset: as long as it likes.
  std::function<double()> most_s = {};
  /// The time between SIGTERM, a second one (launchers that wait for their ranks give them up then) and SIGKILL, where
  /// we end the job. SIGKILL goes to all that the job has started on this host, whatever its process group is, also
  /// where the job itself has ended before.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
};

/// Runs `command` (searched in PATH) with `settings` added to our environment, and waits. It shares our terminal,
/// standard streams and process group. Signals sent to us alone are passed on; Ctrl-C reaches it directly. Throws
/// ddl::Error with ExitCode::kCannotLaunch if it cannot start. `output`: a file for its standard output and standard
/// error (mode 0600, truncated); its standard input is then empty. `beside`: runs in a process of its own with the
/// job's process id, cannot delay a signal that is passed on, is killed when the job ends, and ends with us.
Ended run_job(const Launch& launch, const std::function<void(pid_t job)>& beside = {});
Ended run_job(const std::vector<std::string>& command, const std::vector<std::pair<std::string, std::string>>& settings,
              const std::string& output = {}, const std::function<void(pid_t job)>& beside = {});

/// A job that the caller watches while it runs. While this exists, signals to us wait for wait(), which passes them on;
/// one at a time. The destructor ends a running job as end() does.
class RunningJob {
 public:
  /// Throws as run_job().
  explicit RunningJob(const Launch& launch);
  ~RunningJob();
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  /// Waits this long for its end. Nothing: it still runs.
  std::optional<Ended> wait(std::chrono::milliseconds most);
  /// Waits for its end.
  Ended wait();
  /// Ends it on our own behalf, as Launch::grace says, and waits for its end: nobody told the job to end.
  Ended end();
  /// SIGINT or SIGTERM has come.
  bool told_to_end() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

struct LaneEnd {
  Ended ended;
  double wall_s = 0;                         ///< from its start to its end
  std::optional<double> ended_after_s = {};  ///< it took longer than it might, which is this, and was ended
};

/// Runs the jobs of each lane one after the other, different lanes side by side; signals go to all running jobs.
/// Returns how they ended, by lane: fewer than requested if somebody told us to end. A job that takes longer than it
/// may is ended (Launch::grace). Throws as run_job(), once all have ended.
std::vector<std::vector<LaneEnd>> run_lanes(const std::vector<std::vector<Launch>>& lanes);

struct Captured {
  bool started = false;
  Ended ended;
  std::string output;  ///< standard output and standard error, at most 64 KiB
};

/// The executable that a word of a command starts: a path, or a name found in $PATH. Empty: none, or the
/// word is an option.
std::filesystem::path find_program(const std::string& word);

/// Runs a helper with standard input closed; it is killed after `patience`.
Captured run_and_capture(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& settings = {},
                         std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace ddl::cli
