// Shared by the three readers of AMD's profilers: a process, its threads, names of copies and kernels.
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

/// "CopyHostToDevice", "MEMORY_COPY_HOST_TO_DEVICE", "hipMemcpyHostToDevice": HtoD. Empty: no direction.
std::string_view rocm_copy_direction(std::string_view name);
/// For hipMemcpyKind; empty as there.
std::string_view rocm_copy_direction(int64_t kind);
/// HIP runtime calls that launch device work, or wait for it; others are not launches.
bool rocm_gives_work(std::string_view call);

class RocmProcess {
 public:
  RocmProcess(ImportedRun& run, size_t number) : run_(run), number_(number) {}

  size_t number() const { return number_; }
  uint32_t thread(int64_t tid);
  /// A range of roctx: a step, phase or layer, as NVTX ranges are.
  void range(int64_t tid, std::string_view text, int64_t start_ns, int64_t duration_ns);
  /// A call of RCCL: the operation of the kernels that it launches, whose names may lack it.
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

/// What all files of one import report about their processes.
struct RocmFiles {
  ImportedRun& run;
  UnreadEvents unread;           ///< device activities that are not read
  uint64_t of_nobody = 0;        ///< device activities of an unknown process
  std::vector<RankHints> hints;  ///< one for each environment: a file, or a process with its own
};

void read_rpd(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read);
void read_rocpd(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read);
void read_rocprofiler_json(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read);

}  // namespace ddl::store
