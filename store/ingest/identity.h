// Who a process is, where its header alone does not tell: it died before it had a rank, became another program, or was damaged.
#pragma once

#include <vector>

#include "store/ingest/losses.h"
#include "store/ingest/scan.h"

namespace ddl::store {

/// Fills Scan::rank, world_size and became_other of all scans, and books headers that are contradicted by their own spool.
void settle_identities(std::vector<Scan>& scans, Losses& losses);

}  // namespace ddl::store
