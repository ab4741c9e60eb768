// Where the time of a step goes, rank by rank and GPU by GPU, in the categories of ddl-top: what figures of bars draw.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reports/run_view.h"

namespace ddl::reports::html {

/// Mean over the steady steps (whole run if there are none); they add up to the duration. Of GPUs compute is their kernels, of ranks what
/// is outside of MPI calls.
struct Share {
  int64_t rank = 0;
  std::optional<int64_t> device;  ///< of GPUs
  double compute_ns = 0;          ///< with nothing on the network
  double overlap_ns = 0;          ///< with communication beside it; 0 if that is not known
  double transfer_ns = 0;         ///< exposed communication: nothing computes
  double wait_ns = 0;             ///< exposed waiting for other ranks
  double unsplit_ns = 0;          ///< exposed communication of which nobody knows what was waiting
  double copy_ns = 0;             ///< exposed copies of GPUs
  double idle_ns = 0;
  double total_ns() const { return compute_ns + overlap_ns + transfer_ns + wait_ns + unsplit_ns + copy_ns + idle_ns; }
};

/// The members of Share, in the order of drawing.
struct Category {
  const char* name;
  const char* css;  ///< class in style.css
  const char* key;  ///< column of the data table
  double Share::*part;
};
inline constexpr Category kCategories[] = {{"compute", "c0", "compute_ns", &Share::compute_ns},
                                           {"compute and communication", "c1", "overlap_ns", &Share::overlap_ns},
                                           {"exposed transfer", "c2", "transfer_ns", &Share::transfer_ns},
                                           {"waiting for others", "c3", "wait_ns", &Share::wait_ns},
                                           {"exposed, waiting not known", "c4", "unsplit_ns", &Share::unsplit_ns},
                                           {"exposed copies", "c5", "copy_ns", &Share::copy_ns},
                                           {"idle", "c6", "idle_ns", &Share::idle_ns}};

std::vector<Share> shares_of_ranks(const RunView& run);
std::vector<Share> shares_of_gpus(const RunView& run);

}  // namespace ddl::reports::html
