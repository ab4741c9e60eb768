// An answer of NCCL's RAS in either form. Only the text leaves gaps: unknown GPUs of ranks, unnamed ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddl::store {

constexpr int64_t kMostRasLaunched = int64_t{1} << 53;

struct RasGpu {
  std::string host;
  int64_t pid = -1, device = -1;  ///< pid -1: unknown; host and device then only distinguish it
  auto operator<=>(const RasGpu&) const = default;
};

struct RasRank {
  int64_t number = 0;  ///< in its communicator
  RasGpu gpu;
  /// by operation, where known; for some ranks of a text at least that many
  std::map<std::string, int64_t> launched{};
  std::string status{};  ///< INIT, RUNNING, FINALIZE or ABORT; empty: unknown
};

struct RasCommunicator {
  std::string hash;  ///< 0x9e1a
  int64_t size = 0;
  std::vector<RasRank> ranks, missing;  ///< ranks that answered, and ranks that did not
  bool counts_are_equal = false;        ///< of a text: equal launches on all ranks, of unknown number
};

struct RasAnswer {
  std::string version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< about the job
  std::vector<RasCommunicator> communicators;
  std::vector<std::string> errors;  ///< ranks that report one
  uint64_t error_count = 0;
  int64_t gpus = 0;  ///< of the job; 0: unknown
  struct Loss {
    std::string kind;
    uint64_t count;
    std::string note;
  };
  std::vector<Loss> losses;
};

/// For a rank of an unknown process.
inline RasGpu unknown_gpu(const std::string& hash, int64_t number) { return {"unknown in " + hash, -1, number}; }

/// Both throw BadData.
RasAnswer read_ras_json(std::string_view text);
RasAnswer read_ras_text(std::string_view text);

}  // namespace ddl::store
