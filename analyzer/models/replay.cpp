#include "analyzer/models/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace ddl::models {
namespace {

std::vector<int64_t> distinct(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

size_t Replay::add_kind(std::string type, bool transfer, bool upper_bound) {
  kinds_.push_back({std::move(type), transfer, upper_bound});
  return kinds_.size() - 1;
}

void Replay::reserve(size_t ops) {
  ops_.reserve(ops);
  edges_.reserve(ops);
}

Replay::Op Replay::add(const ReplayOp& op) {
  ops_.push_back(op);
  return static_cast<Op>(ops_.size() - 1);
}

void Replay::after(Op later, Op earlier) { edges_.emplace_back(later, earlier); }

void Replay::meet(Op op, int64_t group, double seconds) {
  ops_[op].group = group;
  ops_[op].seconds = seconds;
}

void Replay::finish(bool chained) {
  chained_ = chained;
  // Operations come rank by rank and step by step: what changes is told, not each.
  std::vector<int64_t> ranks, steps;
  for (const ReplayOp& op : ops_) {
    if (ranks.empty() || ranks.back() != op.rank) ranks.push_back(op.rank);
    if (steps.empty() || steps.back() != op.step) steps.push_back(op.step);
  }
  ranks_ = distinct(std::move(ranks));
  steps_ = distinct(std::move(steps));
  step_of_.reserve(ops_.size());
  for (const ReplayOp& op : ops_) {
    const bool as_before = !step_of_.empty() && steps_[step_of_.back()] == op.step;
    step_of_.push_back(
        as_before ? step_of_.back()
                  : static_cast<uint32_t>(std::lower_bound(steps_.begin(), steps_.end(), op.step) - steps_.begin()));
  }
  first_edge_.assign(ops_.size() + 1, 0);
  for (const auto& [later, earlier] : edges_) ++first_edge_[later + 1];
  std::partial_sum(first_edge_.begin(), first_edge_.end(), first_edge_.begin());
  const auto comes_before = [](const auto& a, const auto& b) { return a.first < b.first; };
  // how many there are of each is known: dealt, not sorted
  if (!std::is_sorted(edges_.begin(), edges_.end(), comes_before)) {
    std::vector<std::pair<Op, Op>> dealt(edges_.size());
    std::vector<uint32_t> next(first_edge_.begin(), first_edge_.end() - 1);
    for (const auto& edge : edges_) dealt[next[edge.first]++] = edge;
    edges_ = std::move(dealt);
  }
  order();
}

// Groups, an operation without one being its own, are sorted such that each comes after all that one of its
// members waits for.
void Replay::order() {
  int64_t most = -1;
  for (const ReplayOp& op : ops_) most = std::max(most, op.group);
  std::vector<uint32_t> next(static_cast<size_t>(most) + 3, 0);  // place of each group, those without one first
  for (const ReplayOp& op : ops_) ++next[static_cast<size_t>(op.group + 2)];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Op> by_group(ops_.size());
  for (Op op = 0; op < ops_.size(); ++op) by_group[next[static_cast<size_t>(ops_[op].group + 1)]++] = op;
  std::vector<uint32_t> begin;  // of each group in by_group
  std::vector<uint32_t> group_of(ops_.size());
  for (uint32_t i = 0; i < by_group.size(); ++i) {
    const int64_t group = ops_[by_group[i]].group;
    if (i == 0 || group < 0 || group != ops_[by_group[i - 1]].group) begin.push_back(i);
    group_of[by_group[i]] = static_cast<uint32_t>(begin.size() - 1);
  }
  begin.push_back(static_cast<uint32_t>(by_group.size()));

  std::vector<uint32_t> waits(begin.size() - 1, 0), first(begin.size(), 0);
  std::vector<uint32_t> followers(edges_.size());  // groups, by what they follow
  for (const auto& [later, earlier] : edges_) ++waits[group_of[later]], ++first[group_of[earlier] + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  next = first;
  for (const auto& [later, earlier] : edges_) followers[next[group_of[earlier]]++] = group_of[later];

  std::vector<uint32_t> ready;
  ready.reserve(waits.size());
  for (uint32_t g = 0; g < waits.size(); ++g)
    if (waits[g] == 0) ready.push_back(g);
  order_of_group_ = {0};
  order_of_group_.reserve(begin.size());
  order_.reserve(ops_.size());
  for (size_t done = 0; done < ready.size(); ++done) {
    const uint32_t g = ready[done];
    order_.insert(order_.end(), by_group.begin() + begin[g], by_group.begin() + begin[g + 1]);
    order_of_group_.push_back(static_cast<uint32_t>(order_.size()));
    for (uint32_t f = first[g]; f < first[g + 1]; ++f)
      if (--waits[followers[f]] == 0) ready.push_back(followers[f]);
  }
  if (order_.size() != ops_.size())
    throw Error(fmt::format("{} of {} operations wait for one another in a cycle: they cannot be replayed",
                            ops_.size() - order_.size(), ops_.size()),
                "", ExitCode::kDataMissing);
}

std::vector<double> Replay::recorded() const {
  std::vector<double> durations;
  durations.reserve(ops_.size());
  for (const ReplayOp& op : ops_) durations.push_back(op.seconds);
  return durations;
}

std::vector<double> Replay::step_seconds(std::span<const double> durations) const {
  std::vector<double> end(ops_.size()), step_end(steps_.size(), 0);
  for (size_t g = 0; g + 1 < order_of_group_.size(); ++g) {
    double begin = 0;
    for (size_t i = order_of_group_[g]; i < order_of_group_[g + 1]; ++i)
      for (size_t e = first_edge_[order_[i]]; e < first_edge_[order_[i] + 1]; ++e)
        begin = std::max(begin, end[edges_[e].second]);
    for (size_t i = order_of_group_[g]; i < order_of_group_[g + 1]; ++i) {
      const Op op = order_[i];
      end[op] = begin + durations[op];
      step_end[step_of_[op]] = std::max(step_end[step_of_[op]], end[op]);
    }
  }
  if (chained_)
    for (size_t s = step_end.size(); s-- > 1;) step_end[s] -= step_end[s - 1];
  return step_end;
}

double Replay::mean_step_seconds(std::span<const double> durations) const {
  const std::vector<double> steps = step_seconds(durations);
  return std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
}

}  // namespace ddl::models
