#include "analyzer/models/fusion.h"

#include <algorithm>

namespace ddl::models {

namespace {

void put(const Gradient& gradient, Bucket& bucket) {
  bucket.bytes += gradient.bytes;
  ++bucket.tensors;
  bucket.ready_s = std::max(bucket.ready_s, gradient.ready_s);
}

}  // namespace

std::vector<Bucket> fuse(const std::vector<Gradient>& gradients, int64_t threshold_bytes) {
  std::vector<Bucket> buckets;
  for (const Gradient& gradient : gradients) {
    if (buckets.empty() || buckets.back().bytes + gradient.bytes > threshold_bytes) buckets.emplace_back();
    put(gradient, buckets.back());
  }
  return buckets;
}

std::vector<Bucket> fill(const std::vector<Gradient>& gradients, int64_t cap_bytes, int64_t first_cap_bytes) {
  std::vector<Bucket> buckets;
  for (const Gradient& gradient : gradients) {
    if (buckets.empty() || buckets.back().bytes >= (buckets.size() == 1 ? first_cap_bytes : cap_bytes))
      buckets.emplace_back();
    put(gradient, buckets.back());
  }
  return buckets;
}

FusedStep schedule(const std::vector<Bucket>& buckets, double compute_s,
                   const std::function<double(int64_t bytes)>& allreduce_s, bool overlap, double update_s) {
  FusedStep step;
  double over_s = 0;
  for (const Bucket& bucket : buckets) {
    const double time_s = allreduce_s(bucket.bytes);
    step.comm_s += time_s;
    over_s = std::max(over_s, bucket.ready_s) + time_s;
  }
  step.step_s = overlap ? std::max(compute_s - update_s, over_s) + update_s : compute_s + step.comm_s;
  step.exposed_s = step.step_s - compute_s;
  return step;
}

Progress progress_of(const std::vector<Bucket>& recorded, double compute_s,
                     const std::function<double(int64_t bytes)>& allreduce_s, double update_s, double exposed_s) {
  const FusedStep beside = schedule(recorded, compute_s, allreduce_s, true, update_s);
  if (exposed_s >= beside.comm_s) return {0, beside.comm_s > 0 ? exposed_s / beside.comm_s : 1};
  if (exposed_s <= beside.exposed_s) return {};
  return {(beside.comm_s - exposed_s) / (beside.comm_s - beside.exposed_s), 1};
}

FusedStep schedule(const std::vector<Bucket>& buckets, double compute_s,
                   const std::function<double(int64_t bytes)>& allreduce_s, const Progress& progress, double update_s) {
  FusedStep step = schedule(
      buckets, compute_s, [&](int64_t bytes) { return progress.cost_factor * allreduce_s(bytes); }, true, update_s);
  step.exposed_s = step.comm_s - progress.beside_share * (step.comm_s - step.exposed_s);
  step.step_s = compute_s + step.exposed_s;
  return step;
}

}  // namespace ddl::models
