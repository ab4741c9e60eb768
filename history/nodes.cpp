#include "history/nodes.h"

#include <algorithm>
#include <map>
#include <set>

namespace ddl::history {

double poisson_binomial_tail(const std::vector<double>& probabilities, int64_t least) {
  if (least <= 0) return 1;
  const auto wanted = static_cast<size_t>(least);
  if (wanted > probabilities.size()) return 0;
  // chance[c]: that c events happened so far; the last one: that many or more. All terms are positive: small tails
  // keep their digits.
  std::vector<double> chance(wanted + 1);
  chance[0] = 1;
  for (const double p : probabilities) {
    chance[wanted] += chance[wanted - 1] * p;
    for (size_t c = wanted - 1; c > 0; --c) chance[c] = chance[c] * (1 - p) + chance[c - 1] * p;
    chance[0] *= 1 - p;
  }
  return std::min(1.0, chance[wanted]);
}

SlowHosts slow_hosts(const std::vector<RunRow>& rows) {
  struct Seen {
    std::vector<double> probabilities;
    std::vector<const RunRow*> named_by;
    std::set<std::string> jobs;
    std::set<std::optional<int64_t>> ranks;
  };
  std::map<std::string, Seen> by_host;
  SlowHosts result;
  for (const RunRow& row : rows) {
    const auto named = std::count_if(row.on.begin(), row.on.end(), [](const RunRow::Host& host) { return host.slow; });
    const auto hosts = static_cast<int64_t>(row.on.size());
    if (hosts < 2 || named == 0 || named == hosts) continue;
    ++result.runs;
    for (const RunRow::Host& host : row.on) {
      Seen& seen = by_host[host.host];
      seen.probabilities.push_back(static_cast<double>(named) / static_cast<double>(hosts));
      if (!host.slow) continue;
      seen.named_by.push_back(&row);
      seen.jobs.insert(row.name);
      seen.ranks.insert(host.slow_rank);
    }
  }
  result.looked_at = static_cast<int64_t>(by_host.size());
  for (const auto& [name, seen] : by_host) {
    if (seen.named_by.empty()) continue;
    SlowHost& host = result.hosts.emplace_back();
    host.host = name;
    host.runs = static_cast<int64_t>(seen.probabilities.size());
    host.slow = static_cast<int64_t>(seen.named_by.size());
    for (const double p : seen.probabilities) host.expected += p;
    host.p = poisson_binomial_tail(seen.probabilities, host.slow);
    host.corrected = std::min(1.0, host.p * static_cast<double>(result.looked_at));
    host.jobs = static_cast<int64_t>(seen.jobs.size());
    if (seen.jobs.size() == 1 && seen.ranks.size() == 1) host.one_rank = *seen.ranks.begin();
    host.named_by = seen.named_by;
  }
  std::stable_sort(result.hosts.begin(), result.hosts.end(),
                   [](const SlowHost& a, const SlowHost& b) { return a.p < b.p; });
  return result;
}

}  // namespace ddl::history
