// Finds the step in a sequence of reductions that is not the same in each step (specification.md R4): a runtime that
// fuses what is ready (Horovod) reduces the same tensors in every step, in batches that depend on the moment. Their
// bytes together do not change.
//
// The bytes of a step are the smallest number at whose multiples, counted from some reduction on, a reduction ends
// again and again. Where all batches are of one size that says nothing of how many are a step; then the pauses do: the
// longest one comes before the first batch of a step, where the update and the forward pass are.
//
// Of bytes that are the same in each step parts may add up to half of them by accident: 8, 12, 16 and 20 are 12 + 16
// and 20 + 8. Where nothing is fused the sizes themselves repeat, over more reductions; and the longest pauses are
// before those, but within the parts.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analyzer/passes/repetition.h"

namespace ddl {

/// A reduction as one member saw it.
struct Batch {
  int64_t bytes = 0;
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
};

/// The result's `period` is the mean number of reductions in a step, rounded; its `agreement` the share of steps that
/// end where they should. Nothing: no such number.
std::optional<Repetition> find_equal_sums(std::span<const Batch> batches);

}  // namespace ddl
