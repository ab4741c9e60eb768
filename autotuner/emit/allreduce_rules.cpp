#include "autotuner/emit/format.h"
#include "autotuner/openmpi_allreduce.h"
#include "autotuner/openmpi_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace ddl::tune {

Content emit_allreduce_rules(const Emission& emission, const Format&) {
  const Tuned& tuned = emission.tuned;
  const auto& rules = tuned.allreduce_rules;
  if (rules.empty()) return {"0  # collectives\n", false, "algorithms of MPI_Allreduce stay as they are"};
  Content content{write_openmpi_rules(tuned.ranks, rules), false, ""};
  content.changes =
      std::any_of(rules.begin(), rules.end(), [](const AllreduceRule& rule) { return rule.algorithm != 0; });
  if (std::any_of(rules.begin(), rules.end(),
                  [](const AllreduceRule& rule) { return openmpi_needs_commutative(rule.algorithm); }))
    content.note =
        "a ring needs operations that commute, and Open MPI does not ask: with an MPI_Op of the program's own that does not, on "
        "communicators of this size, results would be WRONG. MPI_SUM, MPI_MAX and the like commute";
  // The library would silently drop a file that it does not like.
  const OpenMpiRules read = read_openmpi_rules(content.text);
  if (!read.dropped.empty())
    throw Error(fmt::format("allreduce.rules would be ignored by Open MPI: {}", read.dropped), "please report this");
  for (const AllreduceRule& rule : rules) {
    const OpenMpiDecision at = ruled(read, tuned.ranks, rule.from_bytes);
    if (at.algorithm != rule.algorithm || at.segment_bytes != rule.segment_bytes ||
        ruled(read, tuned.ranks - 1, rule.from_bytes).algorithm != 0 ||
        ruled(read, tuned.ranks + 1, rule.from_bytes).algorithm != 0)
      throw Error(fmt::format("Open MPI would misread allreduce.rules at {} bytes", rule.from_bytes),
                  "please report this");
  }
  return content;
}

}  // namespace ddl::tune
