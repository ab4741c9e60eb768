// The region stack: steps, phases and layers of each thread.
#include <errno.h>
#include <string.h>

#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr size_t kMaxNameBytes = 255;

uint32_t range_context(Thread* thread, uint32_t kind, const char* name) {
  if (kind == static_cast<uint32_t>(ContextKind::kStep)) return internal::intern_context(thread->context, ContextKind::kStep, 0, 0);
  auto& entry = thread->names[(reinterpret_cast<uintptr_t>(name) ^ thread->context * 7 ^ kind) % kNameSlots];
  if (entry.name == name && entry.outer == thread->context && entry.kind == kind && entry.text && strcmp(entry.text, name) == 0)
    return entry.context;
  const size_t length = strnlen(name, kMaxNameBytes);
  const char* ours = nullptr;
  const uint32_t string = internal::intern_string(name, length, &ours);
  const uint32_t context = internal::intern_context(thread->context, static_cast<ContextKind>(kind), string, 0);
  entry = {name, ours, thread->context, kind, context};
  return context;
}

Record range_record(const OpenRange& range, RecordKind kind, uint64_t duration_ticks, uint64_t call_ticks) {
  Record record = {};
  record.start_ticks = range.start_ticks;
  record.word = record_word(kind, range.kind, duration_ticks);
  record.payload = call_ticks;
  record.context = range.context;
  record.peer = -1;
  if (range.kind == static_cast<uint32_t>(ContextKind::kStep)) {
    record.comm = static_cast<uint32_t>(range.step >> 32);
    record.sequence = static_cast<uint32_t>(range.step);
  }
  return record;
}

void close_innermost(Thread* thread, uint64_t now) {
  const OpenRange& range = thread->ranges[--thread->range_depth];
  thread->context = range.outer_context;
  const uint64_t duration = now - range.start_ticks;
  const uint64_t call_ticks = thread->call_ticks - range.call_ticks;
  add_to_profile(profile_entry(thread, range.context, kNoComm, range.kind, 0), call_ticks, duration);
  if (range.kind == static_cast<uint32_t>(ContextKind::kStep)) {
    write_record(thread, range.keep_step, range_record(range, RecordKind::kStep, duration, call_ticks));
    internal::leave_step();
  } else {
    write_record(thread, keep(false, 0, range.start_ticks), range_record(range, RecordKind::kRange, duration, call_ticks));
  }
}

}  // namespace

void push_range(uint32_t kind, const char* name, uint64_t index) {
  const bool is_step = kind == static_cast<uint32_t>(ContextKind::kStep);
  if (kind < 1 || kind > 3 || (!is_step && !name)) return;
  const int saved_errno = errno;
  if (Thread* thread = this_thread()) {
    if (thread->range_depth == kMaxRangeDepth) {
      count_loss(kLossRangeDepth);
      ++thread->range_overflow;
    } else {
      OpenRange& range = thread->ranges[thread->range_depth];
      range.kind = kind;
      range.outer_context = thread->context;
      range.context = range_context(thread, kind, name);
      range.call_ticks = thread->call_ticks;
      range.step = index;
      ++thread->range_depth;
      thread->context = range.context;
      range.start_ticks = ticks();
      if (is_step) {
        range.keep_step = internal::enter_step(index);
        write_record(thread, range.keep_step, range_record(range, RecordKind::kStepBegin, 0, 0));
      }
    }
  }
  errno = saved_errno;
}

void pop_range(uint32_t kind) {
  const int saved_errno = errno;
  if (Thread* thread = this_thread()) {
    const uint64_t now = ticks();
    uint32_t depth = thread->range_depth;
    while (depth > 0 && thread->ranges[depth - 1].kind != kind) --depth;
    if (thread->range_overflow > 0) {
      --thread->range_overflow;
    } else if (depth == 0) {
      count_loss(kLossUnbalanced);
    } else {
      if (depth != thread->range_depth) count_loss(kLossUnbalanced, thread->range_depth - depth);
      while (thread->range_depth >= depth) close_innermost(thread, now);
    }
    if (is_clock_old(now)) refresh_clock(now);
  }
  errno = saved_errno;
}

void record_value(const char* name, double value) {
  if (!name) return;
  const int saved_errno = errno;
  if (Thread* thread = this_thread()) {
    Record record = {};
    record.start_ticks = ticks();
    record.word = record_word(RecordKind::kValue, 0, 0);
    memcpy(&record.payload, &value, sizeof value);
    record.context = internal::intern_string(name, strnlen(name, kMaxNameBytes), nullptr);
    record.peer = -1;
    write_record(thread, keep(false, 0, record.start_ticks), record);
  }
  errno = saved_errno;
}

}  // namespace ddl
