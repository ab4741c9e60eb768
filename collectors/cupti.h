// Shared by the files of the CUPTI collector. Injected code.
#pragma once

#include "collectors/cupti_abi.h"
#include "core/format.h"

namespace ddl {

/// A process's GPUs and their links to the host, as facts. Once, after cuInit has returned. Asks the driver and /sys;
/// from our own thread or at exit, never from the job's.
void write_gpu_facts();

namespace cupti {

/// Opens the library that fits this process: $DDL_CUPTI, or one that is loaded already (two in one process do not get
/// along), or the one of the driver's version, by the loader's ways and beside the CUDA runtime. Fills `functions` and
/// `path`. NULL: done; else why not.
const char* open_library(Functions& functions, char* path, size_t path_bytes);

/// The fate of a record of CUPTI.
enum class Converted {
  kYes,
  kNow,  ///< it has no times: start and end are to be those of now, in ticks
  kNoTimes,
  kNotOurs
};

/// `record` is of any kind, as CUPTI's `version` writes it. The name is of kernels, to be interned by the caller; else
/// NULL. `flags` as in device_what().
Converted convert(const void* record, uint32_t version, uint32_t flags, DeviceRecord& to, const char*& name);

}  // namespace cupti

}  // namespace ddl
