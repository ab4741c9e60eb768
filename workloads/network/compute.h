#pragma once

#include <cstdint>

#include "workloads/train/tensor.h"

namespace ddl::network {

/** Does as many multiply-adds as it is told, by sgemm on matrices that stay in the cache. One thread. */
class Compute {
 public:
  Compute();
  /** Exactly `macs` multiply-adds: 2 `macs` floating point operations. */
  void multiply_add(uint64_t macs);

 private:
  static constexpr std::size_t kTile = 128;
  static constexpr std::size_t kMostDepth = 512;

  train::Buffer a_, b_, c_;
};

}  // namespace ddl::network
