// The ranks that kept others from going on when a run ended badly: the open calls of the ranks that wait in a
// collective, against the collectives that the other members have entered.
//
// How far a rank got on a communicator is the largest of: the collective calls its profile counts (exact, also where no
// events were kept; posts included), the highest number among its events, the number of its open call. stall_case.h
// draws the conclusions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"
#include "analyzer/findings/job_end.h"
#include "analyzer/findings/message_case.h"
#include "analyzer/findings/stall_case.h"

namespace ddl {

/// A call that never returned, of a rank of the world at hand; or that did so without what it waited for.
struct UnfinishedCall {
  int64_t rank = 0;
  int64_t op = 0;
  std::optional<int64_t> comm, seq, step, peer;
  int64_t start_ns = 0;
  std::optional<int64_t> gave_up_ns;  ///< when it returned, at the framework's timeout
  int64_t bytes = 0;                  ///< of a call that never returned; 0: not known
};

struct Stall : StallCase {
  std::string collective;  ///< "MPI_Allreduce number 57 on MPI_COMM_WORLD"
  std::string sits_in;     ///< the call that the waiting ranks are in: the collective itself, or MPI_Waitall
};

/// Probes and tests that find nothing leave no event, only a count; they are signs of life.
struct Polling {
  int64_t op = 0;
  std::optional<int64_t> comm;
  int64_t calls = 0;     ///< in vain, in the whole run
  int64_t since_ns = 0;  ///< when the rank last finished anything else
};
/// The rank sits in no call, and since it finished its last one it has polled until the record ends.
std::optional<Polling> polling(const FindingInput& input, int64_t rank);

/// Open calls of the world, by rank.
std::vector<UnfinishedCall> open_calls(const FindingInput& input);

/// The same, and before them the last calls of ranks that waited in them in vain until the framework's timeout ended
/// them, and with them the rank.
const std::vector<UnfinishedCall>& vain_calls(const FindingInput& input);

/// "MPI_Recv with rank 1 on MPI_COMM_WORLD"
std::string call_text(const FindingInput& input, const UnfinishedCall& call);

/// The rank of the world that a call's peer is; nothing: it has none, or nobody knows who that is.
std::optional<int64_t> peer_in_world(const FindingInput& input, const UnfinishedCall& call);

/// Missing in the collectives that `calls` are in, or wait for.
MissingMembers missing_members(const FindingInput& input, const std::vector<UnfinishedCall>& calls);

/// What a call of that operation takes on average, those in vain left out; 0: there is no other.
double mean_duration_ns(const FindingInput& input, const std::string& op);

/// The stall with the most ranks waiting; nothing if no rank waits for one that is behind.
std::optional<Stall> find_stall(const FindingInput& input);

/// "rank 1 never entered MPI_Allreduce number 57 on MPI_COMM_WORLD: ranks 0 and 2 sit in MPI_Allreduce"
std::string stalled(const Stall& stall);

/// Ranks in a collective that all its members had entered, so nobody had yet to come: one of the members died.
struct MidTransfer {
  /// "ranks 0 and 1 sit in MPI_Wait for number 794 on MPI_COMM_WORLD, which all its members had entered"
  std::string text;
  std::vector<int64_t> ranks;  ///< that sit in it
  bool left = false;           ///< another member has left it, so the dead one is among those
  /// If `left`, the only one, or the only one without a sign of life from when the others had left on: they could leave
  /// because it had sent its part, so the one that died did so before.
  std::optional<int64_t> first;
  bool background = false;  ///< a background thread sits in it, and the rank may have died in another one
};
/// The most telling one where there are several; nothing if no rank sits in such a collective.
std::optional<MidTransfer> find_mid_transfer(const FindingInput& input);

/// When the job ended by the clock of `ddl record`; nothing for a job that ran without it. If that was killed, too:
/// when its watch last saw the job. For a world that another one followed (a script that starts the job again), its
/// last sign of life: how long the launcher took then, and the script, is not known. `ddl record --stall` may have
/// seen it alive later.
std::optional<int64_t> end_of_run_ns(const FindingInput& input);
/// When `ddl record --stall` told of a stall that lasted to the world's end, and saw some of its processes alive;
/// nothing if it did not.
std::optional<int64_t> seen_stalled_ns(const FindingInput& input);
/// When the world that followed this one began; nothing: none did.
std::optional<int64_t> next_world_ns(const FindingInput& input);
/// As job_end(); of a world that another one followed, whose launcher's end nobody saw, only that it is over.
JobEnd end_of_world(const FindingInput& input);
/// What the rank gave exit(); nothing: not recorded.
std::optional<int64_t> exit_code_of(const FindingInput& input, int64_t rank);
/// When the run was read, if it may have been going on then: no rank ended, no end is known from elsewhere, and the
/// last sign of life was a few seconds old at most. A moment of a healthy job must not be taken for a hang or a kill.
std::optional<int64_t> read_while_running_ns(const FindingInput& input);
/// The latest thing that any rank recorded.
int64_t last_sign_of_life_ns(const FindingInput& input);

/// "its last call is MPI_Send to rank 3, left at 12.1 s in step 4", or the call that it is in.
std::string last_seen(const FindingInput& input, int64_t rank);

}  // namespace ddl
