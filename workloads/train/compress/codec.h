#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "workloads/train/random.h"

namespace ddl::train {

/**
 * A lossy code of an array of floats: gradients on their way to other ranks. What a code loses is known to the sender
 * (values less what is decoded) and kept for the next step: error feedback.
 *
 * A value that is not finite makes its group, or itself, not finite when it is decoded: a run that diverges is
 * seen to diverge. */
class Codec {
 public:
  /** Values that share a scale. */
  static constexpr std::size_t kGroup = 512;

  virtual ~Codec() = default;
  /** For the code of `count` values, whatever they are; of codes of varying size, the most that it may be. */
  virtual std::size_t bytes(std::size_t count) const = 0;
  /** `random` decides how stochastic codes round. */
  virtual void encode(std::span<const float> values, Random& random, std::byte* code) const = 0;
  /** Adds what the code stands for to the values. */
  virtual void add_decoded(const std::byte* code, std::span<float> values) const = 0;
  /** For a code: what of it has to be sent. */
  virtual std::size_t size_of(const std::byte* /*code*/, std::size_t count) const { return bytes(count); }
  /** A sum of such codes is not of that size: they are handed to all ranks as they are, instead of being added up
   * shard by shard. */
  virtual bool sparse() const { return false; }
};

/**
 * By name; per value, and per group of 512 (a shorter last one included):
 *
 *   fp16, bf16   2 bytes; rounded to nearest even; fp16 is cut off at +-65504
 *   q8           1 byte, and 4 for the largest magnitude s: multiples of s/127 up to s, rounded stochastically, so that
 *                the mean is right (QSGD, Alistarh et al. 2017, with the maximum as scale)
 *   q4           half a byte, and 4: the same with multiples of s/7
 *   ternary      a quarter byte, and 4: -s, 0 or s, rounded to the nearest (3LC, Lim et al. 2019). TernGrad's
 *                stochastic rounding errs by
 * up to s, which error feedback would let grow without bound; to the nearest it is s/2. onebit       1/8 byte, and 8: the sign, and the
 * means of the values that are negative and that are not (Seide et al. 2014) topk:RATIO   8 bytes for each of the ceil(RATIO n) largest
 * magnitudes of all n: index and value
 *   top16_q4     2 and a half bytes for each of the 16 largest magnitudes of a group, and 4 for the largest: place in
 *                the group, and multiples
 * of s/7 as of q4 (Top16_Q4 of SparCML, Renggli et al. 2019) threshold:T  4 bytes, and 8 for each value of magnitude T or more: index and
 * value (Strom 2015)
 *
 * Throws UsageError.
 */
std::unique_ptr<Codec> make_codec(const std::string& name);

/** RATIO of topk:RATIO and its kin. Throws UsageError. */
double share_that_is_sent(const std::string& name);

}  // namespace ddl::train
