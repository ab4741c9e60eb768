#include "tests/analyzer/injected/gpu_store.h"

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <optional>

#include "store/ingest/run_facts.h"
#include "store/insert.h"

namespace ddl::test {
namespace {

enum Op : int64_t { kAllReduce = 1, kAllToAll, kSend };
enum Name : int64_t { kGemm = 1, kReduceKernel, kMessageKernel };
constexpr int64_t kLoadingRegion = 1;  // region
constexpr int64_t kStreamOfComputing = 7;

constexpr const char* kFixed = R"(
  INSERT INTO op (id, name, class, nonblocking) VALUES
    (1, 'ncclAllReduce', 'all_to_all', 1), (2, 'ncclAlltoAll', 'all_to_all', 1), (3, 'ncclSend', 'device_message', 1);
  INSERT INTO region (id, parent, kind, name, phase, layer) VALUES
    (0, NULL, 'none', '', NULL, NULL),
    (1, 0, 'phase', 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__', 'enumerate(DataLoader)', NULL);
  INSERT INTO gpu_name (id, name, class) VALUES
    (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL', 'communication'), (3, 'ncclDevKernel_SendRecv', 'communication');
)";

void store_processes(const GpuJob& job, const GpuTrace& trace, SQLite::Database& db) {
  Insert host(db, "INSERT INTO host VALUES (?, ?, ?, 'imported', 1e9, NULL, 0, NULL, 0, 'realtime')");
  Insert process(
      db,
      "INSERT INTO process (id, world, rank, world_size, host, pid, start_ns, end_ns, init_ns, finalize_ns, ended, clock, keep_level,"
      " spool, spool_bytes) VALUES (?, 0, ?, ?, ?, ?, ?, ?, NULL, NULL, 'imported', 'imported', 0, ?, 0)");
  Insert thread(db, "INSERT INTO thread (process, thread, tid, name) VALUES (?, 0, ?, NULL)");
  Insert gpu(db, "INSERT INTO gpu (process, device, name) VALUES (?, ?, 'NVIDIA H100')");
  for (int node = 0; node < job.ranks() / job.ranks_per_node; ++node)
    host.row(node + 1, fmt::format("node{}", node), fmt::format("boot{}", node));
  for (int rank = 0; rank < job.ranks(); ++rank) {
    if (!job.is_recorded(rank)) continue;
    const auto& steps = trace.steps[static_cast<size_t>(rank)];
    process.row(rank + 1, rank, job.ranks(), rank / job.ranks_per_node + 1, 1000 + rank, steps.front().begin_ns,
                steps.back().end_ns, fmt::format("rank{}.json", rank));
    thread.row(rank + 1, 1000 + rank);
    gpu.row(rank + 1, rank % job.ranks_per_node);
  }
}

void store_communicators(const GpuTrace& trace, SQLite::Database& db) {
  Insert communicator(db,
                      "INSERT INTO communicator (id, world, uid, label, size, kind) VALUES (?, 0, ?, ?, ?, 'nccl')");
  Insert member(db, "INSERT INTO communicator_member (communicator, side, comm_rank, rank) VALUES (?, 0, ?, ?)");
  for (size_t c = 0; c < trace.communicators.size(); ++c) {
    const auto id = static_cast<int64_t>(c + 1);
    const auto& [axis, label, members] = trace.communicators[c];
    communicator.row(id, id, label, static_cast<int64_t>(members.size()));
    for (size_t i = 0; i < members.size(); ++i) member.row(id, static_cast<int64_t>(i), members[i]);
  }
}

void store_steps(const GpuJob& job, const GpuTrace& trace, SQLite::Database& db) {
  Insert step(db, "INSERT INTO step (process, thread, step, start_ns, duration_ns, mpi_ns) VALUES (?, 0, ?, ?, ?, 0)");
  Insert loading(
      db,
      "INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (?, 0, ?, ?, ?, ?, 0)");
  for (size_t rank = 0; rank < trace.steps.size(); ++rank) {
    const auto process = static_cast<int64_t>(rank + 1);
    int64_t number = 0;
    if (!job.is_recorded(static_cast<int>(rank))) continue;
    for (const GpuTrace::Step& s : trace.steps[rank]) {
      step.row(process, number, s.begin_ns, s.end_ns - s.begin_ns);
      loading.row(process, kLoadingRegion, number++, s.begin_ns, s.loaded_ns - s.begin_ns);
    }
  }
}

}  // namespace

void store_gpu_job(const GpuJob& job, SQLite::Database& db) {
  const GpuTrace trace = run_gpu_job(job);
  SQLite::Transaction transaction(db);
  db.exec(kFixed);
  store_processes(job, trace, db);
  store_communicators(trace, db);
  store_steps(job, trace, db);
  Insert kernel(
      db,
      "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation,"
      " comm, seq, launch_ns, launch_duration_ns) VALUES (?, 1, ?, ?, 1, ?, 0, ?, 0, ?, ?, ?, ?, ?, ?, ?)");
  Insert event(db,
               "INSERT INTO event (process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes)"
               " VALUES (?, 0, 4, ?, ?, ?, 0, ?, ?, ?, ?)");
  Insert nccl(
      db,
      "INSERT INTO nccl_collective VALUES (last_insert_rowid(), 'kernel', 'RING', 'LL', NULL, 1, ?, ?, 0, 1, 1, NULL, NULL, NULL, NULL)");
  for (size_t rank = 0; rank < trace.activities.size(); ++rank) {
    const auto process = static_cast<int64_t>(rank + 1);
    int64_t correlation = 0;
    if (!job.is_recorded(static_cast<int>(rank))) continue;
    for (const GpuActivity& a : trace.activities[rank]) {
      const bool computes = a.communicator < 0;
      const bool is_message = a.axis == Axis::kPipeline;  // traces do not number them
      std::optional<int64_t> comm, seq;
      if (!computes) comm.emplace(a.communicator + 1);
      if (!computes && !is_message) seq.emplace(a.seq);
      const auto step = static_cast<int64_t>(a.step);
      const Name name = computes ? kGemm : is_message || a.axis == Axis::kExpert ? kMessageKernel : kReduceKernel;
      kernel.row(process, static_cast<int64_t>(name), static_cast<int>(rank) % job.ranks_per_node,
                 kStreamOfComputing + a.stream, step, a.start_ns, a.end_ns - a.start_ns, ++correlation, comm, seq,
                 a.launch_ns, a.launch_duration_ns);
      if (computes) continue;
      const Op op = is_message ? kSend : a.axis == Axis::kExpert ? kAllToAll : kAllReduce;
      event.row(process, static_cast<int64_t>(op), comm, seq, step, a.start_ns, a.end_ns - a.start_ns, a.bytes);
      nccl.row(a.start_ns, a.end_ns - a.start_ns);
    }
  }
  store::create_indices(db);  // as in any run: without them each rank's pass would look at all ranks' events
  transaction.commit();
}

}  // namespace ddl::test
