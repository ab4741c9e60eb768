// One spool of a running job: hands new records to the job. Read-only, from a file that is never mapped
// (core/reader.h).
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/reader.h"
#include "store/ingest/clocks.h"
#include "tui/numbering.h"
#include "tui/spool_devices.h"

namespace ddl::tui {

class SpoolProcess : private MetaVisitor {
 public:
  /// Throws ddl::Error (kDataMissing) if this is not a readable spool.
  SpoolProcess(Numbering& numbering, NcclSizes& sizes, const std::string& path);

  /// Reads what is new. Events count once the process is a rank (`index`). The first look joins a log about
  /// `join_bytes` before its end, per thread, and `device_bytes` of GPU work. Throws ddl::Error if the file was
  /// truncated.
  void read(Job& job, uint64_t join_bytes, uint64_t device_bytes);

  /// Reads its header only. Throws as read().
  void refresh() { reader_.refresh(); }

  /// How much of the end of each thread's log reaches back to the begin of the process's last `steps`; `most_bytes` if
  /// more, or without marked steps.
  uint64_t bytes_of_steps(size_t steps, uint64_t most_bytes);

  /// GPU work, to be joined with what read() finds. Call it for all processes first: then the launches of GPU work, and
  /// the other members' calls, are there.
  void read_devices();
  /// Call after reading all processes, once they have clocks.
  void join_devices(Job& job);

  /// Closes the spool until the next read.
  void release() { reader_.release(); }

  const FileHeader& header() const { return reader_.header(); }
  const std::string& path() const { return reader_.path(); }
  const std::string& host() const { return clock_.host; }
  const std::string& boot_id() const { return clock_.boot; }
  /// "exe", "command", "job_id", "local_rank", "mpi"; empty: not reported.
  std::string fact(const std::string& key) const;
  /// The clock pairs that it wrote, the newest one last.
  store::ClockEvidence clock_evidence() const;
  /// Its number if it is a rank: by MPI, or announced by the launcher to a process that has called MPI or NCCL, or
  /// used a GPU; else -1.
  int32_t rank() const;
  /// It has records of GPU work.
  bool uses_gpu() const { return gpus_; }
  /// Alone and without an announced rank: it is rank 0 of 1.
  void be_alone() { alone_ = true; }
  bool is_alone() const { return alone_; }

  uint32_t index = kNone;  ///< Job::ranks

 private:
  struct Followed {
    size_t chunk;  ///< in SpoolReader::all_chunks()
    FollowPosition position;
  };
  struct Context {
    uint32_t parent = 0, kind = 0, name = 0;
    uint32_t layer = kNone;
    uint32_t outer_layer = kNone;  ///< of a layer range: the layer around it
  };

  void on_string(uint32_t id, std::string_view text) override;
  void on_context(const ContextMeta& meta) override;
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> runs) override;
  void on_communicator_name(const CommNameMeta& meta) override;
  void on_communicator_split(const CommSplitMeta& meta) override;
  void on_operation(const OperationMeta& meta, std::string_view name) override;
  void on_clock(const ClockPair& pair) override;
  void on_device_clock(const DeviceClockMeta& meta) override { devices_.on_device_clock(meta); }
  void on_graph_node(const GraphNodeMeta& meta) override { devices_.on_graph_node(meta); }
  void on_fact(std::string_view key, std::string_view value) override;
  void on_thread(const ThreadMeta& meta, std::string_view name) override;
  void on_sample(const SampleMeta& meta, std::span<const SampleValue> values) override;
  std::string phase_of(uint32_t context) const;

  void find_chunks(uint64_t join_bytes, uint64_t device_bytes);
  void follow_records(std::map<uint32_t, std::vector<Record>>& open);
  void drop_used_up(std::span<const SpoolChunk> chunks);
  bool is_progress(const Record& r) const;
  void take(Rank& rank, uint32_t thread, const Record& r);
  void take_call(Rank& rank, uint32_t thread, const Record& r);
  void take_value(Rank& rank, const std::string& name, const Record& r);
  void take_negotiation(Rank& rank, const Record& r, const Operation& operation);
  void take_layer(Rank& rank, const Record& r, uint64_t end, uint64_t duration);
  void take_open(Rank& rank, std::map<uint32_t, std::vector<Record>>& open);
  void take_polls(Rank& rank);

  Numbering& numbering_;
  SpoolReader reader_;
  Job* job_ = nullptr;  ///< while it is read
  store::ClockEvidence clock_;
  size_t next_chunk_ = 0;
  uint64_t missed_before_ = 0;  ///< FileHeader::loss[kLossLive] at the first look
  std::vector<Followed> descriptions_, records_, device_chunks_;
  std::unordered_map<uint32_t, std::string> strings_;
  std::vector<Context> contexts_;
  SpoolDevices devices_;
  std::unordered_map<uint32_t, uint32_t> comms_, ops_;
  /// by index: place in Job::communicators, index of the parent
  std::unordered_map<uint32_t, uint32_t> nccl_comms_, nccl_parents_;
  std::map<std::string, std::string> facts_;
  std::map<std::string, double> samples_;
  std::unordered_map<uint32_t, uint64_t> active_;  ///< by thread: end of the last thing that ended
  struct Written {
    uint64_t ticks;
    uint32_t thread;
    Record record;
  };
  static bool is_earlier(const Written& a, const Written& b) { return a.ticks < b.ticks; }
  std::vector<Written> written_;  ///< records read from all threads but not yet taken in
  std::vector<DeviceRecord> devices_now_;
  bool gpus_ = false;
  bool alone_ = false;
  struct Polls {
    uint64_t finished_ticks = 0;                              ///< of the rank, then
    uint64_t latest_ticks = 0;                                ///< FileHeader::latest, then
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> calls;  ///< by operation and communicator of the process
  } polls_;                                                   ///< at the last look
  bool left_out_ = false;                                     ///< earlier records of some thread were not read
  std::set<uint32_t> cut_threads_;                            ///< without the older part of their log, and not read yet
  uint64_t from_ticks_ = 0;                                   ///< earlier ends were left out, for some thread
  uint32_t thread_samples_ = 0;     ///< of its training thread, while another one made its MPI calls
  std::set<uint32_t> beside_main_;  ///< threads other than the program's first
};

}  // namespace ddl::tui
