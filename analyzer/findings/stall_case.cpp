#include "analyzer/findings/stall_case.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ddl {

std::optional<StallCase> find_stall_case(const std::vector<WaitingRank>& waiting, int64_t latest_ns,
                                         const std::function<std::vector<int64_t>(int64_t comm, int64_t seq)>& behind) {
  std::map<std::pair<int64_t, int64_t>, StallCase> stalls;  // by (communicator, number)
  for (const WaitingRank& w : waiting) {
    StallCase& stall = stalls[{w.comm, w.seq}];
    stall.comm = w.comm;
    stall.seq = w.seq;
    stall.since_ns = stall.waiting.empty() ? w.since_ns : std::max(stall.since_ns, w.since_ns);
    stall.waiting.push_back(w.rank);
  }
  std::set<int64_t> in_collectives, waiting_for_ranks;
  for (const WaitingRank& w : waiting) in_collectives.insert(w.rank);
  for (auto& [key, stall] : stalls) {
    stall.missing = behind(stall.comm, stall.seq);
    if (!stall.missing.empty()) waiting_for_ranks.insert(stall.waiting.begin(), stall.waiting.end());
  }

  std::optional<StallCase> worst;
  for (auto& [key, stall] : stalls) {
    if (stall.missing.empty() || stall.since_ns > latest_ns) continue;
    std::vector<int64_t> causes;
    bool circular = true;
    for (const int64_t rank : stall.missing) {
      if (!in_collectives.contains(rank)) causes.push_back(rank);
      circular &= waiting_for_ranks.contains(rank);
    }
    // those that are behind are held up by a transfer, not by a rank that did not come
    if (causes.empty() && !circular) continue;
    stall.circular = causes.empty();
    if (!causes.empty()) stall.missing = std::move(causes);
    const auto weight = [](const StallCase& s) { return std::pair(!s.circular, s.waiting.size()); };
    if (!worst || weight(stall) > weight(*worst)) worst = std::move(stall);
  }
  return worst;
}

}  // namespace ddl
