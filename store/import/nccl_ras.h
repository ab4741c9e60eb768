// What an answer of NCCL's RAS says, whichever form it has. Only the text leaves things open: a rank whose GPU is unknown, a rank that is not named.
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
  int64_t pid = -1, device = -1;  ///< pid -1: unknown; host and device then only tell it from others
  auto operator<=>(const RasGpu&) const = default;
};

struct RasRank {
  int64_t number = 0;  ///< in its communicator
  RasGpu gpu;
  std::map<std::string, int64_t> launched{};  ///< by operation, as far as it is told; of some ranks of a text: that many at least
  std::string status{};                       ///< INIT, RUNNING, FINALIZE or ABORT; empty: not told
};

struct RasCommunicator {
  std::string hash;  ///< 0x9e1a
  int64_t size = 0;
  std::vector<RasRank> ranks, missing;  ///< those that answered, and those that did not
  bool counts_are_equal = false;        ///< of a text: ranks launched equally many, and it does not say how many
};

struct RasAnswer {
  std::string version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< about the job
  std::vector<RasCommunicator> communicators;
  std::vector<std::string> errors;  ///< ranks that report one
  uint64_t error_count = 0;
  int64_t gpus = 0;  ///< of the job; 0: not told
  struct Loss {
    std::string kind;
    uint64_t count;
    std::string note;
  };
  std::vector<Loss> losses;
};

/// For a rank whose process the answer does not tell.
inline RasGpu unknown_gpu(const std::string& hash, int64_t number) { return {"unknown in " + hash, -1, number}; }

/// Both throw BadData.
RasAnswer read_ras_json(std::string_view text);
RasAnswer read_ras_text(std::string_view text);

}  // namespace ddl::store
