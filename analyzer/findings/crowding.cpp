#include "analyzer/findings/crowding.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <ranges>
#include <utility>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int kMostCpus = 1 << 14;

using CpuSet = std::set<int>;

/// "0-3,8"; empty if it is something else.
CpuSet parse_cpus(const std::string& text) {
  CpuSet cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = -1;
    const auto [after, error] = std::from_chars(at, end, first);
    int last = first;
    at = after;
    if (error == std::errc() && at < end && *at == '-') {
      const auto [after_last, last_error] = std::from_chars(at + 1, end, last);
      if (last_error != std::errc()) return {};
      at = after_last;
    }
    if (error != std::errc() || first < 0 || last < first || last >= kMostCpus || (at < end && *at != ',')) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
    if (at < end) ++at;
  }
  return cpus;
}

struct Binding {
  int64_t rank;
  CpuSet cpus;
  std::string text;
  int64_t threads;
};

/// The smallest sets with more threads than CPUs; none of them contains another.
std::vector<CoreGroup> crowded(const std::string& host, const std::vector<Binding>& bindings) {
  std::map<std::pair<size_t, CpuSet>, CoreGroup> by_set;  // the smallest first
  for (const Binding& b : bindings) by_set.try_emplace({b.cpus.size(), b.cpus}, CoreGroup{host, {}, b.cpus, b.text, 0});
  std::vector<CoreGroup> found;
  for (auto& [key, group] : by_set) {
    const auto is_inside = [&cpus = group.cpus](const CpuSet& inner) {
      return std::includes(cpus.begin(), cpus.end(), inner.begin(), inner.end());
    };
    if (std::any_of(found.begin(), found.end(), [&](const CoreGroup& smaller) { return is_inside(smaller.cpus); }))
      continue;
    for (const Binding& b : bindings) {
      if (!is_inside(b.cpus)) continue;
      group.ranks.push_back(b.rank);
      group.threads += b.threads;
    }
    if (group.threads > static_cast<int64_t>(group.cpus.size())) found.push_back(std::move(group));
  }
  return found;
}

}  // namespace

Crowding find_crowding(const FindingInput& input) {
  Crowding crowding;
  // A rank whose main thread ended elsewhere than it began was bound by the program itself: when, and to what in
  // between, is not known.
  Query row(input.db,
            "SELECT p.host, h.name, p.rank, f.value, p.ended IN ('finalized', 'exited'),"
            " 1 + (p.id IN (SELECT process FROM background_process)) FROM process p JOIN host h ON h.id = p.host"
            " JOIN process_fact f ON f.process = p.id AND f.key = 'cpus' WHERE p.world = ? AND p.rank IS NOT NULL"
            " AND p.id NOT IN (SELECT process FROM process_fact WHERE key = 'cpus_at_end') ORDER BY p.host, p.rank");
  row.bind(input.world);
  std::map<int64_t, std::pair<std::string, std::vector<Binding>>> hosts;
  while (row.next()) {
    Binding binding{row.integer(2), parse_cpus(row.text(3)), row.text(3), row.integer(5)};
    if (binding.cpus.empty()) continue;
    auto& [name, bindings] = hosts[row.integer(0)];
    name = row.text(1);
    bindings.push_back(std::move(binding));
    crowding.all_seen_at_end = crowding.all_seen_at_end && row.integer(4) != 0;
  }
  for (const auto& [id, host] : hosts)
    std::ranges::move(crowded(host.first, host.second), std::back_inserter(crowding.groups));
  const auto threads_per_cpu = [](const CoreGroup& g) {
    return static_cast<double>(g.threads) / static_cast<double>(g.cpus.size());
  };
  std::ranges::stable_sort(
      crowding.groups, [&](const CoreGroup& a, const CoreGroup& b) { return threads_per_cpu(a) > threads_per_cpu(b); });
  return crowding;
}

bool is_crowded(const FindingInput& input) {
  Query devices(input.db, "SELECT 1 FROM steady_world WHERE world = ? AND waits_by = 'device'");
  return !devices.bind(input.world).next() && !find_crowding(input).groups.empty();
}

}  // namespace ddl
