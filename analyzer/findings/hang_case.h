// The first causes of a hang as flight recorders show it (analyzer/passes/hang.cpp), in words.
#pragma once

#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

/// The run was made of dumps of flight recorders: these say what hangs, and its calls have no events.
bool has_flight_recorders(const FindingInput& input);

/// The findings for mismatches, or for all other faults.
std::vector<Finding> hang_findings(const FindingInput& input, bool mismatches);

}  // namespace ddl
