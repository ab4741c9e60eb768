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
    case TrainingState::kComputing: return "computing";
    case TrainingState::kPolling: return "polling for another thread";
    case TrainingState::kAsleep: return rank.sleeps_in.empty() ? "asleep" : "asleep in " + rank.sleeps_in;
    case TrainingState::kUnknown: break;
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
    } else if (rank.ready_bits.value_or(most_bits) < most_bits || RequestedBytes::is_less(rank.requested_bytes.value_or(most_bytes), most_bytes)) {
      found.missing.push_back(rank);
    } else {
      found.waiting.push_back(rank.rank);
    }
  }
  if (found.missing.empty()) {
    // Requests tell nothing of whom they are sent to. If that one waits like the others, nobody is missing.
    if (!any_requests || silent.size() != 1 || found.waiting.empty()) return std::nullopt;
    const auto works = [](TrainingState state) { return state == TrainingState::kComputing || state == TrainingState::kAsleep; };
    const bool others_poll = std::any_of(ranks.begin(), ranks.end(), [&](const Readiness& rank) {
      return rank.rank != silent.front().rank && rank.thread == TrainingState::kPolling;
    });
    if (!works(silent.front().thread) || !others_poll) return std::nullopt;
    found.missing = std::move(silent);
  } else {
    for (const Readiness& rank : silent) found.waiting.push_back(rank.rank);
  }
  std::sort(found.waiting.begin(), found.waiting.end());
  return found;
}

std::string unready_sentence(const UnreadyCase& found) {
  std::vector<int64_t> missing;
  for (const Readiness& rank : found.missing) missing.push_back(rank.rank);
  const std::string state = state_text(found.missing.front());
  const bool same = std::all_of(found.missing.begin(), found.missing.end(), [&](const Readiness& rank) { return state_text(rank) == state; });
  const bool one = missing.size() == 1;
  std::string text = fmt::format("the training {} of {}", one ? "thread" : "threads", ranks_text(missing));
  if (same && !state.empty()) {
    text += fmt::format(" {} {}", one ? "is" : "are", state);
  } else {
    text += one ? " does not bring its tensors" : " do not bring their tensors";
  }
  const bool one_waits = found.waiting.size() == 1;
  return text + fmt::format(", {} {} for {}", one_waits ? fmt::format("that of rank {}", found.waiting.front()) : "the others",
                            one_waits ? "waits" : "wait", one ? "it" : "them");
}

}  // namespace ddl
