// Which axis of parallelism a communicator serves: by what its framework calls it, else by what it was split from and
// with, else by where its members lie.
//
//   by name   words of PyTorch's process groups and device meshes, Megatron-LM, DeepSpeed and of MPI_Comm_set_name:
//             tensor, pipeline, data, context, sequence, expert, embedding, model; several in one name are joined,
//             "data+context". A group of the experts that is named after one more axis ("EXPERT_DATA_PARALLEL_GROUP":
//             the experts' gradients) serves that one
//             context, sequence, expert, embedding, model; several in one name are joined, "data+context". A group
//             of the experts that is named after one more axis ("EXPERT_DATA_PARALLEL_GROUP": the experts'
//             gradients) serves that one
//   by lineage  of communicators that came of a split (ncclCommSplit): the axis of those that the same split made, of
//               the ranks beside them,
//             where some have a name and all that have one agree; else that of the nearest communicator above it that
//             has one: the parts of a tensor's ranks still serve the tensor
//   by shape  what has no such name says nothing of its purpose: "all ranks", "stride 1" (neighbours),
//             "stride 8" (every eighth rank), "other". Neighbours are not taken for a tensor's parts: they
//             may be the ranks of a node
// Communicators of one rank, files, windows and those between groups serve none.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/passes/catalog.h"

namespace ddl {

/// "" if no word of `label` names one.
std::string axis_in_name(std::string_view label);

/// `ranks`: members by their rank in the world, in the communicator's order.
std::string axis_of_shape(const std::vector<int64_t>& ranks, int64_t world_size);

/// The known facts about a communicator.
struct AxisInput {
  std::string label;
  bool groups_ranks = true;  ///< it is not a file, no window, and not between two groups
  int64_t size = 0;
  std::vector<int64_t> ranks;  ///< in the communicator's order; empty, or -1 in it: not known
  int64_t world_size = 0;
  std::optional<size_t> parent;  ///< place in the list
  int64_t split = 0;             ///< number of the split of the parent that made it; 0: none
};

struct AxisOfCommunicator {
  std::string axis;         ///< empty: none, or nobody can tell
  const char* source = "";  ///< name, lineage, shape
};

std::vector<AxisOfCommunicator> axes_of(const std::vector<AxisInput>& communicators);

/// Fills `communicator_axis`.
void name_axes(SQLite::Database& db, const Catalog& catalog);

/// Ranks by their place on the axes that SQL's LIKE `pattern` matches, such as the stage of a pipeline, as far as the
/// axis's communicators tell it: by the order of their members, or of neighbours in a chain of several. Needs
/// `communicator_axis`.
std::map<int64_t, int64_t> places_on_axis(SQLite::Database& db, int64_t world, const std::string& pattern);

}  // namespace ddl
