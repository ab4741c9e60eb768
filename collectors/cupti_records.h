// From a record of CUPTI to one of ours. Injected code.
#pragma once

#include "collectors/cupti_abi.h"
#include "core/format.h"

namespace ddl::cupti {

enum class Converted {
  kYes,
  kNow,  ///< it has no times: start and end are to be those of now, in ticks
  kNoTimes,
  kNotOurs
};

/// `record` is of any kind, as CUPTI's `version` writes it. The name is of kernels, to be interned by the caller; else NULL. `flags` as in
/// device_what().
Converted convert(const void* record, uint32_t version, uint32_t flags, DeviceRecord& to, const char*& name);

}  // namespace ddl::cupti
