// Jobs whose MPI calls come from background threads (specification.md J2, J3): which processes those are, and which of
// their collectives only coordinate.
//
// A process communicates in the background if its calls that communicate are made by threads other than the one that
// trains, but for at most one per 20 collectives of theirs (a script's own barrier); where they make collectives in
// steps, only calls in steps count. The thread that trains opens the steps; else it is the process's first thread,
// unless that was never seen to do anything (the first thread of a JVM sleeps while main() runs on another).
//
// Coordination moves no tensor: it agrees on what is to be moved (Horovod's controller). For background threads, these
// are barriers, logical and bitwise reductions, and small collectives over C's integers that sum nothing or, rooted,
// over MPI_BYTE. Types of fixed width (MPI_INT64_T) are those of Horovod's tensors, which move data however small they
// are. A collective is coordination if it is on every member that tells; none of the waiting, transfer and steps of a
// job is in it. Gloo coordinates nothing: its barriers are the program's. For traces of other tools only those with
// Gloo's collectives have such processes.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/operation.h"

namespace ddl {

struct BackgroundProcess {
  std::optional<int64_t> thread;  ///< that trains, as thread.thread; nothing: it recorded nothing itself
  bool sampled = false;           ///< table thread_sample tells when it computed
  int64_t first_event = 0;        ///< its calls and requests are events from here ...
  int64_t last_event = -1;        ///< ... to here
};

/// A background thread's collective by its own description: 1: coordination; 0: not told (no bytes: the root of a
/// gather); -1: it moves data. Names of predefined datatypes and reductions; empty: none of those.
int coordination_vote(OpClass op_class, std::string_view datatype, std::string_view reduction, int64_t bytes);

/// Fills tables background_process and coordination. By process.id.
std::map<int64_t, BackgroundProcess> find_background(SQLite::Database& db, const Catalog& catalog);

}  // namespace ddl
