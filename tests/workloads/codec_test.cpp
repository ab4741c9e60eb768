#include "workloads/train/compress/codec.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "workloads/train/error.h"

namespace ddl::train {
namespace {

constexpr const char* kNames[] = {"fp16",    "bf16",      "q8",     "q4",       "onebit",
                                  "ternary", "topk:0.01", "topk:1", "top16_q4", "threshold:0.001"};

std::vector<float> drawn(std::size_t count, uint64_t seed) {
  Random random(seed, Draw::kImages, 0);
  std::vector<float> values(count);
  for (float& value : values) value = random.uniform(-1, 1) * random.uniform() * 0.01F;
  return values;
}

std::vector<float> through(const Codec& codec, const std::vector<float>& values, uint64_t draw = 0) {
  Random random(7, Draw::kRounding, draw);
  std::vector<std::byte> code(codec.bytes(values.size()) + 1, std::byte{0x5a});
  codec.encode(values, random, code.data());
  EXPECT_EQ(code.back(), std::byte{0x5a}) << "writes behind its bytes";
  std::vector<float> decoded(values.size());
  codec.add_decoded(code.data(), decoded);
  return decoded;
}

float through(const Codec& codec, float value) { return through(codec, std::vector<float>{value})[0]; }

/** By hand: groups of 512 and one of 100. */
TEST(Codec, Bytes) {
  const std::size_t count = 2 * 512 + 100;
  EXPECT_EQ(make_codec("fp16")->bytes(count), 2248U);
  EXPECT_EQ(make_codec("bf16")->bytes(count), 2248U);
  EXPECT_EQ(make_codec("q8")->bytes(count), 3U * 4 + 1124);
  EXPECT_EQ(make_codec("q4")->bytes(count), 3U * 4 + 562);
  EXPECT_EQ(make_codec("q4")->bytes(513), 4U + 256 + 4 + 1);
  EXPECT_EQ(make_codec("ternary")->bytes(count), 3U * 4 + 128 + 128 + 25);
  EXPECT_EQ(make_codec("onebit")->bytes(count), 3U * 8 + 64 + 64 + 13);
  EXPECT_EQ(make_codec("topk:0.01")->bytes(count), 12U * 8);
  EXPECT_EQ(make_codec("topk:0.01")->bytes(1), 8U);
  EXPECT_EQ(make_codec("top16_q4")->bytes(count), 3U * (4 + 16 * 2 + 8));
  EXPECT_EQ(make_codec("top16_q4")->bytes(5), 4U + 5 * 2 + 3);
  for (const char* name : kNames) EXPECT_EQ(make_codec(name)->bytes(0), 0U) << name;
}

/** What decoding leaves over is as small as the code promises, for every size of the last group. */
TEST(Codec, Error) {
  for (const std::size_t count : {1, 2, 3, 7, 511, 512, 513, 1030}) {
    const std::vector<float> values = drawn(count, count);
    for (const auto& [name, bound] : {std::pair{"q8", 1.0F / 127}, {"q4", 1.0F / 7}, {"ternary", 0.5F}}) {
      const std::vector<float> decoded = through(*make_codec(name), values);
      for (std::size_t i = 0; i < count; ++i) {
        float scale = 0;
        for (std::size_t j = i / 512 * 512; j < std::min(count, i / 512 * 512 + 512); ++j)
          scale = std::max(scale, std::fabs(values[j]));
        EXPECT_LE(std::fabs(decoded[i] - values[i]), bound * scale * 1.00001F) << name << " " << count << " " << i;
      }
    }
  }
}

/** All halves but infinities and NaN survive; floats in between go to the nearer neighbour, to the even one
 * from the middle. */
TEST(Codec, HalfPrecisionIsIeee) {
  const std::unique_ptr<Codec> codec = make_codec("fp16");
  std::vector<float> halves;
  for (int exponent = -15; exponent <= 15; ++exponent) {
    for (int mantissa = 0; mantissa < 1024; ++mantissa) {
      // For the definition of binary16; the lowest exponent has the numbers without a leading one.
      halves.push_back(exponent == -15 ? std::ldexp(static_cast<float>(mantissa), -24)
                                       : std::ldexp(1 + static_cast<float>(mantissa) / 1024, exponent));
    }
  }
  EXPECT_EQ(through(*codec, halves), halves);
  for (std::size_t i = 0; i + 1 < halves.size(); ++i) {
    const float low = halves[i];
    const float high = halves[i + 1];
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(through(*codec, std::nextafter(middle, low)), low) << i;
    ASSERT_EQ(through(*codec, middle), i % 2 == 0 ? low : high) << i;
    ASSERT_EQ(through(*codec, std::nextafter(middle, high)), high) << i;
    ASSERT_EQ(through(*codec, -std::nextafter(middle, high)), -high) << i;
  }
  EXPECT_EQ(through(*codec, 1e6F), 65504);
  EXPECT_EQ(through(*codec, -std::numeric_limits<float>::infinity()), -65504);
}

TEST(Codec, BrainFloatRoundsToNearestEven) {
  const std::unique_ptr<Codec> codec = make_codec("bf16");
  const float step = 1.0F / 128;  // between 1 and 2
  for (int i = 0; i < 128; ++i) {
    const float low = 1 + static_cast<float>(i) * step;
    EXPECT_EQ(through(*codec, low), low);
    EXPECT_EQ(through(*codec, low + step * 0.499F), low);
    EXPECT_EQ(through(*codec, low + step * 0.5F), i % 2 == 0 ? low : low + step);
    EXPECT_EQ(through(*codec, -low - step * 0.501F), -low - step);
  }
  EXPECT_TRUE(std::isfinite(through(*codec, std::numeric_limits<float>::max())));
}

/** The mean of many codes of the same values is within 5 sigma of them; sigma from the two multiples around each
 * value. */
TEST(Codec, StochasticRoundingHasNoBias) {
  constexpr uint64_t kDraws = 4000;
  const std::vector<float> values = drawn(600, 3);
  for (const auto& [name, levels] : {std::pair{"q8", 127.0}, {"q4", 7.0}}) {
    const std::unique_ptr<Codec> codec = make_codec(name);
    std::vector<double> sums(values.size());
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      const std::vector<float> decoded = through(*codec, values, draw);
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += static_cast<double>(decoded[i]);
    }
    double all = 0;
    double all_variance = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double scale = 0;
      for (std::size_t j = i / 512 * 512; j < std::min<std::size_t>(600, i / 512 * 512 + 512); ++j) {
        scale = std::max(scale, std::fabs(static_cast<double>(values[j])));
      }
      const double unit = scale / levels;
      const double exact = static_cast<double>(values[i]) / unit;
      const double fraction = exact - std::floor(exact);
      const double variance = unit * unit * fraction * (1 - fraction) / kDraws;
      const double error = sums[i] / kDraws - static_cast<double>(values[i]);
      EXPECT_LE(std::fabs(error), 5 * std::sqrt(variance) + 1e-6 * scale) << name << " value " << i;
      all += error;
      all_variance += variance;
    }
    EXPECT_LE(std::fabs(all), 5 * std::sqrt(all_variance) + 1e-6) << name;
  }
}

TEST(Codec, OneBitKeepsTheMeansOfBothSigns) {
  EXPECT_EQ(through(*make_codec("onebit"), std::vector<float>{1, -2, 3, -6, 0, 0}),
            std::vector<float>({1, -4, 1, -4, 1, 1}));
}

TEST(Codec, TernaryRoundsToTheNearest) {
  EXPECT_EQ(through(*make_codec("ternary"), std::vector<float>{8, -8, 4, -4, 5, -5, 0}),
            std::vector<float>({8, -8, 0, 0, 8, -8, 0}));
}

TEST(Codec, TopKKeepsTheLargest) {
  const std::unique_ptr<Codec> codec = make_codec("topk:0.25");
  EXPECT_FALSE(make_codec("q8")->sparse());
  EXPECT_TRUE(codec->sparse());
  EXPECT_EQ(through(*codec, std::vector<float>{1, -9, 3, 2, 0, 4, -4, 2}),
            std::vector<float>({0, -9, 0, 0, 0, 4, 0, 0}));
  const std::vector<float> values = drawn(1000, 5);
  EXPECT_EQ(through(*make_codec("topk:1"), values), values);
}

TEST(Codec, TopOfEachGroup) {
  std::vector<float> values(1024, 0.001F);
  values[3] = 7, values[500] = -7, values[600] = 14;
  const std::vector<float> decoded = through(*make_codec("top16_q4"), values);
  EXPECT_EQ(decoded[3], 7);
  EXPECT_EQ(decoded[500], -7);
  EXPECT_EQ(decoded[600], 14);
  EXPECT_LE(std::count_if(decoded.begin(), decoded.end(), [](float v) { return v != 0; }), 32);
}

TEST(Codec, ThresholdSendsWhatIsLarge) {
  const auto codec = make_codec("threshold:0.5");
  const std::vector<float> values{0.4F, -0.5F, 0, 2, -0.49F, NAN};
  const std::vector<float> decoded = through(*codec, {0.4F, -0.5F, 0, 2, -0.49F});
  EXPECT_EQ(decoded, (std::vector<float>{0, -0.5F, 0, 2, 0}));
  std::vector<std::byte> code(codec->bytes(values.size()));
  Random random(1, Draw::kRounding, 0);
  codec->encode(values, random, code.data());
  EXPECT_EQ(codec->size_of(code.data(), values.size()), 4U + 3 * 8);
}

/** Zeros stay zeros; what is not finite stays visible, and nothing reads or writes out of bounds for it. */
TEST(Codec, ZerosAndValuesThatAreNotFinite) {
  for (const char* name : kNames) {
    const std::unique_ptr<Codec> codec = make_codec(name);
    EXPECT_EQ(through(*codec, std::vector<float>(600)), std::vector<float>(600)) << name;
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      if (name == std::string("fp16") && std::isinf(bad)) continue;  // is cut off
      std::vector<float> values = drawn(600, 9);
      values[13] = bad;
      EXPECT_FALSE(std::isfinite(through(*codec, values)[13])) << name << " " << bad;
    }
  }
}

TEST(Codec, NamesThatAreNone) {
  for (const char* name : {"", "q2", "topk", "topk:", "topk:0", "topk:-0.1", "topk:1.5", "topk:nan", "topk:0.1x",
                           "fp16 ", "threshold:", "threshold:0", "threshold:-1", "threshold:inf", "top16"}) {
    EXPECT_THROW(make_codec(name), UsageError) << name;
  }
}

}  // namespace
}  // namespace ddl::train
