#include <numeric>
#include <vector>

#include "workloads/train/compress/codecs.h"

namespace ddl::train {

void TopK::encode(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  const std::size_t k = entries(values.size());
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  // NaN counts as infinite: it has to be seen, and an order needs a place for it. Equal magnitudes go by index.
  const auto magnitude = [&](uint32_t i) { return std::isnan(values[i]) ? INFINITY : std::fabs(values[i]); };
  const auto before = [&](uint32_t a, uint32_t b) { return magnitude(a) != magnitude(b) ? magnitude(a) > magnitude(b) : a < b; };
  if (k < order.size()) std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
  for (std::size_t i = 0; i < k; ++i) {
    std::memcpy(code, &order[i], sizeof order[i]);
    std::memcpy(code + sizeof order[i], &values[order[i]], sizeof values[i]);
    code += sizeof order[i] + sizeof values[i];
  }
}

void TopK::add_decoded(const std::byte* code, std::span<float> values) const {
  for (std::size_t i = 0; i < entries(values.size()); ++i) {
    uint32_t index = 0;
    float value = 0;
    std::memcpy(&index, code, sizeof index);
    std::memcpy(&value, code + sizeof index, sizeof value);
    code += sizeof index + sizeof value;
    values[index] += value;
  }
}

}  // namespace ddl::train
