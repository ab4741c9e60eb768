#include "autotuner/openmpi_allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace ddl::tune {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

/// One row: up to below `below_ranks` and below `below_bytes`. After open-mpi/ompi, coll_tuned_decision_fixed.c
/// (BSD-3); the same table as tests/published/openmpi_allreduce_fixed_decision.csv, which tests compare it with.
struct Row {
  int64_t below_ranks, below_bytes, algorithm;
};
constexpr Row kTable[] = {
    {4, 8, kRing},
    {4, 4096, kRecursiveDoubling},
    {4, 8192, kRing},
    {4, 16384, kRecursiveDoubling},
    {4, 65536, kRing},
    {4, 262144, kSegmentedRing},
    {4, kAny, kRabenseifner},
    {8, 16, kRing},
    {8, 8192, kRecursiveDoubling},
    {8, kAny, kRabenseifner},
    {16, 8192, kRecursiveDoubling},
    {16, kAny, kRabenseifner},
    {32, 64, kSegmentedRing},
    {32, 4096, kRecursiveDoubling},
    {32, kAny, kRabenseifner},
    {64, 128, kSegmentedRing},
    {64, kAny, kRabenseifner},
    {128, 262144, kRecursiveDoubling},
    {128, kAny, kRabenseifner},
    {256, 131072, kNonoverlapping},
    {256, 262144, kRecursiveDoubling},
    {256, kAny, kRabenseifner},
    {512, 4096, kNonoverlapping},
    {512, kAny, kRabenseifner},
    {2048, 2048, kNonoverlapping},
    {2048, 16384, kRecursiveDoubling},
    {2048, kAny, kRabenseifner},
    {4096, 2048, kNonoverlapping},
    {4096, 4096, kSegmentedRing},
    {4096, 16384, kRecursiveDoubling},
    {4096, kAny, kRabenseifner},
    {kAny, 2048, kNonoverlapping},
    {kAny, 16384, kSegmentedRing},
    {kAny, 32768, kRecursiveDoubling},
    {kAny, kAny, kRabenseifner},
};

const Row& row(int64_t ranks, int64_t bytes) {
  return *std::find_if(std::begin(kTable), std::end(kTable) - 1,
                       [&](const Row& r) { return ranks < r.below_ranks && bytes < r.below_bytes; });
}

/// Elements of a segment, as COLL_BASE_COMPUTED_SEGCOUNT rounds them: all of them if the segment size is none that
/// cuts.
int64_t segment_elements(int64_t segment_bytes, int64_t elements, int64_t element_bytes) {
  if (element_bytes <= 0 || segment_bytes < element_bytes || segment_bytes >= element_bytes * elements) return elements;
  const int64_t whole = segment_bytes / element_bytes;
  return segment_bytes - whole * element_bytes > element_bytes / 2 ? whole + 1 : whole;
}

}  // namespace

std::string openmpi_algorithm(int64_t id) {
  constexpr const char* kNames[] = {"ignore", "basic_linear",   "nonoverlapping", "recursive_doubling",
                                    "ring",   "segmented_ring", "rabenseifner"};
  return id >= 0 && id < static_cast<int64_t>(std::size(kNames)) ? kNames[id] : fmt::format("algorithm {}", id);
}

int64_t openmpi_fixed_allreduce(int64_t ranks, int64_t bytes) { return row(ranks, bytes).algorithm; }

std::string openmpi_default(int64_t ranks, int64_t from_bytes, std::optional<int64_t> below_bytes) {
  std::string text;
  for (int64_t bytes = from_bytes; !below_bytes || bytes < *below_bytes;) {
    const Row& here = row(ranks, bytes);
    const bool last = here.below_bytes == kAny || (below_bytes && here.below_bytes >= *below_bytes);
    if (!text.empty()) text += last ? ", then " : ", ";
    text += openmpi_algorithm(here.algorithm);
    if (last) break;
    text += fmt::format(" up to {} bytes", here.below_bytes - 1);
    bytes = here.below_bytes;
  }
  return text;
}

int64_t openmpi_allreduce_that_runs(int64_t algorithm, int64_t segment_bytes, int64_t ranks, int64_t elements,
                                    int64_t element_bytes, bool commutative) {
  if (algorithm == kSegmentedRing && elements < ranks * segment_elements(segment_bytes, elements, element_bytes))
    algorithm = kRing;
  if (algorithm == kRing && elements < ranks) return kRecursiveDoubling;
  if (algorithm == kRabenseifner &&
      (!commutative || elements < static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(ranks)))))
    return kBasicLinear;
  return algorithm;
}

}  // namespace ddl::tune
