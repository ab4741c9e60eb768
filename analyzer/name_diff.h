// Kernels, operators or layers of two runs side by side, by their names: how often each came in a step, and how
// long it took there.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddl {

enum class NamesOf { kKernels, kOperators, kLayers };

/// Sums over all ranks of one world: of a mean step, or of the whole run. Concurrent work counts twice.
struct NameChange {
  struct Side {
    double calls = 0, time_ns = 0;
  };
  std::string name;
  std::optional<Side> before, after;  ///< unset: it did not come

  double change_ns() const { return (after ? after->time_ns : 0) - (before ? before->time_ns : 0); }
};

struct NameDiff {
  bool per_step = false;  ///< both runs have steps with such events; else sums over the whole runs
  int64_t steps_before = 0, steps_after = 0;
  std::vector<NameChange> names;  ///< the largest change of time first, whichever way
};

/// Kernels: also copies and memsets. Where a recording was thinned, only steps whose events were kept count.
NameDiff compare_names(NamesOf of, SQLite::Database& before, int64_t world_before, SQLite::Database& after,
                       int64_t world_after);

}  // namespace ddl
