#include "analyzer/models/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kRounding = 1e-12;
size_t moved(const std::vector<size_t>& place) {
  size_t count = 0;
  for (size_t rank = 0; rank < place.size(); ++rank) count += place[rank] != rank;
  return count;
}

}  // namespace

Network::Network(size_t places, const std::vector<PlaceLink>& links) : places_(places) {
  if (places > kMostPlaces)
    throw Error(fmt::format("{} places: the search is exact and takes at most {}", places, kMostPlaces),
                "group ranks that sit together anyway", ExitCode::kDataMissing);
  routes_.resize(places * places);
  constexpr double kNowhere = std::numeric_limits<double>::infinity();
  std::vector<double> distance(places * places, kNowhere);
  for (size_t i = 0; i < places; ++i) distance[i * places + i] = 0;
  for (const PlaceLink& link : links) {
    if (link.a >= places || link.b >= places || link.a == link.b || !(link.bytes_per_second > 0) || !std::isfinite(link.bytes_per_second))
      throw Error("a link joins two places and carries something", "", ExitCode::kDataMissing);
    for (const auto& [from, to] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      const double per_byte = 1 / link.bytes_per_second;
      if (per_byte < distance[from * places + to]) {
        distance[from * places + to] = per_byte;
        routes_[from * places + to] = {per_byte_s_.size()};
      }
      per_byte_s_.push_back(per_byte);
    }
  }
  for (size_t via = 0; via < places; ++via)
    for (size_t i = 0; i < places; ++i)
      for (size_t j = 0; j < places; ++j) {
        const double length = distance[i * places + via] + distance[via * places + j];
        if (i == j || length >= distance[i * places + j] * (1 - kRounding)) continue;
        distance[i * places + j] = length;
        std::vector<size_t> route = routes_[i * places + via];
        route.insert(route.end(), routes_[via * places + j].begin(), routes_[via * places + j].end());
        routes_[i * places + j] = std::move(route);
      }
  if (std::find(distance.begin(), distance.end(), kNowhere) != distance.end())
    throw Error("no route joins all places", "add links", ExitCode::kDataMissing);
}

void Network::load(std::vector<double>& seconds, size_t from, size_t to, double bytes) const {
  for (const size_t direction : routes_[from * places_ + to]) seconds[direction] += bytes * per_byte_s_[direction];
}

Mapping Network::evaluate(const std::vector<std::vector<double>>& bytes, const std::vector<size_t>& place) const {
  std::vector<double> seconds(per_byte_s_.size(), 0.0);
  for (size_t i = 0; i < place.size(); ++i)
    for (size_t j = 0; j < place.size(); ++j)
      if (i != j) load(seconds, place[i], place[j], bytes[i][j]);
  return {place, seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end()),
          std::accumulate(seconds.begin(), seconds.end(), 0.0)};
}

bool Network::better(const Mapping& a, const Mapping& b) {
  const auto less = [](double x, double y) { return x < y - kRounding * std::max(x, y); };
  if (less(a.busiest_s, b.busiest_s)) return true;
  if (less(b.busiest_s, a.busiest_s)) return false;
  if (less(a.all_s, b.all_s)) return true;
  if (less(b.all_s, a.all_s)) return false;
  return moved(a.place) < moved(b.place);
}

/// Ranks are placed one after the other; links only ever get more to carry.
struct Network::Search {
  const Network& network;
  const std::vector<std::vector<double>>& bytes;
  Mapping best;
  std::vector<size_t> place = {};
  std::vector<bool> taken = {};

  void go(const std::vector<double>& seconds) {
    if (!seconds.empty() && *std::max_element(seconds.begin(), seconds.end()) > best.busiest_s * (1 + kRounding)) return;
    if (place.size() == bytes.size()) {
      const Mapping found = network.evaluate(bytes, place);
      if (better(found, best)) best = found;
      return;
    }
    const size_t rank = place.size();
    for (size_t at = 0; at < network.places_; ++at) {
      if (taken[at]) continue;
      std::vector<double> more = seconds;
      for (size_t other = 0; other < rank; ++other) {
        network.load(more, place[other], at, bytes[other][rank]);
        network.load(more, at, place[other], bytes[rank][other]);
      }
      taken[at] = true;
      place.push_back(at);
      go(more);
      place.pop_back();
      taken[at] = false;
    }
  }
};

Mapping Network::best(const std::vector<std::vector<double>>& bytes) const {
  if (bytes.size() > places_)
    throw Error(fmt::format("{} ranks on {} places: each needs one", bytes.size(), places_), "add links to more places",
                ExitCode::kDataMissing);
  std::vector<size_t> as_is(bytes.size());
  std::iota(as_is.begin(), as_is.end(), size_t{0});
  Search search{*this, bytes, evaluate(bytes, as_is)};
  search.taken.assign(places_, false);
  search.go(std::vector<double>(per_byte_s_.size(), 0.0));
  return search.best;
}

}  // namespace ddl::models
