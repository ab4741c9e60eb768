#include <numeric>
#include <vector>

#include "workloads/train/compress/codecs.h"

namespace ddl::train {

namespace {

/** NaN counts as infinite: it has to be seen, and an order needs a place for it. */
float magnitude_of(float value) { return std::isnan(value) ? INFINITY : std::fabs(value); }

}  // namespace

void TopOfGroup::encode_group(std::span<const float> values, Random& random, std::byte* code) const {
  std::vector<uint16_t> order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  const auto before = [&](uint16_t a, uint16_t b) {
    const float x = magnitude_of(values[a]), y = magnitude_of(values[b]);
    return x != y ? x > y : a < b;
  };
  const std::size_t kept = std::min(values.size(), kKept);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), before);
  const float scale = std::fabs(values[order[0]]);
  std::memcpy(code, &scale, sizeof scale);
  std::memcpy(code + sizeof scale, order.data(), kept * sizeof order[0]);
  std::byte* const levels = code + sizeof scale + kept * sizeof order[0];
  std::fill_n(levels, (kept + 1) / 2, std::byte{0});
  for (std::size_t i = 0; i < kept; ++i) {
    int level = 0;  // stays so where the scale is 0 or not finite
    if (scale > 0 && std::isfinite(scale)) {
      const float exact = values[order[i]] / scale * kLevels;
      const float below = std::floor(exact);
      level = static_cast<int>(below) + (random.uniform() < exact - below ? 1 : 0);
    }
    levels[i / 2] |= static_cast<std::byte>((level + 8) << 4 * (i % 2));
  }
}

void TopOfGroup::add_decoded_group(const std::byte* code, std::span<float> values) const {
  const std::size_t kept = std::min(values.size(), kKept);
  float scale = 0;
  std::memcpy(&scale, code, sizeof scale);
  const std::byte* const places = code + sizeof scale;
  const std::byte* const levels = places + kept * sizeof(uint16_t);
  for (std::size_t i = 0; i < kept; ++i) {
    uint16_t place = 0;
    std::memcpy(&place, places + i * sizeof place, sizeof place);
    const int level = static_cast<int>(levels[i / 2] >> 4 * (i % 2) & std::byte{15}) - 8;
    values[place] += static_cast<float>(level) * (scale / kLevels);
  }
}

std::size_t Threshold::size_of(const std::byte* code, std::size_t count) const {
  uint32_t entries = 0;
  if (count > 0) std::memcpy(&entries, code, sizeof entries);
  return count > 0 ? sizeof entries + entries * kEntry : 0;
}

void Threshold::encode(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  if (values.empty()) return;
  uint32_t entries = 0;
  std::byte* at = code + sizeof entries;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (magnitude_of(values[i]) < threshold_) continue;
    std::memcpy(at, &i, sizeof i);
    std::memcpy(at + sizeof i, &values[i], sizeof values[i]);
    at += kEntry;
    ++entries;
  }
  std::memcpy(code, &entries, sizeof entries);
}

void Threshold::add_decoded(const std::byte* code, std::span<float> values) const {
  for (std::size_t at = sizeof(uint32_t); at < size_of(code, values.size()); at += kEntry) {
    uint32_t index = 0;
    float value = 0;
    std::memcpy(&index, code + at, sizeof index);
    std::memcpy(&value, code + at + sizeof index, sizeof value);
    values[index] += value;
  }
}

}  // namespace ddl::train
