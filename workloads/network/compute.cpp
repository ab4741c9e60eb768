#include "workloads/network/compute.h"

#include <algorithm>

#include "workloads/train/ops.h"

namespace ddl::network {

using train::gemm;

Compute::Compute() : a_(kTile * kMostDepth, 0.5F), b_(kMostDepth * kTile, 0.5F), c_(kTile * kTile) {
  train::use_one_blas_thread();
}

void Compute::multiply_add(uint64_t macs) {
  for (uint64_t depth = macs / (kTile * kTile); depth > 0;) {
    const std::size_t part = std::min<uint64_t>(depth, kMostDepth);
    gemm({a_.data(), kTile, part}, {b_.data(), part, kTile}, 0, c_.data());
    depth -= part;
  }
  // What is left of a tile: a column of it, and one element.
  const std::size_t rest = macs % (kTile * kTile), whole = rest / kTile, last = rest % kTile;
  if (whole > 0) gemm({a_.data(), kTile, whole}, {b_.data(), whole, 1}, 0, c_.data());
  if (last > 0) gemm({a_.data(), 1, last}, {b_.data(), last, 1}, 0, c_.data());
}

}  // namespace ddl::network
