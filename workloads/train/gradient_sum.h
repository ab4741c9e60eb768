#pragma once

#include <memory>
#include <span>

#include "workloads/allreduce/exchange.h"
#include "workloads/train/options.h"

namespace ddl::train {

/** Adds up gradients over all ranks by other means than the MPI library's allreduce; blocks; knows what it sends. */
class GradientSum {
 public:
  /** A bucket of one step. */
  struct Bucket {
    std::span<float> gradients;
    std::span<float> extra;  ///< directly behind them, in the last bucket: added up exactly
    std::size_t offset;      ///< of the first gradient among all
    std::size_t number;
    uint64_t step;
  };

  virtual ~GradientSum() = default;
  /** In place. */
  virtual void add_up(const Bucket& bucket) = 0;
  /** By this rank, so far. */
  virtual allreduce::Traffic sent() const = 0;
};

/** dgc:RATIO[:STEPS]: the share that is sent in the end, and the steps of the warm-up. */
struct DgcSetting {
  static constexpr int kStages = 4;  ///< of the warm-up
  double ratio = 1;
  uint64_t warm_up_steps = 0;
  int stage(uint64_t step) const;  ///< kStages: behind the warm-up
  double share(int stage) const;
};
/** Throws UsageError. */
DgcSetting parse_dgc(const std::string& name);

/** Throws UsageError for what is not a --compress. */
void check_compression(const std::string& name);

/** For so many gradients over MPI_COMM_WORLD. Collective. nullptr: the options leave it to the MPI library. */
std::unique_ptr<GradientSum> make_gradient_sum(const Options& options, std::size_t gradients);

}  // namespace ddl::train
