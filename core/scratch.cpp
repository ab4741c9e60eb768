#include "core/scratch.h"

#include "core/recorder_internal.h"

namespace ddl {

ScratchPages* take_scratch(ScratchPages** kept, size_t bytes) {
  bytes = (bytes + sizeof(ScratchPages) + kPageBytes - 1) / kPageBytes * kPageBytes;
  ScratchPages* scratch = __atomic_exchange_n(kept, static_cast<ScratchPages*>(nullptr), __ATOMIC_ACQUIRE);
  if (scratch && scratch->bytes >= bytes) return scratch;
  const internal::OwnTime own_time;
  if (scratch) give_back_pages(scratch, scratch->bytes);
  scratch = static_cast<ScratchPages*>(take_pages(bytes));
  if (scratch) scratch->bytes = bytes;
  return scratch;
}

void give_back_scratch(ScratchPages** kept, ScratchPages* scratch, size_t most_kept) {
  if (scratch && scratch->bytes <= most_kept) scratch = __atomic_exchange_n(kept, scratch, __ATOMIC_ACQ_REL);
  if (!scratch) return;
  const internal::OwnTime own_time;
  give_back_pages(scratch, scratch->bytes);
}

}  // namespace ddl
