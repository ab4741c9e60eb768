#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "workloads/train/compress/codec.h"

namespace ddl::train {

/** A code that is the codes of its groups, one after the other. */
class GroupCodec : public Codec {
 public:
  std::size_t bytes(std::size_t count) const override {
    const std::size_t rest = count % kGroup;
    return count / kGroup * group_bytes(kGroup) + (rest > 0 ? group_bytes(rest) : 0);
  }

  void encode(std::span<const float> values, Random& random, std::byte* code) const override {
    for (std::size_t begin = 0; begin < values.size(); begin += kGroup) {
      const auto group = values.subspan(begin, std::min(kGroup, values.size() - begin));
      encode_group(group, random, code);
      code += group_bytes(group.size());
    }
  }

  void add_decoded(const std::byte* code, std::span<float> values) const override {
    for (std::size_t begin = 0; begin < values.size(); begin += kGroup) {
      const auto group = values.subspan(begin, std::min(kGroup, values.size() - begin));
      add_decoded_group(code, group);
      code += group_bytes(group.size());
    }
  }

 protected:
  virtual std::size_t group_bytes(std::size_t count) const = 0;
  virtual void encode_group(std::span<const float> values, Random& random, std::byte* code) const = 0;
  virtual void add_decoded_group(const std::byte* code, std::span<float> values) const = 0;

  static void store(float value, std::byte* code) { std::memcpy(code, &value, sizeof value); }
  static float load(const std::byte* code) {
    float value = 0;
    std::memcpy(&value, code, sizeof value);
    return value;
  }

  /** The largest magnitude; NaN if a value is not finite. */
  static float largest(std::span<const float> values) {
    float most = 0;
    bool finite = true;
    for (const float value : values) {
      finite = finite && std::isfinite(value);
      most = std::max(most, std::fabs(value));
    }
    return finite ? most : NAN;
  }
};

}  // namespace ddl::train
