// Numbers that depend on what they are for and on nothing else: the same in whatever order a simulation asks for them.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace ddl::test {

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(mix(seed)) {}
  /// Dice of their own for this purpose.
  Dice of(uint64_t purpose, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) const {
    Dice dice(0);
    dice.state_ = mix(mix(mix(mix(state_ ^ purpose) + a) + b) + c);
    return dice;
  }

  uint64_t bits() { return state_ = mix(state_); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double log_uniform(double low, double high) { return low * std::exp(uniform() * std::log(high / low)); }
  /// low .. high, both included.
  int between(int low, int high) { return low + static_cast<int>(uniform() * (high - low + 1)); }
  bool chance(double share) { return uniform() < share; }
  double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  /// Median 1.
  double lognormal(double sigma) { return std::exp(sigma * normal()); }
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }

 private:
  static uint64_t mix(uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
  }
  uint64_t state_;
};

}  // namespace ddl::test
