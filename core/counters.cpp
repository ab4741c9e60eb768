// Counters of ranges: what they grew by from begin to end, exact in the profile and event by event within the window.
// Reading costs up to a microsecond, so only steps, phases and layers have them, and only where somebody asked (ddl
// record --counters).
#include <errno.h>

#include "core/recorder_internal.h"

namespace ddl {
namespace internal {

const CounterSource* g_counters = nullptr;

namespace {

constexpr size_t kBytes = kMaxRangeDepth * sizeof(CounterValues);

/// Both may ask the kernel.
struct Unseen {
  const NoCancel no_cancel;
  const int saved_errno = errno;
  ~Unseen() { errno = saved_errno; }
};

}  // namespace

void begin_counting(Thread* thread, uint32_t depth) {
  const Unseen unseen;
  if (!thread->counted) thread->counted = static_cast<CounterValues*>(take_pages(kBytes));
  if (!thread->counted) return;
  CounterValues& values = thread->counted[depth];
  values.known = 0;
  g_counters->read(thread, values);
}

void end_counting(Thread* thread, uint32_t depth, const OpenRange& range, uint64_t duration_ticks) {
  if (!thread->counted) return count_loss(kLossCounters);
  const Unseen unseen;
  CounterValues now;
  now.known = 0;
  g_counters->read(thread, now);
  const CounterValues& then = thread->counted[depth];
  if (then.known == 0 || now.known == 0) return count_loss(kLossCounters);
  const bool is_step = range.kind == static_cast<uint32_t>(ContextKind::kStep);
  const bool kept = is_step ? range.keep_step : keep(false, 0, range.start_ticks);
  for (uint32_t i = 0; i < kMaxCounters; ++i) {
    if (!(then.known & now.known & 1u << i)) continue;
    Record record = {};
    record.start_ticks = range.start_ticks;
    record.word = record_word(RecordKind::kCounter, i, duration_ticks);
    record.payload = now.value[i] - then.value[i];
    record.context = range.context;
    record.peer = -1;
    ProfileEntry* entry = profile_entry(thread, range.context, kNoComm, kFirstCounterOp + i, 0);
    add_to_profile(entry, record.payload, 0);
    if (kept) write_record(thread, true, record);
  }
}

void forget_counters(Thread* thread) {
  if (g_counters && thread->counter_set) g_counters->release(thread);
  thread->counter_set = 0;
}

}  // namespace internal

void use_counters(const CounterSource* source) { internal::g_counters = source; }

}  // namespace ddl
