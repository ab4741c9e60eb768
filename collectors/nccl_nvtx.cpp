// What NCCL tells with NVTX of each call of its API: the last source, for an NCCL that is linked statically or was
// opened with dlopen (our wrappers do not see it) and has no profiler plugin of ours (it is older than 2.27, or another
// tool's is loaded). It tells names and sizes, not which communicator of how many ranks: so calls are counted, and no
// collective is put together from them. Injected code.
#include <string.h>

#include "collectors/collectors.h"
#include "core/nvtx_payload.h"
#include "interpose/nccl.h"
#include "interpose/process.h"

namespace ddl {

namespace {

struct Row {
  const char* name;
  uint32_t op;
};
constexpr Row kRows[] = {
#define DDL_NCCL_ROW(name, op_class, collective) {#name, kOp_##name},
#include "interpose/nccl_calls.def"
};

constexpr uint32_t kMaxDepth = 8;
/// Ranges of NCCL that are open on this thread; calls that others record, or that have no row, are empty.
__thread struct {
  uint32_t depth;
  OpenCall calls[kMaxDepth];
  uint64_t outer_ticks[kMaxDepth];
} t_open __attribute__((tls_model("initial-exec"))) = {};

const NvtxField* field(const NvtxLibraryEvent& event, const char* name) {
  for (size_t i = 0; i < event.field_count; ++i) {
    if (event.fields[i].name && strcmp(event.fields[i].name, name) == 0) return &event.fields[i];
  }
  return nullptr;
}

/// NCCL tells count times the size of an element. That is what a rank sends unless it depends on the number of ranks,
/// or on being the root.
bool sends_what_is_told(uint32_t op) {
  return op == kOp_ncclAllReduce || op == kOp_ncclReduce || op == kOp_ncclAllGather || op == kOp_ncclGather ||
         op == kOp_ncclSend || op == kOp_ncclRecv;
}

OpenCall begin(const NvtxLibraryEvent& event) {
  const Row* row = nullptr;
  for (const Row& known : kRows) {
    if (event.name && strcmp(known.name, event.name) == 0) row = &known;
  }
  if (!row || t_nccl.depth > 0 || __atomic_load_n(&g_nccl_wrapped, __ATOMIC_RELAXED) ||
      __atomic_load_n(&g_nccl_profiled, __ATOMIC_RELAXED))
    return {};
  if (!(__atomic_load_n(&g_nccl_recording, __ATOMIC_RELAXED) && g_process.active) && !start_nccl(nullptr)) return {};
  static bool said = false;
  if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
    write_fact("nccl.source", "NVTX (calls only; bytes only where they do not depend on the communicator)");
  const NvtxField* bytes = sends_what_is_told(row->op) ? field(event, "Message size [bytes]") : nullptr;
  return begin_call(row->op, nullptr, kNoComm, false, kNoSequence, -1, bytes ? record_payload(bytes->bits, 0, 0) : 0);
}

void on_event(const NvtxLibraryEvent& event) {
  if (strcmp(event.domain, "NCCL") != 0) return;
  if (event.kind == NvtxLibraryEvent::kBegin) {
    const uint32_t at = t_open.depth++;
    if (at >= kMaxDepth) return;
    t_open.outer_ticks[at] = t_thread ? t_thread->call_ticks : 0;
    t_open.calls[at] = begin(event);
  } else if (event.kind == NvtxLibraryEvent::kEnd && t_open.depth > 0) {
    const uint32_t at = --t_open.depth;
    if (at >= kMaxDepth || !t_open.calls[at].thread || t_open.calls[at].thread != t_thread) return;
    end_call(t_open.calls[at], t_open.calls[at].payload);
    t_thread->call_ticks = t_open.outer_ticks[at];
  }
}

}  // namespace

void listen_to_nccl() {
  const NvtxLibraryListener listener = on_event;
  if (collector_wanted("nccl")) __atomic_store_n(&g_nvtx_library_listener, listener, __ATOMIC_RELEASE);
}

}  // namespace ddl
