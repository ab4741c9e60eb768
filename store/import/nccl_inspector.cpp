// JSON lines of the Inspector plugin of NCCL (output formats 4.0 to 4.3), built from its README. Unverified on a real
// file.
//
//   header       communicator (id), rank in it, number of its ranks
//   metadata     hostname, pid, when it was written
//   coll_perf    collective, its number, bytes of its argument `count`, duration in us; with
//                NCCL_INSPECTOR_DUMP_VERBOSE=1 also when the call was made
//   p2p_perf     a message: counted, not read
//   proxy_trace  what a proxy waited for, by the clock of the host: counted, not read
//   dump_stats   how many records were overwritten before they could be written
//
// Up to 4.2 each line has header and metadata. From 4.3 on a line with dump_stats has them, for the lines of its file
// up to the next one.
//
// A duration is that of the slowest channel of this rank, with its waiting. When a collective ran is told only nearly,
// so that waiting is that beyond the shortest member (W3). NCCL numbers collectives by communicator and by operation;
// ours number them by communicator: both are in our number.
//
// A process has a rank in each of its communicators. Its rank in the job is that in the largest one, if all processes
// are in it; else nobody tells it, and processes are numbered by host and process id, as `loss` says. A process with
// several GPUs, which shows as several ranks of one communicator, is a rank for each of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/json_records.h"

namespace ddl::store {

namespace {

struct InspectorName {
  std::string_view name, op;
  OpClass op_class;
  /// `count` is of each rank that receives a part: what a rank gives to all together is that times the ranks
  /// (specification.md J6).
  bool of_each_receiver = false;
};
constexpr InspectorName kInspectorNames[] = {{"AllReduce", "ncclAllReduce", OpClass::kAllToAll},
                                             {"AllGather", "ncclAllGather", OpClass::kAllToAll},
                                             {"ReduceScatter", "ncclReduceScatter", OpClass::kAllToAll, true},
                                             {"AlltoAll", "ncclAlltoAll", OpClass::kAllToAll, true},
                                             {"Broadcast", "ncclBroadcast", OpClass::kRootToAll},
                                             {"Reduce", "ncclReduce", OpClass::kAllToRoot},
                                             {"Gather", "ncclGather", OpClass::kAllToRoot},
                                             {"Scatter", "ncclScatter", OpClass::kRootToAll, true}};

/// Who wrote the lines of a file, as far as it was read.
struct Writer {
  std::string comm, host;
  int64_t pid = 0, rank = 0, ranks = 0;
  std::optional<int64_t> written_ns;

  /// A line without a header leaves it as it is.
  void read(const JsonRecord& record) {
    const std::string_view id = record.word("header.id");
    if (id.empty() && !comm.empty() && record.find("header.rank") == nullptr) return;
    const std::optional<int64_t> told_rank = record.integer("header.rank"),
                                 told_ranks = record.integer("header.n_ranks");
    if (id.empty() || !told_rank || !told_ranks)
      throw BadRecord{"a line without header.id, header.rank and header.n_ranks"};
    comm = id;
    host = record.word("metadata.hostname");
    pid = record.integer("metadata.pid").value_or(0);
    rank = *told_rank;
    ranks = *told_ranks;
    written_ns = record.decimal("metadata.dump_timestamp_us", kMicrosecondsToNs);
    if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks)
      throw BadRecord{fmt::format("rank {} of {} ranks is out of range", rank, ranks)};
  }
};

constexpr int64_t kMostCollectives = int64_t{1} << 40;

using ProcessKey = std::pair<std::string, int64_t>;  // host, pid

/// Who is in which communicator: the first pass.
class Members : public JsonVisitor {
 public:
  struct Process {
    std::string file;
    std::map<std::string, std::set<int64_t>> ranks;  ///< by communicator
  };
  std::map<ProcessKey, Process> processes;
  std::map<std::string, int64_t> sizes;  ///< of communicators

  void begin(const std::string& file) {
    file_ = file;
    writer_ = {};
  }

 private:
  void on_fact(const JsonField&) override {}
  void on_record(const JsonRecord& record) override {
    writer_.read(record);
    Process& process = processes[{writer_.host, writer_.pid}];
    process.file = file_;
    process.ranks[writer_.comm].insert(writer_.rank);
    const auto [size, is_new] = sizes.try_emplace(writer_.comm, writer_.ranks);
    if (size->second != writer_.ranks)
      throw BadRecord{fmt::format("communicator {} has {} ranks here, and {} elsewhere", writer_.comm, writer_.ranks,
                                  size->second)};
  }

  std::string file_;
  Writer writer_;
};

class Collectives : public JsonVisitor {
 public:
  Collectives(ImportedRun& run, const Members& members) : run_(run) {
    if (members.sizes.empty()) return;
    std::map<std::string, size_t> processes_in;  // by communicator
    for (const auto& [key, process] : members.processes)
      for (const auto& [comm, own] : process.ranks) ++processes_in[comm];
    const auto largest =
        std::max_element(members.sizes.begin(), members.sizes.end(), [&](const auto& a, const auto& b) {
          return std::pair(a.second, processes_in[a.first]) < std::pair(b.second, processes_in[b.first]);
        });
    const bool tells = processes_in[largest->first] == members.processes.size();
    std::map<std::string, Ranks> ranks;  // by communicator
    int64_t next = 0;
    for (const auto& [key, process] : members.processes) {
      const auto most = std::max_element(process.ranks.begin(), process.ranks.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
      const bool several = most->second.size() > 1;
      const auto& [chosen, gpus] = tells ? *process.ranks.find(largest->first) : *most;
      for (const int64_t gpu : gpus) {
        const int64_t in_job = tells ? gpu : next++;
        const size_t number = add(key, process.file, in_job, largest->second);
        for (const auto& [comm, own] : process.ranks) {
          if (several && comm != chosen) continue;  // which GPU has which rank in it is not known
          const int64_t in_comm = several ? gpu : *own.begin();
          processes_[{key, comm, in_comm}] = number;
          ranks[comm][in_comm] = in_job;
        }
      }
    }
    if (!tells)
      run_.losses().add(
          {}, "inspector_ranks", members.processes.size(),
          "processes whose rank in the job Inspector does not tell, since no communicator has all of them: numbered by host "
          "and process id");
    for (auto& [comm, size] : members.sizes) {
      std::vector<int64_t> told;
      if (static_cast<int64_t>(ranks[comm].size()) == size)
        for (const auto& [in_comm, in_job] : ranks[comm]) told.push_back(in_job);
      communicators_[comm] = run_.communicator(comm, comm, CommunicatorOf::kNccl, size, told);
    }
  }

  void begin() { writer_ = {}; }

  void add_losses() const {
    run_.losses().add(
        {}, "nccl_kernels", left_out_,
        "operations of NCCL that are not collectives, or of which GPU of their process is not known: they are not rows of v_collective");
    run_.losses().add({}, "nccl_proxies", proxies_, "records of what NCCL's proxies waited for: they are not read");
    run_.losses().add(
        {}, "nccl_dropped", dropped_,
        "operations that Inspector overwrote before they were written: a larger ring (NCCL_INSPECTOR_DUMP_*_RING_SIZE) or "
        "a shorter NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS keeps them");
  }

 private:
  /// in the job, by rank in a communicator: a file may name millions and tell few
  using Ranks = std::map<int64_t, int64_t>;

  size_t add(const ProcessKey& key, const std::string& file, int64_t rank, int64_t world_size) {
    ImportedProcess process;
    process.file = file;
    process.rank = rank;
    process.world_size = world_size;
    if (!key.first.empty()) process.host = key.first;
    process.pid = key.second;
    process.is_realtime = true;
    return run_.add_process(std::move(process));
  }

  void on_fact(const JsonField&) override {}
  void on_record(const JsonRecord& record) override {
    writer_.read(record);
    const Writer& line = writer_;
    if (record.find("dump_stats.coll_records") != nullptr) {
      for (const char* field : {"dump_stats.coll_dropped_since_last_dump", "dump_stats.p2p_dropped_since_last_dump"})
        dropped_ += static_cast<uint64_t>(std::clamp<int64_t>(record.integer(field).value_or(0), 0, kMostCollectives));
      return;
    }
    if (record.find("proxy_trace.record_type") != nullptr) {
      ++proxies_;
      return;
    }
    const std::string_view name = record.word("coll_perf.coll");
    const auto known = std::find_if(std::begin(kInspectorNames), std::end(kInspectorNames),
                                    [&](const InspectorName& k) { return k.name == name; });
    const auto process = processes_.find({{line.host, line.pid}, line.comm, line.rank});
    if (known == std::end(kInspectorNames) || process == processes_.end()) {
      ++left_out_;  // messages, and small communicators of processes with several GPUs
      return;
    }
    const std::optional<int64_t> number = record.integer("coll_perf.coll_sn"),
                                 bytes = record.integer("coll_perf.coll_msg_size_bytes");
    const std::optional<int64_t> duration_ns = record.decimal("coll_perf.coll_exec_time_us", kMicrosecondsToNs);
    if (!number || !bytes || !duration_ns)
      throw BadRecord{"a collective without coll_sn, coll_msg_size_bytes and coll_exec_time_us"};
    if (*number < 0 || *number > kMostCollectives || *bytes < 0)
      throw BadRecord{"coll_sn or coll_msg_size_bytes is out of range"};
    std::optional<int64_t> start_ns = record.decimal("coll_perf.event_trace_ts.coll_start_ts", kMicrosecondsToNs);
    if (!start_ns) {
      if (!line.written_ns) throw BadRecord{"a line without metadata.dump_timestamp_us"};
      start_ns = *line.written_ns - *duration_ns;
    }
    ImportedOperation operation;
    operation.op = known->op;
    operation.op_class = known->op_class;
    operation.communicator = communicators_[line.comm];
    operation.seq =
        *number * static_cast<int64_t>(std::size(kInspectorNames)) + (known - std::begin(kInspectorNames)) + 1;
    int64_t payload_bytes = *bytes;
    if (known->of_each_receiver && __builtin_mul_overflow(*bytes, line.ranks, &payload_bytes))
      throw BadRecord{"coll_msg_size_bytes is out of range"};
    operation.payload_bytes = payload_bytes;
    operation.algorithm = record.word("coll_perf.coll_algo");
    operation.protocol = record.word("coll_perf.coll_proto");
    run_.call(process->second, run_.thread(process->second, line.comm, 0), operation, ImportedTiming::kNcclProfiler,
              *start_ns, *duration_ns);
  }

  ImportedRun& run_;
  /// by process, communicator and rank in it
  std::map<std::tuple<ProcessKey, std::string, int64_t>, size_t> processes_;
  std::map<std::string, uint32_t> communicators_;
  Writer writer_;
  uint64_t left_out_ = 0, proxies_ = 0, dropped_ = 0;
};

}  // namespace

void read_nccl_inspector(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read) {
  Members members;
  for (const auto& path : files) {
    InputFile file(path, {});
    members.begin(path.filename().string());
    read_json_lines(file, members);
  }
  Collectives collectives(run, members);
  for (const auto& path : files) {
    InputFile file(path, read);
    collectives.begin();
    read_json_lines(file, collectives);
  }
  collectives.add_losses();
}

}  // namespace ddl::store
