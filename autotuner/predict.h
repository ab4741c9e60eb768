// Predicts the cost of a step at every point of the space from a few calibrating trials: computing is linear in the
// batch, tensors are fused into buckets, buckets are reduced behind the computing in the times of the sweep. A
// prediction prunes; recommendations are measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/fusion.h"
#include "autotuner/space.h"

namespace ddl::tune {

/// Measured seconds of one allreduce by its bytes.
class Curve {
 public:
  void add(double bytes, double seconds) { points_[bytes] = seconds; }
  bool empty() const { return points_.empty(); }
  /// Linear in the logarithms between two sizes; the smallest size's time below, the largest size's bandwidth
  /// above. Not empty.
  double seconds(double bytes) const;
  const std::map<double, double>& points() const { return points_; }

 private:
  std::map<double, double> points_;
};

/// How tensors become buckets.
enum class BucketRule {
  kFuse,            ///< closed before it exceeds its size: a fusion buffer, as Horovod's
  kFill,            ///< closed when it holds its size
  kFillAfterFirst,  ///< the same, with a first one of 1 MiB: PyTorch DDP
};
std::vector<models::Bucket> buckets_of(BucketRule rule, const std::vector<models::Gradient>& gradients, int64_t bytes);
/// The rule whose buckets of these tensors are nearest to those seen at that size.
BucketRule bucket_rule(const std::vector<models::Gradient>& tensors, const std::vector<models::Gradient>& seen,
                       int64_t bytes);

/// For a pipeline at the default's micro-batches.
struct PipelineFacts {
  int64_t micro_batches = 1, chunks = 1;
  double others_s = 0;  ///< computing of a step in all stages but the longest-computing one
};

struct Calibration {
  int64_t ranks = 1;
  double compute_s = 0;                     ///< of a step at the default batch
  double compute_fixed_s = 0;               ///< the part that does not grow with the batch
  std::vector<models::Gradient> gradients;  ///< by tensor where known, at the default batch
  BucketRule bucket_rule = BucketRule::kFuse;
  std::optional<PipelineFacts> pipeline;
  double micro_batch_s = 0;                ///< cost of a micro-batch in compute_s, whatever its samples
  bool overlap = false;                    ///< reductions run behind the computing
  std::map<std::string, Curve> allreduce;  ///< by value of tunable `algorithm`; has "default"
  double batch = 0;                        ///< default, samples per rank and step; 0: unknown
  /// samples (specification.md G3); unset: efficiency does not depend on the batch
  std::optional<double> noise_scale;
};

/// Names of the tunables that predictions model.
constexpr const char* kBatch = "batch";
constexpr const char* kBucketMb = "bucket_mb";
constexpr const char* kAlgorithm = "algorithm";
constexpr const char* kDefaultAlgorithm = "default";  ///< the library's own choice
constexpr const char* kMicroBatches = "micro_batches";
constexpr const char* kCompression = "compression";
/// `values`: the first is the default. Micro-batches are modelled for pipelines only; codes if all are known and
/// the default is none.
bool is_modelled(const std::string& tunable, const std::vector<std::string>& values, bool pipeline);

/// A gradient code: its bytes on the wire, and its time on one core.
struct Code {
  double bytes_per_byte = 1;    ///< on the wire
  double seconds_per_byte = 0;  ///< to encode and to decode
};
/// none, fp16, bf16, q8, q4, ternary or onebit; nothing for any other.
std::optional<Code> code_of(const std::string& compression);
/// Smaller tensors (biases, norms) are not worth coding and travel as they are.
constexpr int64_t kLeastCompressed = 64 * 1024;

/// Steps that batch `base` needs to a target loss over those that `batch` needs, times batch over base: 1 where they
/// are equal, less for larger batches (specification.md G4). Without a noise scale 1.
double relative_efficiency(double batch, double base, std::optional<double> noise_scale);

/// Log of seconds per sample at equal statistical efficiency, for every point. Unknown tunables change nothing.
std::vector<double> predict(const Space& space, const Calibration& calibration);

}  // namespace ddl::tune
