// Where the time of GPUs went by the rules of Meta's Holistic Trace Analysis, for people who compare (specification.md "Breakdown by HTA").
//
// HTA looks at all GPU events of a rank, whatever their device, from the first begin to the last end: at neither edge of the window there
// is idling. What runs beside a kernel that computes counts as computing; everything else that is not idle is "non-compute". Its names tell
// kernels of collectives. Our own rules are in device_partition.h.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Fills table hta_part. One pass over the events of GPUs in the order of time, in constant memory.
void analyze_hta(SQLite::Database& db);

}  // namespace ddl
