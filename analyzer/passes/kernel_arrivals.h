// When the last member of each collective and message began that kernels of GPUs carry out: before then the others
// wait.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/instance.h"

namespace ddl {

/// Communicator, number, and which run of it: a collective that was captured into a CUDA graph runs with each launch of
/// the graph. The k-th run is the k-th of each of its nodes, as in v_collective (store/ingest/nccl_collectives.cpp).
///
/// Messages over NCCL carry no number. But on a communicator of two ranks both run a kernel for each exchange, and in
/// the same order: so the k-th of a step is the same one on both, if both ran as many. Their numbers are negative, the
/// step stands in the place of the run. Without marked steps the whole run counts as one: inferred ones end at another
/// moment on each rank.
using KernelKey = std::tuple<int64_t, int64_t, int64_t>;

/// Numbers the kernels of one process, which come in the order of their begins.
class KernelNumbers {
 public:
  KernelNumbers(const Catalog& catalog, bool has_marked_steps)
      : catalog_(catalog), has_marked_steps_(has_marked_steps) {}

  /// Nothing: it cannot be told which collective or message it is.
  std::optional<KernelKey> next(int64_t comm, std::optional<int64_t> seq, std::optional<int64_t> step,
                                std::optional<int64_t> graph_node, std::optional<int64_t> comm_rank);

 private:
  const Catalog& catalog_;
  bool has_marked_steps_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> runs_;  ///< so far, of a node for a collective
  /// so far, on a communicator in a step as one of its ranks
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> messages_;
};

/// Whether the program marked its steps, not inference.
bool has_marked_steps(SQLite::Database& db);

/// The waiting of all members, where it can be told (specification.md W2).
class KernelArrivals {
 public:
  KernelArrivals(SQLite::Database& db, const Catalog& catalog);

  std::optional<int64_t> wait_ns(const KernelKey& key, const Interval& kernel, Why& why) const;
  /// Clock sigma of the waits on a communicator.
  double sigma_ns(int64_t communicator) const;

 private:
  using Members = std::vector<std::pair<int64_t, Interval>>;  ///< process, its kernel
  void add_messages(SQLite::Database& db);
  /// Instances with all their members only. The last one of a communicator says what its clocks may be wrong by.
  void add(const KernelKey& key, const Members& members);

  const Catalog& catalog_;
  std::vector<std::pair<KernelKey, int64_t>> last_ns_;  ///< by key
  std::map<int64_t, std::vector<double>> waits_;        ///< by communicator, while it is filled
  std::map<int64_t, std::optional<double>> sigmas_;     ///< by communicator
  std::vector<int64_t> untrusted_;
};

}  // namespace ddl
