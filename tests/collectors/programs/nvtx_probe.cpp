// A library of the test: our NVTX collector, and a listener that prints what libraries tell.
#include <stdio.h>

#include "core/nvtx_payload.h"

namespace {

void print(const ddl::NvtxLibraryEvent& event) {
  if (event.kind == ddl::NvtxLibraryEvent::kEnd) {
    printf("end %s\n", event.domain);
    return;
  }
  printf("begin %s %s", event.domain, event.name);
  for (size_t i = 0; i < event.field_count; ++i)
    printf(" | %s = %lld", event.fields[i].name, static_cast<long long>(event.fields[i].bits));
  printf("\n");
}

__attribute__((constructor)) void listen() { ddl::g_nvtx_library_listener = print; }

}  // namespace
