// The store that a GpuJob leaves: what the import of its ranks' traces would hold, with the names that Megatron-LM
// gives its groups.
#pragma once

#include <SQLiteCpp/Database.h>

#include "tests/analyzer/injected/gpu_job.h"

namespace ddl::test {

/// Fills `db`, which has the schema and nothing in it.
void store_gpu_job(const GpuJob& job, SQLite::Database& db);

}  // namespace ddl::test
