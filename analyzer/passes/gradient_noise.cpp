#include "analyzer/passes/gradient_noise.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int kResamples = 1000;
constexpr size_t kMostSteps = 1000;  // what lies further back weighs less than 1e-4

struct Term {
  double square, trace, weight;
};

double ratio(double trace, double square) { return square > 0 && trace > 0 ? trace / square : std::nan(""); }

}  // namespace

std::optional<GradientNoise> gradient_noise(const std::vector<NoiseSample>& samples) {
  std::vector<Term> terms;
  double weight = 1;
  for (auto sample = samples.rbegin(); sample != samples.rend() && terms.size() < kMostSteps; ++sample) {
    const auto& [own, reduced, b, all] = *sample;
    if (!std::isfinite(own) || !std::isfinite(reduced) || !(b > 0) || !(all > b)) continue;
    terms.push_back({(all * reduced - b * own) / (all - b), (own - reduced) / (1 / b - 1 / all), weight});
    weight *= kNoiseMemory;
  }
  if (terms.size() < kMinNoiseSteps) return std::nullopt;
  GradientNoise noise;
  double weights = 0;
  for (const Term& t : terms)
    noise.square += t.weight * t.square, noise.trace += t.weight * t.trace, weights += t.weight;
  noise.square /= weights;
  noise.trace /= weights;
  const double scale = ratio(noise.trace, noise.square);
  if (std::isnan(scale)) return noise;
  noise.scale = scale;

  std::mt19937_64 random(20260101);
  std::vector<double> scales;
  for (int i = 0; i < kResamples; ++i) {
    double square = 0, trace = 0;
    for (size_t k = 0; k < terms.size(); ++k) {
      const Term& t = terms[random() % terms.size()];
      square += t.weight * t.square, trace += t.weight * t.trace;
    }
    // Where the noise drowns the gradient the scale has no upper end.
    scales.push_back(square > 0 ? std::max(0.0, trace) / square : INFINITY);
  }
  std::sort(scales.begin(), scales.end());
  const Range interval{percentile_of(scales, 0.025), percentile_of(scales, 0.975)};
  if (interval.lo > 0 && std::isfinite(interval.hi)) noise.interval = interval;
  return noise;
}

void analyze_gradient_noise(SQLite::Database& db) {
  Query insert(
      db,
      "INSERT INTO noise (world, square, trace, scale, lo, hi, own_samples, all_samples, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Query worlds(
      db, "SELECT world, count(DISTINCT rank), max(world_size) FROM process WHERE rank IS NOT NULL GROUP BY world");
  Query rows(
      db,
      "SELECT v.step, count(DISTINCT v.process), sum(v.own * v.own) / count(v.own), sum(v.reduced * v.reduced) / count(v.reduced),"
      " count(*) / sum(1.0 / nullif(v.samples, 0)), sum(v.samples), count(v.own), count(v.samples)"
      " FROM (SELECT v.process, v.step, max(iif(v.name = 'local_gradient_norm', v.value, NULL)) AS own,"
      "   max(iif(v.name = 'gradient_norm', v.value, NULL)) AS reduced, sum(iif(v.name = 'samples', v.value, NULL)) AS samples"
      "   FROM value v JOIN process p ON p.id = v.process JOIN steady_step s ON s.world = p.world AND s.step = v.step AND"
      "   s.annotated WHERE p.world = ?1 AND v.name IN ('local_gradient_norm', 'gradient_norm', 'samples') GROUP BY v.process, v.step) v"
      " WHERE v.own IS NOT NULL OR v.reduced IS NOT NULL GROUP BY v.step ORDER BY v.step");
  while (worlds.next()) {
    const int64_t world = worlds.integer(0), ranks = worlds.integer(1);
    std::vector<NoiseSample> samples;
    std::string why = "NO_DATA";
    rows.bind(world);
    while (rows.next()) {
      if (rows.integer(6) < ranks || rows.integer(7) < ranks || ranks < worlds.integer(2)) {
        why = "PARTIAL_RANKS";
        continue;
      }
      samples.push_back({rows.real(2), rows.real(3), rows.real(4), rows.real(5)});
    }
    const std::optional<GradientNoise> noise = gradient_noise(samples);
    if (ranks < 2 && !samples.empty()) why = "NOT_APPLICABLE";  // one rank's gradient is that of all
    if (!noise) {
      insert.run(world, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, why);
      continue;
    }
    const Range interval = noise->interval.value_or(Range{NAN, NAN});  // SQLite stores NaN as NULL
    insert.run(world, noise->square, noise->trace, noise->scale.value_or(NAN), interval.lo, interval.hi,
               samples.back().own_samples, samples.back().all_samples, noise->scale ? nullptr : "ZERO_DENOM");
  }
}

}  // namespace ddl
