// Who is late because a message kept it waiting: lateness that is passed on is booked to where it began.
//
// A rank that computes longer makes its neighbours wait; they are late in turn and make theirs wait, in this step or the next, and soon
// every rank but one waits for another that is not to blame. So each row of blame walks up: from the late rank to the rank whose messages
// that one waited for most in the same step, as long as it waited at least half as long as the wait in question. Who waits for himself in
// the end (A for B, B for A) gets no pardon: the row stays where it was.
//
// Sums per step are enough for that, because lateness that comes back step after step is what findings are about; table message_blame keeps
// who waited for whom directly.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Needs `late` (blame.h) and `message_late` (messages.h). Moves the rows of `late` to the ranks where the lateness
/// began and adds rows for the waits in messages.
void find_late_roots(SQLite::Database& db);

}  // namespace ddl
