#include "analyzer/passes/instance.h"

#include <algorithm>

namespace ddl {
namespace {

__extension__ typedef __int128 Wide;  // ns times bytes

/// How long one that entered at `enter` waited for something that happened at `until`, having left at `leave`.
int64_t waited_ns(const Member& member, int64_t until_ns) {
  return std::max<int64_t>(0, std::min(until_ns, member.leave_ns()) - member.enter_ns);
}

const Member* find_root(const Instance& instance) {
  if (!instance.root) return nullptr;
  const auto& members = instance.members;
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.comm_rank == *instance.root; });
  return found == members.end() ? nullptr : &*found;
}

void mark(const std::vector<Member>& members, int64_t Member::*field, int64_t value, std::vector<size_t>& late) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].*field == value) late.push_back(i);
  }
}

void split_symmetric(const Instance& instance, bool moves_nothing, Split& split) {
  const auto& members = instance.members;
  const auto [shortest, longest] = std::minmax_element(
      members.begin(), members.end(), [](const Member& a, const Member& b) { return a.duration_ns < b.duration_ns; });
  if (!instance.nonblocking) {
    for (const Member& m : members)
      split.min_duration_wait_ns.push_back(moves_nothing ? 0 : m.duration_ns - shortest->duration_ns);
  }
  if (!instance.clock_trusted) {
    if (instance.nonblocking) {
      split.why = Why::kClockUntrusted;
      return;
    }
    split.method = WaitMethod::kMinDuration;
    split.wait_ns = split.min_duration_wait_ns;
    mark(members, &Member::duration_ns, shortest->duration_ns, split.late);
    return;
  }
  int64_t last_enter_ns = members.front().enter_ns;
  for (const Member& m : members) last_enter_ns = std::max(last_enter_ns, m.enter_ns);
  split.method = instance.nonblocking ? WaitMethod::kMaxPost : WaitMethod::kMaxStart;
  for (const Member& m : members) {
    split.wait_ns.push_back(moves_nothing ? 0 : waited_ns(m, last_enter_ns));
    if (instance.operation->strict && !moves_nothing && last_enter_ns > m.leave_ns()) ++split.clock_violations;
  }
  mark(members, &Member::enter_ns, last_enter_ns, split.late);
  if (instance.nonblocking) return;
  int64_t first_leave_ns = INT64_MAX;
  for (const Member& m : members) first_leave_ns = std::min(first_leave_ns, m.leave_ns());
  split.completion_ns = 0;
  for (const Member& m : members)
    *split.completion_ns += std::max<int64_t>(0, m.leave_ns() - std::max(first_leave_ns, last_enter_ns));
}

void split_late_root(const Instance& instance, const Member& root, bool moves_nothing, Split& split) {
  split.method = instance.nonblocking ? WaitMethod::kMaxPost : WaitMethod::kLateRoot;
  for (const Member& m : instance.members) {
    const bool waits = &m != &root && !moves_nothing;
    split.wait_ns.push_back(waits ? waited_ns(m, root.enter_ns) : 0);
    if (waits && root.enter_ns > m.leave_ns()) ++split.clock_violations;
  }
  split.late.push_back(static_cast<size_t>(&root - instance.members.data()));
}

void split_early_root(const Instance& instance, const Member& root, bool moves_nothing, Split& split) {
  split.method = instance.nonblocking ? WaitMethod::kMaxPost : WaitMethod::kEarlyReduce;
  // The root for the last one. The others for the root, as senders wait for a receiver: one that left before it came
  // had its data taken by the library. But one that was still there when the last one came is behind it in a chain or a
  // tree, unless one without a record came later still.
  const auto& members = instance.members;
  int64_t last_ns = INT64_MIN;
  for (const Member& m : members) last_ns = std::max(last_ns, m.enter_ns);
  split.root = static_cast<size_t>(&root - members.data());
  bool any_for_root = false;
  for (const Member& m : members) {
    const bool for_root = &m != &root && m.leave_ns() > root.enter_ns,
               for_last = &m == &root || (m.leave_ns() > last_ns && !instance.bounded);
    const int64_t wait_ns = moves_nothing ? 0
                            : for_last    ? waited_ns(m, last_ns)
                            : for_root    ? waited_ns(m, root.enter_ns)
                                          : 0;
    split.wait_ns.push_back(wait_ns);
    split.for_root_ns.push_back(for_last ? 0 : wait_ns);
    any_for_root |= split.for_root_ns.back() > 0;
  }
  mark(members, &Member::enter_ns, last_ns, split.late);
  if (!any_for_root || root.enter_ns == last_ns) split.for_root_ns.clear();
}

}  // namespace

const char* name_of(Why why) {
  switch (why) {
    case Why::kNone:
      return nullptr;
    case Why::kNoData:
      return "NO_DATA";
    case Why::kZeroDenominator:
      return "ZERO_DENOM";
    case Why::kClockUntrusted:
      return "CLOCK_UNTRUSTED";
    case Why::kPartialRanks:
      return "PARTIAL_RANKS";
    case Why::kNotApplicable:
      return "NOT_APPLICABLE";
  }
  return nullptr;
}

const char* name_of(WaitMethod method) {
  switch (method) {
    case WaitMethod::kNone:
      return nullptr;
    case WaitMethod::kMaxStart:
      return "max-start";
    case WaitMethod::kMinDuration:
      return "min-duration";
    case WaitMethod::kMaxPost:
      return "max-post";
    case WaitMethod::kLateRoot:
      return "late-root";
    case WaitMethod::kEarlyReduce:
      return "early-reduce";
    case WaitMethod::kLowerBound:
      return "lower-bound";
  }
  return nullptr;
}

std::optional<int64_t> operation_bytes(const Instance& instance) {
  int64_t sum = 0;
  int64_t largest = 0;
  bool is_known = true;
  for (const Member& m : instance.members) {
    is_known &= m.payload_bytes.has_value();
    sum += m.payload_bytes.value_or(0);
    largest = std::max(largest, m.payload_bytes.value_or(0));
  }
  if (!is_known && instance.operation->size != SizeRule::kZero) return std::nullopt;
  switch (instance.operation->size) {
    case SizeRule::kUnknown:
      return std::nullopt;
    case SizeRule::kZero:
      return 0;
    case SizeRule::kSame:
      return largest;
    case SizeRule::kSum:
      return instance.complete ? std::optional(sum) : std::nullopt;
    case SizeRule::kEach:
      if (instance.complete) return sum;
      if (!instance.partial || instance.size == 0 || __builtin_mul_overflow(largest, instance.size, &sum))
        return std::nullopt;
      return sum;
    case SizeRule::kLargest:
      return instance.complete ? std::optional(largest) : std::nullopt;
    case SizeRule::kRoot:
      return instance.complete || largest > 0 || find_root(instance) != nullptr ? std::optional(largest) : std::nullopt;
  }
  return std::nullopt;
}

void Split::clear() {
  method = WaitMethod::kNone;
  why = Why::kNone;
  completion_ns.reset();
  clock_violations = 0;
  wait_ns.clear();
  min_duration_wait_ns.clear();
  late.clear();
  for_root_ns.clear();
  root = 0;
}

Split split_waiting(const Instance& instance) {
  Split split;
  split_waiting(instance, split);
  return split;
}

void split_waiting(const Instance& instance, Split& split) {
  split.clear();
  const WaitRule rule = instance.operation->wait;
  if (rule == WaitRule::kNone) {
    split.why = Why::kNotApplicable;
    return;
  }
  if (!instance.complete && !instance.bounded) {
    split.why = Why::kPartialRanks;
    return;
  }
  // A data operation without data lets everybody go at once: what it takes is not waiting (W1, "receivers with 0
  // bytes").
  const auto sends_nothing = [](const Member& m) { return m.payload_bytes == 0; };
  const bool moves_nothing =
      instance.operation->size != SizeRule::kZero &&
      (operation_bytes(instance) == 0 ||
       (instance.bounded && std::all_of(instance.members.begin(), instance.members.end(), sends_nothing)));
  if (rule == WaitRule::kSymmetric) {
    split_symmetric(instance, moves_nothing, split);
    if (instance.bounded && !split.wait_ns.empty()) split.method = WaitMethod::kLowerBound;
    if (instance.bounded) split.min_duration_wait_ns.clear(), split.completion_ns.reset();
    return;
  }
  if (!instance.clock_trusted) {
    split.why = Why::kClockUntrusted;
    return;
  }
  const Member* root = find_root(instance);
  if (root == nullptr && instance.bounded && instance.root) {
    split.method = WaitMethod::kLowerBound;  // the others wait for a late root, for how long nobody knows
    split.wait_ns.assign(instance.members.size(), 0);
  } else if (root == nullptr) {
    split.why = Why::kNotApplicable;
  } else if (rule == WaitRule::kLateRoot) {
    split_late_root(instance, *root, moves_nothing, split);
  } else {
    split_early_root(instance, *root, moves_nothing, split);
    if (instance.bounded) split.method = WaitMethod::kLowerBound;  // one without a record may have been the last
  }
}

void take_share(Instance& instance, Split& split) {
  for (size_t i = 0; i < instance.members.size(); ++i) {
    Member& m = instance.members[i];
    if (m.share_begin == 0 && m.share_end == m.share_total) continue;
    const auto at = [&m](int64_t ns, int64_t share) { return static_cast<int64_t>(Wide{ns} * share / m.share_total); };
    const auto part = [&](int64_t ns) { return at(ns, m.share_end) - at(ns, m.share_begin); };
    m.enter_ns += at(m.duration_ns, m.share_begin);
    m.duration_ns = part(m.duration_ns);
    for (std::vector<int64_t>* waits : {&split.wait_ns, &split.min_duration_wait_ns, &split.for_root_ns}) {
      if (!waits->empty()) (*waits)[i] = std::min(part((*waits)[i]), m.duration_ns);
    }
  }
}

}  // namespace ddl
