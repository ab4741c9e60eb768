// Loads one spool into the store, with the tables that translate its local numbers into the run's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include "store/ingest/record_stream.h"

#include "core/reader.h"
#include "store/ingest/clocks.h"
#include "store/ingest/communicators.h"
#include "store/ingest/contexts.h"
#include "store/ingest/gpu_names.h"
#include "store/ingest/losses.h"
#include "store/ingest/nccl_collectives.h"
#include "store/ingest/operations.h"
#include "store/ingest/spool_table.h"
#include "store/ingest/timeline.h"
#include "store/insert.h"
#include "store/made_rows.h"

namespace ddl::store {

/// The common target of all processes.
struct RunTables {
  Operations operations;
  Regions regions;
  const Communicators& communicators;
  Losses losses;
  GpuNames gpu_names;
  NcclCollectives nccl;
};

/// From one process's numbers to the run's ids. What the spool does not describe is counted and gets a fallback:
/// "unknown#N", no communicator, outside every range.
class ProcessTables : public MetaVisitor {
 public:
  ProcessTables(RunTables& run, const Scan& scan, int64_t process, const Place& place, const ProcessClock& clock);

  int64_t process() const { return process_; }
  const Place& place() const { return place_; }
  const ProcessClock& clock() const { return clock_; }

  uint32_t op(uint32_t number);
  const Operation& operation(uint32_t id) const { return run_.operations[id]; }
  /// 0: none.
  uint32_t comm(uint32_t index);
  /// For NCCL: the process's rank on it, maybe one of several. Unset: unknown.
  std::optional<int32_t> comm_rank(uint32_t index) const;
  bool is_self(uint32_t comm) const { return comm != 0 && run_.communicators[comm].flags & kCommSelf; }
  ProcessContexts::Entry context(uint32_t id);
  const std::string& string(uint32_t id) const;

  struct Thread {
    uint32_t tid;
    std::string name;
  };
  const std::map<uint32_t, Thread>& threads() const { return threads_; }
  const std::vector<std::pair<std::string, std::string>>& facts() const { return facts_; }
  struct Sample {
    uint64_t ticks;
    uint32_t device;  ///< string id, as name
    uint32_t name;
    double value;
  };
  const std::vector<Sample>& samples() const { return samples_; }
  /// How often undescribed numbers were requested.
  uint64_t unresolved() const { return unresolved_; }

  /// Reads the meta chunks.
  void read(const SpoolReader& reader, std::vector<Skip>& skips);

 private:
  void on_string(uint32_t id, std::string_view text) override;
  void on_context(const ContextMeta& meta) override;
  void on_module(const ModuleMeta& meta, std::string_view path) override;
  void on_thread(const ThreadMeta& meta, std::string_view name) override;
  void on_fact(std::string_view key, std::string_view value) override;
  void on_sample(const SampleMeta& meta, std::span<const SampleValue> values) override;

  RunTables& run_;
  const Scan& scan_;
  int64_t process_;
  Place place_;
  ProcessClock clock_;
  std::vector<uint32_t> ops_;                         ///< by number, 0: not described
  std::vector<uint32_t> comms_;                       ///< by index, 0: not described
  std::unordered_map<uint32_t, int32_t> comm_ranks_;  ///< by index, of NCCL
  ProcessContexts contexts_;
  std::unordered_map<uint32_t, std::string> strings_;
  std::map<uint32_t, Thread> threads_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::vector<Sample> samples_;
  uint64_t unresolved_ = 0;
};

/// What can be read from a spool without knowing the run: on any thread. Acquires its reader.
Timeline decode_spool(const Scan& scan);

/// Writes all rows of the spool of `scan`, and releases its reader; returns the number of events. `step_done`
/// gets the bytes read.
uint64_t load_process(Statements& db, SpoolTable& spool_table, MadeRows& made, RunTables& run, const Scan& scan,
                      const Timeline& timeline, int64_t process, int64_t host, const Place& place,
                      const ProcessClock& clock, const std::function<void(uint64_t bytes)>& step_done);

/// Writes both tables for one process. Appends damage to `skips`.
void load_profile(Statements& db, MadeRows& made, const SpoolReader& reader, ProcessTables& tables,
                  std::vector<Skip>& skips);

void load_training_thread(Statements& db, RecordStream& stream, ProcessTables& tables);

}  // namespace ddl::store
