// How unlike the ranks are in each layer: of each layer and steady step how long it takes all of them
// together, and the longest.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddl {

/// A layer in one step, over the ranks.
struct LayerSpread {
  double longest_ns = 0, sum_ns = 0;
  int64_t ranks = 0, longest_rank = -1;

  /// What the longest takes longer than the mean of the others.
  double over_others_ns() const {
    return ranks < 2 ? 0 : longest_ns - (sum_ns - longest_ns) / static_cast<double>(ranks - 1);
  }
};

struct LayerInSteps {
  int64_t region = 0;  ///< one of those with its name
  std::map<int64_t, LayerSpread> steps;
};

/// By region.layer, those that have ranges in steady steps.
using LayerSpreads = std::map<std::string, LayerInSteps>;

/// Sums the ranges of one world, which come grouped by process: one process's layers and steps are held at a time, and
/// one row per layer and step for all of them.
class LayerSpreadSums {
 public:
  explicit LayerSpreadSums(SQLite::Database& db);

  /// A range of a region of kind layer, in a steady step: `ns` outside MPI.
  void add(int64_t process, int64_t rank, int64_t region, int64_t step, double ns);
  LayerSpreads finish();

 private:
  struct Own {
    LayerInSteps* layer;
    int64_t step;
    double ns;
  };
  void close();

  LayerSpreads layers_;
  std::unordered_map<int64_t, LayerInSteps*> layer_of_;  ///< by region
  std::vector<Own> of_process_;
  int64_t process_ = 0, rank_ = -1;
};

}  // namespace ddl
