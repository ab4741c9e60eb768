// Who keeps whom from going on, judged from who waits in which collective and who has not entered it. The live view and
// the report judge by the same rule.
//
// A member that got less far than a waiting rank is what that one waits for; of those, the ones that do not sit in a
// collective themselves are the cause. Where all of them do and nobody is missing there, one of its members died in
// mid-transfer, and nothing tells which.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ddl {

constexpr int64_t kHangNs = 2'000'000'000;  ///< waiting for this long, and ...
constexpr double kHangTimes = 20;           ///< ... for this many times the mean duration of the call is a hang

/// A rank that sits in a collective, or in a call that waits for one to complete.
struct WaitingRank {
  int64_t rank = 0;
  int64_t comm = 0;
  int64_t seq = 0;  ///< number of the collective on the communicator
  int64_t since_ns = 0;
};

struct StallCase {
  int64_t comm = 0;
  int64_t seq = 0;
  std::vector<int64_t> waiting;  ///< ranks in it, as they came in the input
  std::vector<int64_t> missing;  ///< the cause: members that did not enter it
  bool circular = false;         ///< all missing ranks wait in another collective
  int64_t since_ns = 0;          ///< when the last of `waiting` entered
};

/// The stall with the most ranks waiting; nothing if no rank waits for one that is behind. Collectives that somebody
/// entered after `latest_ns` are none. `behind(comm, seq)`: the members that have not entered that collective; empty
/// also where nothing is known.
std::optional<StallCase> find_stall_case(const std::vector<WaitingRank>& waiting, int64_t latest_ns,
                                         const std::function<std::vector<int64_t>(int64_t comm, int64_t seq)>& behind);

}  // namespace ddl
