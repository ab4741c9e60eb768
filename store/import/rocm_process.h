// What the three readers of AMD's profilers have in common: a process, its threads, and what copies and kernels are called.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/rank_hints.h"
#include "store/import/unread_events.h"

namespace ddl::store {

/// "CopyHostToDevice", "MEMORY_COPY_HOST_TO_DEVICE", "hipMemcpyHostToDevice": HtoD. Empty: it does not tell a direction.
std::string_view rocm_copy_direction(std::string_view name);
/// For hipMemcpyKind; empty as there.
std::string_view rocm_copy_direction(int64_t kind);
/// For the calls of the HIP runtime only those that give work to a device, or wait for it, are launches.
bool rocm_gives_work(std::string_view call);

class RocmProcess {
 public:
  RocmProcess(ImportedRun& run, size_t number) : run_(run), number_(number) {}

  size_t number() const { return number_; }
  uint32_t thread(int64_t tid);
  /// A range of roctx: a step, phase or layer, as NVTX ranges are.
  void range(int64_t tid, std::string_view text, int64_t start_ns, int64_t duration_ns);
  /// A call of RCCL: what the kernels that it launches carry out, which their names do not always tell.
  void rccl_call(int64_t tid, std::string_view name, int64_t start_ns, int64_t duration_ns);
  void launch(int64_t tid, int64_t correlation, int64_t start_ns, int64_t duration_ns);
  void kernel(std::string_view name, GpuActivity activity);
  /// `direction` as of rocm_copy_direction().
  void copy(std::string_view direction, GpuActivity activity);
  void fill(GpuActivity activity);

 private:
  ImportedRun& run_;
  size_t number_;
  std::map<int64_t, uint32_t> threads_;
  int64_t next_step_ = 0;
};

/// What all files of one import tell of their processes.
struct RocmFiles {
  ImportedRun& run;
  UnreadEvents unread;           ///< activities of devices that are not read
  uint64_t of_nobody = 0;        ///< activities of devices of which no process is told
  std::vector<RankHints> hints;  ///< one for each environment: a file, or a process of it that tells its own
};

void read_rpd(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read);
void read_rocpd(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read);
void read_rocprofiler_json(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read);

}  // namespace ddl::store
