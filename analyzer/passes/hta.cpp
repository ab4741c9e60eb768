#include "analyzer/passes/passes.h"

#include <algorithm>
#include <cstdint>
#include <optional>

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

enum class HtaClass : int64_t { kMemory, kCommunication, kComputation };  // as the query has them

/// What HTA prints of events of one process that come by their begin.
class HtaPart {
 public:
  void add(int64_t start_ns, int64_t end_ns, HtaClass of) {
    if (!any_) begin_ns_ = start_ns;
    any_ = true;
    all_.add(start_ns, end_ns);
    if (of == HtaClass::kMemory) return;
    kernels_.add(start_ns, end_ns);
    (of == HtaClass::kCommunication ? comm_ : compute_).add(start_ns, end_ns);
  }
  void write(Query& insert, int64_t process, bool whole) const {
    if (!any_) return;
    const int64_t kernel_time_ns = all_.end_ns() - begin_ns_, idle_ns = kernel_time_ns - all_.length_ns();
    insert.run(process, whole ? 1 : 0, kernel_time_ns, idle_ns, compute_.length_ns(),
               kernel_time_ns - idle_ns - compute_.length_ns(), comm_.length_ns(),
               compute_.length_ns() + comm_.length_ns() - kernels_.length_ns());
  }

 private:
  UnionLength all_, compute_, comm_, kernels_;
  int64_t begin_ns_ = 0;
  bool any_ = false;
};

}  // namespace

void analyze_hta(SQLite::Database& db) {
  Query insert(db, "INSERT INTO hta_part VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  // As v_hta_event; sorted once for both.
  Query processes(
      db,
      "SELECT p.id, (SELECT max(s.start_ns) FROM step s WHERE s.process = p.id AND (SELECT count(DISTINCT step) FROM step) > 1)"
      " FROM process p ORDER BY p.id");
  Query events(
      db,
      "SELECT g.start_ns, g.duration_ns, iif(g.kind <> 1, 0, iif(n.name GLOB 'nccl*', 1, 2)), g.launch_ns FROM gpu_event g"
      " JOIN gpu_name n ON n.id = g.name WHERE g.process = ? AND g.kind IN (1, 2, 3) ORDER BY g.start_ns");
  while (processes.next()) {
    const int64_t process = processes.integer(0);
    const std::optional<int64_t> last_step_ns = processes.maybe_integer(1);
    events.bind(process);
    HtaPart whole, kept;
    while (events.next()) {
      const int64_t start_ns = events.integer(0), end_ns = start_ns + std::max<int64_t>(0, events.integer(1));
      const auto of = static_cast<HtaClass>(events.integer(2));
      whole.add(start_ns, end_ns, of);
      if (!last_step_ns || (!events.is_null(3) && events.integer(3) < *last_step_ns)) kept.add(start_ns, end_ns, of);
    }
    kept.write(insert, process, false);
    whole.write(insert, process, true);
  }
}

}  // namespace ddl
