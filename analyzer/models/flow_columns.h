// The linear programs of flow.h over routes instead of flows on arcs, for networks where those are too many: a program knows some routes of each pair,
// and its prices tell by shortest paths which others would help, until none would (column generation; Ford and Fulkerson 1958). What it ends with is
// optimal, and certified, as that of the other program.
#pragma once

#include "analyzer/models/flow.h"

namespace ddl::models {

/// Pairs with traffic that are taken at most: each is a row of the program.
constexpr size_t kMostPairs = 20000;

/// `other_s`: something else takes so long anyway; the least cost is that of flows which take no longer. all_s is left alone. Throws ddl::Error
/// (kDataMissing): traffic without a route, or more than kMostPairs. Thread-safe.
Flow route_by_columns(const FlowNetwork& network, const Traffic& bytes, bool least_cost, double other_s);

}  // namespace ddl::models
