// What counts as computing of threads that communicate themselves, but may be waiting for other threads of their
// processes: they hand reductions over, and sleep until these are done. Nothing records that.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

namespace ddl {

/// By rank, as much as it may be over all steady steps (runs without: the whole run): while other threads of the
/// process have a collective under way, the main thread is in no call, and not longer than the scheduler had it off the
/// CPU and not ready for one. Only ranks with more than 0. Not of processes for which background threads communicate
/// (specification.md J2), nor of those without the scheduler's account (J14).
std::map<int64_t, double> waits_for_threads_ns(SQLite::Database& db, int64_t world);

}  // namespace ddl
