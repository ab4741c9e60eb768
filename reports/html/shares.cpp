#include "reports/html/shares.h"

#include <algorithm>

#include "analyzer/query.h"

namespace ddl::reports::html {

std::vector<Share> shares_of_ranks(const RunView& run) {
  Query row(run.db,
            "SELECT rank, avg(compute_ns), avg(exposed_ns), avg(duration_ns - compute_ns - exposed_ns), iif(count(wait_ns) = count(*),"
            " avg(wait_ns), NULL), iif(count(comm_ns) = count(*), avg(comm_ns), NULL) FROM temp.steady_part WHERE world = ? GROUP BY rank");
  row.bind(run.world);
  std::vector<Share> shares;
  while (row.next()) {
    Share share;
    share.rank = row.integer(0);
    const double exposed_ns = row.real(2);
    share.idle_ns = row.real(3);
    if (row.is_null(4)) {
      share.unsplit_ns = exposed_ns;
    } else {
      share.wait_ns = row.real(4);
      share.transfer_ns = exposed_ns - share.wait_ns;
    }
    if (!row.is_null(5)) share.overlap_ns = std::clamp(row.real(5) - exposed_ns, 0.0, row.real(1));
    share.compute_ns = row.real(1) - share.overlap_ns;
    shares.push_back(share);
  }
  return shares;
}

std::vector<Share> shares_of_gpus(const RunView& run) {
  Query row(run.db,
            "SELECT p.rank, g.device, avg(g.compute_ns), avg(g.comm_ns), avg(g.exposed_comm_ns), iif(count(g.exposed_wait_ns) = count(*),"
            " avg(g.exposed_wait_ns), NULL), avg(g.exposed_copy_ns), avg(g.idle_ns) FROM gpu_part g JOIN process p ON p.id = g.process"
            " WHERE p.world = ?1 AND p.rank IS NOT NULL AND"
            " iif(?2, g.step IN (SELECT step FROM temp.steady_number WHERE world = ?1), g.step IS NULL)"
            " GROUP BY p.id, g.device ORDER BY p.rank, g.device");
  row.bind(run.world, run.has_steps ? 1 : 0);
  std::vector<Share> shares;
  while (row.next()) {
    Share share;
    share.rank = row.integer(0);
    share.device = row.integer(1);
    const double exposed_ns = row.real(4);
    share.overlap_ns = std::clamp(row.real(3) - exposed_ns, 0.0, row.real(2));
    share.compute_ns = row.real(2) - share.overlap_ns;
    if (row.is_null(5)) {
      share.unsplit_ns = exposed_ns;
    } else {
      share.wait_ns = row.real(5);
      share.transfer_ns = exposed_ns - share.wait_ns;
    }
    share.copy_ns = row.real(6);
    share.idle_ns = row.real(7);
    shares.push_back(share);
  }
  return shares;
}

}  // namespace ddl::reports::html
