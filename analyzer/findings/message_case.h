// Ranks that wait in vain for a message: for each other, or for one that does nothing about it. The live view, `ddl
// record --stall` and the report judge by the same rule and in the same words.
//
// Every rank that sits in a call waits for somebody: in a send, a receive or the completion of one for its peer, in a
// collective for the members that have not entered it. Following that to where it ends finds the ranks that nobody else
// keeps from going on. Where no message is what leads to them, stall_case.h tells as much.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/passes/operation.h"

namespace ddl {

/// By communicator and number of a collective: members that have not entered it.
using MissingMembers = std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>>;

/// A call that a rank sits in.
struct VainWait {
  int64_t rank = 0;
  const Operation* operation = nullptr;
  std::string call;   ///< "MPI_Recv with rank 1 on MPI_COMM_WORLD"
  std::string since;  ///< "since 951 ms", "for 31.0 s"
  /// whose message it waits for, of several those that may keep it; else ...
  std::vector<int64_t> peers = {};
  std::pair<int64_t, int64_t> collective = {-1, -1};  ///< ... the one that it waits for, a key of MissingMembers
  int64_t since_ns = 0;
  std::optional<int64_t> gave_up_ns = {};
  /// What a wait for several requests is for: kReceive if it receives all of these messages, kSend if it sends them.
  OpClass moves = OpClass::kOther;

  bool is_message() const { return !peers.empty(); }
};

struct MessageStall {
  bool circular = false;         ///< `causes` wait for each other, else they are the one that does nothing
  std::vector<int64_t> causes;   ///< ranks, sorted
  std::vector<int64_t> waiting;  ///< all that wait for them, through others too, sorted; of a circle also those in it
  std::string sentence, behind;  ///< behind: "rank 2 waits in MPI_Allreduce number 31 on MPI_COMM_WORLD"; empty: nobody
  std::string call, sits_in;     ///< one of the calls that wait for the message, and its operation
  std::string advice;
  int64_t since_ns = 0;               ///< when the last of those calls was entered
  std::optional<int64_t> gave_up_ns;  ///< when the first of them was given up; nothing: none was
};

/// The one that most ranks wait for; nothing if no message keeps anybody.
std::optional<MessageStall> find_message_case(const std::vector<VainWait>& waits, const MissingMembers& missing);

/// May a call wait for the peer that its record names? A call that waits for several requests records the peer of the
/// first one only (docs/decisions/0006), which may have come.
bool waits_for_its_peer(const Operation& operation);

bool waits_for_several(const Operation& operation);

/// The wait, in such a call or in a loop of tests, is for messages of `peers`: kReceive from them, kSend to them.
void wait_for_several(VainWait& wait, OpClass moves, std::vector<int64_t> peers);

/// "MPI_Recv with rank 1 on MPI_COMM_WORLD", "MPI_Wait for number 7 on MPI_COMM_WORLD". `peer`: in the world; without a
/// label it is left out.
std::string call_words(const Operation& operation, std::optional<int64_t> sequence, std::optional<int64_t> peer,
                       std::string_view label);

}  // namespace ddl
