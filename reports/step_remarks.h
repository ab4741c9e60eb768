// What must be known of the steps that the report counts: which were left out and why, what they are where the job
// marks none itself.
#pragma once

#include <string>

#include "reports/run_view.h"

namespace ddl::reports {

/// Goes on behind the first words of the remark of line STEP: "; 16 of 80 left out: rank 0 made 64 steps only".
std::string step_remarks(const RunView& run);

}  // namespace ddl::reports
