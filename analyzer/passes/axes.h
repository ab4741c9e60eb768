// Which axis of parallelism a communicator serves: by what its framework calls it, else by where its members lie.
//
//   by name   words of PyTorch's process groups and device meshes, Megatron-LM, DeepSpeed and of MPI_Comm_set_name: tensor, pipeline, data,
//             context, sequence, expert, embedding, model; several in one name are joined, "data+context". A group of the experts that is
//             named after one more axis ("EXPERT_DATA_PARALLEL_GROUP": the experts' gradients) serves that one
//   by shape  what has no such name says nothing of its purpose: "all ranks", "stride 1" (neighbours), "stride 8" (every eighth rank),
//             "other". Nobody guesses that neighbours are a tensor's parts: they may be the ranks of a node
// Communicators of one rank, files, windows and those between groups serve none.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/passes/catalog.h"

namespace ddl {

/// "" if no word of `label` names one.
std::string axis_in_name(std::string_view label);

/// `ranks`: members by their rank in the world, in the communicator's order.
std::string axis_of_shape(const std::vector<int64_t>& ranks, int64_t world_size);

/// Fills `communicator_axis`.
void name_axes(SQLite::Database& db, const Catalog& catalog);

}  // namespace ddl
