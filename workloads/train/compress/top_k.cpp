#include <numeric>
#include <vector>

#include "workloads/train/compress/codecs.h"

namespace ddl::train {

std::vector<uint32_t> largest_magnitudes(std::span<const float> values, std::size_t k) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  // NaN counts as infinite: it has to be seen, and an order needs a place for it. Equal magnitudes go by index.
  const auto magnitude = [&](uint32_t i) { return std::isnan(values[i]) ? INFINITY : std::fabs(values[i]); };
  const auto before = [&](uint32_t a, uint32_t b) {
    return magnitude(a) != magnitude(b) ? magnitude(a) > magnitude(b) : a < b;
  };
  if (k < order.size())
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

void TopK::encode(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  for (const uint32_t index : largest_magnitudes(values, entries(values.size()))) {
    std::memcpy(code, &index, sizeof index);
    std::memcpy(code + sizeof index, &values[index], sizeof values[index]);
    code += sizeof index + sizeof values[index];
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
