#include "analyzer/models/scaling_projection.h"

#include <algorithm>
#include <cmath>

namespace ddl::models {
namespace {

constexpr double kTwoSided95 = 1.96;

double modelled_s(const RecordedScale& run, int64_t ranks, const Link& link) {
  double total_s = 0;
  for (const Sample& sample : run.samples) {
    const int64_t members = sample.ranks == run.ranks ? ranks : sample.ranks;
    total_s += sample.instances * collective_work(sample.collective, kProjectedAlgorithm, members, sample.bytes).seconds(link);
  }
  return total_s;
}

double growth(const RecordedScale& run, int64_t ranks, const Link& link) {
  const double now_s = modelled_s(run, run.ranks, link);
  return now_s > 0 ? modelled_s(run, ranks, link) / now_s : 1;
}

}  // namespace

Projection project_run(const RecordedScale& run, int64_t ranks, bool strong) {
  const double growth_now = growth(run, ranks, run.fit.link);
  Link slower = run.fit.link;
  slower.alpha_s += run.fit.alpha_error_s;
  const double by_alpha = growth(run, ranks, slower) - growth_now;
  slower = run.fit.link;
  slower.beta_s_per_byte += run.fit.beta_error_s_per_byte;
  const double by_beta = growth(run, ranks, slower) - growth_now;
  const double off = kTwoSided95 * std::hypot(by_alpha, by_beta);

  const StepParts& p = run.parts;
  const double local = strong ? static_cast<double>(run.ranks) / static_cast<double>(ranks) : 1;
  const auto kept = [&](double factor) {  // of the run's own efficiency
    const double step_s = local * (p.compute_s + p.copy_s + p.idle_s) + p.wait_s + p.transfer_s * factor;
    return local * p.step_s / step_s;
  };
  return {static_cast<double>(ranks),
          {run.efficiency.value * kept(growth_now), run.efficiency.lo * kept(growth_now + off),
           run.efficiency.hi * kept(std::max(0.0, growth_now - off))}};
}

}  // namespace ddl::models
