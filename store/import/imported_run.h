// A store from another tool's trace: importers report ranks, ranges, launches, GPUs and collectives in any order and in
// the trace's own time; this makes the tables of a recorded run (schema.sql).
//
// Events wait in files first, as records of a fixed size, because they depend on later ones: which process is rank 0,
// in which range a launch lay, which launch a kernel belongs to, when the run began. finish() sorts them and fills the
// tables, so that memory is bounded by the sorted blocks, SQLite's cache, and the numbers of names, ranges of the tree,
// steps and communicators; never by events. Some importers hold more: nsys all texts of StringIds, nccl-inspector the
// members of communicators.
//
// Times are ns on a clock of the trace. Ranks of one call to add_process() are one file's. Not thread-safe.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/format.h"
#include "store/import/staged_records.h"
#include "store/ingest/contexts.h"
#include "store/ingest/gpu_names.h"
#include "store/ingest/losses.h"
#include "store/insert.h"
#include "store/made_rows.h"
#include "store/sorted_records.h"

namespace ddl::store {

/// Sources of memory growth, over all files: a trace with more is refused.
constexpr size_t kMostProcesses = 1 << 17, kMostImportedThreads = 1 << 18, kMostSteps = 1 << 21,
                 kMostCommunicators = 1 << 16, kMostOperations = 1 << 16;
constexpr size_t kMostCommunicatorMembers = size_t{1} << 24;  ///< over all communicators; beyond it members are unknown
/// a trace with more is damaged, and must not cause allocations
constexpr int64_t kMaxRanks = 1 << 24;

struct ImportedProcess {
  std::string file;  ///< for people
  uint64_t file_bytes = 0;
  std::optional<int64_t> rank;        ///< unset: by the order of add_process() among those without one
  std::optional<int64_t> world_size;  ///< unset: the number of processes
  std::optional<std::string> host;    ///< unset: unknown
  std::optional<int64_t> pid;
  int64_t base_ns = 0;                  ///< added to all its times
  bool is_realtime = false;             ///< with base_ns its times are Unix time
  std::map<int64_t, std::string> gpus;  ///< names by number
  std::vector<std::pair<std::string, std::string>> facts;
};

/// A GPU activity. Texts are names of table gpu_event.
struct GpuActivity {
  DeviceKind kind = DeviceKind::kKernel;
  std::string_view name;
  int64_t start_ns = 0, duration_ns = 0;
  std::optional<int64_t> device, context, stream, bytes, graph_node;
  std::string_view copy, source, destination;  ///< empty: NULL
  int64_t correlation = 0;                     ///< 0: none
  /// a synchronisation known from its call: counts unless the device reports it, too
  bool is_of_call = false;
};

/// A stream that waits for another: a row of stream_wait.
struct ImportedWait {
  int64_t context, stream, correlation;
  int64_t on_context, on_stream, on_correlation;
};

/// A collective or message, by a call or carried out by a kernel.
struct ImportedOperation {
  /// MPI_Allreduce, ncclAllReduce, ...: the exact C name, else the trace's own; empty: unknown (kernels)
  std::string_view op;
  OpClass op_class = OpClass::kOther;
  bool nonblocking = false;   ///< it posts a request, or work for a device
  uint32_t communicator = 0;  ///< 0: none or unknown
  /// number of a collective on the communicator; kernels get it from finish()
  std::optional<int64_t> seq;
  std::optional<int64_t> payload_bytes = 0;  ///< unset: unknown
  std::optional<int64_t> peer, tag;
  uint32_t datatype = 0;            ///< core/names.h; 0: none
  std::string algorithm, protocol;  ///< of NCCL; empty: unknown
  /// For calls: the layer, if no range of the trace has it; empty: that of the ranges around the call.
  std::string_view layer{};
};

/// The meaning of an operation's times: a call, from post to completion, or NCCL's timers (exact in length, approximate
/// in place). Numbers as in event.kind.
enum class ImportedTiming { kCall = 1, kRequest = 2, kNcclProfiler = 4 };

/// An operation from a flight recorder: a row of flight_entry. `group`: in the importer's numbering.
struct FlightEntry {
  size_t group = 0;
  int64_t record = 0;
  std::optional<int64_t> seq, p2p_seq, op_id, peer, created_ns, started_ns, completed_ns, timeout_ms, stack;
  std::string op, state, input_sizes, output_sizes, input_elements, output_elements, input_types, output_types;
  bool is_message = false, retired = false, is_open = false;
};

enum class CommunicatorOf { kProgram, kNccl };  ///< kProgram: of MPI, or of an unknown library

class ImportedRun {
 public:
  /// `format`: for meta and for people: "kineto". `source`: the imported files, for people.
  ImportedRun(SQLite::Database& db, std::string format, std::string source);

  size_t add_process(ImportedProcess process);
  ImportedProcess& process(size_t number) { return processes_[number].told; }
  /// A thread, by any name unique in its process. `tid`: 0 if unknown.
  uint32_t thread(size_t process, std::string_view key, int64_t tid);
  void name_thread(size_t process, uint32_t thread, std::string_view name);

  void step(size_t process, uint32_t thread, int64_t number, int64_t start_ns, int64_t duration_ns);
  /// `launches`: the operation of NCCL kernels launched in it that do not name it themselves.
  void range(size_t process, uint32_t thread, ContextKind kind, std::string_view name, int64_t start_ns,
             int64_t duration_ns, std::optional<int64_t> seq = std::nullopt,
             const ImportedOperation* launches = nullptr);
  /// A call that launches GPU work. `is_kernel`: a kernel, to which counters may belong.
  void launch(size_t process, uint32_t thread, int64_t correlation, int64_t start_ns, int64_t duration_ns,
              bool is_kernel = false);
  /// Increments of GPU counters in a kernel: one kernel's have one begin. Their order gives the launch.
  void kernel_counter(size_t process, std::string_view counter, int64_t start_ns, int64_t duration_ns, int64_t value);
  void call(size_t process, uint32_t thread, const ImportedOperation& operation, ImportedTiming timing,
            int64_t start_ns, int64_t duration_ns);
  /// `operation`: a NCCL kernel's. Without a communicator, that of the range around its launch counts, else the kernel
  /// is matched by order (inferred_communicators.cpp).
  void gpu(size_t process, const GpuActivity& activity, const ImportedOperation* operation = nullptr);
  void stream_wait(size_t process, const ImportedWait& wait);
  /// A row of table value.
  void value(size_t process, int64_t time_ns, std::string_view name, int64_t number);

  /// The same number for the same name, kind and members. `ranks`: in the order of their ranks in it; empty: unknown.
  uint32_t communicator(std::string_view name, std::string_view label, CommunicatorOf of, int64_t size,
                        const std::vector<int64_t>& ranks);

  void flight(size_t process, const FlightEntry& entry);
  void flight_status(size_t process, size_t group, std::optional<int64_t> enqueued, std::optional<int64_t> started,
                     std::optional<int64_t> completed);
  /// Number of the stack, the same for the same text. Nothing, and counted: too many.
  std::optional<int64_t> flight_stack(const std::string& text, uint64_t& left_out);
  /// Communicators by the numbers of flight() and flight_status().
  void flight_groups(const std::vector<uint32_t>& communicators) { flight_groups_ = communicators; }
  /// The process existed then.
  void moment(size_t process, int64_t time_ns) { seen(process, time_ns, 0); }

  Losses& losses() { return losses_; }
  void fact(const std::string& key, const std::string& value) { meta_[key] = value; }

  /// Collectives run on dedicated threads: operators of the thread whose id is the process's show when it computed.
  void call_in_background() { has_background_calls_ = true; }

  /// All ranks ran on hosts with one clock, whatever their names.
  /// More events are an Error: filling a disk must be deliberate.
  void limit_events(uint64_t most) { most_events_ = most; }
  /// Called every few thousand events; may throw to stop.
  void report_events(std::function<void()> told) { told_ = std::move(told); }
  void share_clock() { one_clock_ = true; }

  /// Fills the store except the analyzer's part. `step_done(ratio)` reports progress. Returns the number of events.
  /// Throws Error if two files have one rank, or all are empty.
  uint64_t finish(const std::function<void(double ratio)>& step_done);

  /// The step at a moment of a process, in its own time.
  std::optional<int64_t> step_at(size_t process, int64_t time_ns) const;
  /// Whether the step that begins then is the first of its number.
  bool is_counted_step(size_t process, int64_t number, int64_t start_ns) const;

 private:
  friend class CpuSweep;
  struct Step {
    int64_t start_ns, duration_ns, number;
    /// of the first use of its number (StepIndex), once settle() has run
    int64_t counted_begin_ns = 0, counted_end_ns = 0;
  };
  struct Process {
    ImportedProcess told;
    std::map<std::string, uint32_t, std::less<>> threads;
    std::vector<std::pair<int64_t, std::string>> thread_rows;  ///< tid, name
    std::vector<Step> steps;                                   ///< by begin once settle() has run
    std::optional<int64_t> begin_ns, end_ns;                   ///< without base_ns
    int64_t id = 0;                                            ///< process.id
    int64_t shift_ns = 0;                                      ///< from its times to the run's
  };
  struct Communicator {
    std::string name, label;
    CommunicatorOf of;
    int64_t size;
    std::vector<int64_t> ranks;
    int64_t id = 0;  ///< communicator.id
  };

  struct Op {
    int64_t id;  ///< op.id
    OpClass op_class;
    bool nonblocking;
  };

  [[noreturn]] void refuse_more_than(uint64_t most, const char* what) const;
  uint32_t name_id(std::string_view name);
  /// Number of a text, which is kept. 0: the empty text.
  uint32_t text_id(std::string_view text);
  Lasting text_of(uint32_t id) const { return {id == 0 ? nullptr : texts_[id - 1]->c_str()}; }
  int64_t op_id(const ImportedOperation& operation, ImportedTiming timing);
  /// Number 0: no communicator.
  std::optional<int64_t> communicator_id(int64_t number) const;
  /// For an NCCL stream of one rank, or of all ranks. size 0: unknown.
  int64_t add_inferred_communicator(const std::string& label, int64_t size);
  std::string host_of(const Process& process) const;
  bool is_one_clock() const;
  /// Extends the process's begin and end. False: the interval ends before it begins, which is counted.
  bool seen(size_t process, int64_t start_ns, int64_t duration_ns);
  uint32_t region(uint32_t parent, ContextKind kind, uint32_t name);

  // The stages of finish(), in this order.
  void settle();
  void number_communicators();
  void write_hosts_and_processes();
  void join_launches();
  void place_gpu(MadeRows& made);
  void infer_communicators();
  void number_collectives();
  void place_flight();
  void write_communicators();
  void write_operations();
  void write_values();
  void write_counters();
  void sample_training_threads();
  void write_meta();

  SQLite::Database& db_;
  std::string format_, source_;
  std::vector<Process> processes_;
  std::vector<size_t> order_;  ///< of processes_, by rank
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using TextIds = std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>;
  TextIds name_ids_;
  std::vector<const std::string*> names_;  ///< by id
  TextIds text_ids_;
  std::vector<const std::string*> texts_;  ///< by id, from 1
  std::vector<Communicator> communicators_;
  std::map<std::string, uint32_t> communicator_numbers_;  ///< into communicators_, from 1
  std::map<std::string, Op> ops_;                         ///< by name
  std::map<std::tuple<uint32_t, ContextKind, uint32_t>, uint32_t> region_ids_;
  Regions regions_;
  GpuNames gpu_names_;
  Losses losses_;
  std::map<std::string, std::string> meta_;
  bool one_clock_ = false;
  std::vector<uint32_t> flight_groups_;
  std::unordered_map<std::string, int64_t> flight_stacks_;
  uint64_t flight_stack_bytes_ = 0;
  std::optional<Insert> insert_flight_, insert_flight_status_;
  std::vector<std::optional<int64_t>> nccl_streams_;  ///< by kernel_collective.stream: CUDA's number
  bool has_background_calls_ = false;
  uint64_t bad_intervals_ = 0, unnamed_ = 0, unplaced_ = 0;
  uint64_t most_events_ = UINT64_MAX, told_events_ = 0;
  std::function<void()> told_;
  size_t threads_ = 0, steps_ = 0;
  uint64_t cpu_rows_ = 0, gpu_rows_ = 0, launches_ = 0, flight_rows_ = 0, values_ = 0, counters_ = 0, events_ = 0;
  std::optional<SortedRecords<CpuRecord, CpuOrder>> cpu_{std::in_place};
  std::optional<SortedRecords<LaunchRecord, LaunchOrder>> launch_records_{std::in_place};
  std::optional<SortedRecords<GpuRecord, GpuLaunchOrder>> gpu_{std::in_place};
  std::optional<SortedRecords<LaunchedRecord, LaunchedOrder>> launched_;
  int64_t epoch_ns_ = 0, world_size_ = 0;
  std::optional<Insert> insert_wait_, insert_value_, insert_counter_, insert_counted_;
};

}  // namespace ddl::store
