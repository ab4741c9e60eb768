// Ranks that wait for each other because they called different collectives at the same point of a communicator, or an
// allreduce of another size.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/hang_case.h"

namespace ddl {
namespace {

/// "gloo::allreduce of 12 B": all members of an allreduce give as many bytes.
std::string name_with_size(const Operation& operation, int64_t bytes) {
  std::string name = operation.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool has_one_size = name.find("allreduce") != std::string::npos && bytes > 0;
  return operation.name + (has_one_size ? " of " + bytes_text(static_cast<double>(bytes)) : "");
}

}  // namespace

DDL_FINDING(mismatched_calls, kMismatched, "hang",
            "the run went wrong: ranks called different operations where they should call the same one",
            "sequence numbers of the communicator, and sizes of allreduces; of flight recorders all sizes and types") {
  if (has_flight_recorders(input)) return hang_findings(input, true);
  // (communicator, number) -> operation -> ranks
  std::map<std::pair<int64_t, int64_t>, std::map<std::string, std::vector<int64_t>>> calls;
  for (const UnfinishedCall& call : open_calls(input)) {
    const Operation& operation = input.catalog.operation(call.op);
    if (call.comm && call.seq && operation.numbered)
      calls[{*call.comm, *call.seq}][name_with_size(operation, call.bytes)].push_back(call.rank);
  }
  for (const auto& [key, operations] : calls) {
    const auto communicator = input.catalog.communicators.find(key.first);
    if (operations.size() < 2 || communicator == input.catalog.communicators.end() || communicator->second.size < 2)
      continue;
    std::string who;
    for (const auto& [name, ranks] : operations)
      who += fmt::format("{}{} {} {}", who.empty() ? "" : ", ", ranks_text(ranks),
                         ranks.size() == 1 ? "is in" : "are in", name);

    Finding finding;
    finding.subject = communicator->second.label;
    finding.sentence = fmt::format("the ranks disagree on collective number {} on {}: {}", key.second,
                                   communicator->second.label, who);
    const auto fewest = std::min_element(operations.begin(), operations.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    const bool odd_one = fewest->second.size() == 1 && communicator->second.size > 2;
    if (odd_one) finding.rank = fewest->second.front();
    finding.confidence = "sure";
    finding.evidence = fmt::format(
        "These calls never returned; the members of a communicator must call the same collectives in the same order. {}: {}.",
        rank_on_host(input.catalog, input.world, fewest->second.front()), last_seen(input, fewest->second.front()));
    finding.evidence_sql = fmt::format(
        "SELECT rank, op, comm, seq, step, layer, phase, start_ns FROM v_open_call WHERE world = {} ORDER BY rank",
        input.world);
    finding.advice =
        "look for a branch that depends on the rank around these calls, or for one of them that a rank makes once more or less than the others";
    return {finding};
  }
  return {};
}

}  // namespace ddl
