// Tensor fusion and overlap: gradients become ready during backward, are collected into buckets up to a threshold, and
// the buckets are sent one after the other behind the computing (list scheduling, specification.md "Fusion"; the bucket
// rule is that of tests/published/fusion_bucket_counts.csv).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ddl::models {

struct Gradient {
  int64_t bytes = 0;
  double ready_s = 0;  ///< since the step began
};

/// A bucket holds consecutive tensors, in the order in which they become ready, while their sum does not exceed the
/// threshold. A larger tensor is a bucket of its own; threshold 0: every tensor is.
struct Bucket {
  int64_t bytes = 0;
  int64_t tensors = 0;
  double ready_s = 0;  ///< of its last tensor
};
std::vector<Bucket> fuse(const std::vector<Gradient>& gradients, int64_t threshold_bytes);

/// The rule of PyTorch DDP: a bucket is closed as soon as it holds its cap, so that all but the last hold at least as
/// much. The first one has a cap of its own, for reducing to begin early; DDP's is kDdpFirstBucketBytes.
std::vector<Bucket> fill(const std::vector<Gradient>& gradients, int64_t cap_bytes, int64_t first_cap_bytes);
constexpr int64_t kDdpFirstBucketBytes = int64_t{1} << 20;

struct FusedStep {
  double step_s = 0;     ///< until computing and communication are over
  double comm_s = 0;     ///< communication, hidden or not
  double exposed_s = 0;  ///< step_s - compute_s
};

/// Buckets start when they are ready and the one before is over. `compute_s`: all computing of the step; readiness is
/// on its clock. The last `update_s` of it is the update, which needs the sums: nothing hides behind it. Without
/// overlap a bucket's communication also holds up the computing behind it (blocking calls).
FusedStep schedule(const std::vector<Bucket>& buckets, double compute_s,
                   const std::function<double(int64_t bytes)>& allreduce_s, bool overlap, double update_s = 0);

/// How non-blocking allreduces moved in a recorded step. MPI libraries without a progress thread move data only inside
/// calls, whatever is posted: then nothing hides.
struct Progress {
  double beside_share = 1;  ///< of what could hide behind computing, this part did
  double cost_factor = 1;   ///< they took so many times what allreduce_s says; above 1 only where nothing hid
};
/// Such that schedule() of the recorded buckets exposes what was recorded, s.
Progress progress_of(const std::vector<Bucket>& recorded, double compute_s,
                     const std::function<double(int64_t bytes)>& allreduce_s, double update_s, double exposed_s);
/// schedule() with overlap, as far as the library progresses.
FusedStep schedule(const std::vector<Bucket>& buckets, double compute_s,
                   const std::function<double(int64_t bytes)>& allreduce_s, const Progress& progress, double update_s);

}  // namespace ddl::models
