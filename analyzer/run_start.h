// What a run without steps takes until its GPUs are given anything: it is a part of all its shares, and says nothing of what comes after.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>

namespace ddl {

/// From the process's start (MPI_Init, where there is one) to its first launch, the mean over GPUs; 0 without GPUs.
double run_start_ns(SQLite::Database& db, int64_t world);

}  // namespace ddl
