// The screen of ../shared/screens.md as a snapshot: 16 ranks, rank 11 computes 38 ms longer, and its numbers agree with each other.
#pragma once

#include "tui/snapshot.h"

namespace ddl::test {

tui::Snapshot example_snapshot();
/// As many ranks as asked for, long names, large numbers.
tui::Snapshot large_snapshot(int ranks);
/// The same with names that try to steer the terminal, in every field.
tui::Snapshot hostile_snapshot();

}  // namespace ddl::test
