#include "analyzer/passes/hang_graph.h"

#include <algorithm>
#include <cstdint>

namespace ddl {

std::vector<std::vector<size_t>> WaitGraph::sinks() const {
  // Tarjan's strongly connected components, with a stack of our own.
  constexpr size_t kNone = SIZE_MAX;
  const size_t size = next.size();
  std::vector<size_t> number(size, kNone), low(size), component(size, kNone), at(size), path, open;
  size_t numbers = 0, components = 0;
  for (size_t root = 0; root < size; ++root) {
    if (number[root] != kNone) continue;
    path.push_back(root);
    while (!path.empty()) {
      const size_t node = path.back();
      if (number[node] == kNone) {
        number[node] = low[node] = numbers++;
        open.push_back(node);
      }
      bool deeper = false;
      while (at[node] < next[node].size()) {
        const size_t to = next[node][at[node]++];
        if (number[to] == kNone) {
          path.push_back(to);
          deeper = true;
          break;
        }
        if (component[to] == kNone) low[node] = std::min(low[node], number[to]);
      }
      if (deeper) continue;
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[node]);
      if (low[node] != number[node]) continue;
      for (;;) {
        const size_t member = open.back();
        open.pop_back();
        component[member] = components;
        if (member == node) break;
      }
      ++components;
    }
  }
  std::vector<char> leaves(components), awaited(components);
  std::vector<std::vector<size_t>> members(components);
  for (size_t node = 0; node < size; ++node) {
    members[component[node]].push_back(node);
    for (const size_t to : next[node]) {
      if (component[to] == component[node]) continue;
      leaves[component[node]] = 1;
      awaited[component[to]] = 1;
    }
  }
  std::vector<std::vector<size_t>> result;
  for (size_t c = 0; c < components; ++c)
    if (!leaves[c] && (awaited[c] || members[c].size() > 1)) result.push_back(std::move(members[c]));
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace ddl
