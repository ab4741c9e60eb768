#include "analyzer/models/parallel_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddl::models {

const char* name_of(Limit limit) {
  switch (limit) {
    case Limit::kCommunication:
      return "communication";
    case Limit::kSamples:
      return "samples";
    case Limit::kMemory:
      return "memory";
    case Limit::kRecipe:
      return "recipe";
  }
  return "";
}

std::vector<LimitReached> limits_reached(const ParallelJob& job) {
  std::vector<LimitReached> reached;
  if (job.transfer_share && *job.transfer_share >= kTransferLimit)
    reached.push_back(
        {Limit::kCommunication,
         fmt::format(
             "exposed transfer is {:.0f}% of the step: half of it or more goes into moving gradients; a larger local batch, compression or "
             "fewer ranks",
             100 * *job.transfer_share)});
  if (job.global_batch && *job.global_batch < job.ranks)
    reached.push_back(
        {Limit::kSamples,
         fmt::format(
             "{:g} ranks share {:g} samples: some have nothing to do; split samples (spatial, channel or pipeline parallelism)",
             job.ranks, *job.global_batch)});
  if (job.memory_bytes && job.sample_bytes) {
    const double fixed = job.fixed_bytes.value_or(0), one = fixed + *job.sample_bytes;
    const double local = job.global_batch ? std::max(1.0, std::ceil(*job.global_batch / job.ranks)) : 1;
    if (one > *job.memory_bytes) {
      reached.push_back({Limit::kMemory,
                         fmt::format("one sample needs {:.3g} GB of {:.3g}: no batch is small enough; split the model",
                                     one * 1e-9, *job.memory_bytes * 1e-9)});
    } else if (fixed + local * *job.sample_bytes > *job.memory_bytes) {
      reached.push_back(
          {Limit::kMemory,
           fmt::format("{:g} samples a rank need {:.3g} GB of {:.3g}; {:g} fit: accumulate over micro-batches", local,
                       (fixed + local * *job.sample_bytes) * 1e-9, *job.memory_bytes * 1e-9,
                       std::floor((*job.memory_bytes - fixed) / *job.sample_bytes))});
    }
  }
  if (job.global_batch && job.safe_batch && *job.global_batch > *job.safe_batch)
    reached.push_back(
        {Limit::kRecipe,
         fmt::format("a global batch of {:g} is beyond {:g}: learning rate, warm-up and epochs have to be "
                     "tuned again, and the target may be missed",
                     *job.global_batch, *job.safe_batch)});
  return reached;
}

}  // namespace ddl::models
