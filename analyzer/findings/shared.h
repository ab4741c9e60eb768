// What several finders ask of a world, found once for all of them; they may run at a time.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "analyzer/findings/behind.h"
#include "analyzer/findings/checkpoint_stall.h"
#include "analyzer/findings/layer_imbalance.h"
#include "analyzer/findings/loader_stall.h"

namespace ddl {

template <class Answer>
class FoundOnce {
 public:
  /// The result of the first `find`; later ones are not called.
  template <class Find>
  const Answer& get(const Find& find) {
    std::call_once(asked_, [&] { answer_ = find(); });
    return *answer_;
  }

 private:
  std::once_flag asked_;
  std::optional<Answer> answer_;
};

struct SharedAnswers {
  LayerSpreads layers;  ///< for whoever finds the uneven layer
  FoundOnce<std::optional<SlowLoader>> slow_loader;
  FoundOnce<std::optional<CheckpointStall>> checkpoint_stall;
  FoundOnce<std::optional<UnevenLayer>> uneven_layer;
  FoundOnce<std::vector<UnfinishedCall>> vain_calls;
};

}  // namespace ddl
