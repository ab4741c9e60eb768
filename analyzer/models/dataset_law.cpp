#include "analyzer/models/dataset_law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"

namespace ddl::models {
namespace {

constexpr size_t kMinSizes = 4;
constexpr double kSteepest = -2, kFlattest = -0.001;
constexpr int kGrid = 400, kRefinements = 60;

struct Line {
  double slope = 0, offset = 0, squares = 0;
};

/// error = a x + c with x = (samples / unit)^b, by least squares; c not below 0.
Line line_for(const std::vector<DataPoint>& points, double unit, double b) {
  double mean_x = 0, mean_e = 0;
  std::vector<double> x;
  for (const DataPoint& point : points) {
    x.push_back(std::pow(point.samples / unit, b));
    mean_x += x.back() / static_cast<double>(points.size());
    mean_e += point.error / static_cast<double>(points.size());
  }
  double both = 0, square = 0, through_origin = 0, origin_square = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    both += (x[i] - mean_x) * (points[i].error - mean_e);
    square += (x[i] - mean_x) * (x[i] - mean_x);
    through_origin += x[i] * points[i].error;
    origin_square += x[i] * x[i];
  }
  Line line;
  line.slope = both / square;
  line.offset = mean_e - line.slope * mean_x;
  if (line.offset < 0) line.offset = 0, line.slope = through_origin / origin_square;
  for (size_t i = 0; i < points.size(); ++i) {
    const double off = points[i].error - line.slope * x[i] - line.offset;
    line.squares += off * off;
  }
  return line;
}

}  // namespace

double DatasetLaw::error(double samples) const { return a * std::pow(samples, b) + c; }

double DatasetLaw::samples(double wanted) const {
  if (!(wanted > c))
    throw Error(fmt::format("no data set is large enough for an error of {:g}: the fit levels off at {:g}", wanted, c),
                "a better network or cleaner data lower that floor", ExitCode::kDataMissing);
  return std::pow((wanted - c) / a, 1 / b);
}

DatasetLaw fit_dataset_law(const std::vector<DataPoint>& points) {
  std::set<double> sizes;
  double mean_log = 0;
  for (const DataPoint& point : points) {
    if (!(point.samples > 0) || !(point.error >= 0))
      throw Error("sample counts must be above 0, and errors 0 or more", "correct the rows", ExitCode::kUsage);
    sizes.insert(point.samples);
    mean_log += std::log(point.samples) / static_cast<double>(points.size());
  }
  if (sizes.size() < kMinSizes)
    throw Error(fmt::format("no fit of errors: {} distinct sizes of data sets, {} are needed", sizes.size(), kMinSizes),
                "train on parts of the data", ExitCode::kDataMissing);
  const double unit = std::exp(mean_log);
  const auto squares = [&](double b) { return line_for(points, unit, b).squares; };
  int best = 0;
  const auto grid = [&](int i) { return kSteepest + (kFlattest - kSteepest) * i / kGrid; };
  for (int i = 1; i <= kGrid; ++i)
    if (squares(grid(i)) < squares(grid(best))) best = i;
  double lo = grid(std::max(0, best - 1)), hi = grid(std::min(kGrid, best + 1));
  for (int i = 0; i < kRefinements; ++i) {
    const double left = lo + (hi - lo) / 3, right = hi - (hi - lo) / 3;
    (squares(left) < squares(right) ? hi : lo) = squares(left) < squares(right) ? right : left;
  }
  DatasetLaw law;
  law.b = (lo + hi) / 2;
  const Line line = line_for(points, unit, law.b);
  law.a = line.slope * std::pow(unit, -law.b);
  law.c = line.offset;
  law.largest_samples = *sizes.rbegin();
  if (!(line.slope > 0))
    throw Error("no fit of errors: they do not fall as the data grow",
                "check the rows, or leave out the sizes where the error no longer falls", ExitCode::kDataMissing);
  double mean = 0, total = 0;
  for (const DataPoint& point : points) mean += point.error / static_cast<double>(points.size());
  for (const DataPoint& point : points) {
    total += (point.error - mean) * (point.error - mean);
    law.worst_residual = std::max(law.worst_residual, std::abs(law.error(point.samples) - point.error));
  }
  law.r2 = total > 0 ? 1 - line.squares / total : 0;
  return law;
}

}  // namespace ddl::models
