#include <bit>

#include "workloads/train/compress/codecs.h"

namespace ddl::train {

namespace {

constexpr float kLargestHalf = 65504;

/** IEEE binary16, rounded to nearest even. */
uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(std::clamp(value, -kLargestHalf, kLargestHalf));
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);  // NaN
  if (magnitude < 0x38800000U) {
    // Below 2^-14: multiples of 2^-24, which adding 0.5 lines up with the last bits of a float; the addition rounds.
    const float lined_up = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(lined_up) - std::bit_cast<uint32_t>(0.5F)));
  }
  const uint32_t odd = magnitude >> 13 & 1U;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
}

float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7fffU;
  uint32_t bits = 0;
  if (magnitude >= 0x7c00U) {
    bits = 0x7fc00000U;  // NaN: infinities are never written
  } else if (magnitude < 0x400U) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  } else {
    bits = (magnitude << 13) + 0x38000000U;
  }
  return std::bit_cast<float>(sign | bits);
}

/** The upper half of a float, rounded to nearest even; what would round to infinity stays finite. */
uint16_t to_brain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);  // NaN
  const uint32_t rounded = bits + 0x7fffU + (bits >> 16 & 1U);
  const bool overflows = (rounded & 0x7f800000U) == 0x7f800000U && (bits & 0x7f800000U) != 0x7f800000U;
  return static_cast<uint16_t>((overflows ? bits : rounded) >> 16);
}

float from_brain(uint16_t brain) { return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16); }

template <typename Convert>
void write(std::span<const float> values, std::byte* code, Convert convert) {
  for (const float value : values) {
    const uint16_t half = convert(value);
    std::memcpy(code, &half, sizeof half);
    code += sizeof half;
  }
}

template <typename Convert>
void add(const std::byte* code, std::span<float> values, Convert convert) {
  for (float& value : values) {
    uint16_t half = 0;
    std::memcpy(&half, code, sizeof half);
    code += sizeof half;
    value += convert(half);
  }
}

}  // namespace

void HalfPrecision::encode(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  write(values, code, to_half);
}
void HalfPrecision::add_decoded(const std::byte* code, std::span<float> values) const { add(code, values, from_half); }

void BrainFloat::encode(std::span<const float> values, Random& /*random*/, std::byte* code) const {
  write(values, code, to_brain);
}
void BrainFloat::add_decoded(const std::byte* code, std::span<float> values) const { add(code, values, from_brain); }

}  // namespace ddl::train
