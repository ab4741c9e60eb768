// A run as traces for other programs, written in pieces while reading. All make temporary tables in the connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/csv.h"
#include "reports/trace/selection.h"

namespace ddl::reports {

// ---- A run as a trace for Perfetto (ui.perfetto.dev, trace_processor): a process per rank, with tracks of what
// docs/how-to/export.md lists.
/// Memory grows with names, tracks and steps, not events. Times are exact. Throws ddl::Error as
/// select_processes() does.
void write_perfetto(const RunView& run, const TraceRequest& request, const Sink& sink, const TraceProgress& progress);

// ---- A rank of a run as a trace in the JSON of PyTorch's profiler (libkineto), for programs that read those: HTA,
// TraceLens, `ddl import kineto`.
class KinetoTraces {
 public:
  /// Throws ddl::Error as select_processes() does.
  KinetoTraces(const RunView& run, const TraceRequest& request);

  /// One for each process, except those that became another program.
  size_t size() const { return processes_.size(); }
  /// Named as torch's own handler does: HOST_RANK.MILLISECONDS.pt.trace.json. Letters, digits, '.', '-' and '_' only.
  std::string file_name(size_t trace) const;
  /// ASCII: other characters in names are escaped.
  void write(size_t trace, const Sink& sink) const;

 private:
  const RunView& run_;
  std::vector<TraceProcess> processes_;
  int64_t epoch_ns_ = 0;  ///< Unix time of the run's zero; 0: unknown
};

// ---- A run as Chakra execution traces, one a rank, for simulators such as ASTRA-sim: et_def.proto of
// mlcommons/chakra, as a stream of messages, each behind its length.
//
//   COMP_NODE       what a host did between calls; kernels, copies and memsets of GPUs
//   COMM_COLL_NODE  a collective that all its members have in the window. comm_size: what this rank sends, as
//                   simulators take it
//   COMM_SEND_NODE, COMM_RECV_NODE  a message of which both ends are in the window
//   data_deps       order: of what the host did, of each stream; kernels wait for their launch; the host for requests
//                   that a call completed, and for what a synchronisation waited for; streams for streams
//
// The host is one line: the work of its threads in sequence. Calls of other threads than the steps' begin when it got
// there, and nothing waits for them. Times are microseconds from the begin of the window; durations are differences of
// those, so that rounding errors do not add up.
class ChakraTraces {
 public:
  /// By default a steady step of median length, without steps the whole run. Throws ddl::Error as
  /// select_processes() does.
  ChakraTraces(const RunView& run, TraceRequest request);

  size_t size() const { return processes_.size(); }
  /// PREFIX.RANK.et, as ASTRA-sim wants it.
  std::string file_name(size_t trace) const;
  void write(size_t trace, const Sink& sink);
  /// The members of communicators: {"3": [0, 1]}, as ASTRA-sim's --comm-group-configuration.
  std::string communicators() const;
  /// Sentences about what a simulation lacks: call it after all are written.
  std::vector<std::string> notes() const;

 private:
  const RunView& run_;
  TraceRequest request_;
  std::vector<TraceProcess> processes_;
  std::vector<int64_t> missing_;
  int64_t begin_ns_ = 0;
  uint64_t collectives_left_ = 0, messages_left_ = 0, kernels_left_ = 0;
};

}  // namespace ddl::reports
