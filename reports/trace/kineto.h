// A rank of a run as a trace in the JSON of PyTorch's profiler (libkineto), for programs that read those: HTA, TraceLens, `ddl import
// kineto`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/csv.h"
#include "reports/trace/selection.h"

namespace ddl::reports {

class KinetoTraces {
 public:
  /// Makes temporary tables in the connection. Throws ddl::Error as select_processes() does.
  KinetoTraces(const RunView& run, const TraceRequest& request);

  /// One for each process but those that became another program.
  size_t size() const { return processes_.size(); }
  /// As torch's own handler names its files: HOST_RANK.MILLISECONDS.pt.trace.json. Letters, digits, '.', '-' and '_' only.
  std::string file_name(size_t trace) const;
  /// In pieces, as it reads. ASCII: what else names hold is escaped.
  void write(size_t trace, const Sink& sink) const;

 private:
  const RunView& run_;
  std::vector<TraceProcess> processes_;
  int64_t epoch_ns_ = 0;  ///< Unix time of the run's zero; 0: not known
};

}  // namespace ddl::reports
