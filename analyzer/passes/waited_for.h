// For whom everybody waits, in jobs that wait inside kernels of collectives: the rank, or the host, or the few ranks
// that stand apart from all others, whose GPUs spend least in collectives, and what they do instead.
//
// Where collectives serve several axes of parallelism, who entered last does not tell who began: a rank that is late to
// its tensor's neighbours makes them late to the data's, and these the next. But whoever everybody waits for, at first
// or third hand, has no time to lose in collectives. So ranks are compared by how long they are in them while nothing
// computes. What the one with least is in them less than the next one is what a step without its lateness would take
// less, for then the next one would be the last. Transfers count with the waiting: while the late one still computes,
// the bytes of the others move with nothing to hide them. No clocks are compared.
//
// Where its time goes instead - the parts of a step add up (specification.md J1) - is the cause: computing, idling for
// the host or for data, copies. Computing that is longer because a rank's experts get more data is not a matter of the
// rank: that is told by the bytes of all-to-alls. If the line of computing over bytes, through all ranks and steps by
// their distance from the step's mean, gives half of what the rank computes longer, and it gets so much more that this
// can be, the cause is the data.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>

namespace ddl {

constexpr int64_t kLeastStepsWaitedFor = 8;  ///< with fewer nobody is told

/// Fills `waited_for`, a row for each world with such a rank, host or few ranks, and `waited_for_rank`.
void find_waited_for(SQLite::Database& db);

}  // namespace ddl
