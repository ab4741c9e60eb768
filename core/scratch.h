// Memory that a call needs for as long as it lasts, from anonymous pages, of which some are kept for the next one:
// mapping them costs more than what most calls do with them. Injected code.
#pragma once

#include <stddef.h>

namespace ddl {

struct alignas(16) ScratchPages {
  size_t bytes;  ///< of all of it, whole pages; what is kept in it follows
};

/// `kept`: what the last one left behind, which this takes out, so that a signal handler or another thread meanwhile
/// finds nothing there. NULL: no memory.
ScratchPages* take_scratch(ScratchPages** kept, size_t bytes);
/// What is larger than `most_kept` is not kept.
void give_back_scratch(ScratchPages** kept, ScratchPages* scratch, size_t most_kept);

}  // namespace ddl
