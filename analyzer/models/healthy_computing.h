// What late ranks would compute if nothing slowed them down, for replays (specification.md J8). In words:
//
//   step                            1    2    3    4
//   others, in this place          10   10   40   10    the third has more work for all
//   late rank                      15   14   45   14
//   as the others in the mean      10   10   40   10    never the last, as any healthy rank is at times
//   as a healthy rank              10.5 9.5  40.5 9.5   it varies about the others' level as it did, but no more than
//                                                       each of them does: what varies more is lateness
//
// The others: those that run the same program, as far as that is seen: they compute in as many places. The mean over
// the ocean of a coupled model and its atmosphere is what neither computes. Where no other rank does, all others.
//
// Seconds. Linear in the operations. Const once built.
#pragma once

#include <algorithm>
#include <boost/functional/hash.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/models/replay.h"

namespace ddl::models {

/// An operation of computing, and its place: those of one place do the same piece of work, on all ranks and in all
/// steps.
struct PlacedComputing {
  Replay::Op op = 0;
  size_t place = 0;
};

class HealthyComputing {
 public:
  HealthyComputing(const Replay& replay, std::span<const PlacedComputing> computing,
                   const std::unordered_set<int64_t>& late);
  /// `one`: of a late rank, among `computing`. Nothing: no other rank ever has its place.
  std::optional<double> of(const PlacedComputing& one) const;

 private:
  struct Moments {
    double sum = 0, squares = 0, count = 0;
    void add(double value) { sum += value, squares += value * value, ++count; }
    double mean() const { return sum / count; }
    double variance() const { return std::max(0.0, squares / count - mean() * mean()); }
  };
  struct Variances {
    double sum = 0, count = 0, ranks = 0;
  };
  template <class Key, class Of>
  using By = std::unordered_map<Key, Of, boost::hash<Key>>;
  using Place = std::pair<int64_t, size_t>;  ///< of a program, or of a rank

  void tell_programs(std::span<const PlacedComputing> computing, const std::unordered_set<int64_t>& late);
  std::optional<double> level_of(const PlacedComputing& one) const;

  const Replay& replay_;
  std::unordered_map<int64_t, int64_t> program_;    ///< by rank
  By<std::pair<int64_t, Place>, Moments> in_step_;  ///< of the others, by step and place
  By<Place, Moments> in_all_;                       ///< by place
  By<Place, Moments> off_level_;                    ///< by rank and place
  By<Place, Variances> others_;                     ///< of that, by place
};

}  // namespace ddl::models
