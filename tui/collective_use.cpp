#include "tui/collective_use.h"

#include "analyzer/statistics.h"

namespace ddl::tui {

void CollectiveUse::add(const CollectiveUse& more) {
  instances += more.instances;
  calls += more.calls;
  time_ns += more.time_ns;
  split_calls += more.split_calls;
  wait_ns += more.wait_ns;
  nonblocking |= more.nonblocking;
  transfer_ns.insert(transfer_ns.end(), more.transfer_ns.begin(), more.transfer_ns.end());
}

std::optional<Bandwidth> bandwidth_of(const Job& job, const CollectiveUse& use) {
  const auto factor = bus_factor(job.operations[use.op].operation.bus, job.communicators[use.comm].size);
  if (!factor || use.bytes <= 0 || use.nonblocking || use.transfer_ns.empty()) return std::nullopt;
  std::vector<double> times = use.transfer_ns;
  const double time_ns = median_of(times);
  if (time_ns <= 0) return std::nullopt;
  const double algbw = static_cast<double>(use.bytes) / time_ns * 1e9;
  return Bandwidth{algbw, algbw * *factor};
}

}  // namespace ddl::tui
