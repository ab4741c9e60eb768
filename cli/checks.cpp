#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "cli/doctor.h"
#include "cli/library.h"
#include "cli/mpirun.h"
#include "cli/process.h"
#include "core/error.h"
#include "reports/format.h"

namespace ddl::cli {
namespace {

using State = Check::State;

constexpr int64_t kLowSpaceBytes = int64_t{1} << 30;

Check check_library() {
  Check check{.state = State::kOk, .what = "libddl.so"};
  try {
    const std::filesystem::path path = find_library(Flavour::kOpenMpi);
    preload_value(path);
    std::string others;
    for (const std::string& name : needed_libraries(path))
      if (!name.starts_with("libc.so") && !name.starts_with("ld-linux")) others += " " + name;
    check.detail = path.string();
    if (others.empty()) {
      check.detail += " (needs only libc)";
    } else {
      check.state = State::kProblem;
      check.detail += " needs" + others;
      check.hint = "it would drag these into every process of the job: build with the release preset";
    }
  } catch (const Error& error) {
    check.state = State::kProblem;
    check.detail = error.what();
    check.hint = error.hint();
  }
  return check;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Check check_mpi() {
  Check check{.state = State::kOk, .what = "MPI"};
  const Captured version = run_and_capture({"mpirun", "--version"});
  if (!version.started) {
    check.state = State::kOff;
    check.detail = "no mpirun in PATH";
    check.hint = "jobs without MPI are recorded all the same; load your MPI module or install openmpi-bin";
  } else if (is_open_mpi_launcher({"mpirun"})) {
    check.detail = first_line(version.output) + ": libddl.so fits";
    if (geteuid() == 0 && (std::getenv("OMPI_ALLOW_RUN_AS_ROOT") == nullptr ||
                           std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == nullptr)) {
      check.state = State::kOff;
      check.hint = "it refuses to run as root: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    }
  } else if (is_mpich_launcher({"mpirun"})) {
    check.detail = "MPICH or a relative";
    try {
      check.detail += ": " + find_library(Flavour::kMpich).filename().string() + " fits";
    } catch (const Error& error) {
      check.state = State::kProblem;
      check.hint = error.hint();
    }
  } else {
    check.state = State::kProblem;
    check.detail = first_line(version.output) + ": neither Open MPI nor MPICH";
    check.hint =
        "the libraries know the handles of those two; with another MPI they pass calls through and record nothing";
  }
  return check;
}

Check check_clock() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  bool constant = false, nonstop = false;
  for (std::string line; std::getline(cpuinfo, line) && !(constant && nonstop);) {
    constant = constant || line.find(" constant_tsc") != std::string::npos;
    nonstop = nonstop || line.find(" nonstop_tsc") != std::string::npos;
  }
  if (constant && nonstop) return {.state = State::kOk, .what = "clock", .detail = "TSC, constant and nonstop"};
  return {.state = State::kOff,
          .what = "clock",
          .detail = "no steady TSC: CLOCK_MONOTONIC is used",
          .hint = "a call costs some 20 ns more to record"};
}

Check check_counters() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  std::string level;
  std::getline(file, level);
  return {.state = State::kOk,
          .what = "permissions",
          .detail = fmt::format("none needed: no root, no perf events (perf_event_paranoid is {})",
                                level.empty() ? "unknown" : level)};
}

struct FileSystem {
  long type;
  const char* name;
  bool shared;  ///< several hosts see it
};
constexpr FileSystem kFileSystems[] = {{EXT4_SUPER_MAGIC, "ext4", false},
                                       {XFS_SUPER_MAGIC, "xfs", false},
                                       {BTRFS_SUPER_MAGIC, "btrfs", false},
                                       {TMPFS_MAGIC, "tmpfs", false},
                                       {OVERLAYFS_SUPER_MAGIC, "overlay", false},
                                       {NFS_SUPER_MAGIC, "NFS", true},
                                       {0x0BD00BD0, "Lustre", true},
                                       {0x47504653, "GPFS", true},
                                       {0x19830326, "BeeGFS", true}};

std::string space(const struct statfs& fs) {
  return fmt::format("{} free of {}", reports::size_text(static_cast<int64_t>(fs.f_bavail) * fs.f_bsize),
                     reports::size_text(static_cast<int64_t>(fs.f_blocks) * fs.f_bsize));
}

Check check_disk() {
  Check check{.state = State::kOk, .what = "disk here"};
  struct statfs fs {};
  if (statfs(".", &fs) != 0 || access(".", W_OK) != 0) {
    check.state = State::kProblem;
    check.detail = "the current directory cannot be written";
    check.hint = "runs are recorded into it by default: go elsewhere or use -o FOLDER/NAME.ddl";
    return check;
  }
  const auto known = std::find_if(std::begin(kFileSystems), std::end(kFileSystems),
                                  [&](const FileSystem& f) { return f.type == fs.f_type; });
  check.detail = fmt::format(
      "{}, {}",
      known == std::end(kFileSystems) ? fmt::format("file system {:#x}", fs.f_type) : std::string(known->name),
      space(fs));
  if (static_cast<int64_t>(fs.f_bavail) * fs.f_bsize < kLowSpaceBytes) {
    check.state = State::kProblem;
    check.hint = "less than 1 GiB: use ddl record --cap MIB, or -o on another disk";
  } else if (fs.f_type == TMPFS_MAGIC) {
    check.state = State::kOff;
    check.hint = "in memory: what is recorded takes memory from the job and is gone after a reboot";
  } else if (known != std::end(kFileSystems) && known->shared) {
    check.state = State::kOff;
    check.hint =
        "a network disk: recording writes to mapped files, which some servers make slow; a local -o is faster on one host";
  }
  return check;
}

Check check_shared_memory() {
  struct statfs fs {};
  if (statfs("/dev/shm", &fs) != 0)
    return {.state = State::kOff,
            .what = "/dev/shm",
            .detail = "absent",
            .hint = "ddl does not need it, MPI between ranks of a host does"};
  const bool small = static_cast<int64_t>(fs.f_blocks) * fs.f_bsize < (int64_t{256} << 20);
  return {.state = small ? State::kOff : State::kOk,
          .what = "/dev/shm",
          .detail = space(fs),
          .hint = small ? "small: MPI between ranks of a host may fail (docker: --shm-size=1g)" : ""};
}

// Fastest of a few, since the machine may be busy.
double fastest_us(const std::vector<std::string>& command, const Settings& settings, Captured& last) {
  using Clock = std::chrono::steady_clock;
  double best = 1e12;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    last = run_and_capture(command, settings);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (!last.started || last.ended.shell_code() != 0) break;
  }
  return best;
}

}  // namespace

std::vector<Check> check_machine() {
  return {check_library(), check_mpi(), check_clock(), check_counters(), check_disk(), check_shared_memory()};
}

Check check_smoke_run() {
  Check check{.state = State::kOk, .what = "smoke run"};
  try {
    Captured bare, loaded;
    const double bare_us = fastest_us({"/bin/true"}, {}, bare);
    const double loaded_us = fastest_us(
        {"/bin/true"},
        {{"LD_PRELOAD", preload_value(find_library(Flavour::kOpenMpi))}, {"DDL_OUT", "/nonexistent/ddl-doctor"}},
        loaded);
    if (!loaded.started || loaded.ended.shell_code() != 0 || !loaded.output.empty()) {
      check.state = State::kProblem;
      check.detail = fmt::format("/bin/true with the library: exit code {}, said: {}", loaded.ended.shell_code(),
                                 first_line(loaded.output));
      check.hint = "was it built for another machine?";
    } else {
      check.detail =
          fmt::format("/bin/true with the library: exit code 0, {:+.0f} us on {:.0f} us", loaded_us - bare_us, bare_us);
    }
  } catch (const Error& error) {
    check.state = State::kProblem;
    check.detail = error.what();
    check.hint = error.hint();
  }
  return check;
}

}  // namespace ddl::cli
