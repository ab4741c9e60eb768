// Which streams of a process's GPUs wait for which others: cudaStreamWaitEvent joined with the cudaEventRecord that it
// refers to, into table stream_wait.
//
// CUPTI from 12.8 on numbers each recording of an event, and a wait names the number. Before, it is the latest
// recording of that event before the wait, in the order of the calls. Waits for an event without a recording (before
// the window, in another process) are left out.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/format.h"
#include "store/insert.h"

namespace ddl::store {

class StreamWaits {
 public:
  /// True: the recording of an event, which is no GPU work.
  bool add(const DeviceRecord& record);
  void write(Statements& db, int64_t process);

 private:
  struct Recorded {
    uint32_t correlation;
    uint16_t context;
    uint32_t stream;
  };
  const Recorded* recorded_for(const DeviceRecord& wait) const;

  std::vector<DeviceRecord> waits_;
  std::unordered_map<uint64_t, Recorded> numbered_;                          ///< by number of the recording
  std::map<std::pair<uint16_t, uint32_t>, std::vector<Recorded>> of_event_;  ///< by context and event
};

}  // namespace ddl::store
