// The critical path of one step of one rank, through its host and its GPUs (specification.md J12): from the end of the
// step back to its begin, each time to the dependency that ended last.
//
//   an operation   begins when its launch has reached the GPU, and earlier work of its stream and the stream's
//                  dependencies (table stream_wait) are over
//   the host       goes on when the call in which it waited returns: a synchronisation, or a copy that
//                  ended inside its call
//   the path       ends with the step, or with the last operation that the step launched, if that is later; and begins
//                  with the step, or where it reaches an earlier step's launch
// The threads of a process count as one host. The pieces add up to the path.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/passes/device_partition.h"

namespace ddl {

struct PathOperation {
  Interval interval;
  std::optional<Interval> launch;  ///< the launching call
  int64_t call = 0;                ///< its number; 0: not known
  size_t stream = 0;
  DeviceClass device_class = DeviceClass::kCompute;
  std::optional<int64_t> wait_ns;  ///< of a collective: its first part
  int64_t name = 0, region = 0;
};

/// A call in which the host waited, or might have.
struct PathSynchronization {
  Interval call;
  std::optional<size_t> stream;  ///< unset: for all of them, or not known
  int64_t name = 0, region = 0;
};

/// `stream` was told by `call` to wait for what `on_stream` had been given before `on_call`.
struct PathStreamWait {
  size_t stream = 0;
  int64_t call = 0;
  size_t on_stream = 0;
  int64_t on_call = 0;
};

/// A range that a thread of the host was in.
struct PathRange {
  Interval interval;
  int64_t region = 0;
};

/// Shorter times between two calls are not asked for their range.
constexpr int64_t kLongHostNs = 200'000;

struct PathStep {
  Interval window;  ///< of the step on the host
  std::vector<PathOperation> operations;
  std::vector<PathSynchronization> synchronizations;
  std::vector<PathStreamWait> waits;
  std::vector<PathRange> ranges;  ///< by begin; those of kLongHostNs and more suffice
};

enum class PathKind {
  kHost,        ///< the host worked towards its next launch
  kLaunch,      ///< from the launching call's begin to the operation's, up to kLaunchLatencyNs
  kBetween,     ///< from the end of what was awaited to the begin, up to kKernelWaitNs
  kCompute,     ///< a kernel computed
  kWait,        ///< a kernel of a collective waited for other ranks
  kTransfer,    ///< and transferred
  kCollective,  ///< both, where they cannot be told apart
  kCopy,        ///< a copy or memset
  kUnknown      ///< longer than that: nothing tells what the operation waited for
};
const char* name_of(PathKind kind);

/// `name`: of the operation, or the synchronisation; unset: the host's own work. `region`: of the launch, or the range
/// that the host was in before it; unset: behind the last one.
struct PathPiece {
  PathKind kind = PathKind::kHost;
  std::optional<int64_t> name, region;
  Interval interval;
};

/// When what earlier steps gave to each stream is over.
using EarlierEnds = std::vector<int64_t>;

/// The last piece first. `earlier`: one for each stream, INT64_MIN: nothing; this step's are added.
std::vector<PathPiece> critical_path(const PathStep& step, EarlierEnds& earlier);

}  // namespace ddl
