// How much each rank has asked rank 0 to reduce and not got back yet, where background threads negotiate by lists of
// requests (specification.md J2).
//
// Bytes of lists do not add up exactly: two requests in one list are a little less than in two. So the sums of
// ranks drift apart, and start over whenever data has been moved and all have asked for about the same since:
// nothing is open then, or little.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace ddl {

class RequestedBytes {
 public:
  /// Returns the sum of this member.
  int64_t add(int64_t member, int64_t bytes) { return sums_[member] += bytes; }

  std::optional<int64_t> sum(int64_t member) const {
    const auto found = sums_.find(member);
    return found == sums_.end() ? std::nullopt : std::optional(found->second);
  }

  void data_moved() {
    int64_t least = INT64_MAX, most = 0;
    for (const auto& [member, sum] : sums_) {
      least = std::min(least, sum);
      most = std::max(most, sum);
    }
    if (is_less(least, most)) return;
    for (auto& [member, sum] : sums_) sum = 0;
  }

  /// `a` is less than `b` by more than sums drift.
  static bool is_less(int64_t a, int64_t b) { return static_cast<double>(a) < 0.9 * static_cast<double>(b); }

  void clear() { sums_.clear(); }

 private:
  std::map<int64_t, int64_t> sums_;
};

}  // namespace ddl
