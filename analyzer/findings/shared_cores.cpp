// More ranks than CPUs to run them on: ranks bound to one core by a wrong mapping (two mpirun on one host, a batch system that binds all of
// them to the same set), or simply too many of them. They take turns, and whoever waits for its turn comes late to the next collective.
//
// For every set S of CPUs that some rank of a host is bound to: if more ranks than S has CPUs can run nowhere but in S, some of them must
// share. Only the smallest such sets are named. What it costs is not known from here.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int kMostCpus = 1 << 14;
constexpr size_t kShownGroups = 4;

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
};

struct CoreGroup {
  std::string host;
  std::vector<int64_t> ranks;
  CpuSet cpus;
  std::string text;
};

/// The smallest sets with more ranks than CPUs; none of them contains another.
std::vector<CoreGroup> crowded(const std::string& host, const std::vector<Binding>& bindings) {
  std::map<std::pair<size_t, CpuSet>, CoreGroup> by_set;  // the smallest first
  for (const Binding& b : bindings) by_set.try_emplace({b.cpus.size(), b.cpus}, CoreGroup{host, {}, b.cpus, b.text});
  std::vector<CoreGroup> found;
  for (auto& [key, group] : by_set) {
    const auto is_inside = [&](const CpuSet& inner) {
      return std::includes(group.cpus.begin(), group.cpus.end(), inner.begin(), inner.end());
    };
    if (std::any_of(found.begin(), found.end(), [&](const CoreGroup& smaller) { return is_inside(smaller.cpus); })) continue;
    for (const Binding& b : bindings)
      if (is_inside(b.cpus)) group.ranks.push_back(b.rank);
    if (group.ranks.size() > group.cpus.size()) found.push_back(std::move(group));
  }
  return found;
}

std::string cpus_text(const CoreGroup& group) {
  return fmt::format("CPU{} {} of {}", group.cpus.size() == 1 ? "" : "s", group.text, group.host);
}

std::string sentence(const CoreGroup& group) {
  if (group.cpus.size() == 1) return fmt::format("{} are bound to the same core ({})", ranks_text(group.ranks), cpus_text(group));
  return fmt::format("{} share {} CPUs ({})", ranks_text(group.ranks), group.cpus.size(), cpus_text(group));
}

}  // namespace

std::vector<Finding> find_shared_cores(const FindingInput& input) {
  // A rank whose main thread ended elsewhere than it began was bound by the program itself: when, and to what in between, is not known.
  Query row(input.db,
            "SELECT p.host, h.name, p.rank, f.value, p.ended IN ('finalized', 'exited') FROM process p JOIN host h ON h.id = p.host"
            " JOIN process_fact f ON f.process = p.id AND f.key = 'cpus' WHERE p.world = ? AND p.rank IS NOT NULL"
            " AND p.id NOT IN (SELECT process FROM process_fact WHERE key = 'cpus_at_end') ORDER BY p.host, p.rank");
  row.bind(input.world);
  std::map<int64_t, std::pair<std::string, std::vector<Binding>>> hosts;
  bool all_seen_at_end = true;
  while (row.next()) {
    Binding binding{row.integer(2), parse_cpus(row.text(3)), row.text(3)};
    if (binding.cpus.empty()) continue;
    auto& [name, bindings] = hosts[row.integer(0)];
    name = row.text(1);
    bindings.push_back(std::move(binding));
    all_seen_at_end = all_seen_at_end && row.integer(4) != 0;
  }
  std::vector<CoreGroup> groups;
  for (const auto& [id, host] : hosts) std::ranges::move(crowded(host.first, host.second), std::back_inserter(groups));
  if (groups.empty()) return {};
  const auto ranks_per_cpu = [](const CoreGroup& g) { return static_cast<double>(g.ranks.size()) / static_cast<double>(g.cpus.size()); };
  std::ranges::stable_sort(groups, [&](const CoreGroup& a, const CoreGroup& b) { return ranks_per_cpu(a) > ranks_per_cpu(b); });

  Finding finding;
  finding.sentence = sentence(groups[0]);
  if (groups.size() > 1) finding.sentence += fmt::format(", and {} more group{} like it", groups.size() - 1, groups.size() == 2 ? "" : "s");
  finding.confidence = all_seen_at_end ? "sure" : "likely";
  finding.evidence = "What the ranks could run on when MPI started:";
  for (size_t i = 0; i < std::min(groups.size(), kShownGroups); ++i)
    finding.evidence += fmt::format("{} {} on {}", i == 0 ? "" : ";", ranks_text(groups[i].ranks), cpus_text(groups[i]));
  finding.evidence +=
      groups.size() > kShownGroups ? "; ..." : ". They take turns; what that costs is part of their computing and of the others' waiting.";
  finding.evidence_sql =
      fmt::format("SELECT rank, host, local_rank, cpus, numa FROM v_rank WHERE world = {} ORDER BY host, rank", input.world);
  finding.advice =
      "give each rank cores of its own: mpirun --map-by core --bind-to core (threads: --map-by slot:PE=N; what it did: --report-bindings), "
      "srun "
      "--cpu-bind=cores --cpus-per-task=N; or start fewer ranks per host";
  return {finding};
}

}  // namespace ddl
