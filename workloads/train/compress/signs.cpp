#include "workloads/train/compress/codecs.h"

namespace ddl::train {

void Ternary::encode_group(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  const float scale = largest(values);
  store(scale, code);
  code += sizeof scale;
  std::fill_n(code, group_bytes(values.size()) - sizeof scale, std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned sign = values[i] > scale / 2 ? 1 : values[i] < -scale / 2 ? 2 : 0;
    code[i / 4] |= static_cast<std::byte>(sign << 2 * (i % 4));
  }
}

void Ternary::add_decoded_group(const std::byte* code, std::span<float> values) const {
  const float scale = load(code);
  code += sizeof scale;
  const float meaning[] = {0 * scale, scale, -scale, 0};  // 0 times NaN is NaN
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] += meaning[static_cast<unsigned>(code[i / 4] >> 2 * (i % 4)) & 3U];
}

void OneBit::encode_group(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  double sums[2] = {};
  std::size_t counts[2] = {};
  std::byte* const bits = code + 2 * sizeof(float);
  std::fill_n(bits, group_bytes(values.size()) - 2 * sizeof(float), std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned sign = values[i] < 0 ? 1 : 0;
    sums[sign] += static_cast<double>(values[i]);
    counts[sign] += 1;
    bits[i / 8] |= static_cast<std::byte>(sign << i % 8);
  }
  for (unsigned sign = 0; sign < 2; ++sign) {
    store(counts[sign] > 0 ? static_cast<float>(sums[sign] / static_cast<double>(counts[sign])) : 0.0F,
          code + sign * sizeof(float));
  }
}

void OneBit::add_decoded_group(const std::byte* code, std::span<float> values) const {
  const float means[] = {load(code), load(code + sizeof(float))};
  const std::byte* const bits = code + 2 * sizeof(float);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += means[static_cast<unsigned>(bits[i / 8] >> i % 8) & 1U];
}

}  // namespace ddl::train
