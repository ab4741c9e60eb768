// Ranks that wait in vain for a message: for each other, or for one that does nothing about it.
//
// Every rank that sits in a call at the end waits for somebody: in a send, a receive or the completion of one for its peer, in a collective
// for the members that have not entered it. Following that to where it ends finds the ranks that nobody else keeps from going on. Where no
// message is what leads to them, stall_case.h tells as much.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/behind.h"

namespace ddl {

struct MessageStall {
  bool circular = false;         ///< `causes` wait for each other, else they are the one that does nothing
  std::vector<int64_t> causes;   ///< ranks, sorted
  std::string sentence, behind;  ///< behind: "rank 2 waits behind them in MPI_Allreduce number 31 on MPI_COMM_WORLD"; empty: nobody
  std::string sits_in;           ///< the operation of the message
  std::string advice;
  int64_t since_ns = 0;               ///< when the last of those calls was entered
  std::optional<int64_t> gave_up_ns;  ///< when the first of them was given up; nothing: none was
};

/// The one that most ranks wait for; nothing if no message keeps anybody.
std::optional<MessageStall> find_message_stall(const FindingInput& input);

}  // namespace ddl
