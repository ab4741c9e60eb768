#include "workloads/network/gradients.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <stdexcept>

#include "ddl/annotate.h"
#include "workloads/train/error.h"

namespace ddl::network {

namespace {

/** Layers without parameters have nothing to send: a bucket that ends with them waits for none of them. */
std::vector<train::Bucket> cut(std::span<const std::size_t> counts, std::size_t bucket_bytes) {
  std::vector<train::Bucket> buckets = train::assign_buckets(counts, bucket_bytes);
  std::erase_if(buckets, [](const train::Bucket& bucket) { return bucket.count == 0; });
  for (const train::Bucket& bucket : buckets) {
    if (bucket.count > INT_MAX)
      throw train::UsageError("--bucket-mb: a bucket of " + std::to_string(bucket.count) + " gradients; MPI takes " +
                              std::to_string(INT_MAX) + " at once");
  }
  return buckets;
}

}  // namespace

Gradients::Gradients(MPI_Comm comm, std::span<const std::size_t> counts, const Reduction& reduction)
    : comm_(comm),
      overlap_(reduction.overlap),
      buckets_(cut(counts, reduction.bucket_bytes)),
      requests_(buckets_.size(), MPI_REQUEST_NULL) {
  MPI_Comm_size(comm, &ranks_);
  values_.resize(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  offsets_.push_back(0);
  for (const std::size_t count : counts) offsets_.push_back(offsets_.back() + count);
  for (std::size_t i = 0; i < buckets_.size(); ++i) names_.push_back("bucket" + std::to_string(i));
  if (reduction.choice.algorithm) {
    own_ = std::make_unique<allreduce::Allreduce>(comm, reduction.choice, allreduce::Topology::discover(comm));
  }
}

std::span<float> Gradients::values_of(std::size_t bucket) {
  return std::span(values_).subspan(buckets_[bucket].offset, buckets_[bucket].count);
}

void Gradients::add(std::size_t layer, bool first, bool last) {
  const std::span<float> values = std::span(values_).subspan(offsets_[layer], offsets_[layer + 1] - offsets_[layer]);
  if (first) {
    std::fill(values.begin(), values.end(), 1.0F);
  } else {
    for (float& value : values) value += 1.0F;
  }
  if (!last || !overlap_ || ranks_ == 1) return;
  for (; next_ < buckets_.size() && buckets_[next_].offset + buckets_[next_].count <= offsets_[layer + 1]; ++next_) {
    const std::span<float> sums = values_of(next_);
    ddl_layer_begin(names_[next_].c_str());
    MPI_Iallreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_FLOAT, MPI_SUM, comm_,
                   &requests_[next_]);
    ddl_layer_end();
  }
}

void Gradients::sum_rest() {
  if (overlap_ || ranks_ == 1) return;
  for (; next_ < buckets_.size(); ++next_) {
    const std::span<float> sums = values_of(next_);
    const int count = static_cast<int>(sums.size());
    ddl_layer_begin(names_[next_].c_str());
    if (own_) {
      (*own_)(MPI_IN_PLACE, sums.data(), count, MPI_FLOAT, MPI_SUM);
    } else {
      MPI_Allreduce(MPI_IN_PLACE, sums.data(), count, MPI_FLOAT, MPI_SUM, comm_);
    }
    ddl_layer_end();
  }
}

void Gradients::update(std::size_t micro_batches) {
  const float expected = static_cast<float>(micro_batches) * static_cast<float>(ranks_);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (overlap_ && ranks_ > 1) MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
    const std::span<float> sums = values_of(i);
    const auto wrong = std::find_if(sums.begin(), sums.end(), [expected](float sum) { return sum != expected; });
    if (wrong == sums.end()) continue;
    throw std::runtime_error("the sum of gradient " +
                             std::to_string(buckets_[i].offset + static_cast<std::size_t>(wrong - sums.begin())) +
                             " is " + std::to_string(*wrong) + ", expected " + std::to_string(expected));
  }
  next_ = 0;
}

}  // namespace ddl::network
