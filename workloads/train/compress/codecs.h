#pragma once

#include <vector>

#include "workloads/train/compress/group_codec.h"

/* The codes that make_codec knows; what they hold is said there. */
namespace ddl::train {

class HalfPrecision : public Codec {
 public:
  std::size_t bytes(std::size_t count) const override { return 2 * count; }
  void encode(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded(const std::byte* code, std::span<float> values) const override;
};

class BrainFloat : public Codec {
 public:
  std::size_t bytes(std::size_t count) const override { return 2 * count; }
  void encode(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded(const std::byte* code, std::span<float> values) const override;
};

/** Signed multiples of the scale's 127th or 7th part. */
class Quantised : public GroupCodec {
 public:
  /** 4 or 8 bits per value. */
  explicit Quantised(int bits) : bits_(bits), levels_(static_cast<float>((1 << (bits - 1)) - 1)) {}

 protected:
  std::size_t group_bytes(std::size_t count) const override {
    return sizeof(float) + (bits_ == 8 ? count : (count + 1) / 2);
  }
  void encode_group(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded_group(const std::byte* code, std::span<float> values) const override;

 private:
  int bits_;
  float levels_;
};

class Ternary : public GroupCodec {
 protected:
  std::size_t group_bytes(std::size_t count) const override { return sizeof(float) + (count + 3) / 4; }
  void encode_group(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded_group(const std::byte* code, std::span<float> values) const override;
};

class OneBit : public GroupCodec {
 protected:
  std::size_t group_bytes(std::size_t count) const override { return 2 * sizeof(float) + (count + 7) / 8; }
  void encode_group(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded_group(const std::byte* code, std::span<float> values) const override;
};

/** Indices of the k largest magnitudes, or of all if there are fewer, ascending; of equal ones the first. */
std::vector<uint32_t> largest_magnitudes(std::span<const float> values, std::size_t k);

class TopK : public Codec {
 public:
  /** The share of the values that is sent, above 0 up to 1. */
  explicit TopK(double ratio) : ratio_(ratio) {}
  std::size_t bytes(std::size_t count) const override { return entries(count) * 2 * sizeof(uint32_t); }
  void encode(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded(const std::byte* code, std::span<float> values) const override;
  bool sparse() const override { return true; }

 private:
  std::size_t entries(std::size_t count) const {
    return static_cast<std::size_t>(std::ceil(ratio_ * static_cast<double>(count)));
  }
  double ratio_;
};

/** The 16 largest magnitudes of a group, with 4 bits each. */
class TopOfGroup : public GroupCodec {
 public:
  bool sparse() const override { return true; }

 protected:
  static constexpr std::size_t kKept = 16;
  static constexpr float kLevels = 7;
  std::size_t group_bytes(std::size_t count) const override {
    const std::size_t kept = std::min(count, kKept);
    return sizeof(float) + kept * sizeof(uint16_t) + (kept + 1) / 2;
  }
  void encode_group(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded_group(const std::byte* code, std::span<float> values) const override;
};

/** A number of entries, then index and value of each magnitude that is large enough. */
class Threshold : public Codec {
 public:
  explicit Threshold(float threshold) : threshold_(threshold) {}
  std::size_t bytes(std::size_t count) const override { return count > 0 ? sizeof(uint32_t) + count * kEntry : 0; }
  std::size_t size_of(const std::byte* code, std::size_t count) const override;
  void encode(std::span<const float> values, Random& random, std::byte* code) const override;
  void add_decoded(const std::byte* code, std::span<float> values) const override;
  bool sparse() const override { return true; }

 private:
  static constexpr std::size_t kEntry = 2 * sizeof(uint32_t);
  float threshold_;
};

}  // namespace ddl::train
