// A moment of a running job for a monitoring system.
#pragma once

#include "reports/job_numbers.h"
#include "tui/snapshot.h"

namespace ddl::tui {

/// For the window, the newest kWindow finished steps.
reports::JobNumbers job_numbers(const Snapshot& snapshot);

}  // namespace ddl::tui
