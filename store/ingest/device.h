// GPU activities: device records joined with their launching calls, into table gpu_event.
//
// The join is made here, not in the job, because the two sides come at different times from different threads: the
// job's threads write launches as they make them, CUPTI reports the outcome seconds later and in any order. The table
// of launches is held in memory: 40 bytes for each one that the window kept.
#pragma once

#include <cstdint>
#include <vector>

#include "core/reader.h"
#include "store/ingest/process_load.h"
#include "store/ingest/record_stream.h"
#include "store/ingest/timeline.h"
#include "store/insert.h"

namespace ddl::store {

/// From ns of the device's clock to ticks, between and beyond the moments that are known on both. The rate beyond them
/// is that of `clock`.
class DeviceClock {
 public:
  explicit DeviceClock(std::vector<DeviceClockMeta> pairs);
  bool known() const { return !pairs_.empty(); }
  uint64_t ticks(uint64_t device_ns, const ProcessClock& clock) const;

 private:
  std::vector<DeviceClockMeta> pairs_;  ///< ascending in both
};

/// Returns the end of the last device activity, in ticks; 0: none.
uint64_t load_device(Statements& db, RunTables& run, const SpoolReader& reader, RecordStream& stream,
                     const Timeline& timeline, ProcessTables& tables, std::vector<Skip>& skips);

}  // namespace ddl::store
