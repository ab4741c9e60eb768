// The graph of who waits for whom: ranks sit in calls, calls wait for ranks.
#pragma once

#include <cstddef>
#include <vector>

namespace ddl {

/// Nodes are 0 .. size-1.
struct WaitGraph {
  std::vector<std::vector<size_t>> next;  ///< from who waits to what it waits for

  explicit WaitGraph(size_t size) : next(size) {}
  void wait(size_t who, size_t whom) { next[who].push_back(whom); }

  /// Sets of nodes that wait for each other, of which nobody waits for anything else, and for which somebody waits or
  /// which have several nodes: the first causes. Linear; nothing recursive.
  std::vector<std::vector<size_t>> sinks() const;
};

}  // namespace ddl
