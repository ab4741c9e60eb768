// Who keeps a job that negotiates (specification.md J2) from going on: its background threads go on coordinating, so
// nobody sits in a call for long, but no data moves, because a training thread does not bring its tensors. The live
// view and the report judge by the same rule.
//
// A rank that has brought less than another (bits set for tensors that are ready, or bytes of requests) is what
// the others wait for. For rank 0, which sends no requests to itself, the training threads tell: it is missing
// if it is the only one that does not poll for its background thread; those that do not poll are, if it does
// and nobody has sent any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/passes/training_thread.h"

namespace ddl {

struct Readiness {
  int64_t rank = 0;
  std::optional<int64_t> requested_bytes = {};  ///< RequestedBytes; nothing: it sends none
  std::optional<int64_t> ready_bits = {};       ///< set in its last word; nothing: it says none
  TrainingState thread = TrainingState::kUnknown;
  std::string sleeps_in = {};  ///< system call; empty: not known
};

struct UnreadyCase {
  std::vector<Readiness> missing;
  std::vector<int64_t> waiting;
};

/// Nothing if all are as far, or nobody tells.
std::optional<UnreadyCase> find_unready_case(const std::vector<Readiness>& ranks);

/// "the training thread of rank 1 is asleep in clock_nanosleep, that of rank 0 waits for it"
std::string unready_sentence(const UnreadyCase& found);

}  // namespace ddl
