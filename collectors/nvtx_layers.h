// From a range's name to its place in the tree of ranges. Injected code.
#pragma once

#include "core/range_names.h"
#include "core/recorder.h"

namespace ddl::nvtx {

struct RangePlace {
  uint32_t kind;  ///< 0: nowhere
  uint32_t context;
  uint64_t step;
};

/// Where a range that the thread opens now belongs. `number`: an integer that came with it; NULL: none. Remembers what forward operators
/// belong to, and finds for those of the backward pass what they are the gradient of.
RangePlace place_range(const Thread* thread, const RangeName& name, const uint64_t* number);

}  // namespace ddl::nvtx
