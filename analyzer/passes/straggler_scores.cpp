#include "analyzer/passes/straggler_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyzer/each_row.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

struct Sketches {
  MedianSketch all;
  double total_ns = 0;
  std::array<MedianSketch, kScoreWindows> windows;
};

SectionTimes times_of(const Sketches& sketches) {
  SectionTimes times{sketches.all.median().value_or(0), sketches.total_ns, {}};
  for (const MedianSketch& window : sketches.windows) {
    if (const auto median_ns = window.median()) times.window_medians_ns.push_back(*median_ns);
  }
  return times;
}

/// The steady steps of a world, and which window each lies in.
std::map<int64_t, size_t> windows_of(SQLite::Database& db, int64_t world) {
  Query rows(db, "SELECT step FROM steady_number WHERE world = ? ORDER BY step");
  rows.bind(world);
  std::vector<int64_t> steps;
  while (rows.next()) steps.push_back(rows.integer(0));
  std::map<int64_t, size_t> windows;
  for (size_t i = 0; i < steps.size(); ++i) windows[steps[i]] = i * kScoreWindows / steps.size();
  return windows;
}

/// How long a rank was in a section.
struct SectionTime {
  int64_t rank, section, step;
  double ns;
};

class Reader {
 public:
  explicit Reader(std::map<int64_t, size_t> windows) : windows_(windows.begin(), windows.end()) {}

  /// They come grouped by rank. False: the step is not steady.
  bool add(const SectionTime& one) {
    if (rank_ != one.rank) {
      flush();
      rank_ = one.rank;
    }
    const auto window = windows_.find(one.step);
    if (window == windows_.end()) return false;
    Sketches& sketches = sections_[one.section];
    const double ns = std::max(0.0, one.ns);
    sketches.all.add(ns);
    sketches.windows[window->second].add(ns);
    sketches.total_ns += ns;
    return true;
  }
  /// By rank and section. Starts over.
  std::map<int64_t, std::map<int64_t, SectionTimes>> finish() {
    flush();
    return std::exchange(result_, {});
  }

 private:
  void flush() {
    for (const auto& [section, sketches] : sections_) result_[rank_][section] = times_of(sketches);
    sections_.clear();
  }

  std::unordered_map<int64_t, size_t> windows_;
  std::map<int64_t, Sketches> sections_;  ///< of the rank at hand
  int64_t rank_ = -1;
  std::map<int64_t, std::map<int64_t, SectionTimes>> result_;
};

}  // namespace

std::map<int64_t, SectionScore> score_sections(const std::map<int64_t, std::map<int64_t, SectionTimes>>& sections) {
  std::map<int64_t, std::pair<size_t, double>> fastest;  // by section: ranks that have it, least median
  for (const auto& [rank, own] : sections) {
    for (const auto& [section, times] : own) {
      auto& [ranks, least_ns] = fastest.try_emplace(section, 0, times.median_ns).first->second;
      ++ranks;
      least_ns = std::min(least_ns, times.median_ns);
    }
  }
  std::map<int64_t, SectionScore> scores;
  for (const auto& [rank, own] : sections) {
    double relative = 0, relative_weight = 0, individual = 0, individual_weight = 0;
    for (const auto& [section, times] : own) {
      const auto& [ranks, least_ns] = fastest.at(section);
      if (ranks == sections.size() && times.median_ns > 0) {
        relative += times.total_ns * least_ns / times.median_ns;
        relative_weight += times.total_ns;
      }
      if (times.window_medians_ns.size() < 2 || times.window_medians_ns.back() <= 0) continue;
      const double best_ns = *std::min_element(times.window_medians_ns.begin(), times.window_medians_ns.end());
      individual += times.total_ns * best_ns / times.window_medians_ns.back();
      individual_weight += times.total_ns;
    }
    SectionScore& score = scores[rank];
    if (relative_weight > 0) score.relative = relative / relative_weight;
    if (individual_weight > 0) score.individual = individual / individual_weight;
  }
  return scores;
}

std::map<int64_t, LayerSpreads> score_sections(SQLite::Database& db) {
  std::map<int64_t, LayerSpreads> spreads;
  Query insert(
      db,
      "INSERT INTO section_score (world, rank, relative, individual, why, individual_why) VALUES (?, ?, ?, ?, ?, ?)");
  Query worlds(db, "SELECT world, count(DISTINCT rank) FROM process WHERE rank IS NOT NULL GROUP BY world");
  while (worlds.next()) {
    const int64_t world = worlds.integer(0), ranks = worlds.integer(1);
    Reader reader(windows_of(db, world));
    std::unordered_map<int64_t, int64_t> ranks_of;  // by process
    Query members(db, "SELECT id, rank FROM process WHERE world = ? AND rank IS NOT NULL");
    for (members.bind(world); members.next();) ranks_of[members.integer(0)] = members.integer(1);
    std::unordered_set<int64_t> torn;
    Query left_out(db, "SELECT rank FROM torn_rank WHERE world = ?");
    for (left_out.bind(world); left_out.next();) torn.insert(left_out.integer(0));
    std::map<int64_t, std::map<int64_t, SectionTimes>> sections;
    for (const std::string_view kind : {"layer", "phase"}) {
      std::unordered_set<int64_t> regions;
      Query of_kind(db, "SELECT id FROM region WHERE kind = ?");
      for (of_kind.bind(kind); of_kind.next();) regions.insert(of_kind.integer(0));
      if (regions.empty()) continue;
      std::optional<LayerSpreadSums> layers;
      if (kind == "layer") layers.emplace(db);
      int64_t process = -1;
      auto rank = ranks_of.end();
      EachRow rows(db, "process, region, step, duration_ns - mpi_ns", "range_event WHERE step IS NOT NULL");
      rows.run([&](const RowValues& range) {
        if (const int64_t of_row = range.integer(0); of_row != std::exchange(process, of_row))
          rank = ranks_of.find(of_row);
        if (rank == ranks_of.end() || !regions.contains(range.integer(1))) return;
        const SectionTime one = {rank->second, range.integer(1), range.integer(2), range.real(3)};
        if (reader.add(one) && layers && !torn.contains(one.rank))
          layers->add(process, one.rank, one.section, one.step, one.ns);
      });
      sections = reader.finish();
      if (layers) spreads[world] = layers->finish();
      if (!sections.empty()) break;
    }
    if (sections.empty()) {
      Query rows(
          db,
          "SELECT p.rank, 0, t.step, t.compute_ns FROM step_part t JOIN process p ON p.id = t.process WHERE p.world = ? AND p.rank IS"
          " NOT NULL ORDER BY t.process, t.step");
      for (rows.bind(world); rows.next();)
        reader.add({rows.integer(0), rows.integer(1), rows.integer(2), rows.real(3)});
      sections = reader.finish();
    }
    const bool all = static_cast<int64_t>(sections.size()) == ranks;
    for (const auto& [rank, score] : score_sections(sections)) {
      const double relative = all && ranks > 1 ? score.relative.value_or(NAN) : NAN;  // SQLite stores NaN as NULL
      insert.run(world, rank, relative, score.individual.value_or(NAN),
                 ranks < 2 ? "NOT_APPLICABLE"
                 : all     ? "NO_DATA"
                           : "PARTIAL_RANKS",
                 "NO_DATA");
    }
  }
  return spreads;
}

}  // namespace ddl
