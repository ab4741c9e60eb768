// One rank's spool, written along a virtual clock: what goes into which record, table and meta entry, as
// core/format.h describes it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/format.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl::test::synthetic {

/// The clocks of a process: readings at `t` ns of the run.
struct VirtualClock {
  double tsc_hz = 0;  ///< 0: ticks are CLOCK_MONOTONIC
  uint64_t tsc_base = 0, monotonic_base = 0, realtime_base = 0;
  Plan::HostClock host;

  uint64_t ticks(int64_t t) const {
    if (tsc_hz == 0) return monotonic_base + static_cast<uint64_t>(local(t));
    return tsc_base +
           static_cast<uint64_t>(static_cast<long double>(local(t)) * static_cast<long double>(tsc_hz) / 1e9L + 0.5L);
  }
  ClockPair pair(int64_t t) const {
    const uint64_t now = static_cast<uint64_t>(local(t));
    return {ticks(t), monotonic_base + now, realtime_base + now};
  }
  /// What the host makes of it.
  int64_t local(int64_t t) const {
    const double bent = host.bend_ppm * static_cast<double>(t > host.bend_at_ns ? t - host.bend_at_ns : 0);
    return t + host.offset_ns + (t >= host.step_at_ns ? host.step_ns : 0) +
           llround((host.drift_ppm * static_cast<double>(t) + bent) * 1e-6);
  }
};

struct ProcessSettings {
  VirtualClock clock;
  std::string host, boot_id;
  uint32_t pid = 1;
  uint64_t process_start = 1;
  uint64_t world_key = 0;
  int64_t begin_ns = 0;
  bool has_window = false;
  uint64_t first_kept = 0, last_kept = 0;
  std::vector<std::pair<std::string, std::string>> facts;
};

class SyntheticProcess {
 public:
  explicit SyntheticProcess(const ProcessSettings& settings);

  FileHeader& header() { return spool_.header(); }
  SpoolBuilder& spool() { return spool_; }
  std::string file_name() const;
  uint64_t records() const { return records_; }
  uint64_t ticks(int64_t t) const { return settings_.clock.ticks(t); }

  struct Call {
    Record record;
    bool to_log;
    size_t chunk;
    uint64_t slot;  ///< ring: number of the record
  };
  /// `site`: number of the place in the program; every place is a call site of its own.
  Call enter(int64_t t, uint32_t op, uint32_t site, uint32_t comm, bool collective, uint32_t sequence, int32_t peer,
             uint64_t payload);
  void leave(Call& call, int64_t t, uint64_t payload);
  /// A non-blocking operation that is over, with the posting call that began it.
  void request(const Call& post, int64_t t, uint64_t payload);
  void add_bytes(const Call& post, uint64_t bytes) {
    entry(post.record.context, post.record.comm, record_op(post.record.word), 0).bytes += bytes;
  }
  void polls(int64_t t, uint32_t op, uint32_t site, int64_t count, int64_t each_ns);

  /// A call that gave a GPU something to do; what it did is told by device().
  void launch(int64_t t, int64_t duration_ns, LaunchKind kind, uint32_t correlation);
  void device(const DeviceRecord& record);
  uint32_t string(const std::string& text) { return string_id(text); }

  void push(int64_t t, ContextKind kind, const std::string& name, uint64_t step);
  void pop(int64_t t, ContextKind kind);
  void value(int64_t t, const std::string& name, double value);
  /// Makes the contexts of a range without entering it, so that ids differ between processes.
  uint32_t intern(uint32_t parent, ContextKind kind, const std::string& name);
  void name_communicator(uint32_t index, const std::string& name) { spool_.communicator_name(index, string_id(name)); }
  void keep_level(uint32_t level) { header().keep_level = level; }

  void write_clock(int64_t t);
  /// The profile goes into the file: nothing may follow.
  void finish();

 private:
  struct Range {
    ContextKind kind;
    uint32_t outer, context;
    int64_t start;
    uint64_t call_ticks, step;
  };
  /// Chunks that are made from now on begin at `t`.
  void set_time(int64_t t) { spool_.set_time(ticks(t), settings_.clock.pair(t).monotonic_ns); }
  uint32_t site_context(uint32_t site);
  uint32_t string_id(const std::string& text);
  uint32_t context_id(uint32_t parent, ContextKind kind, uint32_t name, uint64_t site);
  ProfileEntry& entry(uint32_t context, uint32_t comm, uint32_t op, uint64_t bytes);
  static void add(ProfileEntry& entry, uint64_t bytes, uint64_t duration);
  bool keep(bool collective, uint32_t sequence) const;
  bool kept_unit(uint64_t unit) const { return (unit & ((uint64_t{1} << spool_.header().keep_level) - 1)) == 0; }
  /// Takes the next slot and writes `record` there.
  Call put(const Record& record, bool to_log);
  void put_again(const Call& call, const Record& record);
  void write_range(const Range& range, RecordKind kind, int64_t t);
  void refresh(int64_t t);

  ProcessSettings settings_;
  SpoolBuilder spool_;
  size_t ring_ = 0, profile_chunk_ = 0, log_ = 0, device_ = SIZE_MAX;
  uint32_t log_slot_ = 0, log_bytes_ = kMinChunkBytes;
  uint64_t ring_written_ = 0, records_ = 0, call_ticks_ = 0;
  int64_t latest_ = 0;
  uint32_t context_ = 0;
  std::vector<Range> ranges_;
  bool steps_seen_ = false, step_open_ = false, keep_step_ = true;
  std::map<std::string, uint32_t> strings_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t> contexts_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, ProfileEntry> profile_;
};

}  // namespace ddl::test::synthetic
