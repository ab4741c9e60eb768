#include "analyzer/findings/longer_computing.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/change_points.h"
#include "analyzer/findings/late_ranks.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinLead = 0.04;   // of the step
constexpr double kLateSteps = 0.8;  // of the steps in question
constexpr size_t kComputingMinSteps = 8;
constexpr double kClearLengthening = 4;  // lead after the change against before it
constexpr double kAboveChance = 0.9973;  // confidence that the mean lead is above 0 since a step that was chosen

/// A suspect in one step: of several ranks the one that computed least and the one that was longest inside MPI.
struct LateShare {
  int64_t suspect;                // rank, host, stage or kSeveral
  double compute_ns, exposed_ns;  // loading data is not computing
};

constexpr int64_t kSeveral = -1;
constexpr size_t kPartsOfRun = 20;  // of a run without steps

struct StepOfRanks {
  int64_t number = 0;
  std::vector<LateShare> shares;  // by rank
};

/// Host or stage of each rank, else its own number. Empty: they are not of two stages.
std::map<int64_t, int64_t> suspects_of(const FindingInput& input, Suspects suspects) {
  std::map<int64_t, int64_t> of_rank;
  for (const auto& [id, process] : input.catalog.processes)
    if (process.world == input.world && process.rank >= 0)
      of_rank[process.rank] = suspects == Suspects::kHosts ? process.host : process.rank;
  if (suspects != Suspects::kStages) return of_rank;
  std::map<int64_t, int64_t> stages = stages_of(input);
  const bool are_two = std::ranges::all_of(stages, [](const auto& rank) { return rank.second < 2; });
  const bool are_all = std::ranges::all_of(of_rank, [&](const auto& rank) { return stages.contains(rank.first); });
  return are_two && are_all ? stages : std::map<int64_t, int64_t>();
}

std::vector<StepOfRanks> read_steps(const FindingInput& input, const std::map<int64_t, int64_t>& suspect_of) {
  std::vector<StepOfRanks> steps;
  Query rows(
      input.db,
      "SELECT step, rank, min(compute_ns, duration_ns - exposed_ns - coalesce(input_ns, 0)), exposed_ns FROM steady_part WHERE world = ?"
      " ORDER BY step, rank");
  rows.bind(input.world);
  while (rows.next()) {
    if (steps.empty() || steps.back().number != rows.integer(0)) steps.push_back({rows.integer(0), {}});
    if (const auto suspect = suspect_of.find(rows.integer(1)); suspect != suspect_of.end())
      steps.back().shares.push_back({suspect->second, rows.real(2), rows.real(3)});
  }
  return steps;
}

/// One suspect against the others in one step.
struct Lead {
  int64_t step = 0;
  double compute_ns = 0, others_compute_ns = 0, less_in_mpi_ns = 0, over_next_ns = 0;
  double evident_ns() const { return std::max(0.0, std::min(compute_ns - others_compute_ns, less_in_mpi_ns)); }
};

std::optional<Lead> lead_of(const StepOfRanks& step, int64_t suspect) {
  std::vector<double> compute, exposed;
  Lead lead;
  lead.step = step.number;
  double own_exposed_ns = 0, next_ns = 0;
  bool seen = false;
  for (const LateShare& share : step.shares) {
    if (share.suspect == suspect) {
      lead.compute_ns = seen ? std::min(lead.compute_ns, share.compute_ns) : share.compute_ns;
      own_exposed_ns = std::max(own_exposed_ns, share.exposed_ns);
      seen = true;
      continue;
    }
    compute.push_back(share.compute_ns);
    exposed.push_back(share.exposed_ns);
    next_ns = std::max(next_ns, share.compute_ns);
  }
  if (!seen || compute.empty()) return std::nullopt;
  lead.others_compute_ns = median_of(compute);
  lead.less_in_mpi_ns = median_of(exposed) - own_exposed_ns;
  lead.over_next_ns = lead.compute_ns - next_ns;
  return lead;
}

std::vector<Lead> leads_of(const std::vector<StepOfRanks>& steps, int64_t suspect) {
  std::vector<Lead> leads;
  for (const StepOfRanks& step : steps) {
    if (const std::optional<Lead> lead = lead_of(step, suspect)) leads.push_back(*lead);
  }
  return leads;
}

/// First step from which the lead is clearly higher; 0 if there is no such change.
size_t find_change(const std::vector<Lead>& leads) {
  std::vector<double> evident_ns;
  for (const Lead& lead : leads) evident_ns.push_back(lead.evident_ns());
  return rise_at(evident_ns, kComputingMinSteps, kClearLengthening);
}

/// Whether the mean lead from a step on, that was chosen for it, may be one of noise.
bool is_lead_by_chance(const std::vector<Lead>& leads, size_t first) {
  const auto n = static_cast<double>(leads.size() - first);
  double sum = 0, squares = 0;
  for (size_t i = first; i < leads.size(); ++i) sum += leads[i].over_next_ns;
  for (size_t i = first; i < leads.size(); ++i)
    squares += (leads[i].over_next_ns - sum / n) * (leads[i].over_next_ns - sum / n);
  return n < 2 || sum / n <= student_t(n - 1, kAboveChance) * std::sqrt(squares / (n - 1) / n);
}

LongerComputing judge(const std::vector<Lead>& leads, size_t first) {
  LongerComputing found;
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

/// Those that compute longest take the place of one suspect. False: nobody stands apart.
bool join_those_apart(std::vector<StepOfRanks>& steps, size_t all_ranks,
                      std::map<int64_t, std::vector<int64_t>>& ranks) {
  std::map<int64_t, double> compute_ns;
  for (const StepOfRanks& step : steps)
    for (const LateShare& share : step.shares) compute_ns[share.suspect] += share.compute_ns;
  const std::vector<int64_t> apart = stand_apart(compute_ns, all_ranks);
  if (apart.empty()) return false;
  for (StepOfRanks& step : steps)
    for (LateShare& share : step.shares)
      if (std::binary_search(apart.begin(), apart.end(), share.suspect)) share.suspect = kSeveral;
  ranks[kSeveral] = apart;
  return true;
}

/// Computing of a rank in each part of its run; a part is as many of its calls as any other. Empty: it made too few.
std::vector<double> computing_in_parts(Query& calls, const Catalog& catalog, const ProcessInfo& process) {
  std::vector<double> gaps_ns;
  int64_t left_ns = *process.run_begin_ns;
  for (calls.bind(process.id, left_ns); calls.next();) {
    if (catalog.operation(calls.integer(2)).op_class == OpClass::kLifecycle) continue;
    gaps_ns.push_back(static_cast<double>(std::max<int64_t>(0, calls.integer(0) - left_ns)));
    left_ns = std::max(left_ns, calls.integer(1));
  }
  if (gaps_ns.size() < kPartsOfRun) return {};
  std::vector<double> parts(kPartsOfRun);
  for (size_t i = 0; i < gaps_ns.size(); ++i) parts[i * kPartsOfRun / gaps_ns.size()] += gaps_ns[i];
  return parts;
}

/// By how much `rank` computes longer in each part of its run than any other rank in that part of theirs. Empty:
/// that is not known.
std::vector<double> leads_in_parts(const FindingInput& input, int64_t rank) {
  Query calls(
      input.db,
      "SELECT start_ns, start_ns + duration_ns, op FROM event WHERE process = ? AND kind = 1 AND thread = 0 AND start_ns >= ?"
      " ORDER BY start_ns");
  std::vector<double> own, most(kPartsOfRun);
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0 || !process.run_begin_ns) continue;
    if (process.thinned || process.blind) return {};
    std::vector<double> parts = computing_in_parts(calls, input.catalog, process);
    if (process.rank == rank)
      own = std::move(parts);
    else
      for (size_t i = 0; i < parts.size(); ++i) most[i] = std::max(most[i], parts[i]);
  }
  for (size_t i = 0; i < own.size(); ++i) own[i] -= most[i];
  return own;
}

}  // namespace

std::optional<LongerComputing> find_longer_in_run(const FindingInput& input) {
  if (input.steps.annotated) return std::nullopt;
  StepOfRanks run;
  Query rows(input.db,
             "SELECT rank, compute_ns, exposed_ns FROM steady_part WHERE world = ? ORDER BY compute_ns DESC, rank");
  for (rows.bind(input.world); rows.next();) run.shares.push_back({rows.integer(0), rows.real(1), rows.real(2)});
  if (run.shares.size() < 2) return std::nullopt;
  LongerComputing found;
  found.ranks = {run.shares.front().suspect};
  const std::optional<Lead> lead = lead_of(run, found.ranks.front());
  found.compute_ns = lead->compute_ns;
  found.others_compute_ns = lead->others_compute_ns;
  found.less_in_mpi_ns = lead->less_in_mpi_ns;
  found.saving_ns = std::min(lead->over_next_ns, lead->less_in_mpi_ns);
  const double least_ns = kMinLead * static_cast<double>(input.step_ns);
  if (found.saving_ns < least_ns) return std::nullopt;
  std::vector<double> leads_ns = leads_in_parts(input, found.ranks.front());
  if (leads_ns.empty()) return std::nullopt;
  found.steps = kPartsOfRun;
  found.late_steps =
      static_cast<size_t>(std::count_if(leads_ns.begin(), leads_ns.end(), [](double ns) { return ns > 0; }));
  // What a few parts make up, while it is ahead by a trifle in the others, is no way to compute.
  found.saving_ns = std::min(found.saving_ns, kPartsOfRun * median_of(leads_ns));
  const bool holds = static_cast<double>(found.late_steps) >= kLateSteps * static_cast<double>(found.steps) &&
                     found.saving_ns >= least_ns;
  return holds ? std::optional(found) : std::nullopt;
}

std::optional<LongerComputing> find_longer_computing(const FindingInput& input, Suspects suspects) {
  if (!input.steps.annotated) return std::nullopt;
  const std::map<int64_t, int64_t> suspect_of = suspects_of(input, suspects);
  std::map<int64_t, std::vector<int64_t>> ranks;  // by suspect
  for (const auto& [rank, suspect] : suspect_of) ranks[suspect].push_back(rank);
  if (ranks.size() < 2) return std::nullopt;
  std::vector<StepOfRanks> steps = read_steps(input, suspect_of);
  if (suspects == Suspects::kTogether && !join_those_apart(steps, world_size(input), ranks)) return std::nullopt;
  std::map<int64_t, double> total_ns;  // of the lead over the next, by who is ahead of all others
  for (const StepOfRanks& step : steps) {
    const auto longest =
        std::max_element(step.shares.begin(), step.shares.end(),
                         [](const LateShare& a, const LateShare& b) { return a.compute_ns < b.compute_ns; });
    if (longest == step.shares.end() || (suspects != Suspects::kRanks && ranks[longest->suspect].size() < 2)) continue;
    if (const std::optional<Lead> lead = lead_of(step, longest->suspect))
      total_ns[longest->suspect] += std::max(0.0, lead->over_next_ns);
  }
  if (total_ns.empty()) return std::nullopt;
  const int64_t suspect = std::max_element(total_ns.begin(), total_ns.end(), [](const auto& a, const auto& b) {
                            return a.second < b.second;
                          })->first;
  const std::vector<Lead> leads = leads_of(steps, suspect);
  for (const size_t first : {find_change(leads), size_t{0}}) {
    if (first > 0 && is_lead_by_chance(leads, first)) continue;
    LongerComputing found = judge(leads, first);
    if (found.steps < kComputingMinSteps ||
        static_cast<double>(found.late_steps) < kLateSteps * static_cast<double>(found.steps) ||
        found.saving_ns < kMinLead * static_cast<double>(input.step_ns))
      continue;
    found.ranks = ranks[suspect];
    found.is_stage = suspects == Suspects::kStages;
    return found;
  }
  return std::nullopt;
}

}  // namespace ddl
