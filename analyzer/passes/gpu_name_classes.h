// What the names in gpu_event mean, by number: passes that read millions of events do not ask for the text of each.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <vector>

namespace ddl {

class GpuNameClasses {
 public:
  explicit GpuNameClasses(SQLite::Database& db);
  /// By the name: it is a kernel that communicates.
  bool communicates(int64_t name) const { return has(name, kCommunicates); }
  /// A synchronisation that holds up a stream, and no host.
  bool is_stream_wait(int64_t name) const { return has(name, kStreamWait); }

 private:
  enum Bit : uint8_t { kCommunicates = 1, kStreamWait = 2 };
  bool has(int64_t name, Bit bit) const { return static_cast<uint64_t>(name) < bits_.size() && (bits_[static_cast<size_t>(name)] & bit); }
  std::vector<uint8_t> bits_;  ///< by gpu_name.id, which begin with 1
};

}  // namespace ddl
