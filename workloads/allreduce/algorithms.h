#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "workloads/allreduce/exchange.h"
#include "workloads/allreduce/topology.h"

namespace ddl::allreduce {

/** What an algorithm may be told besides the buffer. */
struct Settings {
  const Topology& topology;
  std::size_t segment_bytes;           ///< where the algorithm cuts into segments; at least 1
  const std::vector<int>& dimensions;  ///< their product is the number of ranks
};

/*
 * One per file. Cost: alpha per message, beta per byte moved, gamma per byte reduced; p ranks, n bytes, lg = log2
 * (specification.md "Cost of allreduces"; Thakur, Rabenseifner and Gropp 2005; Ben-Nun and Hoefler 2018; Cho et al., IBM DDL,
 * 1708.02188). At least two ranks and one element.
 */
void parameter_server(Exchange& x, const Settings& settings);
void tree(Exchange& x, const Settings& settings);
void butterfly(Exchange& x, const Settings& settings);
void rabenseifner(Exchange& x, const Settings& settings);
void ring(Exchange& x, const Settings& settings);
void segmented_ring(Exchange& x, const Settings& settings);
void hierarchical(Exchange& x, const Settings& settings);
void multi_ring(Exchange& x, const Settings& settings);
void gloo(Exchange& x, const Settings& settings);

struct Algorithm {
  std::string_view name;
  void (*run)(Exchange& x, const Settings& settings);
  bool keeps_order;  ///< combines contributions in the order of ranks, as operations that do not commute need it
  bool takes_segment;
  bool takes_dimensions;
  bool preset;  ///< what another library does, made of those above: a sweep of all leaves it out
};

/** All of them: one row each. */
std::span<const Algorithm> algorithms();
/** nullptr: there is none of that name. */
const Algorithm* find_algorithm(std::string_view name);

}  // namespace ddl::allreduce
