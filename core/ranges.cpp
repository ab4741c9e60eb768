// The region stack of each thread: steps, phases, layers and operators, of annotate.h and of NVTX domains on one stack.
#include <errno.h>
#include <string.h>

#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr uint32_t kAnnotations = 0;  // owner
constexpr RangeNumbers kNoNumbers = {};

bool g_program_marks_steps = false;

/// The program marks steps itself: what hooks took for one is none.
__attribute__((noinline)) void end_hooks(Thread* thread) {
  __atomic_store_n(&g_program_marks_steps, true, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < thread->range_depth; ++i) {
    OpenRange& range = thread->ranges[i];
    if (range.owner == kHookedRanges && internal::has_counters(range.kind)) internal::end_counting(thread, i, range, 0);
    if (range.owner == kHookedRanges) range.kind = 0;
  }
}

DDL_HOT void write_range(Thread* thread, bool to_log, const OpenRange& range, RecordKind kind, uint64_t duration_ticks,
                         uint64_t call_ticks) {
  Record* record = take_record(thread, to_log);
  record->start_ticks = range.start_ticks;
  record->payload = call_ticks;
  record->context = range.context;
  if (__builtin_expect(range.kind == static_cast<uint32_t>(ContextKind::kStep), 0)) {
    record->comm = static_cast<uint32_t>(range.step >> 32);
    record->sequence = static_cast<uint32_t>(range.step);
    record->peer = -1;
  } else {
    put_range_numbers(*record, range.numbers);
  }
  publish(record, record_word(kind, range.kind, duration_ticks));
}

DDL_HOT void write_ended(Thread* thread, const OpenRange& range, uint64_t now) {
  const uint64_t duration = now - range.start_ticks;
  const uint64_t call_ticks = thread->call_ticks - range.call_ticks;
  ProfileEntry* entry = range.entry ? range.entry : profile_entry(thread, range.context, kNoComm, range.kind, 0);
  add_to_profile(entry, call_ticks, duration);
  if (__builtin_expect(range.kind == static_cast<uint32_t>(ContextKind::kStep), 0)) {
    write_range(thread, range.keep_step, range, RecordKind::kStep, duration, call_ticks);
    internal::leave_step();
  } else {
    write_range(thread, keep(false, 0, range.start_ticks), range, RecordKind::kRange, duration, call_ticks);
  }
}

DDL_HOT void close_innermost(Thread* thread, uint64_t now) {
  const OpenRange& range = thread->ranges[--thread->range_depth];
  if (internal::has_counters(range.kind))
    internal::end_counting(thread, thread->range_depth, range, now - range.start_ticks);
  --thread->owner_depth[range.owner];
  thread->context = range.outer_context;
  if (range.kind != 0) write_ended(thread, range, now);
}

/// Takes one out from below others. Those go on, but no longer inside it: their time until now is written as a range of
/// its own, or times of outer and inner ranges would not add up. A step stays one.
__attribute__((noinline)) void close_below(Thread* thread, uint32_t at, uint64_t now) {
  const auto is_cut = [](const OpenRange& range) {
    return range.kind != 0 && range.kind != static_cast<uint32_t>(ContextKind::kStep);
  };
  for (uint32_t i = thread->range_depth - 1; i > at; --i) {
    const OpenRange& range = thread->ranges[i];
    if (!is_cut(range)) continue;
    if (internal::has_counters(range.kind)) internal::end_counting(thread, i, range, now - range.start_ticks);
    write_ended(thread, range, now);
  }
  const OpenRange closed = thread->ranges[at];
  if (internal::has_counters(closed.kind)) internal::end_counting(thread, at, closed, now - closed.start_ticks);
  if (closed.kind != 0) write_ended(thread, closed, now);
  --thread->owner_depth[closed.owner];
  uint32_t outer = closed.outer_context;
  for (uint32_t i = at + 1; i < thread->range_depth; ++i) {
    OpenRange range = thread->ranges[i];
    const internal::ContextNode node = internal::context_node(range.context);
    range.outer_context = outer;
    if (range.kind != 0)
      range.context = outer = internal::intern_context(outer, static_cast<ContextKind>(range.kind), node.name, 0);
    if (is_cut(range)) {
      range.start_ticks = now;
      range.call_ticks = thread->call_ticks;
    }
    range.entry = nullptr;
    thread->ranges[i - 1] = range;
    if (!internal::has_counters(range.kind) || !thread->counted) continue;
    thread->counted[i - 1] = thread->counted[i];
    if (is_cut(range)) internal::begin_counting(thread, i - 1);
  }
  --thread->range_depth;
  thread->context = outer;
}

DDL_HOT void close_at(Thread* thread, uint32_t at, uint64_t now) {
  if (__builtin_expect(at + 1 == thread->range_depth, 1)) {
    close_innermost(thread, now);
  } else {
    close_below(thread, at, now);
  }
}

}  // namespace

void internal::write_ended(Thread* thread, const OpenRange& range, uint64_t now) {
  ddl::write_ended(thread, range, now);
}

ProfileEntry* own_profile_entry(Thread* thread, uint32_t context, uint32_t kind) {
  ProfileEntry* entry = profile_entry(thread, context, kNoComm, kind, 0);
  return entry->context == context ? entry : nullptr;
}

void open_range(Thread* thread, uint32_t owner, uint32_t kind, uint32_t context, ProfileEntry* entry, uint64_t step,
                const RangeNumbers& numbers) {
  // While ranges are missing, those that follow are, too: else an end would meet the wrong begin.
  if (__builtin_expect(thread->range_depth == kMaxRangeDepth || thread->owner_overflow[owner] > 0, 0)) {
    count_loss(kLossRangeDepth);
    if (thread->owner_overflow[owner] < UINT16_MAX) ++thread->owner_overflow[owner];
    return;
  }
  OpenRange& range = thread->ranges[thread->range_depth++];
  ++thread->owner_depth[owner];
  range.kind = kind;
  range.owner = owner;
  range.outer_context = thread->context;
  range.context = context;
  range.entry = entry;
  range.call_ticks = thread->call_ticks;
  range.step = step;
  range.numbers = numbers;
  if (kind == 0) return;
  thread->context = context;
  if (internal::has_counters(kind)) internal::begin_counting(thread, thread->range_depth - 1);
  range.start_ticks = ticks();
  if (kind == static_cast<uint32_t>(ContextKind::kStep)) {
    if (owner != kHookedRanges) {
      if (!__atomic_load_n(&g_program_marks_steps, __ATOMIC_RELAXED)) end_hooks(thread);
    } else if (thread->hooked_step.follows) {
      range.start_ticks = thread->hooked_step.end_ticks;
      range.call_ticks = thread->hooked_step.call_ticks;
    }
    range.keep_step = internal::enter_step(step);
    write_range(thread, range.keep_step, range, RecordKind::kStepBegin, 0, 0);
  }
}

bool close_range(Thread* thread, uint32_t owner) {
  const uint64_t now = ticks();
  uint32_t depth = thread->range_depth;
  if (__builtin_expect(thread->owner_overflow[owner] > 0, 0)) {
    --thread->owner_overflow[owner];
    return true;
  }
  while (depth > 0 && thread->ranges[depth - 1].owner != owner) --depth;
  if (__builtin_expect(depth == 0, 0)) {
    count_loss(kLossUnbalanced);
    return false;
  }
  close_at(thread, depth - 1, now);
  if (__builtin_expect(is_clock_old(now), 0)) refresh_clock(now);
  return true;
}

void begin_hooked_step(uint64_t number, bool follows) {
  if (__atomic_load_n(&g_program_marks_steps, __ATOMIC_RELAXED)) return;
  const int saved_errno = errno;
  if (Thread* thread = this_thread(); thread && open_ranges(thread, kHookedRanges) == 0) {
    thread->hooked_step.follows = follows && thread->hooked_step.end_ticks != 0;
    const uint32_t context = internal::intern_context(thread->context, ContextKind::kStep, 0, 0);
    open_range(thread, kHookedRanges, static_cast<uint32_t>(ContextKind::kStep), context, nullptr, number, kNoNumbers);
  }
  errno = saved_errno;
}

void end_hooked_step() {
  const int saved_errno = errno;
  if (Thread* thread = this_thread(); thread && open_ranges(thread, kHookedRanges) > 0) {
    const uint64_t now = ticks();
    uint32_t depth = thread->range_depth;
    while (depth > 0 && thread->ranges[depth - 1].owner != kHookedRanges) --depth;
    if (depth > 0) close_at(thread, depth - 1, now);
    thread->owner_overflow[kHookedRanges] = 0;
    thread->hooked_step.end_ticks = now;
    thread->hooked_step.call_ticks = thread->call_ticks;
    if (is_clock_old(now)) refresh_clock(now);
  }
  errno = saved_errno;
}

void push_range(uint32_t kind, const char* name, uint64_t index) {
  const bool is_step = kind == static_cast<uint32_t>(ContextKind::kStep);
  if (kind < 1 || kind > 3 || (!is_step && !name)) return;
  const int saved_errno = errno;
  if (Thread* thread = this_thread()) {
    NameSlot* slot = name_slot(thread, name, kind);
    if (is_step) {
      open_range(thread, kAnnotations, kind, internal::intern_context(thread->context, ContextKind::kStep, 0, 0),
                 nullptr, index, kNoNumbers);
    } else {
      if (!is_hit(thread, *slot, name, kind)) {
        const char* ours = nullptr;
        const uint32_t string = internal::intern_string(name, strnlen(name, kMaxNameBytes), &ours);
        const uint32_t context = internal::intern_context(thread->context, static_cast<ContextKind>(kind), string, 0);
        *slot = {name, ours, thread->context, kind, kind, context, own_profile_entry(thread, context, kind)};
      }
      open_range(thread, kAnnotations, kind, slot->context, slot->entry, index, kNoNumbers);
    }
  }
  errno = saved_errno;
}

void pop_range(uint32_t kind) {
  const int saved_errno = errno;
  if (Thread* thread = this_thread()) {
    const uint64_t now = ticks();
    uint32_t depth = thread->range_depth;
    const auto is_ours = [&](uint32_t at) { return thread->ranges[at].owner == kAnnotations; };
    while (depth > 0 && !(is_ours(depth - 1) && thread->ranges[depth - 1].kind == kind)) --depth;
    if (thread->owner_overflow[kAnnotations] > 0) {
      --thread->owner_overflow[kAnnotations];
    } else if (depth == 0) {
      count_loss(kLossUnbalanced);
    } else {
      for (uint32_t at = thread->range_depth - 1; at >= depth; --at) {
        if (!is_ours(at)) continue;
        count_loss(kLossUnbalanced);
        close_at(thread, at, now);
      }
      close_at(thread, depth - 1, now);
    }
    if (is_clock_old(now)) refresh_clock(now);
  }
  errno = saved_errno;
}

void record_value(const char* name, double value) {
  if (name) record_value(name, strnlen(name, kMaxNameBytes), value);
}

void record_value(const char* name, size_t length, double value) {
  const int saved_errno = errno;
  if (Thread* thread = this_thread()) {
    Record record = {};
    record.start_ticks = ticks();
    record.word = record_word(RecordKind::kValue, 0, 0);
    memcpy(&record.payload, &value, sizeof value);
    record.context = internal::intern_string(name, length, nullptr);
    record.peer = -1;
    write_record(thread, keep(false, 0, record.start_ticks), record);
  }
  errno = saved_errno;
}

}  // namespace ddl
