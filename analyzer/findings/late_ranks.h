// How findings name late ranks: a rank, all ranks of a host, all that share a place on an axis of
// parallelism, or a few.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

/// "rank 3 (node0)", "all 4 ranks on node1", "all 2 ranks of pipeline stage 1 (ranks 2 and 3)", "all 2 ranks at place 1
/// of axis 'data' (ranks 1 and 3)", "ranks 2 and 5". `ranks` ascend.
std::string those(const FindingInput& input, const std::vector<int64_t>& ranks);

/// Stages of pipelines by rank, by the order of messages in the steps; else places on an axis that is named pipeline.
/// Ranks of neither have none.
std::map<int64_t, int64_t> stages_of(const FindingInput& input);

/// Advice: they have more to do, if they share a place on an axis.
std::optional<std::string> uneven_work_advice(const FindingInput& input, const std::vector<int64_t>& ranks);
/// The same, or advice to look at their hosts.
std::string late_advice(const FindingInput& input, const std::vector<int64_t>& ranks);

/// Known reasons for their slowness: samples of the health of their hosts; for one rank also how the others on its host
/// do. Sentences, each behind a blank.
std::string health_of(const FindingInput& input, const std::vector<int64_t>& ranks);

}  // namespace ddl
