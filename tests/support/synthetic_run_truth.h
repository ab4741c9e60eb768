// What a synthetic run should come out as, by the generator's own arithmetic. Times are ns since the run's
// first sign of life.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddl::test {

/// One rank's part in a collective.
struct MemberTruth {
  int rank = 0;  ///< in MPI_COMM_WORLD
  int comm_rank = 0;
  int64_t enter_ns = 0;
  std::optional<int64_t> leave_ns;  ///< non-blocking: of the completing call; nothing: never left
  int64_t payload_bytes = 0;        ///< as recorded for this rank
  // Nothing while a member is missing or never left.
  /// for the last to enter; of one to all for the root; of all to one, who leaves before the last enters, for the root
  /// if it stays for that
  std::optional<int64_t> wait_ns;
  std::optional<int64_t> transfer_ns;  ///< leave - enter - wait. Non-blocking: an upper bound of the transfer
};

struct InstanceTruth {
  std::string comm;  ///< "MPI_COMM_WORLD", or "name.G": group G of split("name", ..)
  uint64_t comm_uid = 0;
  uint32_t seq = 0;
  std::string op;
  bool nonblocking = false;
  std::optional<int> root;  ///< rank in the communicator
  std::optional<uint64_t> step;
  int64_t bytes = 0;                 ///< S as nccl-tests counts it
  std::vector<MemberTruth> members;  ///< those that entered, by comm_rank
  bool complete = false;             ///< all entered and left
  std::vector<int> missing;          ///< world ranks that never entered
  std::vector<int> last_ranks;       ///< world ranks that entered last (ties: several)
  // Non-blocking: when the bytes really moved, which no recorder can see.
  int64_t moved_from_ns = 0;
  int64_t moved_until_ns = 0;

  int last_rank() const { return last_ranks.front(); }
  int64_t wait_ns() const;  ///< over the members
  int64_t transfer_ns() const;
};

struct MessageTruth {
  int source = 0, destination = 0;  ///< in MPI_COMM_WORLD
  std::string comm;
  int tag = 0;
  int64_t bytes = 0;
  int64_t send_ns = 0, receive_ns = 0;  ///< when each was posted
  std::optional<uint64_t> step;         ///< of the receiver
  // Nothing while an end is not over. Among several messages that end in one call only the longest wait counts, a late
  // sender's if a late receiver's is as long.
  std::optional<int64_t> late_sender_wait_ns;    ///< of the receiver, in the call in which the receive ended
  std::optional<int64_t> late_receiver_wait_ns;  ///< of the sender, in the call in which the send ended
};

struct StepTruth {
  int rank = 0;
  uint64_t step = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t compute_ns = 0;  ///< outside MPI calls
  int64_t exposed_ns = 0;  ///< inside MPI calls
  int64_t wait_ns = 0;     ///< of which waiting in collectives, blocking or in flight, and for messages
};

/// Exact totals of one row of the profile. Regions are paths: "", "step", "step/forward/fc1".
struct ProfileTruth {
  int rank = 0;
  std::string op;    ///< ranges: "step", "phase", "layer"
  std::string comm;  ///< "": none
  std::string region;
  int64_t calls = 0;
  int64_t bytes = 0;  ///< ranges: ns inside MPI calls
  int64_t time_ns = 0;
};

struct OpenCallTruth {
  int rank = 0;
  std::string op;
  std::string comm;
  uint32_t seq = 0;  ///< Waits: of the collective that they wait for
  std::optional<uint64_t> step;
  int64_t enter_ns = 0;
};

struct Truth {
  std::vector<InstanceTruth> instances;  ///< in the order of the program
  std::vector<MessageTruth> messages;    ///< in the order in which they were posted in the program
  /// finished ones, by rank, then step. With no_steps(): the program's iterations
  std::vector<StepTruth> steps;
  std::vector<ProfileTruth> profile;
  std::vector<OpenCallTruth> open_calls;
  std::vector<std::string> spools;  ///< file name by rank; "" for missing ranks
  std::vector<uint64_t> records;    ///< by rank: records ever written, log and ring
  int64_t epoch_realtime_ns = 0;    ///< realtime clock of the first host at time 0
  int64_t end_ns = 0;               ///< last moment of the last rank

  // Throw std::out_of_range when there is none.
  const InstanceTruth& instance(const std::string& comm, uint32_t seq) const;
  const StepTruth& step(int rank, uint64_t step) const;
  const OpenCallTruth& open_call(int rank) const;
  bool has_open_call(int rank) const;

  /// Sum over the profile rows of `rank` and `op`.
  ProfileTruth profile_sum(int rank, const std::string& op) const;
  /// Waiting of `waiter` in complete collectives for `late`: the last to enter, or the root; ties share evenly (floor).
  int64_t blame_ns(int waiter, int late) const;
  int64_t wait_ns(int rank) const;  ///< over all instances
};

}  // namespace ddl::test
