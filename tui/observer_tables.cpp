// Collectives and layers of the window.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "analyzer/statistics.h"
#include "tui/observer.h"

namespace ddl::tui {

void Observer::sum_collectives(const Job& job) {
  std::map<std::tuple<uint32_t, uint32_t, int64_t, bool>, CollectiveUse> sums;
  for (const FinishedStep* step : window_) {
    for (const CollectiveUse& use : step->collectives) {
      if (!by_device_ && job.operations[use.op].operation.on_device) continue;
      CollectiveUse& sum = sums[{use.op, use.comm, use.bytes, use.coordination}];
      sum.op = use.op;
      sum.comm = use.comm;
      sum.bytes = use.bytes;
      sum.coordination = use.coordination;
      sum.add(use);
    }
  }
  collectives_.clear();
  for (auto& [key, sum] : sums) collectives_.push_back(std::move(sum));
}

void Observer::collective_rows(const Job& job, Snapshot& s) {
  const auto steps = static_cast<double>(std::max<size_t>(window_.size(), 1));
  for (const CollectiveUse& sum : collectives_) {
    if (job.background && sum.coordination) continue;
    CollectiveRow row;
    row.op = job.operations[sum.op].operation.name;
    row.comm = job.communicators[sum.comm].label;
    row.ranks = job.communicators[sum.comm].size;
    if (sum.bytes >= 0) row.bytes = sum.bytes;
    row.nonblocking = sum.nonblocking;
    row.per_step = static_cast<double>(sum.instances) / steps;
    const double per_rank =
        steps * static_cast<double>(sum.calls) / static_cast<double>(std::max<int64_t>(sum.instances, 1));
    row.time_ns = static_cast<double>(sum.time_ns) / per_rank;
    if (sum.split_calls == sum.calls) {
      row.wait_ns = static_cast<double>(sum.wait_ns) / per_rank;
      row.transfer_ns = row.time_ns - *row.wait_ns;
    }
    if (const auto bandwidth = bandwidth_of(job, sum)) {
      row.algbw = bandwidth->algbw;
      row.busbw = bandwidth->busbw;
      double& best = best_busbw_[{sum.op, sum.comm, sum.bytes}];
      best = std::max(best, *row.busbw);
      row.of_best = *row.busbw / best;
    }
    s.collectives.push_back(std::move(row));
  }
  std::stable_sort(s.collectives.begin(), s.collectives.end(),
                   [](const CollectiveRow& a, const CollectiveRow& b) { return a.time_ns > b.time_ns; });
}

void Observer::axis_rows(const Job& job, Snapshot& s) const {
  struct Sum {
    std::set<uint32_t> comms;
    std::set<int32_t> ranks;
    int32_t unknown_ranks = 0;  ///< in communicators that do not say who is in them
    int64_t calls = 0, time_ns = 0, wait_ns = 0;
    bool split = true;
    std::string source = "name";
  };
  std::map<std::string, Sum> sums;
  for (const CollectiveUse& use : collectives_) {
    const JobCommunicator& comm = job.communicators[use.comm];
    if (comm.axis.empty() || (job.background && use.coordination)) continue;
    Sum& sum = sums[comm.axis];
    if (sum.comms.insert(use.comm).second) {
      sum.ranks.insert(comm.ranks.begin(), comm.ranks.end());
      if (comm.ranks.empty()) sum.unknown_ranks += comm.size;
    }
    sum.calls += use.calls;
    sum.time_ns += use.time_ns;
    sum.wait_ns += use.wait_ns;
    sum.split &= use.split_calls == use.calls;
    if (comm.axis_source == "shape" || sum.source == "name") sum.source = comm.axis_source;
  }
  const auto steps = static_cast<double>(std::max<size_t>(window_.size(), 1));
  for (const auto& [axis, sum] : sums) {
    AxisRow row;
    row.axis = axis;
    row.source = sum.source;
    row.communicators = static_cast<int32_t>(sum.comms.size());
    row.ranks = static_cast<int32_t>(sum.ranks.size()) + sum.unknown_ranks;
    const double per = steps * std::max<double>(1, row.ranks);
    row.per_step = static_cast<double>(sum.calls) / per;
    row.time_ns = static_cast<double>(sum.time_ns) / per;
    if (sum.split) {
      row.wait_ns = static_cast<double>(sum.wait_ns) / per;
      row.transfer_ns = row.time_ns - *row.wait_ns;
    }
    s.axes.push_back(std::move(row));
  }
  std::stable_sort(s.axes.begin(), s.axes.end(),
                   [](const AxisRow& a, const AxisRow& b) { return a.time_ns > b.time_ns; });
}

void Observer::layer_rows(const Job& job, Snapshot& s) const {
  enum LayerColumn : size_t { kForward, kBackward, kOther, kComm, kLayerColumns };
  const auto direction = [](const std::string& phase) {
    return phase.starts_with("forward") || phase.starts_with("fwd")    ? kForward
           : phase.starts_with("backward") || phase.starts_with("bwd") ? kBackward
                                                                       : kOther;
  };
  std::unordered_map<int32_t, RankRow*> rank_rows;
  for (RankRow& row : s.ranks) rank_rows[row.rank] = &row;
  std::map<std::string, uint32_t> rows;
  std::vector<std::array<std::vector<double>, kLayerColumns>> values;  // by row, of each rank
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    std::map<uint32_t, std::array<double, kLayerColumns>> sums;  // by row
    double steps = 0;                                            // that the rank was in
    for (const FinishedStep* step : window_) {
      if (r >= step->thread_parts.size() || !step->thread_parts[r].is_there()) continue;
      ++steps;
      for (const auto& [layer, use] : step->layers[r]) {
        const JobLayer& known = job.layers[layer];
        const uint32_t row = rows.try_emplace(known.name, static_cast<uint32_t>(rows.size())).first->second;
        sums[row][direction(known.phase)] += static_cast<double>(use.time_ns);
        sums[row][kComm] += static_cast<double>(use.comm_ns);
      }
    }
    values.resize(rows.size());
    for (const auto& [row, sum] : sums) {
      for (size_t i = 0; i < kLayerColumns; ++i) values[row][i].push_back(sum[i] / steps);
      rank_rows.at(job.ranks[r].rank)->layers.emplace_back(row, (sum[kForward] + sum[kBackward] + sum[kOther]) / steps);
    }
  }
  s.layers.resize(rows.size());
  for (const auto& [name, row] : rows) s.layers[row].name = name;
  for (size_t row = 0; row < values.size(); ++row) {
    LayerRow& layer = s.layers[row];
    std::optional<double>* const fields[kLayerColumns] = {&layer.forward_ns, &layer.backward_ns, &layer.other_ns,
                                                          &layer.comm_ns};
    for (size_t i = 0; i < kLayerColumns; ++i) {
      if (const double middle = median_of(values[row][i]); middle > 0) *fields[i] = middle;
    }
  }
}

}  // namespace ddl::tui
