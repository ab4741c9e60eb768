// From a range's name to its place in the tree of ranges. Injected code. The layers of the backward pass. It runs
// through operators of autograd (ConvolutionBackward0) on a thread of its own, where no layer is open. What tells them
// is a number: a forward operator and the one that computes its gradient have the same `seq`, which emit_nvtx puts into
// their names. So each forward operator leaves (seq, its layer) in a table, and the backward one looks it up.
//
// The number counts per thread that goes forward, and names do not say which thread it was. Where two threads have used
// one number there is no answer, and that is counted: better no layer than another's.
#include "collectors/nvtx.h"

namespace ddl::nvtx {

namespace {

constexpr uint32_t kForwardSlots = 1u << 16;  // operators between a forward operator and its gradient
constexpr uint64_t kNames = 1u << 16;         // core/contexts.cpp has half as many strings

// seq:32 | thread:15 | several threads:1 | layer (string id):16; 0: never used. One word, so that a reader sees one operator's.
uint64_t g_forward[kForwardSlots];
uint64_t g_next_step = 0;

constexpr uint64_t pack(uint64_t seq, uint32_t thread, bool several, uint32_t layer) {
  return seq << 32 | static_cast<uint64_t>(thread & 0x7fff) << 17 | static_cast<uint64_t>(several) << 16 |
         (layer % kNames);
}

void remember(uint64_t seq, const Thread* thread, uint32_t layer) {
  uint64_t& slot = g_forward[seq % kForwardSlots];
  const uint64_t old = __atomic_load_n(&slot, __ATOMIC_RELAXED);
  const uint64_t mine = pack(seq, thread->index, false, layer);
  const bool same_number = old != 0 && old >> 32 == (seq & UINT32_MAX);
  const bool several = same_number && ((old >> 17 & 0x7fff) != (mine >> 17 & 0x7fff) || (old >> 16 & 1));
  __atomic_store_n(&slot, mine | static_cast<uint64_t>(several) << 16, __ATOMIC_RELAXED);
}

/// String id; 0: not known. Counts what was forgotten or is ambiguous; an operator that never went forward
/// under a name is neither.
uint32_t recall(uint64_t seq) {
  const uint64_t found = __atomic_load_n(&g_forward[seq % kForwardSlots], __ATOMIC_RELAXED);
  if (found == 0) return 0;
  if (found >> 32 != (seq & UINT32_MAX) || (found >> 16 & 1)) {
    count_loss(kLossForward);
    return 0;
  }
  return static_cast<uint32_t>(found % kNames);
}

uint32_t context_in(uint32_t outer, ContextKind kind, const char* text, size_t length) {
  return range_context(outer, kind, intern_name(text, length));
}

RangePlace place_step(const Thread* thread, const RangeName& name, const uint64_t* number) {
  if (range_path(thread->context).step) {  // ProfilerStep#3 around the program's own step 3
    return {static_cast<uint32_t>(ContextKind::kPhase),
            context_in(thread->context, ContextKind::kPhase, name.text, name.length), 0};
  }
  const uint64_t step = name.has_step ? name.step
                        : number      ? *number
                                      : __atomic_fetch_add(&g_next_step, 1, __ATOMIC_RELAXED);
  return {static_cast<uint32_t>(ContextKind::kStep), range_context(thread->context, ContextKind::kStep, 0), step};
}

RangePlace place_backward(const Thread* thread, const RangeName& name) {
  uint32_t outer = thread->context;
  if (range_path(outer).phase == 0) outer = context_in(outer, ContextKind::kPhase, "backward", 8);
  if (const uint32_t layer = name.numbers.has_seq ? recall(name.numbers.seq) : 0)
    return {static_cast<uint32_t>(ContextKind::kLayer), range_context(outer, ContextKind::kLayer, layer), 0};
  return {static_cast<uint32_t>(ContextKind::kOperator),
          context_in(outer, ContextKind::kOperator, name.text, name.length), 0};
}

}  // namespace

RangePlace place_range(const Thread* thread, const RangeName& name, const uint64_t* number) {
  const auto kind = static_cast<ContextKind>(name.kind);
  if (name.kind == 0) return {0, thread->context, 0};
  if (kind == ContextKind::kStep) return place_step(thread, name, number);
  if (name.is_backward) return place_backward(thread, name);
  const uint32_t context = context_in(thread->context, kind, name.text, name.length);
  if (kind == ContextKind::kOperator && name.numbers.has_seq)
    remember(name.numbers.seq, thread, range_path(context).layer);
  return {name.kind, context, 0};
}

}  // namespace ddl::nvtx
