#include "store/ingest/align_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "store/ingest/clock_samples.h"
#include "store/ordered_work.h"

namespace ddl::store {

namespace {

constexpr size_t kMaxBroken = 2;  // instances that may contradict a shared clock: damaged records
constexpr size_t kInstancesPerBroken = 20;
constexpr size_t kLinksAhead = 256;

std::vector<ClockEvidence> evidence_of(const std::vector<Scan>& scans) {
  std::vector<ClockEvidence> evidence;
  for (const Scan& scan : scans) evidence.push_back(scan.clock);
  return evidence;
}

/// CLOCK_MONOTONIC of a host -> that of the reference: straight between knots and beyond them.
class Course {
 public:
  struct Knot {
    int64_t from_ns, to_ns;
  };

  Course() = default;  ///< the reference's own
  explicit Course(std::vector<Knot> knots) : knots_(std::move(knots)) {}

  const std::vector<Knot>& knots() const { return knots_; }
  bool runs_forwards() const {
    return std::adjacent_find(knots_.begin(), knots_.end(), [](const Knot& a, const Knot& b) {
             return b.from_ns <= a.from_ns || b.to_ns <= a.to_ns;
           }) == knots_.end();
  }
  int64_t at(int64_t from_ns) const { return along(from_ns, &Knot::from_ns, &Knot::to_ns); }
  int64_t back(int64_t to_ns) const { return along(to_ns, &Knot::to_ns, &Knot::from_ns); }

  /// This one, and then `next`, which begins where this one ends.
  Course then(const Course& next) const {
    std::vector<int64_t> bends;
    for (const Knot& knot : knots_) bends.push_back(knot.from_ns);
    for (size_t i = 1; i + 1 < next.knots_.size(); ++i) {
      const int64_t bend = back(next.knots_[i].from_ns);
      if (bend > knots_.front().from_ns && bend < knots_.back().from_ns) bends.push_back(bend);
    }
    std::sort(bends.begin(), bends.end());
    bends.erase(std::unique(bends.begin(), bends.end()), bends.end());
    std::vector<Knot> knots;
    for (const int64_t bend : bends) knots.push_back({bend, next.at(at(bend))});
    return Course(std::move(knots));
  }

 private:
  int64_t along(int64_t ns, int64_t Knot::*x, int64_t Knot::*y) const {
    if (knots_.empty()) return ns;
    auto end = std::upper_bound(knots_.begin() + 1, knots_.end() - 1, ns,
                                [&](int64_t at, const Knot& knot) { return at < knot.*x; });
    const Knot& a = *(end - 1);
    const Knot& b = *end;
    const double slope = static_cast<double>(b.*y - a.*y) / static_cast<double>(b.*x - a.*x);
    return saturating_add(
        a.*y, static_cast<int64_t>(std::llround(static_cast<double>(saturating_subtract(ns, a.*x)) * slope)));
  }

  std::vector<Knot> knots_;  ///< two or more; none: the reference itself
};

struct Edge {
  size_t a, b;
  Course course;  ///< from b to a
  double variance;
  bool synced;
};

struct Placed {
  double variance = INFINITY;
  Course course;
  ClockMethod method = ClockMethod::kRealtime;
};

struct Fit {
  ClockBand::Verdict verdict = ClockBand::Verdict::kTooFew;
  std::optional<Edge> edge = {};
};

/// An edge for the link, or the reason why there is none.
Fit fit_edge(ClockLink& link, double most_bend, const std::vector<ClockSamples::Span>& spans) {
  const ClockSamples::Span& span = spans[link.b];
  const auto since_base = [&](int64_t ns) { return static_cast<double>(saturating_subtract(ns, span.base_ns)); };
  const ClockBand band =
      find_clock_band(std::move(link.bounds), since_base(span.first_ns), since_base(span.last_ns), most_bend);
  if (band.verdict != ClockBand::Verdict::kFound) return {band.verdict};
  std::vector<Course::Knot> knots;
  for (const ClockKnot& knot : band.knots) {
    const int64_t at_ns = std::llround(knot.at_ns);
    knots.push_back({saturating_add(span.base_ns, at_ns),
                     saturating_add(spans[link.a].base_ns, saturating_add(at_ns, std::llround(knot.offset_ns)))});
  }
  const double error_ns = band.error_ns();
  Edge edge = {link.a, link.b, Course(std::move(knots)), error_ns * error_ns / 3, link.synced};
  if (!edge.course.runs_forwards()) return {ClockBand::Verdict::kContradiction};
  return {band.verdict, std::move(edge)};
}

/// For the largest connected part the domain that comes first in the order of ranks.
size_t find_reference(const Worlds& worlds, const Clocks& clocks, const std::vector<Edge>& edges) {
  std::vector<size_t> part(clocks.domains.size());
  std::iota(part.begin(), part.end(), size_t{0});
  const auto root = [&](size_t d) {
    while (part[d] != d) d = part[d] = part[part[d]];
    return d;
  };
  for (const Edge& edge : edges) part[root(edge.a)] = root(edge.b);
  std::vector<size_t> members(part.size());
  for (size_t d = 0; d < part.size(); ++d) ++members[root(d)];
  const size_t most = *std::max_element(members.begin(), members.end());
  for (const size_t i : worlds.order) {
    if (members[root(clocks.processes[i].domain)] == most) return clocks.processes[i].domain;
  }
  return 0;
}

/// Dijkstra over variances.
std::vector<Placed> place_all(size_t domains, size_t reference, const std::vector<Edge>& edges) {
  std::vector<Placed> placed(domains);
  std::vector<std::vector<const Edge*>> at(domains);
  for (const Edge& edge : edges) at[edge.a].push_back(&edge), at[edge.b].push_back(&edge);
  std::set<std::pair<double, size_t>> open = {{0, reference}};
  placed[reference].variance = 0;
  while (!open.empty()) {
    const size_t here = open.begin()->second;
    open.erase(open.begin());
    for (const Edge* edge : at[here]) {
      const size_t other = edge->a == here ? edge->b : edge->a;
      const double variance = placed[here].variance + edge->variance;
      if (variance >= placed[other].variance) continue;
      open.erase({placed[other].variance, other});
      placed[other].variance = variance;
      placed[other].method = edge->synced ? ClockMethod::kClockSync : ClockMethod::kCollectives;
      open.insert({variance, other});
      std::vector<Course::Knot> knots = edge->course.knots();
      if (edge->b == here) {
        for (Course::Knot& knot : knots) std::swap(knot.from_ns, knot.to_ns);
      }
      placed[other].course = Course(std::move(knots)).then(placed[here].course);
    }
  }
  return placed;
}

/// Ticks of a process straight to the axis.
void set_pieces(ProcessClock& clock, const Course& course) {
  const auto& knots = course.knots();
  for (size_t i = 0; i + 1 < knots.size(); ++i) {
    const double slope = static_cast<double>(knots[i + 1].to_ns - knots[i].to_ns) /
                         static_cast<double>(knots[i + 1].from_ns - knots[i].from_ns);
    ProcessClock::Piece piece;
    piece.from_ticks = clock.line.ticks_at(knots[i].from_ns);
    piece.line.base_ticks = piece.from_ticks;
    piece.line.base_ns = course.at(clock.line.monotonic_ns(piece.from_ticks));
    piece.line.ns_per_tick = clock.line.ns_per_tick * slope;
    clock.pieces.push_back(piece);
  }
  clock.pace = static_cast<double>(knots.back().to_ns - knots.front().to_ns) /
               static_cast<double>(knots.back().from_ns - knots.front().from_ns);
}

std::string names_of(const std::vector<Scan>& scans, const Clocks& clocks, size_t domain) {
  std::set<std::string> names;
  for (size_t i = 0; i < scans.size(); ++i) {
    if (clocks.processes[i].domain == domain) names.insert(scans[i].host);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Half width between processes of one domain that read different clocks.
std::vector<double> inner_errors_ns(const std::vector<Scan>& scans, const Clocks& clocks) {
  std::vector<double> residual_ns(clocks.domains.size());
  std::vector<std::set<ClockKind>> kinds(clocks.domains.size());
  for (size_t i = 0; i < scans.size(); ++i) {
    const ProcessClock& clock = clocks.processes[i];
    kinds[clock.domain].insert(scans[i].clock.kind);
    residual_ns[clock.domain] = std::max(residual_ns[clock.domain], clock.line.residual_ns.value_or(0));
  }
  for (size_t d = 0; d < residual_ns.size(); ++d) {
    if (kinds[d].size() == 1) residual_ns[d] = 0;
  }
  return residual_ns;
}

/// Boots whose hosts do not share a clock after all.
std::set<std::string> boots_apart(const std::vector<Scan>& scans, const std::vector<size_t>& hosts,
                                  const ClockSamples& samples) {
  std::set<std::string> apart;
  for (const ClockSamples::Shared& pair : samples.shared()) {
    if (pair.broken <= kMaxBroken || pair.broken * kInstancesPerBroken <= pair.instances) continue;
    for (size_t i = 0; i < scans.size(); ++i) {
      if (hosts[i] == pair.host) apart.insert(scans[i].boot_id);
    }
  }
  return apart;
}

void place_domains(const std::vector<Scan>& scans, const Worlds& worlds, const ClockSamples& samples, Clocks& clocks,
                   Losses& losses, unsigned threads) {
  std::vector<bool> has_rate(clocks.domains.size(), true), is_tsc(clocks.domains.size(), true);
  for (size_t i = 0; i < scans.size(); ++i) {
    const ProcessClock& clock = clocks.processes[i];
    if (!clock.line.rate_known) has_rate[clock.domain] = false;
    if (scans[i].clock.kind != ClockKind::kTsc) is_tsc[clock.domain] = false;
  }
  std::vector<Edge> edges;
  std::vector<bool> scarce(clocks.domains.size()), uneven(clocks.domains.size());
  std::vector<ClockLink> links = samples.links();
  samples.add_syncs(scans, links);
  std::erase_if(links, [&](const ClockLink& link) { return !has_rate[link.a] || !has_rate[link.b]; });
  OrderedWork<Fit> fits(links.size(), threads, kLinksAhead, [&](size_t i) {
    ClockLink& link = links[i];
    return fit_edge(link, is_tsc[link.a] && is_tsc[link.b] ? kMaxBendOfTsc : kMaxBend, samples.spans());
  });
  for (const ClockLink& link : links) {
    Fit fit = fits.next();
    if (fit.edge) edges.push_back(std::move(*fit.edge));
    if (fit.verdict == ClockBand::Verdict::kContradiction) uneven[link.a] = uneven[link.b] = true;
    if (fit.verdict == ClockBand::Verdict::kTooFew) scarce[link.a] = scarce[link.b] = true;
  }
  const size_t reference = find_reference(worlds, clocks, edges);
  const std::vector<Placed> placed = place_all(clocks.domains.size(), reference, edges);
  const std::vector<double> inner_ns = inner_errors_ns(scans, clocks);
  for (size_t d = 0; d < clocks.domains.size(); ++d) {
    if (d == reference && !edges.empty()) {
      clocks.domains[d] = {ClockMethod::kReference, 0.0};
    } else if (std::isfinite(placed[d].variance) && d != reference) {
      const double inner = (inner_ns[d] * inner_ns[d] + inner_ns[reference] * inner_ns[reference]) / 3;
      clocks.domains[d] = {placed[d].method, std::sqrt(placed[d].variance + inner)};
    } else if (has_rate[d] && (d != reference || uneven[d] || scarce[d])) {
      losses.add(
          {}, "clock", 1,
          fmt::format(
              "host that stands on the axis by its date only ({}): {}; waits between it and other hosts are found without clocks",
              names_of(scans, clocks, d),
              uneven[d]   ? "its clock does not keep an even pace against the others' (suspended, migrated, stepped?)"
              : scarce[d] ? "too few collectives join it to the others"
                          : "no collective joins it to the others"));
    }
  }
  int64_t axis_offset_ns = 0;
  for (const ProcessClock& clock : clocks.processes)
    axis_offset_ns = clock.domain == reference ? clock.offset_ns : axis_offset_ns;
  for (ProcessClock& clock : clocks.processes) {
    if (placed[clock.domain].method == ClockMethod::kRealtime) continue;
    set_pieces(clock, placed[clock.domain].course);
    clock.offset_ns = axis_offset_ns;
  }
  begin_with_earliest(clocks, evidence_of(scans));
}

}  // namespace

std::vector<size_t> number_hosts(const std::vector<Scan>& scans, const std::vector<size_t>& order) {
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  std::vector<size_t> hosts(scans.size());
  for (const size_t i : order)
    hosts[i] = numbers.try_emplace({scans[i].host, scans[i].boot_id}, numbers.size()).first->second;
  return hosts;
}

Clocks align_clocks(const std::vector<Scan>& scans, const Worlds& worlds, Clocks clocks, Losses& losses,
                    unsigned threads, const std::function<void(uint64_t bytes)>& step_done) {
  const std::vector<size_t> hosts = number_hosts(scans, worlds.order);
  std::optional<ClockSamples> samples;
  const auto sample = [&] {
    samples.emplace(scans, worlds, hosts, clocks);
    OrderedWork<ClockSamples::Log> logs(scans.size(), threads, kSpoolsAhead,
                                        [&](size_t i) { return samples->read(scans[i], i); });
    for (size_t i = 0; i < scans.size(); ++i) {
      samples->add(logs.next());
      step_done(scans[i].file_bytes);
    }
  };
  sample();
  if (const std::set<std::string> apart = boots_apart(scans, hosts, *samples); !apart.empty()) {
    clocks = fit_clocks(evidence_of(scans), apart);
    sample();
  }
  if (clocks.domains.size() > 1) place_domains(scans, worlds, *samples, clocks, losses, threads);
  return clocks;
}

}  // namespace ddl::store
