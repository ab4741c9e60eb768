#include "analyzer/findings/unready_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/findings.h"
#include "analyzer/passes/requested_bytes.h"

namespace ddl {
namespace {

/// "asleep in futex"; empty: not known.
std::string state_text(const Readiness& rank) {
  switch (rank.thread) {
    case TrainingState::kComputing:
      return "computing";
    case TrainingState::kPolling:
      return "polling for another thread";
    case TrainingState::kAsleep:
      return rank.sleeps_in.empty() ? "asleep" : "asleep in " + rank.sleeps_in;
    case TrainingState::kUnknown:
      break;
  }
  return {};
}

}  // namespace

std::optional<UnreadyCase> find_unready_case(const std::vector<Readiness>& ranks) {
  int64_t most_bits = 0, most_bytes = 0;
  bool any_requests = false;
  for (const Readiness& rank : ranks) {
    most_bits = std::max(most_bits, rank.ready_bits.value_or(0));
    most_bytes = std::max(most_bytes, rank.requested_bytes.value_or(0));
    any_requests |= rank.requested_bytes.has_value();
  }
  UnreadyCase found;
  std::vector<Readiness> silent;
  for (const Readiness& rank : ranks) {
    if (!rank.ready_bits && !rank.requested_bytes) {
      silent.push_back(rank);
    } else if (rank.ready_bits.value_or(most_bits) < most_bits ||
               RequestedBytes::is_less(rank.requested_bytes.value_or(most_bytes), most_bytes)) {
      found.missing.push_back(rank);
    } else {
      found.waiting.push_back(rank.rank);
    }
  }
  if (found.missing.empty()) {
    // Requests tell nothing of the rank that they are sent to: who polls there waits, and who does something else
    // keeps it waiting.
    if (!any_requests || silent.size() != 1) return std::nullopt;
    found.waiting.clear();
    for (const Readiness& rank : ranks) {
      if (rank.thread == TrainingState::kUnknown) return std::nullopt;
      if (rank.thread == TrainingState::kPolling) {
        found.waiting.push_back(rank.rank);
      } else {
        found.missing.push_back(rank);
      }
    }
    const bool sends_none = found.missing.size() == 1 && found.missing.front().rank == silent.front().rank;
    const bool is_polling = silent.front().thread == TrainingState::kPolling;
    if (found.missing.empty() || found.waiting.empty() || (!sends_none && !(is_polling && most_bytes == 0)))
      return std::nullopt;
  } else {
    for (const Readiness& rank : silent) found.waiting.push_back(rank.rank);
    if (found.waiting.empty()) return std::nullopt;  // each is behind by one of the two: they contradict each other
  }
  std::sort(found.waiting.begin(), found.waiting.end());
  return found;
}

std::string unready_sentence(const UnreadyCase& found) {
  std::vector<int64_t> missing;
  for (const Readiness& rank : found.missing) missing.push_back(rank.rank);
  const std::string state = state_text(found.missing.front());
  const bool same = std::all_of(found.missing.begin(), found.missing.end(),
                                [&](const Readiness& rank) { return state_text(rank) == state; });
  const bool one = missing.size() == 1;
  std::string text = fmt::format("the training {} of {}", one ? "thread" : "threads", ranks_text(missing));
  if (same && !state.empty()) {
    text += fmt::format(" {} {}", one ? "is" : "are", state);
  } else {
    text += one ? " does not bring its tensors" : " do not bring their tensors";
  }
  const bool one_waits = found.waiting.size() == 1;
  return text + fmt::format(", {} {} for {}",
                            one_waits ? fmt::format("that of rank {}", found.waiting.front()) : "the others",
                            one_waits ? "waits" : "wait", one ? "it" : "them");
}

}  // namespace ddl
