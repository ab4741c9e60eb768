#include "workloads/train/compress/codecs.h"

namespace ddl::train {

void Quantised::encode_group(std::span<const float> values, Random& random, std::byte* code) const {
  const float scale = largest(values);
  store(scale, code);
  code += sizeof scale;
  std::fill_n(code, group_bytes(values.size()) - sizeof scale, std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    int level = 0;  // stays so where the scale is 0 or NaN
    if (scale > 0) {
      const float exact = values[i] / scale * levels_;
      const float below = std::floor(exact);
      level = static_cast<int>(below) + (random.uniform() < exact - below ? 1 : 0);
    }
    if (bits_ == 8) {
      code[i] = static_cast<std::byte>(static_cast<int8_t>(level));
    } else {
      code[i / 2] |= static_cast<std::byte>((level + 8) << 4 * (i % 2));
    }
  }
}

void Quantised::add_decoded_group(const std::byte* code, std::span<float> values) const {
  const float unit = load(code) / levels_;
  code += sizeof unit;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int level = bits_ == 8 ? static_cast<int>(static_cast<int8_t>(code[i]))
                                 : static_cast<int>(code[i / 2] >> 4 * (i % 2) & std::byte{15}) - 8;
    values[i] += static_cast<float>(level) * unit;
  }
}

}  // namespace ddl::train
