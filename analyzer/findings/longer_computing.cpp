#include "analyzer/findings/longer_computing.h"

#include <algorithm>
#include <map>

#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinLead = 0.04;   // of the step
constexpr double kLateSteps = 0.8;  // of the steps in question
constexpr size_t kMinSteps = 8;
constexpr double kClearChange = 4;  // lead after the change against before it

struct Share {
  int64_t rank;
  double compute_ns, exposed_ns;  // loading data is not computing
};

struct Step {
  int64_t number = 0;
  std::vector<Share> ranks;
};

std::vector<Step> read_steps(const FindingInput& input) {
  std::vector<Step> steps;
  Query rows(input.db,
             "SELECT step, rank, compute_ns - coalesce(input_ns, 0), exposed_ns FROM temp.steady_part WHERE world = ? ORDER BY step, rank");
  rows.bind(input.world);
  while (rows.next()) {
    if (steps.empty() || steps.back().number != rows.integer(0)) steps.push_back({rows.integer(0), {}});
    steps.back().ranks.push_back({rows.integer(1), rows.real(2), rows.real(3)});
  }
  return steps;
}

/// One rank against the others in one step.
struct Lead {
  int64_t step = 0;
  double compute_ns = 0, others_compute_ns = 0, less_in_mpi_ns = 0, over_next_ns = 0;
  double evident_ns() const { return std::max(0.0, std::min(compute_ns - others_compute_ns, less_in_mpi_ns)); }
};

std::vector<Lead> leads_of(const std::vector<Step>& steps, int64_t rank) {
  std::vector<Lead> leads;
  for (const Step& step : steps) {
    std::vector<double> compute, exposed;
    const Share* own = nullptr;
    double next_ns = 0;
    for (const Share& share : step.ranks) {
      if (share.rank == rank) {
        own = &share;
        continue;
      }
      compute.push_back(share.compute_ns);
      exposed.push_back(share.exposed_ns);
      next_ns = std::max(next_ns, share.compute_ns);
    }
    if (own == nullptr || compute.empty()) continue;
    leads.push_back({step.number, own->compute_ns, median_of(compute), median_of(exposed) - own->exposed_ns, own->compute_ns - next_ns});
  }
  return leads;
}

/// First step from which the lead is clearly higher; 0 if there is no such change.
size_t find_change(const std::vector<Lead>& leads) {
  double total = 0, before = 0, best_gain = 0;
  for (const Lead& lead : leads) total += lead.evident_ns();
  size_t best = 0;
  for (size_t k = 1; k + kMinSteps <= leads.size(); ++k) {
    before += leads[k - 1].evident_ns();
    if (k < kMinSteps) continue;
    const double left = static_cast<double>(k), right = static_cast<double>(leads.size() - k);
    const double mean_before = before / left, mean_after = (total - before) / right;
    const double gain = (mean_after - mean_before) * (mean_after - mean_before) * left * right;
    if (mean_after > kClearChange * mean_before && gain > best_gain) {
      best_gain = gain;
      best = k;
    }
  }
  return best;
}

LongerComputing judge(const std::vector<Lead>& leads, size_t first, int64_t rank) {
  LongerComputing found;
  found.rank = rank;
  std::vector<double> compute, others, less, over_next;
  for (size_t i = first; i < leads.size(); ++i) {
    const Lead& lead = leads[i];
    ++found.steps;
    found.late_steps += lead.over_next_ns > 0 && lead.less_in_mpi_ns > 0 ? 1 : 0;
    compute.push_back(lead.compute_ns);
    others.push_back(lead.others_compute_ns);
    less.push_back(lead.less_in_mpi_ns);
    over_next.push_back(lead.over_next_ns);
  }
  if (found.steps == 0) return found;
  found.compute_ns = median_of(compute);
  found.others_compute_ns = median_of(others);
  found.less_in_mpi_ns = median_of(less);
  found.saving_ns = std::min(median_of(over_next), found.less_in_mpi_ns);
  if (first > 0) found.since_step = leads[first].step;
  return found;
}

}  // namespace

std::optional<LongerComputing> find_longer_computing(const FindingInput& input) {
  if (!input.steps.annotated) return std::nullopt;
  const std::vector<Step> steps = read_steps(input);
  const auto holds = [&](const LongerComputing& found) {
    return found.steps >= kMinSteps && static_cast<double>(found.late_steps) >= kLateSteps * static_cast<double>(found.steps) &&
           found.saving_ns >= kMinLead * static_cast<double>(input.step_ns);
  };
  std::map<int64_t, double> total_ns;  // of the lead over the next, by rank: who computes longest in most of the time
  for (const Step& step : steps) {
    const auto longest =
        std::max_element(step.ranks.begin(), step.ranks.end(), [](const Share& a, const Share& b) { return a.compute_ns < b.compute_ns; });
    double next_ns = 0;
    for (const Share& share : step.ranks) {
      if (share.rank != longest->rank) next_ns = std::max(next_ns, share.compute_ns);
    }
    total_ns[longest->rank] += longest->compute_ns - next_ns;
  }
  if (total_ns.empty()) return std::nullopt;
  const int64_t suspect =
      std::max_element(total_ns.begin(), total_ns.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  const std::vector<Lead> leads = leads_of(steps, suspect);
  for (const size_t first : {find_change(leads), size_t{0}}) {
    const LongerComputing found = judge(leads, first, suspect);
    if (holds(found)) return found;
  }
  return std::nullopt;
}

}  // namespace ddl
