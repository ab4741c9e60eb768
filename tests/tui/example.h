// The job of docs/screens as a snapshot: 16 ranks, rank 11 computes 38 ms longer, and its numbers agree with each
// other.
#pragma once

#include "tui/snapshot.h"

namespace ddl::test {

tui::Snapshot example_snapshot();
/// The same job, four of its ranks; rank 1 never comes to the allreduce in which the others sit.
tui::Snapshot hung_snapshot();
/// 1,024 ranks on 128 nodes, of which one is slow and one rank has ended.
tui::Snapshot map_snapshot();
/// As many ranks as asked for, long names, large numbers.
tui::Snapshot large_snapshot(int ranks);
/// The same with names that try to steer the terminal, in every field.
tui::Snapshot hostile_snapshot();

}  // namespace ddl::test
