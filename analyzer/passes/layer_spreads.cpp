#include "analyzer/passes/layer_spreads.h"

#include <algorithm>
#include <utility>

#include "analyzer/query.h"

namespace ddl {

LayerSpreadSums::LayerSpreadSums(SQLite::Database& db) {
  Query regions(db, "SELECT id, layer FROM region WHERE kind = 'layer'");
  while (regions.next()) layer_of_[regions.integer(0)] = &layers_[regions.text(1)];
}

void LayerSpreadSums::add(int64_t process, int64_t rank, int64_t region, int64_t step, double ns) {
  if (process != process_) {
    close();
    process_ = process;
    rank_ = rank;
  }
  LayerInSteps* layer = layer_of_.at(region);
  of_process_.push_back({layer, step, ns});
  layer->region = region;
}

LayerSpreads LayerSpreadSums::finish() {
  close();
  std::erase_if(layers_, [](const auto& layer) { return layer.second.steps.empty(); });
  return std::move(layers_);
}

void LayerSpreadSums::close() {
  std::stable_sort(of_process_.begin(), of_process_.end(),
                   [](const Own& a, const Own& b) { return std::pair(a.layer, a.step) < std::pair(b.layer, b.step); });
  for (auto own = of_process_.begin(); own != of_process_.end();) {
    const auto [layer, step, first_ns] = *own;
    double ns = 0;
    for (; own != of_process_.end() && own->layer == layer && own->step == step; ++own) ns += own->ns;
    LayerSpread& spread = layer->steps[step];
    spread.sum_ns += ns;
    ++spread.ranks;
    if (ns > spread.longest_ns) {
      spread.longest_ns = ns;
      spread.longest_rank = rank_;
    }
  }
  of_process_.clear();
}

}  // namespace ddl
