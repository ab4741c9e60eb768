// The other side of include/ddl/annotate.h.
#include "ddl/annotate.h"

#include "interpose/mpi_abi.h"
#include "interpose/process.h"

namespace {

/// A program without MPI is recorded from its first annotation on.
inline bool recording() { return __builtin_expect(ddl::g_process.active, 1) || ddl::start_recorder(false); }

}  // namespace

extern "C" void ddl_range_push(int kind, const char* name, uint64_t index) {
  if (recording()) ddl::push_range(static_cast<uint32_t>(kind), name, index);
}

extern "C" void ddl_range_pop(int kind) {
  if (recording()) ddl::pop_range(static_cast<uint32_t>(kind));
}

/// For python/ddl_hooks.
extern "C" __attribute__((visibility("default"))) void ddl_hooked_step_begin(uint64_t number, int follows) {
  if (recording()) ddl::begin_hooked_step(number, follows != 0);
}

extern "C" __attribute__((visibility("default"))) void ddl_hooked_step_end() {
  if (recording()) ddl::end_hooked_step();
}

/// The same. What was hooked of torch, in words; it starts no recording.
extern "C" __attribute__((visibility("default"))) void ddl_hooks_tell(const char* text) { ddl::tell_hooks(text); }

/// The same. What the steps are of which it told, where that is not plain.
extern "C" __attribute__((visibility("default"))) void ddl_hooks_tell_steps(const char* text) {
  if (recording()) ddl::tell_hooked_steps(text);
}

extern "C" void ddl_value_record(const char* name, double value) {
  if (recording()) ddl::record_value(name, value);
}
