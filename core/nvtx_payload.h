// What libraries tell with NVTX about themselves, handed to whoever knows the library. The NVTX collector calls, others
// set the pointer: neither includes the other. Injected code: called on the library's thread, inside its call.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

/// One member of a payload, as the library's own schema describes it: names and order are the library's, they change
/// between versions.
struct NvtxField {
  const char* name;  ///< "Message size [bytes]"; stays
  uint64_t bits;     ///< integers: the value, sign extended. Numbers with a fraction: a double's bits
  bool is_double;
};
constexpr size_t kMaxNvtxFields = 16;

/// An event in the domain of a library (not the program's own).
struct NvtxLibraryEvent {
  enum Kind { kBegin, kEnd, kMark };
  Kind kind;           ///< kEnd: of the thread's innermost range in that domain; it has nothing but the domain
  const char* domain;  ///< "NCCL"; stays
  const char* name;    ///< "ncclAllReduce"; NULL at the end
  uint64_t schema;     ///< number of the payload's layout; 0: the event has no payload
  const NvtxField* fields;
  size_t field_count;
};

/// NULL: nobody listens, and events in domains of libraries cost a look at this pointer. Set it once.
using NvtxLibraryListener = void (*)(const NvtxLibraryEvent& event);
extern NvtxLibraryListener g_nvtx_library_listener __attribute__((visibility("hidden")));

}  // namespace ddl
