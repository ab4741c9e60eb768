#include "cli/stacks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/process.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStackSignal = SIGURG;  // as in python/ddl_hooks/sitecustomize.py: where nobody listens it is ignored
constexpr size_t kMaxFrames = 64;
constexpr auto kPythonTime = std::chrono::milliseconds(1500);
constexpr auto kWorkersTime = std::chrono::milliseconds(1000);
constexpr auto kCTime = std::chrono::milliseconds(4500);
constexpr size_t kMostWorkers = 4;  // of a rank: what one of a loader's does, all of them do

std::string read_text(const std::string& path, std::streamoff from = 0) {
  std::ifstream file(path, std::ios::binary);
  if (from > 0) file.seekg(from);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return {};
  const size_t begin = text.rfind('\n', end);
  return clean_text(std::string_view(text).substr(begin == std::string::npos ? 0 : begin + 1,
                                                  end - (begin == std::string::npos ? 0 : begin + 1) + 1));
}

/// The file in memory that faulthandler of a process writes to, and its path. Its name holds the number of
/// its descriptor: a program that closed it and has another file there now is not asked, nor is one that
/// gave up the handler.
struct PythonFile {
  std::string path;  ///< empty: `why`
  std::string why;
  std::streamoff size() const {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 ? status.st_size : 0;
  }
};

bool catches(pid_t pid, int signal) {
  const std::string status = read_text(fmt::format("/proc/{}/status", pid));
  const size_t at = status.find("SigCgt:");
  if (at == std::string::npos) return false;
  return (std::strtoull(status.c_str() + at + 7, nullptr, 16) >> (signal - 1) & 1) != 0;
}

PythonFile python_file(pid_t pid) {
  std::error_code error;
  bool readable = false;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    readable = true;
    std::error_code ignored;
    const std::string target = fs::read_symlink(entry->path(), ignored).string();
    if (target.find(fmt::format("memfd:ddl-stacks-{} ", entry->path().filename().string())) == std::string::npos)
      continue;
    if (!catches(pid, kStackSignal)) return {{}, "the program has a handler of its own for SIGURG"};
    return {entry->path().string(), {}};
  }
  if (!readable) return {{}, "no permission to read /proc of the process"};
  return {{}, "no Python with the hooks of ddl record (python -I, -S or -E, --no-python, or another language)"};
}

/// How little it matters to a thread that a signal comes: a thread that runs does not notice, a futex or a read is
/// restarted, event loops expect to be interrupted, but sleep() in C returns early.
int disturbance(const std::string& task, bool is_main) {
  const std::string stat = read_text(task + "/stat");
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return INT_MAX;
  const std::string status = read_text(task + "/status");
  const size_t blocked = status.find("SigBlk:");
  if (blocked == std::string::npos ||
      (std::strtoull(status.c_str() + blocked + 7, nullptr, 16) >> (kStackSignal - 1) & 1) != 0)
    return INT_MAX;
  if (stat[end + 2] == 'R') return 0;
  const std::string call = read_text(task + "/syscall");
  if (call.starts_with("running")) return 0;
  char* after = nullptr;
  const long number = std::strtol(call.c_str(), &after, 10);
  if (after != call.c_str()) {
    if (number == SYS_futex) return 1;
    for (const long restarted :
         {SYS_read, SYS_readv, SYS_write, SYS_recvfrom, SYS_recvmsg, SYS_sendmsg, SYS_wait4, SYS_ioctl})
      if (number == restarted) return 2;
  }
  return is_main ? 4 : 3;
}

/// Any thread can write the stacks of all.
bool ask(pid_t pid) {
  pid_t best = 0;
  int least = INT_MAX;
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/task", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    const auto tid = static_cast<pid_t>(std::atoi(entry->path().filename().c_str()));
    const int much = disturbance(entry->path().string(), tid == pid);
    if (much < least) {
      least = much;
      best = tid;
    }
  }
  return best > 0 && syscall(SYS_tgkill, pid, best, kStackSignal) == 0;
}

void take_python(const std::vector<StackTarget>& targets) {
  struct Asked {
    StalledRank* rank;
    PythonFile file;
    std::streamoff from, size;
    Clock::time_point changed;
  };
  std::vector<Asked> asked;
  for (const StackTarget& target : targets) {
    PythonFile file = python_file(target.pid);
    target.rank->python_why = file.why;
    if (file.path.empty()) continue;
    const std::streamoff size = file.size();
    if (!ask(target.pid)) {
      target.rank->python_why = "no permission to signal the process";
      continue;
    }
    asked.push_back({target.rank, std::move(file), size, size, Clock::now()});
  }
  const auto deadline = Clock::now() + kPythonTime;
  for (bool all_quiet = asked.empty(); !all_quiet && Clock::now() < deadline;) {
    usleep(20'000);
    all_quiet = true;
    for (Asked& a : asked) {
      const std::streamoff size = a.file.size();
      if (size != a.size) a.changed = Clock::now();
      a.size = size;
      all_quiet &= size > a.from && Clock::now() - a.changed > std::chrono::milliseconds(60);
    }
  }
  for (const Asked& a : asked) {
    const std::vector<StalledThread> threads = parse_faulthandler(read_text(a.file.path, a.from));
    a.rank->threads.insert(a.rank->threads.end(), threads.begin(), threads.end());
    if (threads.empty()) a.rank->python_why = "the process did not answer";
  }
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/task", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    std::istringstream list(read_text(entry->path().string() + "/children"));
    for (pid_t child; list >> child;) found.push_back(child);
  }
  return found;
}

/// What the processes do that those ranks have started for whom others wait: workers of a loader. A forked one shares
/// the file of its parent, so that one after the other is asked.
void take_workers(const std::vector<StackTarget>& targets) {
  const auto deadline = Clock::now() + kWorkersTime;
  for (const StackTarget& target : targets) {
    if (target.rank->role != "missing" || target.rank->threads.empty()) continue;
    size_t asked = 0;
    for (const pid_t child : children_of(target.pid)) {
      if (asked == kMostWorkers || Clock::now() >= deadline) break;
      const PythonFile file = python_file(child);
      if (file.path.empty() || main_thread_state(child).state == "stopped") continue;
      const std::streamoff from = file.size();
      if (!ask(child)) continue;
      ++asked;
      for (std::streamoff size = from, last = -1; (size == from || size != last) && Clock::now() < deadline;
           size = file.size()) {
        last = size;
        usleep(20'000);
      }
      const std::vector<StalledThread> threads = parse_faulthandler(read_text(file.path, from));
      if (!threads.empty())
        target.rank->threads.push_back({"python", fmt::format("{}{}", kWorkerThread, child), threads.front().frames});
    }
  }
}

/// The first of the programs that is installed, and its name; empty: none.
std::string stack_program() {
  for (const char* name : {"eu-stack", "gdb"})
    if (!find_program(name).empty()) return name;
  return {};
}

std::vector<std::string> stack_command(const std::string& program, pid_t pid) {
  const std::string number = std::to_string(pid);
  if (program == "eu-stack") return {"eu-stack", "-1", "-s", "-n", std::to_string(kMaxFrames), "-p", number};
  return {"gdb",
          "-nx",
          "-batch",
          "-iex",
          "set auto-load no",
          "-iex",
          "set debuginfod enabled off",
          "-ex",
          "set width 0",
          "-ex",
          fmt::format("bt {}", kMaxFrames),
          "-p",
          number};
}

void take_c(const std::vector<StackTarget>& targets) {
  const std::string program = stack_program();
  if (program.empty()) {
    for (const StackTarget& target : targets) target.rank->c_why = "neither eu-stack (elfutils) nor gdb is installed";
    return;
  }
  const auto deadline = Clock::now() + kCTime;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < targets.size();) {
      StalledRank& rank = *targets[i].rank;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) {
        rank.c_why = "no time was left to ask the process";
        continue;
      }
      const Captured printed = run_and_capture(stack_command(program, targets[i].pid), {{"DEBUGINFOD_URLS", ""}}, left);
      const std::string frames = parse_c_stack(printed.output);
      if (!frames.empty()) {
        rank.threads.push_back({"c", "main", frames});
      } else {
        const std::string said = last_line(printed.output);
        rank.c_why = printed.ended.signal == SIGKILL ? fmt::format("{} took too long", program)
                     : said.empty()                  ? fmt::format("{} said nothing", program)
                                                     : fmt::format("{}: {}", program, said);
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>({targets.size(), std::max(1u, std::thread::hardware_concurrency()), 8});
  for (size_t i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

bool is_address(std::string_view word) { return word.starts_with("0x"); }

/// "0x7f.. in clock_nanosleep () from /lib/libc.so.6", "main (argc=1) at main.cpp:81", and what eu-stack prints:
/// "0x7f.. clock_nanosleep".
std::string c_frame(std::string_view line) {
  line = trimmed(line);
  if (is_address(line)) {
    line = trimmed(line.substr(std::min(line.find(' '), line.size())));
    if (line.starts_with("in ")) line = trimmed(line.substr(3));
  }
  if (line.empty()) return "?";
  std::string place;
  if (const size_t at = line.rfind(") at "); at != std::string_view::npos) {
    place = std::string(trimmed(line.substr(at + 5)));
    line = line.substr(0, at);
  }
  if (const size_t version = line.find('@'); version != std::string_view::npos) line = line.substr(0, version);
  if (const size_t arguments = line.find(" ("); arguments != std::string_view::npos) line = line.substr(0, arguments);
  return place.empty() ? std::string(line) : fmt::format("{} ({})", line, place);
}

}  // namespace

ThreadState main_thread_state(pid_t pid) {
  const std::string stat = read_text(fmt::format("/proc/{0}/task/{0}/stat", pid));
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return {"gone", 0};
  ThreadState found;
  std::istringstream rest(stat.substr(end + 2));
  char letter = 0;
  rest >> letter;
  std::string skipped;
  for (int field = 4; field < 14; ++field) rest >> skipped;
  uint64_t user = 0, system = 0;
  rest >> user >> system;
  found.cpu_ticks = user + system;
  found.state = letter == 'R'                    ? "runs"
                : letter == 'D'                  ? "in uninterruptible sleep"
                : letter == 'T' || letter == 't' ? "stopped"
                : letter == 'Z' || letter == 'X' ? "gone"
                                                 : "sleeps";
  return found;
}

std::vector<StalledThread> parse_faulthandler(std::string_view text) {
  std::vector<StalledThread> threads;
  std::vector<std::string> frames;
  const auto finish = [&] {
    if (!threads.empty()) threads.back().frames = clean_text(fmt::format("{}", fmt::join(frames, " < ")));
    frames.clear();
  };
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t thread = line.find("hread 0x");
    if (thread != std::string::npos && line.find("(most recent call first)") != std::string::npos) {
      finish();
      const size_t begin = thread + 6;
      threads.push_back({"python", clean_text(line.substr(begin, line.find(' ', begin) - begin)), {}});
      continue;
    }
    const std::string_view frame = trimmed(line);
    const size_t number = frame.rfind("\", line "), in = frame.rfind(" in ");
    if (threads.empty() || !frame.starts_with("File \"") || number == std::string_view::npos ||
        in == std::string_view::npos || in < number) {
      if (!threads.empty() && frame.starts_with("Garbage-collecting")) frames.emplace_back("garbage collection");
      continue;
    }
    // not the job's
    if (frames.size() >= kMaxFrames || frame.substr(0, number).ends_with("/ddl_hooks/_ddl_torch.py")) continue;
    frames.push_back(fmt::format("{} ({}:{})", frame.substr(in + 4), frame.substr(6, number - 6),
                                 frame.substr(number + 8, in - number - 8)));
  }
  finish();
  std::erase_if(threads, [](const StalledThread& t) { return t.frames.empty(); });
  if (!threads.empty()) {
    std::rotate(threads.begin(), threads.end() - 1, threads.end());
    threads.front().name = "main";
  }
  return threads;
}

std::string parse_c_stack(std::string_view text) {
  std::vector<std::string> frames;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '#') {
      // eu-stack -s: the place, on a line of its own
      const std::string_view place = trimmed(line);
      if (!frames.empty() && line.starts_with("    ") && place.rfind(':') != std::string_view::npos &&
          !frames.back().ends_with(")"))
        frames.back() += fmt::format(" ({})", place.substr(0, place.find(':', place.find(':') + 1)));
      continue;
    }
    const size_t number_end = line.find(' ');
    if (line.starts_with("#0 ") && !frames.empty()) break;  // another thread
    if (number_end == std::string::npos || frames.size() >= kMaxFrames) continue;
    frames.push_back(c_frame(std::string_view(line).substr(number_end)));
  }
  return clean_text(fmt::format("{}", fmt::join(frames, " < ")));
}

void take_stacks(const std::vector<StackTarget>& targets) {
  std::vector<StackTarget> asked;
  for (const StackTarget& target : targets) {
    if (target.rank->state == "stopped" || target.rank->state == "gone") {
      target.rank->python_why = target.rank->c_why = fmt::format("the process is {}", target.rank->state);
    } else {
      asked.push_back(target);
    }
  }
  take_python(asked);
  take_workers(asked);
  // Those first for whom others wait: a debugger that reads the symbols of a large program takes seconds.
  std::stable_sort(asked.begin(), asked.end(), [](const StackTarget& a, const StackTarget& b) {
    return (a.rank->role == "missing") > (b.rank->role == "missing");
  });
  take_c(asked);
}

}  // namespace ddl::cli
