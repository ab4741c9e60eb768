// alpha, beta and gamma of a link from measured collectives: weighted least squares of transfer times on what each
// algorithm pays for (specification.md "Cost of allreduces"). Raw durations would put the waiting for late ranks into
// alpha; a fit of few or of scattered points is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/models/allreduce_cost.h"

namespace ddl::models {

enum class Collective { kAllreduce, kReduceScatter, kAllgather, kBroadcast, kReduce };
/// From "MPI_Allreduce", "ncclAllReduce", "MPI_Reduce_scatter_block", ... ; nothing for operations without a model.
std::optional<Collective> collective_of(std::string_view op);

/// Allreduce by `algorithm`; reduce-scatter and allgather by ring; broadcast and reduce by binomial tree. `bytes`: of
/// the whole operation, as nccl-tests count them.
Work collective_work(Collective collective, Algorithm algorithm, int64_t ranks, double bytes);

struct Sample {
  Collective collective = Collective::kAllreduce;
  int64_t ranks = 2;
  double bytes = 0;
  double transfer_s = 0;  ///< median over its instances
  double instances = 1;   ///< its weight; times count relatively: 10 % off is as bad at 10 us as at 10 s
};

struct LinkFit {
  Link link;
  double alpha_error_s = 0;  ///< standard errors
  double beta_error_s_per_byte = 0;
  bool alpha_is_zero = false;  ///< the best alpha would be negative: latency is below what the data show
  /// all samples reduce as many bytes per byte moved: gamma cannot be told from beta
  bool gamma_in_beta = false;
  double r2 = 0;                        ///< weighted
  double worst_residual = 0;            ///< largest |predicted / measured - 1|
  size_t sizes = 0;                     ///< distinct ones
  double from_bytes = 0, to_bytes = 0;  ///< the smallest and the largest of them: where it holds
};

constexpr size_t kFitMinSizes = 4;
constexpr double kFitMinR2 = 0.8;

/// `gamma_s_per_byte`: known from elsewhere, not to be fitted. One fit, or two in ascending order of sizes where the
/// library switches protocol between small and large operations. Two are returned where one law misses a time by more
/// than kFitWorstResidual, both sides have kFitMinSizes sizes and a fit (R2 of kFitMinR2, or every time within
/// kFitWorstResidual), and the F test of the residuals rules out chance (1 in 1,000). Throws ddl::Error (kDataMissing),
/// saying why, if the samples cannot carry a fit: fewer than kFitMinSizes distinct sizes, times that do not grow with
/// bytes, or R2 of the one law below kFitMinR2.
std::vector<LinkFit> fit_links(const std::vector<Sample>& samples, Algorithm algorithm,
                               std::optional<double> gamma_s_per_byte = {});
constexpr double kFitWorstResidual = 0.1;

/// The one of fit_links() for large operations, which models of gradients are about. Throws as that.
LinkFit fit_link(const std::vector<Sample>& samples, Algorithm algorithm, std::optional<double> gamma_s_per_byte = {});

}  // namespace ddl::models
