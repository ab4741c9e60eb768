// Computation scaling between runs (specification.md P6 to P8, POP): whether the computing itself got more expensive,
// beside how well it is spread.
//
//   strong: CompS = sum u_ref / sum u        weak: CompS = (sum u_ref / p_ref) / (sum u / p)        u: computing of a step
//   global efficiency GE = PE CompS
// Its factors (instructions, IPC and frequency of the computing alone, P7) are not told: counters are read at the ends
// of steps, phases and layers, and ranks that poll inside MPI count what they poll. Which of the two it is must be said
// or told from batch sizes: it is never guessed.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>

#include "analyzer/models/scaling.h"

namespace ddl::models {

/// Means over the steady steps, sums over the ranks' GPUs if these did anything, else over their threads (facts.h).
struct PopFacts {
  double workers = 0;  ///< GPUs, or threads
  double useful_s = 0;
  std::optional<double> parallel_efficiency;
};

/// `db` is an analyzed run.
PopFacts pop_facts(SQLite::Database& db, int64_t world);

struct PopRow {
  std::optional<double> parallel, computation, global;
};

/// `run` against `base`; all is unset unless the kind is strong or weak.
PopRow pop_row(const PopFacts& base, const PopFacts& run, ScalingKind kind);

}  // namespace ddl::models
