// A run as Chakra execution traces, one a rank, for simulators such as ASTRA-sim: et_def.proto of mlcommons/chakra, as a stream of messages, each behind
// its length.
//
//   COMP_NODE       what a host did between calls; kernels, copies and memsets of GPUs
//   COMM_COLL_NODE  a collective that all its members have in the window. comm_size: what this rank sends, as simulators take it
//   COMM_SEND_NODE, COMM_RECV_NODE  a message of which both ends are in the window
//   data_deps       order: of what the host did, of each stream; kernels wait for their launch; the host for requests that a call completed, and
//                   for what a synchronisation waited for; streams for streams
//
// The host is one line: what its threads did one after the other. Calls of other threads than that of the steps begin when it got there, and nothing
// is known to wait for them. Times are microseconds from the begin of the window; durations are differences of those, so that no rounding adds up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/csv.h"
#include "reports/trace/selection.h"

namespace ddl::reports {

class ChakraTraces {
 public:
  /// Without steps asked for: a steady step of median length; of runs without steps all of it. Throws ddl::Error as select_processes() does.
  ChakraTraces(const RunView& run, TraceRequest request);

  size_t size() const { return processes_.size(); }
  /// PREFIX.RANK.et, as ASTRA-sim wants it.
  std::string file_name(size_t trace) const;
  void write(size_t trace, const Sink& sink);
  /// The members of communicators: {"3": [0, 1]}, as ASTRA-sim's --comm-group-configuration.
  std::string communicators() const;
  /// Sentences about what a simulation lacks: to be called after all were written.
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
