// Ranges that are started by one thread and ended by any: in a table of the process, not on a thread's stack.
//
// They may overlap each other and the ranges of the stacks, so nothing is booked to them: who asks where a call
// was made gets the stack's answer. Their context hangs below no other, or times of outer and inner ranges
// would not add up.
#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr uint32_t kSlots = 1024;

enum class State : uint32_t { kFree, kTaken, kOpen };

/// An id is the slot's number and how often it was used: an old id ends nobody else's range.
struct Slot {
  State state;
  uint32_t uses;
  const Thread* thread;
  OpenRange range;
};
Slot g_slots[kSlots];
uint32_t g_next = 0;
uint32_t g_open = 0;  // not free: of a program that ends none, each begin would look at all of them

constexpr uint64_t id_of(uint32_t slot, uint32_t uses) { return static_cast<uint64_t>(uses) << 32 | (slot + 1); }

bool take(Slot& slot, State from) {
  return __atomic_load_n(&slot.state, __ATOMIC_RELAXED) == from &&
         __atomic_compare_exchange_n(&slot.state, &from, State::kTaken, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

}  // namespace

uint64_t start_range(Thread* thread, uint32_t kind, uint32_t context, uint64_t step, const RangeNumbers& numbers) {
  const bool full = __atomic_load_n(&g_open, __ATOMIC_RELAXED) >= kSlots;
  const uint32_t first = __atomic_fetch_add(&g_next, 1, __ATOMIC_RELAXED);
  for (uint32_t i = 0; !full && i < kSlots; ++i) {
    const uint32_t number = (first + i) % kSlots;
    Slot& slot = g_slots[number];
    if (!take(slot, State::kFree)) continue;
    __atomic_fetch_add(&g_open, 1, __ATOMIC_RELAXED);
    slot.thread = thread;
    slot.range = {};
    slot.range.kind = kind;
    slot.range.context = context;
    slot.range.call_ticks = thread->call_ticks;
    slot.range.step = step;
    slot.range.numbers = numbers;
    slot.range.start_ticks = ticks();
    if (kind == static_cast<uint32_t>(ContextKind::kStep)) slot.range.keep_step = internal::enter_step(step);
    const uint64_t id = id_of(number, ++slot.uses);
    __atomic_store_n(&slot.state, State::kOpen, __ATOMIC_RELEASE);
    return id;
  }
  count_loss(kLossRangeDepth);
  return 0;
}

bool end_range(Thread* thread, uint64_t id) {
  const uint64_t now = ticks();
  Slot& slot = g_slots[(id - 1) % kSlots];
  if (id == 0 || !take(slot, State::kOpen)) {
    count_loss(kLossUnbalanced);
    return false;
  }
  const bool is_it = id_of(static_cast<uint32_t>(&slot - g_slots), slot.uses) == id;
  if (is_it) {
    OpenRange range = slot.range;
    if (slot.thread != thread) range.call_ticks = thread->call_ticks;  // calls of two threads are not to be subtracted
    internal::write_ended(thread, range, now);
  }
  __atomic_store_n(&slot.state, is_it ? State::kFree : State::kOpen, __ATOMIC_RELEASE);
  is_it ? void(__atomic_fetch_sub(&g_open, 1, __ATOMIC_RELAXED)) : count_loss(kLossUnbalanced);
  if (is_clock_old(now)) refresh_clock(now);
  return is_it;
}

void internal::reset_started_ranges() {
  if (g_next == 0) return;
  g_open = 0;
  for (Slot& slot : g_slots) slot.state = State::kFree;
}

}  // namespace ddl
