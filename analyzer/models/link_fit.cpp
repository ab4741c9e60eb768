#include "analyzer/models/link_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr size_t kAlpha = 0, kBeta = 1, kGamma = 2, kUnknowns = 3;
using Row = std::array<double, kUnknowns>;

struct Equation {
  Row x;
  double seconds;
  double weight;
};

/// Least squares over the unknowns that are `on`. Columns are scaled to length one: alpha and beta are nine orders
/// of magnitude apart.
struct Solution {
  Row value{};
  Row error{};
};

Solution solve(const std::vector<Equation>& equations, const std::array<bool, kUnknowns>& on) {
  std::vector<size_t> columns;
  for (size_t c = 0; c < kUnknowns; ++c)
    if (on[c]) columns.push_back(c);
  const size_t k = columns.size();
  Row scale{};
  for (const Equation& e : equations)
    for (const size_t c : columns) scale[c] += e.weight * e.x[c] * e.x[c];
  for (double& s : scale) s = s > 0 ? std::sqrt(s) : 1;

  // Normal equations [A | b | identity], eliminated by Gauss and Jordan; what remains of the identity is the covariance.
  std::array<std::array<double, 2 * kUnknowns + 1>, kUnknowns> a{};
  for (size_t i = 0; i < k; ++i) {
    for (const Equation& e : equations) {
      const double xi = e.x[columns[i]] / scale[columns[i]];
      for (size_t j = 0; j < k; ++j) a[i][j] += e.weight * xi * e.x[columns[j]] / scale[columns[j]];
      a[i][k] += e.weight * xi * e.seconds;
    }
    a[i][k + 1 + i] = 1;
  }
  for (size_t i = 0; i < k; ++i) {
    size_t pivot = i;
    for (size_t j = i + 1; j < k; ++j)
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    std::swap(a[i], a[pivot]);
    if (std::abs(a[i][i]) < 1e-12) {
      throw Error("the sizes cannot tell latency from bandwidth", "record sizes that are further apart",
                  ExitCode::kDataMissing);
    }
    const double diagonal = a[i][i];
    for (double& value : a[i]) value /= diagonal;
    for (size_t j = 0; j < k; ++j) {
      const double factor = a[j][i];
      for (size_t c = 0; j != i && c < a[j].size(); ++c) a[j][c] -= factor * a[i][c];
    }
  }
  Solution solution;
  for (size_t i = 0; i < k; ++i) solution.value[columns[i]] = a[i][k] / scale[columns[i]];
  double residual = 0;
  for (const Equation& e : equations) {
    double predicted = 0;
    for (const size_t c : columns) predicted += solution.value[c] * e.x[c];
    residual += e.weight * (e.seconds - predicted) * (e.seconds - predicted);
  }
  const double variance = equations.size() > k ? residual / static_cast<double>(equations.size() - k) : 0;
  for (size_t i = 0; i < k; ++i)
    solution.error[columns[i]] = std::sqrt(std::max(0.0, variance * a[i][k + 1 + i])) / scale[columns[i]];
  return solution;
}

[[noreturn]] void refuse(const std::string& why, const std::string& hint) {
  throw Error("no alpha-beta fit: " + why, hint, ExitCode::kDataMissing);
}

struct Fitted {
  LinkFit fit;
  double residual = 0;  ///< weighted sum of squares
  size_t equations = 0, unknowns = 0;
};

/// The law of all samples, which ascend in bytes. Throws as fit_links() where they do not grow, but for R2.
Fitted fitted(std::span<const Sample> samples, Algorithm algorithm, std::optional<double> gamma_s_per_byte) {
  std::vector<Equation> equations;
  double least_ratio = INFINITY, most_ratio = 0;  // bytes reduced per byte moved
  Fitted result;
  LinkFit& fit = result.fit;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    const Work work = collective_work(s.collective, algorithm, s.ranks, s.bytes);
    const double known_s = gamma_s_per_byte.value_or(0) * work.reduced_bytes;
    equations.push_back({{work.messages, work.moved_bytes, work.reduced_bytes},
                         s.transfer_s - known_s,
                         s.instances / (s.transfer_s * s.transfer_s)});
    fit.sizes += i == 0 || s.bytes != samples[i - 1].bytes;
    least_ratio = std::min(least_ratio, work.reduced_bytes / work.moved_bytes);
    most_ratio = std::max(most_ratio, work.reduced_bytes / work.moved_bytes);
  }
  fit.from_bytes = samples.front().bytes;
  fit.to_bytes = samples.back().bytes;
  fit.gamma_in_beta = !gamma_s_per_byte && most_ratio - least_ratio < 0.05;
  std::array<bool, kUnknowns> on = {true, true, !gamma_s_per_byte && !fit.gamma_in_beta};
  Solution solution = solve(equations, on);
  if (on[kGamma] && solution.value[kGamma] < 0) {  // reducing is too fast to be seen
    on[kGamma] = false;
    solution = solve(equations, on);
  }
  if (solution.value[kAlpha] < 0) {
    fit.alpha_is_zero = true;
    on[kAlpha] = false;
    solution = solve(equations, on);
  }
  if (solution.value[kBeta] <= 0)
    refuse("the transfer times do not grow with the size", "are the messages too small to show a bandwidth?");
  fit.link = {solution.value[kAlpha], solution.value[kBeta], gamma_s_per_byte.value_or(solution.value[kGamma])};
  fit.alpha_error_s = solution.error[kAlpha];
  fit.beta_error_s_per_byte = solution.error[kBeta];

  double weights = 0, mean = 0;
  for (const Equation& e : equations) weights += e.weight, mean += e.weight * e.seconds;
  mean /= weights;
  double total = 0;
  for (const Equation& e : equations) {
    const double predicted =
        e.x[kAlpha] * fit.link.alpha_s + e.x[kBeta] * fit.link.beta_s_per_byte + e.x[kGamma] * solution.value[kGamma];
    result.residual += e.weight * (e.seconds - predicted) * (e.seconds - predicted);
    total += e.weight * (e.seconds - mean) * (e.seconds - mean);
    fit.worst_residual = std::max(fit.worst_residual, std::abs(predicted / e.seconds - 1));
  }
  fit.r2 = total > 0 ? 1 - result.residual / total : 0;
  result.equations = equations.size();
  result.unknowns = static_cast<size_t>(std::count(on.begin(), on.end(), true));
  return result;
}

/// A flat law has hardly any variance that R2 could explain.
bool is_followed(const LinkFit& fit) { return fit.r2 >= kFitMinR2 || fit.worst_residual <= kFitWorstResidual; }

/// The best cut into small and large, if it is one. `begins`: where another size begins. `one`: the law for all of
/// them, if there is one.
std::optional<std::vector<LinkFit>> two_protocols(std::span<const Sample> samples, const std::vector<size_t>& begins,
                                                  const std::optional<Fitted>& one, Algorithm algorithm,
                                                  std::optional<double> gamma_s_per_byte) {
  constexpr double kByChance = 0.001;
  std::optional<std::pair<Fitted, Fitted>> best;
  for (size_t cut = kFitMinSizes; cut + kFitMinSizes <= begins.size(); ++cut) {
    try {
      const Fitted small = fitted(samples.first(begins[cut]), algorithm, gamma_s_per_byte);
      const Fitted large = fitted(samples.subspan(begins[cut]), algorithm, gamma_s_per_byte);
      if (!is_followed(small.fit) || !is_followed(large.fit)) continue;
      if (!best || small.residual + large.residual < best->first.residual + best->second.residual)
        best = {small, large};
    } catch (const Error&) {  // no law on one side of this cut
    }
  }
  if (!best) return std::nullopt;
  const auto& [small, large] = *best;
  if (one) {
    const double residual = small.residual + large.residual;
    const size_t unknowns = small.unknowns + large.unknowns + 1;  // the cut
    if (one->equations <= unknowns) return std::nullopt;
    const auto extra = static_cast<double>(unknowns - one->unknowns),
               free = static_cast<double>(one->equations - unknowns);
    const double f = (one->residual - residual) / extra / std::max(residual / free, 1e-300);
    if (!(f > fisher_f(extra, free, kByChance))) return std::nullopt;
  }
  return std::vector<LinkFit>{small.fit, large.fit};
}

}  // namespace

std::optional<Collective> collective_of(std::string_view op) {
  std::string name;
  for (const char c : op.substr(op.starts_with("MPI_I")    ? 5
                                : op.starts_with("MPI_")   ? 4
                                : op.starts_with("nccl")   ? 4
                                : op.starts_with("gloo::") ? 6
                                                           : 0))
    if (c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name == "allreduce") return Collective::kAllreduce;
  if (name == "reducescatter" || name == "reducescatterblock") return Collective::kReduceScatter;
  if (name == "allgather" || name == "allgatherv") return Collective::kAllgather;
  if (name == "bcast" || name == "broadcast") return Collective::kBroadcast;
  if (name == "reduce") return Collective::kReduce;
  return std::nullopt;
}

Work collective_work(Collective collective, Algorithm algorithm, int64_t ranks, double bytes) {
  const Work ring = allreduce_work(Algorithm::kRing, ranks, bytes);
  const Work tree = allreduce_work(Algorithm::kTree, ranks, bytes);
  switch (collective) {
    case Collective::kAllreduce:
      return allreduce_work(algorithm, ranks, bytes);
    case Collective::kReduceScatter:  // the first half of a ring allreduce
      return {ring.messages / 2, ring.moved_bytes / 2, ring.reduced_bytes};
    case Collective::kAllgather:  // and the second
      return {ring.messages / 2, ring.moved_bytes / 2, 0};
    case Collective::kReduce:
      return {tree.messages / 2, tree.moved_bytes / 2, tree.reduced_bytes};
    case Collective::kBroadcast:
      return {tree.messages / 2, tree.moved_bytes / 2, 0};
  }
  return {};
}

std::vector<LinkFit> fit_links(const std::vector<Sample>& given, Algorithm algorithm,
                               std::optional<double> gamma_s_per_byte) {
  std::vector<Sample> samples;
  for (const Sample& s : given)
    if (s.ranks >= 2 && s.bytes > 0 && s.transfer_s > 0) samples.push_back(s);
  std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.bytes < b.bytes; });
  std::vector<size_t> begins;  // where another size begins
  for (size_t i = 0; i < samples.size(); ++i)
    if (i == 0 || samples[i].bytes != samples[i - 1].bytes) begins.push_back(i);
  if (begins.size() < kFitMinSizes) {
    refuse(fmt::format("{} distinct sizes with a transfer time, {} are needed", begins.size(), kFitMinSizes),
           "record a run with more sizes, or give --alpha-us and --bandwidth");
  }
  const std::span<const Sample> all(samples);
  // Times of the whole that do not grow with bytes may still be two laws, of which one is flat.
  std::optional<Fitted> one;
  std::optional<Error> why_not;
  try {
    one = fitted(all, algorithm, gamma_s_per_byte);
  } catch (const Error& error) {
    why_not = error;
  }
  if (!one || one->fit.worst_residual > kFitWorstResidual) {
    if (auto two = two_protocols(all, begins, one, algorithm, gamma_s_per_byte)) return *two;
  }
  if (!one) throw *why_not;
  if (!(one->fit.r2 >= kFitMinR2)) {
    refuse(fmt::format("R2 is {:.2f}, below {}: the transfer times do not follow latency + bytes / bandwidth",
                       one->fit.r2, kFitMinR2),
           "several algorithms or links may be mixed; look at: ddl report RUN collectives");
  }
  return {one->fit};
}

LinkFit fit_link(const std::vector<Sample>& samples, Algorithm algorithm, std::optional<double> gamma_s_per_byte) {
  return fit_links(samples, algorithm, gamma_s_per_byte).back();
}

}  // namespace ddl::models
