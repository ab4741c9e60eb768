#include "workloads/train/sampler.h"

#include <numeric>
#include <utility>

#include "workloads/train/random.h"

namespace ddl::train {

Sampler::Sampler(std::size_t set_size, uint64_t seed) : seed_(seed), order_(set_size) { shuffle(0); }

std::size_t Sampler::sample_at(uint64_t position) {
  const uint64_t epoch = position / order_.size();
  if (epoch != epoch_) shuffle(epoch);
  return order_[position % order_.size()];
}

void Sampler::shuffle(uint64_t epoch) {
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  Random random(seed_, Draw::kOrder, epoch);
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);  // Fisher-Yates
}

}  // namespace ddl::train
