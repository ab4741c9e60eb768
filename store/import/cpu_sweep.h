// Threads' activities in the order of time: nests ranges, and places each call in its range.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "store/import/imported_run.h"

namespace ddl::store {

/// Takes threads' activities from the run in order; fills step, range_event, range_profile, event and profile, and
/// gives the run each launch's place.
class CpuSweep {
 public:
  CpuSweep(ImportedRun& run, MadeRows& made, const std::function<void(double ratio)>& step_done);
  /// Throws Error if the times or bytes of the trace overflow 64 bits.
  void run();

 private:
  /// The operation of NCCL kernels launched in a range.
  struct Launches {
    int64_t range = 0;
    uint32_t op = 0, comm = 0, datatype = 0;
    std::optional<int64_t> bytes;
  };
  struct Open {
    int64_t start_ns, end_ns;
    uint32_t region;
    bool is_step;
    int64_t number;  ///< of a step
    std::optional<int64_t> seq;
    std::optional<Launches> launches;
    int64_t mpi_ns = 0;
  };
  struct Totals {
    int64_t calls = 0, time_ns = 0, mpi_ns = 0, min_ns = INT64_MAX, max_ns = 0;
    std::optional<int64_t> bytes = 0;  ///< unset: unknown for some call
    /// False: the sums overflow 64 bits.
    [[nodiscard]] bool add(int64_t duration_ns, std::optional<int64_t> more_bytes, int64_t inside_mpi_ns);
  };

  /// For a call at this time: the trace's word on the communicator goes before a mere name's.
  const Launches* launches_at(int64_t time_ns) const;
  void close_until(int64_t time_ns);
  /// Adds an open one. Throws Error if there are too many at a time, since each call looks at all of them.
  void make_room(int64_t time_ns);
  void close(const Open& range);
  void end_process();
  void add(Totals& totals, int64_t duration_ns, std::optional<int64_t> bytes, int64_t mpi_ns) const;
  [[noreturn]] void refuse_sums() const;
  uint32_t current() const { return open_.empty() ? 0 : open_.back().region; }
  /// For a call whose layer the trace names: in the step, in whatever other ranges it begins.
  uint32_t layer_in_step(uint32_t name) const;

  ImportedRun& run_;
  const std::function<void(double)>& step_done_;
  int64_t process_ = -1, thread_ = -1;
  int64_t ranges_of_nccl_ = 0;
  std::vector<Open> open_;
  std::map<uint32_t, Totals> ranges_;                                    ///< of the process, by region
  std::map<std::tuple<int64_t, int64_t, uint32_t, int>, Totals> calls_;  ///< by op, communicator, region, size class
  /// numbers of its steps whose use that counts is written
  std::set<int64_t> measured_;
  size_t open_launches_ = 0;  ///< of open_, with launches
  int64_t events_ = 0;        ///< event.id of the last one
  Insert insert_step_, insert_source_;
  RowBuffer insert_range_, insert_event_;
};

}  // namespace ddl::store
