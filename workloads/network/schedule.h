#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddl::network {

/** Layers [begin, end) of the network. */
struct Stage {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const Stage&) const = default;
};

/**
 * Cuts layers of these costs into `stages` runs, none empty, so that the most expensive one is as cheap as it can be.
 * `stages` is from 1 to the number of layers. */
std::vector<Stage> split_stages(std::span<const uint64_t> costs, std::size_t stages);

enum class Schedule { kGpipe, k1F1B };

struct Pass {
  bool backward = false;
  std::size_t micro_batch = 0;
  bool operator==(const Pass&) const = default;
};

/**
 * The passes of one stage in a step. GPipe (Huang et al., 1811.06965): all forward, then all backward. 1F1B (Narayanan
 * et al., PipeDream; flushed each step): stages - 1 - stage forward passes to fill the pipeline, then a forward and a
 * backward in turn, then the rest. Both leave (stages - 1) / (micro_batches + stages - 1) of the step idle where stages
 * are equal and messages cost nothing. */
std::vector<Pass> passes(Schedule schedule, std::size_t stage, std::size_t stages, std::size_t micro_batches);

}  // namespace ddl::network
