#include "workloads/allreduce/algorithms.h"

namespace ddl::allreduce {

/*
 * Rank 0 is the server: everybody pushes to it and pulls the sum. For k clients its link carries 2k alpha + 2kn beta, k = p - 1: what the
 * server itself contributes does not travel.
 */
void parameter_server(Exchange& x, const Settings& /*settings*/) {
  if (x.rank() != 0) {
    x.send(x.all(), 0);
    x.receive(x.all(), 0);
    return;
  }
  for (int client = 1; client < x.ranks(); ++client) x.receive_and_reduce(x.all(), client);
  for (int client = 1; client < x.ranks(); ++client) x.send(x.all(), client);
}

}  // namespace ddl::allreduce
