// One collective instance: how long each member waited for others and how long it transferred
// (specification.md "Waiting").
//
// Two estimators. Max-start (W2): everything before the last member entered is waiting; needs the members' clocks on
// one axis. Min-duration (W3): the shortest stay is all transfer, the rest of longer ones is waiting; needs no clock,
// but only holds where all members do the same. Non-blocking operations use W2 with the post as the enter; the rest up
// to the completing call is an upper bound of the transfer.
//
// Where members left no record, the last known enter bounds the last one from below: waits are lower bounds, transfers
// upper ones (J7). Who waits for a root alone (W9) does so for exactly as long if the root left one.
//
// Pure functions over plain values: units are ns on the run's axis; wait_ns + xfer_ns = duration_ns holds
// exactly by construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/passes/operation.h"

namespace ddl {

struct Member {
  int64_t event = 0;       ///< event.id
  int64_t process = 0;     ///< process.id
  int64_t rank = 0;        ///< in MPI_COMM_WORLD
  int64_t comm_rank = -1;  ///< in the communicator; -1: unknown
  int64_t enter_ns = 0;
  int64_t duration_ns = 0;
  std::optional<int64_t> payload_bytes = 0;  ///< unset: not known
  /// of a kernel that several collectives share: this one's is [share_begin, share_end) of share_total
  int64_t share_begin = 0;
  int64_t share_end = 1;
  int64_t share_total = 1;
  std::optional<int64_t> step;

  int64_t leave_ns() const { return enter_ns + duration_ns; }
};

enum class Why { kNone, kNoData, kZeroDenominator, kClockUntrusted, kPartialRanks, kNotApplicable };
enum class WaitMethod { kNone, kMaxStart, kMinDuration, kMaxPost, kLateRoot, kEarlyReduce, kLowerBound };

/// Waits that compare clocks are trusted while the clocks' sigma is below this share of their median (W2).
constexpr double kTrustedSigmaShare = 0.1;

/// As the store spells them; null for kNone.
const char* name_of(Why why);
const char* name_of(WaitMethod method);

struct Instance {
  const Operation* operation = nullptr;
  bool nonblocking = false;  ///< enter is the post, leave the completion
  bool complete = false;     ///< all members of the communicator are here, each once
  bool partial = false;      ///< some are missing; those that are here are here once, in the same operation
  /// partial, and the missing ones were there without leaving a record: the others bound the waiting (J7)
  bool bounded = false;
  int64_t size = 0;             ///< how many there are in the communicator; 0: of two groups
  bool clock_trusted = true;    ///< the members' clocks may be compared
  std::optional<int64_t> root;  ///< comm rank
  std::vector<Member> members;
};

struct Split {
  WaitMethod method = WaitMethod::kNone;
  Why why = Why::kNone;                       ///< why `wait_ns` is empty
  std::vector<int64_t> wait_ns;               ///< per member; empty: not known
  std::vector<int64_t> min_duration_wait_ns;  ///< W3 per member; empty: not symmetric, not blocking or not complete
  /// the members' time after the first one left, all having entered (W7); blocking symmetric ones
  std::optional<int64_t> completion_ns;
  int64_t clock_violations = 0;  ///< members that left before the last one entered: clipped (n_ccv)
  /// who is waited for (W10): members that entered last, or the root; empty: not known
  std::vector<size_t> late;
  /// per member, of wait_ns: for a late root of a reduction that was not the last; mostly empty
  std::vector<int64_t> for_root_ns;
  size_t root = 0;  ///< member that for_root_ns is for

  /// As a new one, but for the memory.
  void clear();
};

/// S of specification.md "Bandwidths"; nothing if it depends on members that are missing, or on payloads
/// that are not known.
std::optional<int64_t> operation_bytes(const Instance& instance);

Split split_waiting(const Instance& instance);
/// The same in place of `split`, whose memory is used again.
void split_waiting(const Instance& instance, Split& split);

/// From the kernel that several collectives share to this one's part of it: durations and waits in proportion, so that
/// the parts add up.
void take_share(Instance& instance, Split& split);

/// `wait_ns` in `shares` parts that differ by at most 1 ns and add up exactly; part `index` of them (W10, ties).
constexpr int64_t share_of(int64_t wait_ns, int64_t shares, int64_t index) {
  return wait_ns / shares + (index < wait_ns % shares ? 1 : 0);
}

/// Per late member: `book(member, how many were late together, longest wait, ns of any member's wait that are booked to
/// it)`. The first ones are those of `split.late`.
template <class Book>
void each_late(const Split& split, const Book& book) {
  if (split.late.empty() || split.wait_ns.empty()) return;
  const std::vector<int64_t>& for_root_ns = split.for_root_ns;
  const auto longest_ns = [&](const auto& wait_ns) {
    int64_t longest = 0;
    for (size_t i = 0; i < split.wait_ns.size(); ++i) longest = std::max(longest, wait_ns(i));
    return longest;
  };
  const auto for_last_ns = [&](size_t i) { return split.wait_ns[i] - (for_root_ns.empty() ? 0 : for_root_ns[i]); };
  const auto ties = static_cast<int64_t>(split.late.size());
  const int64_t longest = longest_ns(for_last_ns);
  for (int64_t part = 0; part < ties; ++part)
    book(split.late[static_cast<size_t>(part)], ties, longest,
         [&](size_t i) { return share_of(for_last_ns(i), ties, part); });
  if (for_root_ns.empty()) return;
  const auto of_root_ns = [&](size_t i) { return for_root_ns[i]; };
  book(split.root, int64_t{1}, longest_ns(of_root_ns), of_root_ns);
}

}  // namespace ddl
