// Steps and layers of jobs that mark none: steps from the collectives' repeating sequence (repetition.h), layers from the call site and the
// position in the step.
//
// Steps. Each process goes by the communicator on which it makes most collectives; one member's sequence tells where steps begin, and the
// same collectives, by their numbers, begin them on all members: from leaving the collective before the first one of the step to leaving
// the last one. Of NCCL's collectives what the device did counts, not the calls that enqueue it, and so do the steps: the host may be a
// step ahead. They are rows of `step`, as if annotated, of processes that have a row in `inferred_steps`; events carry their number from
// then on, also what GPUs did, by when they did it.
//
// Layers. The k-th collective of an operation and call site within the step is one layer, "MPI_Allreduce #2 lmp+0x1a2b"; messages and what
// completes them are one layer per operation and call site. Regions of kind 'inferred' stand for them, in the place of "outside every
// range". Computing between two calls belongs to the layer of the later one, as backward does that leads to a gradient's allreduce. What
// GPUs do has no layers: which kernels belong to a collective its place does not tell.
//
// Background threads that fuse what is ready reduce other batches in each step: there a step is what adds up to the same bytes (equal_sums.h).
//
// Worlds with a single annotated step are left alone, and processes whose events were thinned, because a gap in the sequence is a shift.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

#include "analyzer/passes/background.h"
#include "analyzer/passes/catalog.h"

namespace ddl {

/// Takes back what infer_steps() did.
void forget_inferred_steps(SQLite::Database& db);

/// Fills `inferred_steps`, `step`, `region` and `inferred_layer`, and sets event.step, event.region and gpu_event.step.
void infer_steps(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background);

}  // namespace ddl
