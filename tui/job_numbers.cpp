#include "reports/job_numbers.h"

#include <algorithm>
#include <filesystem>

#include "analyzer/statistics.h"
#include "tui/observer.h"

namespace ddl::tui {
namespace {

std::optional<double> part_of(std::optional<double> whole, double count) {
  return whole && count > 0 ? std::optional(*whole / count) : std::nullopt;
}

}  // namespace

reports::JobNumbers job_numbers(const Snapshot& s) {
  reports::JobNumbers job;
  job.run = std::filesystem::path(s.run).filename().string();
  job.name = s.name;
  job.job_id = s.job_id;
  job.running = s.feed != Feed::kEnded && s.feed != Feed::kReplay;
  if (job.running) {
    job.stalled = s.stall.has_value();
    job.silent_ns = s.silent_ns;
  }
  job.ranks = static_cast<int64_t>(s.ranks.size());
  job.expected_ranks = s.world_size;
  job.nodes = s.nodes;
  const auto metric = [&](const char* id, std::optional<double> value) {
    if (value) job.metrics.emplace(id, *value);
  };
  if (s.annotated) {
    if (s.step) job.step = static_cast<int64_t>(*s.step);
    job.step_p99_ns = s.p99_ns;
    std::vector<double> steps;
    for (size_t i = s.history.size() - std::min(s.history.size(), s.window); i < s.history.size(); ++i)
      steps.push_back(s.history[i].step_ns);
    if (!steps.empty()) metric("step_time", median_of(steps));
    job.samples_per_s = s.samples_per_s;
  }
  metric("recording_overhead", s.overhead_ratio);
  if (s.shares) {
    const Shares& share = *s.shares;
    job.shares = {{"compute", share[kCompute]}, {"compute_and_communication", share[kOverlapped]}};
    if (s.waiting_known) {
      job.shares.emplace_back("transfer", share[kTransfer]);
      job.shares.emplace_back("waiting", share[kWaiting]);
    } else {
      job.shares.emplace_back("communication", share[kTransfer] + share[kWaiting]);
    }
    if (share[kCopy] > 0) job.shares.emplace_back("copy", share[kCopy]);
    job.shares.emplace_back("idle", share[kIdle]);
  }
  for (const RankRow& row : s.ranks)
    job.by_rank.push_back({.rank = row.rank,
                           .node = row.node,
                           .late_ns = row.late_ns,
                           .wait_ns = row.wait_ns,
                           .step_ns = s.annotated ? row.step_ns : std::nullopt});
  for (const CollectiveRow& row : s.collectives) {
    if (row.per_step <= 0) continue;
    job.collectives.push_back({.op = row.op,
                               .comm = row.comm,
                               .bytes = row.bytes,
                               .time_ns = row.time_ns / row.per_step,
                               .wait_ns = part_of(row.wait_ns, row.per_step),
                               .xfer_ns = row.nonblocking ? std::nullopt : part_of(row.transfer_ns, row.per_step),
                               .busbw = row.busbw});
  }
  job.lost_events = static_cast<int64_t>(s.lost);
  return job;
}

}  // namespace ddl::tui
