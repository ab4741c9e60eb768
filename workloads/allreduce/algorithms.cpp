#include "workloads/allreduce/algorithms.h"

namespace ddl::allreduce {

namespace {

// clang-format off
constexpr Algorithm kAlgorithms[] = {
    // name             run               keeps order, segment, dimensions, preset
    {"parameter_server", parameter_server, true,  false, false, false},
    {"tree",             tree,             true,  false, false, false},
    {"butterfly",        butterfly,        true,  false, false, false},
    {"rabenseifner",     rabenseifner,     true,  false, false, false},
    {"ring",             ring,             false, false, false, false},
    {"segmented_ring",   segmented_ring,   false, true,  false, false},
    {"hierarchical",     hierarchical,     false, false, false, false},
    {"multi_ring",       multi_ring,       false, false, true,  false},
    {"baidu_ring",       ring,             false, false, false, true},
    {"gloo",             gloo,             false, false, false, true},
};
// clang-format on

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace ddl::allreduce
