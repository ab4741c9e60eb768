// What Horovod's own timeline says of a recorded job (`ddl record --horovod-timeline`), joined with the calls that were recorded: the names of
// the tensors that each collective moved, and when each rank had them ready. Tables horovod_operation and horovod_ready; the region of such a
// collective becomes the layer that its tensors name.
//
// Each operation of the timeline holds the call that moved its data (MPI_ALLREDUCE around MPI_Allreduce) on rank 0, whose clock both
// tell: it is the next call of that name and as many bytes, within 1 ms. The timeline's date is known to about that; the median distance of the
// pairs then puts its times on the axis of the run.
#pragma once

#include <SQLiteCpp/Database.h>

#include "store/ingest/clocks.h"
#include "store/ingest/contexts.h"
#include "store/ingest/losses.h"
#include "store/run_directory.h"

namespace ddl::store {

/// After the events and operations were written, before the regions are. Without a timeline nothing happens; one that cannot be read, and operations
/// without a call, are losses.
void join_horovod_timeline(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Regions& regions, Losses& losses);

}  // namespace ddl::store
