// What `ddl doctor` says about the libraries that tell of GPUs, NCCL and counters: which file the loader would take,
// and what it is good for.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/doctor.h"
#include "cli/process.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using State = Check::State;

/// Where the loader would find it: LD_LIBRARY_PATH, then its cache. Empty: nowhere.
std::string find_shared(const std::vector<std::string>& names, const std::string& cache) {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  for (const std::string& name : names) {
    std::error_code error;
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (fs::exists(fs::path(folder) / name, error)) return (fs::path(folder) / name).string();
    }
    std::istringstream lines(cache);
    for (std::string line; std::getline(lines, line);) {
      const size_t arrow = line.find(" => ");
      const size_t begin = line.find_first_not_of(" \t");
      if (arrow != std::string::npos && begin != std::string::npos &&
          line.compare(begin, name.size() + 1, name + " ") == 0)
        return line.substr(arrow + 4);
    }
  }
  return {};
}

Check found(const char* what, const std::string& path, const char* good_for, const char* without) {
  if (path.empty()) return {.state = State::kOff, .what = what, .detail = "not found", .hint = without};
  return {.state = State::kOk, .what = what, .detail = fmt::format("{}: {}", path, good_for)};
}

/// The variable by which a library would find us is somebody else's.
void mark_held(Check& check, const char* variable, const char* lost) {
  const char* value = std::getenv(variable);
  if (!value || !*value) return;
  check.state = State::kOff;
  check.hint = fmt::format("{} is set to {}: it stays, and {}", variable, value, lost);
}

}  // namespace

std::string nccl_timing_cost(const std::string& version) {
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2 || major != 2 || minor < 31) return {};
  return "where CUPTI does not trace, NCCL itself times its kernels, channel by channel: with 2.31.2 that cost an all-reduce of 128 KB to 4 MB "
         "4.3 to 13.3 % of its time (NVIDIA/nccl issue 2355; with 2.29.7 0.1 to 1.1 %); NCCL_PROFILER_PLUGIN=none leaves it out";
}

std::vector<Check> check_sources() {
  const Captured ldconfig = run_and_capture({"/sbin/ldconfig", "-p"});
  const std::string cache = ldconfig.started ? ldconfig.output : "";
  Check nvtx{.state = State::kOk,
             .what = "NVTX",
             .detail = "in the programs themselves: their ranges become steps, phases and layers"};
  mark_held(nvtx, "NVTX_INJECTION64_PATH", "NVTX ranges go there");
  const std::string driver = find_shared({"libcuda.so.1"}, cache);
  Check cuda = found("CUDA driver", driver, "GPU jobs can run here", "no GPU jobs on this machine");
  Check cupti =
      found("CUPTI", find_shared({"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"}, cache),
            "kernels, copies and the times of NCCL's collectives",
            "jobs bring their own (PyTorch does), or load the CUDA toolkit");
  mark_held(cupti, "CUDA_INJECTION64_PATH", "GPUs are not traced");
  const char* source =
      driver.empty()
          ? "calls are recorded by wrappers, how and when they ran by its profiler (2.27 and later)"
          : "calls are recorded by wrappers, when they ran by CUPTI, else its profiler (2.27 and later), which also tells how";
  Check nccl = found(
      "NCCL", find_shared({"libnccl.so.2"}, cache), source,
      "jobs bring their own (PyTorch does); linked statically, its profiler (2.27 and later) or NVTX tells of its calls");
  std::error_code ignored;
  const std::string file =
      nccl.state == State::kOk ? fs::canonical(find_shared({"libnccl.so.2"}, cache), ignored).filename().string() : "";
  if (file.starts_with("libnccl.so.2.")) nccl.hint = nccl_timing_cost(file.substr(std::string("libnccl.so.").size()));
  mark_held(nccl, "NCCL_PROFILER_PLUGIN", "NCCL's algorithms, and its times without CUPTI, are not recorded");
  const Check nvml = found("NVML", find_shared({"libnvidia-ml.so.1"}, cache),
                           "health of GPUs, and what their NVLinks lead to and carry",
                           "the driver brings it; without it no clocks, throttling, power or NVLinks of GPUs");
  Check papi = found("PAPI", find_shared({"libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.6.0", "libpapi.so"}, cache),
                     "counters of the CPU, with ddl record --counters",
                     "--counters then reads the software events of the kernel");
  return {nvtx, cuda, cupti, nccl, nvml, papi};
}

}  // namespace ddl::cli
