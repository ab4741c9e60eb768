#pragma once

#include <cstdint>

namespace ddl::train {

/** What is drawn: keeps the streams of one seed apart. */
enum class Draw : uint64_t { kWeights = 1, kOrder, kImages, kJitter, kRounding };

/**
 * SplitMix64. The standard library's distributions differ between implementations; everything drawn here (weights,
 * images, order of the samples, jitter) has to be the same on every rank and every machine, so the generator and its
 * conversions are ours and use no libm. */
class Random {
 public:
  /** Independent streams of one seed, told apart by what is drawn and up to two numbers (sample, rank, step, ...). */
  Random(uint64_t seed, Draw what, uint64_t a, uint64_t b = 0)
      : state_(mix(mix(mix(mix(seed + kGolden) + static_cast<uint64_t>(what) * kGolden) + a * kGolden) + b * kGolden)) {
  }

  uint64_t next() { return mix(state_ += kGolden); }
  /** In [0, 1), with the 24 bits that a float holds. */
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /** In [0, bound); the modulo's bias of bound / 2^64 is far below anything a training run could notice. */
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15U;

  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace ddl::train
