// The rank that all others wait for, in jobs that wait inside kernels of collectives: a rank, a host, or a few ranks
// that stand apart, whose GPUs spend least time in collectives; and what they do instead.
//
// Where collectives serve several axes of parallelism, the last rank to enter need not be the first that was late: a
// rank that is late to its tensor's neighbours makes them late to the data's, and these the next. But a rank that all
// wait for, directly or not, spends little time in collectives. So ranks are compared by their time in collectives
// while nothing computes. The least one's shortfall against the next is the time per step that its lateness costs, for
// then the next one would be the last. Transfers count with the waiting: while the late one still computes, the bytes
// of the others move with nothing to hide them. No clocks are compared.
//
// The cause is the part of the step that is longer instead (the parts add up, specification.md J1): computing, idling
// for the host or for data, copies. Longer computing because a rank's experts get more data is not the rank's fault;
// the bytes of all-to-alls show it. If the regression of computing on bytes, over all ranks and steps by their distance
// from the step's mean, explains half of the rank's longer computing, and it gets enough more bytes for that, the cause
// is the data.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>

namespace ddl {

constexpr int64_t kLeastStepsWaitedFor = 8;  ///< with fewer nobody is told

/// Fills `waited_for`, a row for each world with such a rank, host or few ranks, and `waited_for_rank`.
void find_waited_for(SQLite::Database& db);

}  // namespace ddl
