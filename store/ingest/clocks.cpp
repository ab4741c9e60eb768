#include "store/ingest/clocks.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ddl::store {

namespace {

constexpr double kMaxTime = 4e18;                  // inside int64
constexpr double kMaxSpan = 0x1p57;                // four years: sums of dozens stay inside int64
constexpr double kMinRate = 1e-2, kMaxRate = 1e3;  // ns per tick: 100 GHz to 1 MHz
// pairs are read within microseconds; a scheduler's slice is a thousand times this
constexpr double kOutlierFloorNs = 20'000;
constexpr double kOutlierFactor = 8;

double difference(uint64_t a, uint64_t b) { return a >= b ? static_cast<double>(a - b) : -static_cast<double>(b - a); }

int64_t add(int64_t base, double offset) {
  return saturating_add(base, static_cast<int64_t>(std::llround(std::clamp(offset, -kMaxTime, kMaxTime))));
}

template <typename T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double distance_ns(const ClockLine& line, const TickPoint& p) {
  return static_cast<double>(p.monotonic_ns) - static_cast<double>(line.base_ns) -
         difference(p.ticks, line.base_ticks) * line.ns_per_tick;
}

/// Slope as the median over pairs half the points apart, position as the median of what remains.
bool robust_line(const std::vector<TickPoint>& sorted, ClockLine& line) {
  std::vector<double> slopes;
  const size_t half = sorted.size() / 2;
  for (size_t i = 0; i + half < sorted.size() && half > 0; ++i) {
    const TickPoint& a = sorted[i];
    const TickPoint& b = sorted[i + half];
    if (b.ticks > a.ticks && b.monotonic_ns > a.monotonic_ns) {
      slopes.push_back(static_cast<double>(saturating_subtract(b.monotonic_ns, a.monotonic_ns)) /
                       difference(b.ticks, a.ticks));
    }
  }
  if (slopes.empty()) return false;
  const double slope = median(slopes);
  if (slope < kMinRate || slope > kMaxRate) return false;
  line.ns_per_tick = slope;
  line.base_ticks = sorted[half].ticks;
  line.base_ns = sorted[half].monotonic_ns;
  std::vector<double> distances;
  for (const TickPoint& p : sorted) distances.push_back(distance_ns(line, p));
  line.base_ns = add(line.base_ns, median(distances));
  return true;
}

/// Least squares around the line's base.
void least_squares(const std::vector<TickPoint>& points, ClockLine& line) {
  const double n = static_cast<double>(points.size());
  double mean_x = 0, mean_y = 0;
  for (const TickPoint& p : points) {
    mean_x += difference(p.ticks, line.base_ticks) / n;
    mean_y += distance_ns(line, p) / n;  // against the line so far: keeps the digits
  }
  double sxx = 0, sxy = 0;
  for (const TickPoint& p : points) {
    const double x = difference(p.ticks, line.base_ticks) - mean_x;
    sxx += x * x;
    sxy += x * (distance_ns(line, p) - mean_y);
  }
  const double correction = sxx > 0 ? sxy / sxx : 0;
  line.base_ns = add(line.base_ns, mean_y - correction * mean_x);
  line.ns_per_tick += correction;
}

}  // namespace

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? INT64_MAX : INT64_MIN;
  return sum;
}

int64_t saturating_subtract(int64_t a, int64_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a, b, &difference)) return a > b ? INT64_MAX : INT64_MIN;
  return difference;
}

int64_t ProcessClock::duration_ns(uint64_t start_ticks, uint64_t duration_ticks) const {
  return duration_ns(time_ns(start_ticks), start_ticks, duration_ticks);
}

int64_t ProcessClock::duration_ns(int64_t start_ns, uint64_t start_ticks, uint64_t duration_ticks) const {
  constexpr int64_t kLongest = static_cast<int64_t>(kMaxSpan);
  int64_t duration;
  if (__builtin_sub_overflow(time_ns(start_ticks + duration_ticks), start_ns, &duration)) return kLongest;
  return std::clamp(duration, int64_t{0}, kLongest);
}

int64_t ProcessClock::time_ns(uint64_t ticks) const {
  const auto bounded = [](int64_t ns) { return std::clamp(ns, -kFarthestNs, kFarthestNs); };
  if (pieces.empty()) return bounded(saturating_add(line.monotonic_ns(ticks), offset_ns));
  auto piece = pieces.begin();
  if (pieces.size() > 1) {
    piece =
        std::upper_bound(piece + 1, pieces.end(), ticks, [](uint64_t t, const Piece& p) { return t < p.from_ticks; }) -
        1;
  }
  return bounded(saturating_add(piece->line.monotonic_ns(ticks), offset_ns));
}

int64_t ProcessClock::span_ns(uint64_t ticks) const {
  return pieces.empty() ? line.span_ns(ticks)
                        : add(int64_t{0}, std::min(static_cast<double>(line.span_ns(ticks)) * pace, kMaxSpan));
}

int64_t ProcessClock::offset_at_zero_ns() const {
  if (pieces.empty()) return offset_ns;
  const ClockLine& axis = pieces.front().line;
  return saturating_subtract(0, line.monotonic_ns(axis.ticks_at(saturating_subtract(0, offset_ns))));
}

int64_t ClockLine::monotonic_ns(uint64_t ticks) const {
  return add(base_ns, difference(ticks, base_ticks) * ns_per_tick);
}
int64_t ClockLine::span_ns(uint64_t ticks) const {
  return add(int64_t{0}, std::min(static_cast<double>(ticks) * ns_per_tick, kMaxSpan));
}

uint64_t ClockLine::ticks_at(int64_t monotonic_ns) const {
  const double ticks = std::floor(static_cast<double>(saturating_subtract(monotonic_ns, base_ns)) / ns_per_tick);
  if (ticks < 0) return base_ticks - static_cast<uint64_t>(std::min(-ticks, static_cast<double>(base_ticks)));
  return base_ticks + static_cast<uint64_t>(std::min(ticks, static_cast<double>(UINT64_MAX - base_ticks) / 2));
}

ClockLine fit_line(std::vector<TickPoint> points) {
  std::sort(points.begin(), points.end(), [](const TickPoint& a, const TickPoint& b) { return a.ticks < b.ticks; });
  ClockLine line;
  if (!robust_line(points, line)) {
    line.rate_known = false;
    if (!points.empty()) {
      line.base_ticks = points.front().ticks;
      line.base_ns = points.front().monotonic_ns;
    }
    return line;
  }
  std::vector<double> distances;
  for (const TickPoint& p : points) distances.push_back(std::abs(distance_ns(line, p)));
  const double limit = std::max(kOutlierFloorNs, kOutlierFactor * median(distances));
  std::erase_if(points, [&](const TickPoint& p) { return std::abs(distance_ns(line, p)) > limit; });
  least_squares(points, line);
  if (points.size() >= 3) {
    line.residual_ns = 0;
    for (const TickPoint& p : points) line.residual_ns = std::max(*line.residual_ns, std::abs(distance_ns(line, p)));
  }
  return line;
}

const char* name_of(ClockMethod method) {
  switch (method) {
    case ClockMethod::kSingleHost:
      return "single-host";
    case ClockMethod::kReference:
      return "reference";
    case ClockMethod::kCollectives:
      return "collectives";
    case ClockMethod::kClockSync:
      return "clock-sync";
    case ClockMethod::kRealtime:
      return "realtime";
  }
  return "";
}

Clocks fit_clocks(const std::vector<ClockEvidence>& evidence, const std::set<std::string>& apart) {
  struct Domain {
    size_t number = 0;
    std::vector<TickPoint> tsc;
    std::vector<int64_t> realtime;
    ClockLine line;
    int64_t realtime_offset = 0;
  };
  const auto key = [&](const ClockEvidence& process) {
    return process.boot.empty()
               ? std::make_pair(std::string(), process.host)
               : std::make_pair(process.boot, apart.count(process.boot) ? process.host : std::string());
  };
  std::map<std::pair<std::string, std::string>, Domain> domains;
  for (const ClockEvidence& process : evidence) {
    const size_t number = domains.size();
    const auto [entry, is_new] = domains.try_emplace(key(process));
    Domain& domain = entry->second;
    if (is_new) domain.number = number;
    if (process.kind == ClockKind::kTsc)
      domain.tsc.insert(domain.tsc.end(), process.points.begin(), process.points.end());
    domain.realtime.insert(domain.realtime.end(), process.realtime_minus_monotonic_ns.begin(),
                           process.realtime_minus_monotonic_ns.end());
  }
  for (auto& [name, domain] : domains) {
    domain.line = fit_line(std::move(domain.tsc));
    if (!domain.realtime.empty())
      domain.realtime_offset = std::clamp(median(std::move(domain.realtime)), -kFarthestNs, kFarthestNs);
  }
  Clocks clocks;
  clocks.domains.resize(domains.size(), domains.size() == 1 ? ClockDomain{ClockMethod::kSingleHost, 0.0}
                                                            : ClockDomain{ClockMethod::kRealtime, {}});
  for (const ClockEvidence& process : evidence) {
    const Domain& domain = domains.at(key(process));
    ProcessClock clock;
    clock.domain = domain.number;
    if (process.kind == ClockKind::kTsc) {
      clock.line = domain.line;
    } else {  // ticks are CLOCK_MONOTONIC; the base keeps differences small enough for a double
      clock.line.base_ticks = std::min<uint64_t>(process.begin.ticks, INT64_MAX);
      clock.line.base_ns = static_cast<int64_t>(clock.line.base_ticks);
    }
    clock.offset_ns = domain.realtime_offset;
    clocks.processes.push_back(clock);
  }
  begin_with_earliest(clocks, evidence);
  return clocks;
}

void begin_with_earliest(Clocks& clocks, const std::vector<ClockEvidence>& evidence) {
  int64_t earliest_ns = INT64_MAX;
  for (size_t i = 0; i < evidence.size(); ++i)
    earliest_ns = std::min(earliest_ns, clocks.processes[i].time_ns(evidence[i].begin.ticks));
  for (ProcessClock& clock : clocks.processes) clock.offset_ns = saturating_subtract(clock.offset_ns, earliest_ns);
  clocks.epoch_realtime_ns =
      std::clamp(saturating_add(clocks.epoch_realtime_ns, earliest_ns), -kFarthestNs, kFarthestNs);
}

}  // namespace ddl::store
