#pragma once

#include <cstdint>
#include <vector>

namespace ddl::train {

/**
 * Which sample stands at which position of the job's endless sequence: one seeded permutation of the set per epoch. The
 * sequence does not depend on the number of ranks; step k of a job takes the positions [k*P*B, (k+1)*P*B) and rank r of
 * them [r*B, (r+1)*B), so jobs of any size with the same P*B see the same global batches. */
class Sampler {
 public:
  Sampler(std::size_t set_size, uint64_t seed);
  std::size_t sample_at(uint64_t position);

 private:
  void shuffle(uint64_t epoch);

  uint64_t seed_;
  uint64_t epoch_ = 0;
  std::vector<std::size_t> order_;  ///< of the current epoch
};

}  // namespace ddl::train
