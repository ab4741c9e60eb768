#include "analyzer/passes/hta.h"

#include <algorithm>
#include <cstdint>

#include "analyzer/query.h"

namespace ddl {
namespace {

/// Length of a union of intervals that come by their begin.
class UnionLength {
 public:
  void add(int64_t begin_ns, int64_t end_ns) {
    length_ns_ += std::max<int64_t>(0, end_ns - std::max(begin_ns, end_ns_));
    end_ns_ = std::max(end_ns_, end_ns);
  }
  int64_t length_ns() const { return length_ns_; }
  int64_t end_ns() const { return end_ns_; }

 private:
  int64_t end_ns_ = INT64_MIN;
  int64_t length_ns_ = 0;
};

}  // namespace

void analyze_hta(SQLite::Database& db) {
  Query insert(db, "INSERT INTO hta_part VALUES (?, ?, ?, ?, ?, ?, ?)");
  Query processes(db, "SELECT id FROM process ORDER BY id");
  Query events(
      db,
      "SELECT g.start_ns, g.duration_ns, CASE WHEN g.kind <> 1 THEN 'memory' WHEN n.name GLOB 'nccl*' THEN 'communication' ELSE 'compute' END"
      " FROM gpu_event g"
      " JOIN gpu_name n ON n.id = g.name WHERE g.process = ? AND g.kind IN (1, 2, 3) ORDER BY g.start_ns");
  while (processes.next()) {
    events.bind(processes.integer(0));
    UnionLength all, compute, comm, kernels;
    int64_t begin_ns = 0;
    bool any = false;
    while (events.next()) {
      const int64_t start_ns = events.integer(0), end_ns = start_ns + std::max<int64_t>(0, events.integer(1));
      if (!any) begin_ns = start_ns;
      any = true;
      all.add(start_ns, end_ns);
      if (events.text(2) == "memory") continue;
      kernels.add(start_ns, end_ns);
      (events.text(2) == "communication" ? comm : compute).add(start_ns, end_ns);
    }
    if (!any) continue;
    const int64_t kernel_time_ns = all.end_ns() - begin_ns, idle_ns = kernel_time_ns - all.length_ns();
    insert.run(processes.integer(0), kernel_time_ns, idle_ns, compute.length_ns(), kernel_time_ns - idle_ns - compute.length_ns(),
               comm.length_ns(), compute.length_ns() + comm.length_ns() - kernels.length_ns());
  }
}

}  // namespace ddl
