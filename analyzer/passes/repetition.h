// Finds the step in a sequence of collectives of a job that marks none (specification.md R4, after Greyhound): a number
// of collectives that comes again and again, and the one that begins it.
//
// Period: the shortest lag at which the sequence agrees with itself well over a stretch that is most of it, and not
// much worse than at the best lag (a checkpoint every ten steps makes ten steps the best one). Agreement is corrected
// for chance, so that forty equal calls and another one are a period of 41 and not of 1. Collectives before and after
// the stretch (reading input, printing statistics) are not steps. Begin: of the places in the period that can be told
// (a run of calls that occurs once in it) the one with the longest pause before it, because between the last collective
// of a step and the first of the next lie the update and the forward pass.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddl {

/// One collective as one member saw it.
struct Beat {
  int64_t token = 0;  ///< equal: the same operation from the same call site (with the same size)
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
};

constexpr size_t kMaxPeriod = 2000;  ///< collectives
constexpr size_t kMinRepetitions = 4;
constexpr double kMinAgreement = 0.7;      ///< kappa
constexpr int64_t kMinPeriodNs = 100'000;  ///< a loop that is faster is not a training step

struct Repetition {
  size_t period = 0;     ///< collectives
  double agreement = 0;  ///< kappa at that lag
  /// [first, last) indices of the collectives of each repetition found, in order. Collectives between two belong to
  /// none.
  std::vector<std::pair<size_t, size_t>> steps;
};

/// Nothing: it does not repeat.
std::optional<Repetition> find_repetition(std::span<const Beat> beats);

}  // namespace ddl
