// Finding CUPTI. Injected code.
#pragma once

#include "collectors/cupti_abi.h"

namespace ddl::cupti {

/// Opens the library that fits this process: $DDL_CUPTI, or one that is loaded already (two in one process do not get along), or the one of
/// the driver's version, by the loader's ways and beside the CUDA runtime. Fills `functions` and `path`. NULL: done; else why not.
const char* open_library(Functions& functions, char* path, size_t path_bytes);

}  // namespace ddl::cupti
