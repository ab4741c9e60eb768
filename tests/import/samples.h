// A small trace of each format with everything in it that the importer reads.
#pragma once

#include <SQLiteCpp/Database.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "reports/trace/protobuf.h"
#include "tests/support/flight_dumps.h"
#include "tests/support/ras_answers.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {

struct Sample {
  std::string format, file, contents;
  std::string place;  ///< how an error names a place in the file
};

inline std::string database_of(const std::string& sql) {
  const ScratchFolder folder;
  SQLite::Database(folder / "trace.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("PRAGMA synchronous = OFF; BEGIN;" + sql + ";COMMIT");
  std::ifstream file(folder / "trace.sqlite", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A report of Nsight Systems with one process of one rank.
inline std::string nsys_report() {
  return database_of(R"J(
      CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL);
      INSERT INTO StringIds VALUES (1, 'void gemm<float>(float*)'), (2, 'MPI_Allreduce'), (3, 'MPI_Send'), (4, 'main thread'), (5, 'step 1'),
        (6, 'MPI_Waitall'), (7, 'MPI_Finalize');
      CREATE TABLE TARGET_INFO_SYSTEM_ENV(name TEXT, value TEXT); INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7');
      CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER); INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
      CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100');
      CREATE TABLE ThreadNames(globalTid INTEGER, nameId INTEGER); INSERT INTO ThreadNames VALUES (281475000000000 / 16777216 * 16777216 + 77, 4);
      CREATE TABLE MPI_RANKS(globalTid INTEGER NOT NULL, rank INTEGER NOT NULL); INSERT INTO MPI_RANKS SELECT globalTid, 1 FROM ThreadNames;
      CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);
      INSERT INTO NVTX_EVENTS SELECT 1000, 900000, 59, globalTid, NULL, 5 FROM ThreadNames;
      INSERT INTO NVTX_EVENTS SELECT 2000, 300000, 59, globalTid, 'forward', NULL FROM ThreadNames;
      INSERT INTO NVTX_EVENTS SELECT 3000, 200000, 60, globalTid, 'conv1', NULL FROM ThreadNames;
      CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 4000, 9000, globalTid, 11, 1 FROM ThreadNames UNION ALL SELECT 10000, 12000, globalTid, 12, 1 FROM ThreadNames;
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 20000, 120000, 0, 1, 7, 11, globalTid / 16777216 * 16777216, 1, 1, NULL FROM MPI_RANKS;
      CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT 130000, 150000, 0, 1, 7, 12, globalTid / 16777216 * 16777216, 65536, 1, 1, 2 FROM MPI_RANKS;
      CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER, memKind INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET SELECT 150000, 151000, 0, 1, 7, 0, globalTid / 16777216 * 16777216, 64, 2 FROM MPI_RANKS;
      CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SELECT 160000, 170000, 0, 1, 7, 13, globalTid / 16777216 * 16777216 FROM MPI_RANKS;
      CREATE TABLE MPI_COLLECTIVES_EVENTS(start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER, size INTEGER);
      INSERT INTO MPI_COLLECTIVES_EVENTS SELECT 400000, 500000, globalTid, 2, 4096 FROM ThreadNames;
      CREATE TABLE MPI_P2P_EVENTS(start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER, size INTEGER, tag INTEGER, remoteRank INTEGER);
      INSERT INTO MPI_P2P_EVENTS SELECT 600000, 610000, globalTid, 3, 128, 5, 0 FROM ThreadNames;
      CREATE TABLE MPI_START_WAIT_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, requestHandle INTEGER);
      INSERT INTO MPI_START_WAIT_EVENTS SELECT 620000, 640000, globalTid, 6, r.value FROM ThreadNames, json_each('[1, 2]') r;
      CREATE TABLE MPI_OTHER_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER);
      INSERT INTO MPI_OTHER_EVENTS SELECT 910000, 950000, globalTid, 7 FROM ThreadNames;
  )J");
}

/// A database of RPD, schema 3: two processes on a GPU each, the one of the smaller number on GPU 3. A step of 1 ms
/// with a copy, a kernel and an allreduce of RCCL that begins 30 us later on GPU 5 and ends together.
inline std::string rpd_sql() {
  std::string sql = R"J(
    CREATE TABLE rocpd_metadata(id INTEGER PRIMARY KEY, tag TEXT, value TEXT); INSERT INTO rocpd_metadata(tag, value) VALUES ('schema_version', '3');
    CREATE TABLE rocpd_string(id INTEGER PRIMARY KEY, string TEXT);
    INSERT INTO rocpd_string VALUES (1, ''), (2, 'hipLaunchKernel'), (3, 'hipMemcpyWithStream'), (4, 'UserMarker'), (5, 'KernelExecution'), (6, 'CopyHostToDevice'),
      (7, 'void gemm<float>(float*)'), (8, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)'), (9, 'hipExtLaunchKernel'), (10, 'hipGetDevice'),
      (11, 'hip'), (12, 'roctx'), (13, 'FillBuffer'), (14, 'Barrier'), (15, 'hipMemsetAsync');
    CREATE TABLE rocpd_ustring(id INTEGER PRIMARY KEY, string TEXT); INSERT INTO rocpd_ustring VALUES (1, ''), (2, 'step 4'), (3, 'forward'), (4, 'conv1');
    CREATE TABLE rocpd_api(id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, apiName_id INTEGER, category_id INTEGER, domain_id INTEGER, args_id INTEGER);
    CREATE TABLE rocpd_op(id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, sequenceId INTEGER, start INTEGER, end INTEGER, description_id INTEGER, opType_id INTEGER);
    CREATE TABLE rocpd_api_ops(id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
    CREATE TABLE rocpd_copyapi(api_ptr_id INTEGER PRIMARY KEY, stream TEXT, size INTEGER, width INTEGER, height INTEGER, kind INTEGER, dst TEXT, src TEXT, dstDevice INTEGER,
      srcDevice INTEGER, sync BOOL, pinned BOOL);
    CREATE TABLE rocpd_monitor(id INTEGER PRIMARY KEY, deviceType TEXT, deviceId INTEGER, monitorType TEXT, start INTEGER, end INTEGER, value TEXT);
    INSERT INTO rocpd_monitor VALUES (1, 'gpu', 3, 'sclk', 1000, 2000, '1700');
  )J";
  for (int process = 0; process < 2; ++process) {
    const std::string pid = process == 0 ? "71" : "70", gpu = process == 0 ? "3" : "5";
    const int base = 100 * (process + 1), late = 30000 * process;
    const auto id = [&](int n) { return std::to_string(base + n); };
    const auto at = [&](int ns) { return std::to_string(5000000000000 + ns); };
    const auto call = [&](int n, int start, int end, int name, int text) {
      sql += "INSERT INTO rocpd_api VALUES (" + id(n) + ", " + pid + ", " + pid + ", " + at(start) + ", " + at(end) +
             ", " + std::to_string(name) + ", 1, 11, " + std::to_string(text) + ");";
    };
    const auto op = [&](int n, int start, int end, int description, int type, int of) {
      sql += "INSERT INTO rocpd_op VALUES (" + id(n) + ", " + gpu + ", 0, 0, " + at(start) + ", " + at(end) + ", " +
             std::to_string(description) + ", " + std::to_string(type) + ");";
      if (of > 0) sql += "INSERT INTO rocpd_api_ops(api_id, op_id) VALUES (" + id(of) + ", " + id(n) + ");";
    };
    call(1, 0, 1000000, 4, 2);
    call(2, 1000, 400000, 4, 3);
    call(3, 2000, 300000, 4, 4);
    call(4, 2500, 2600, 10, 1);
    call(5, 3000, 9000, 3, 1);
    call(6, 10000, 15000, 2, 1);
    call(7, 20000, 22000, 9, 1);
    call(8, 410000, 412000, 15, 1);
    op(1, 5000, 25000, 1, 6, 5);
    op(2, 30000, 130000, 7, 5, 6);
    op(3, 200000 + late, 350000, 8, 5, 7);
    op(4, 420000, 421000, 1, 13, 8);
    op(5, 430000, 431000, 1, 14, 8);
    sql += "INSERT INTO rocpd_copyapi VALUES (" + id(5) + ", '0x0', 65536, '', '', 1, '0x1', '0x2', 0, 0, 0, 0);";
  }
  return sql;
}
inline std::string rpd_trace() { return database_of(rpd_sql()); }

/// What the same step is to rocprofv3, of one process: rank 1 of 2 by its environment. `schema` 3: rows with
/// times; 4: with tracks and timestamps. `rccl` is the call around the launch of a kernel whose name does not
/// tell what it carries out.
inline std::string rocpd_sql(int schema) {
  const std::string u = "_0000b253_e83e";
  const bool direct = schema == 3;
  std::string sql = R"J(
    CREATE TABLE rocpd_metadata@(id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
    CREATE TABLE rocpd_string@(id INTEGER PRIMARY KEY, string TEXT);
    INSERT INTO rocpd_string@ VALUES (1, 'HIP_RUNTIME_API_EXT'), (2, 'MARKER_CORE_RANGE_API'), (3, 'KERNEL_DISPATCH'), (4, 'MEMORY_COPY'), (5, 'RCCL_API'), (6, 'hipLaunchKernel'),
      (7, 'hipMemcpyAsync'), (8, 'roctxThreadRangeA'), (9, 'MEMORY_COPY_HOST_TO_DEVICE'), (10, 'ncclAllGather'), (11, 'hipExtLaunchKernel'), (12, 'hipGetDevice');
    CREATE TABLE rocpd_info_node@(id INTEGER PRIMARY KEY, hostname TEXT); INSERT INTO rocpd_info_node@ VALUES (9, 'frontier1');
    CREATE TABLE rocpd_info_process@(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER, environment TEXT);
    INSERT INTO rocpd_info_process@ VALUES (4711, 9, 4711, '{"HOME": "/root", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}');
    CREATE TABLE rocpd_info_agent@(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER, type TEXT, type_index INTEGER, name TEXT, product_name TEXT);
    INSERT INTO rocpd_info_agent@ VALUES (0, 9, 4711, 'CPU', 0, 'EPYC', ''), (6, 9, 4711, 'GPU', 2, 'gfx90a', 'AMD Instinct MI250X');
    CREATE TABLE rocpd_info_kernel_symbol@(id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
    INSERT INTO rocpd_info_kernel_symbol@ VALUES (1, '_Z4gemmIfEvPT_.kd', 'void gemm<float>(float*)'), (2, 'ncclDevKernel_Generic_1', 'ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)');
    CREATE TABLE rocpd_event@(id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata TEXT);
    CREATE TABLE rocpd_pmc_event@(id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL); INSERT INTO rocpd_pmc_event@ VALUES (1, 1, 1, 2.5);
  )J";
  if (direct) {
    sql += R"J(
      CREATE TABLE rocpd_region@(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER, event_id INTEGER);
      CREATE TABLE rocpd_kernel_dispatch@(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, queue_id INTEGER, stream_id INTEGER,
        start BIGINT, end BIGINT, event_id INTEGER);
      CREATE TABLE rocpd_memory_copy@(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER, dst_agent_id INTEGER,
        src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);)J";
  } else {
    sql += R"J(
      CREATE TABLE rocpd_track@(id INTEGER PRIMARY KEY, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER);
      INSERT INTO rocpd_track@ VALUES (1, 9, 4711, 4711, NULL, NULL, NULL), (2, 9, 4711, 4711, 6, 1, 4);
      CREATE TABLE rocpd_timestamp@(id INTEGER PRIMARY KEY, value BIGINT, phase INTEGER, track_id INTEGER);
      CREATE TABLE rocpd_region@(id INTEGER PRIMARY KEY, track_id INTEGER, name_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER);
      CREATE TABLE rocpd_kernel_dispatch@(id INTEGER PRIMARY KEY, track_id INTEGER, kernel_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER);
      CREATE TABLE rocpd_memory_copy@(id INTEGER PRIMARY KEY, track_id INTEGER, start_id INTEGER, end_id INTEGER, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER,
        size INTEGER, event_id INTEGER);)J";
  }
  int next = 0;
  const auto row = [&](const std::string& table, int number, int category, const std::string& message, int64_t start,
                       int64_t end, const std::string& place, const std::string& rest,
                       const std::string& direct_place) {
    const std::string id = std::to_string(++next), begin = std::to_string(7000000000000 + start),
                      stop = std::to_string(7000000000000 + end);
    sql += "INSERT INTO rocpd_event@ VALUES (" + id + ", " + std::to_string(category) + ", " + std::to_string(number) +
           ", 0, 0, '" + (message.empty() ? "{}" : "{\"message\": \"" + message + "\"}") + "');";
    std::string columns, values;
    if (direct) {
      columns = "start, end, " + direct_place.substr(0, direct_place.find('=')),
      values = begin + ", " + stop + ", " + direct_place.substr(direct_place.find('=') + 1);
    } else {
      sql += "INSERT INTO rocpd_timestamp@ VALUES (" + std::to_string(2 * next) + ", " + begin + ", 1, 1), (" +
             std::to_string(2 * next + 1) + ", " + stop + ", 2, 1);";
      columns = "start_id, end_id, track_id",
      values = std::to_string(2 * next) + ", " + std::to_string(2 * next + 1) + ", " + place;
    }
    sql += "INSERT INTO " + table + "@(" + columns + ", event_id, " + rest.substr(0, rest.find('=')) + ") VALUES (" +
           values + ", " + id + ", " + rest.substr(rest.find('=') + 1) + ");";
  };
  const auto region = [&](int number, int category, int name, const std::string& message, int64_t start, int64_t end) {
    row("rocpd_region", number, category, message, start, end, "1", "name_id=" + std::to_string(name),
        "pid, tid=4711, 4711");
  };
  region(1, 2, 8, "step 4", 0, 1000000);
  region(2, 2, 8, "forward", 1000, 400000);
  region(3, 1, 7, "", 3000, 9000);
  region(4, 1, 6, "", 10000, 15000);
  region(5, 5, 10, "", 19000, 23000);
  region(6, 1, 11, "", 20000, 22000);
  region(7, 1, 12, "", 24000, 24100);
  const std::string gpu = "pid, tid, agent_id, queue_id, stream_id=4711, 4711, 6, 1, 4";
  row("rocpd_kernel_dispatch", 4, 3, "", 30000, 130000, "2", "kernel_id=1", gpu);
  row("rocpd_kernel_dispatch", 6, 3, "", 200000, 350000, "2", "kernel_id=2", gpu);
  row("rocpd_memory_copy", 3, 4, "", 5000, 25000, "2", "name_id, dst_agent_id, src_agent_id, size=9, 6, 0, 65536",
      "pid, tid, queue_id, stream_id=4711, 4711, 1, 4");
  std::string named;
  for (const char c : sql) c == '@' ? named += u : named += c;
  return named;
}
inline std::string rocpd_trace(int schema) { return database_of(rocpd_sql(schema)); }

/// The same as JSON of rocprofv3.
inline std::string rocprofiler_json() {
  return R"J({"rocprofiler-sdk-tool": [{
 "metadata": {"node": {"id": 9, "hostname": "frontier1"}, "pid": 4711, "init_time": 1, "fini_time": 2, "command": ["./train"], "config": {"environment": {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}}},
 "agents": [{"size": 1, "id": {"handle": 1}, "type": 1, "logical_node_type_id": 0, "name": "EPYC", "product_name": ""},
  {"size": 1, "id": {"handle": 12345678901234567890}, "type": 2, "logical_node_type_id": 2, "name": "gfx90a", "product_name": "AMD Instinct MI250X"}],
 "counters": [],
 "strings": {"callback_records": [],
  "buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "HIP_RUNTIME_API_EXT", "operations": ["hipGetDevice", "hipLaunchKernel", "hipMemcpyAsync", "hipExtLaunchKernel"]},
   {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]}, {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
   {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE"]}, {"kind": "RCCL_API", "operations": ["ncclAllGather"]}],
  "marker_api": [{"key": 1, "value": "step 4"}, {"key": 2, "value": "forward"}], "correlation_id": {"external": []}},
 "code_objects": [], "kernel_symbols": [{"size": 1, "kernel_id": 1, "kernel_name": "_Z4gemmIfEvPT_.kd", "formatted_kernel_name": "void gemm<float>(float*)"},
  {"size": 1, "kernel_id": 2, "kernel_name": "ncclDevKernel_Generic_1", "formatted_kernel_name": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"}],
 "summary": [], "callback_records": {"counter_collection": [{"dispatch_data": {"dispatch_info": {"kernel_id": 1}}, "records": [{"value": 2.5}]}]},
 "buffer_records": {
  "kernel_dispatch": [
   {"size": 184, "kind": 4, "operation": 2, "thread_id": 4711, "correlation_id": {"internal": 4, "external": 0}, "start_timestamp": 7000000030000, "end_timestamp": 7000000130000,
    "dispatch_info": {"size": 72, "agent_id": {"handle": 12345678901234567890}, "queue_id": {"handle": 1}, "kernel_id": 1, "grid_size": {"x": 4, "y": 1, "z": 1}}, "stream_id": {"handle": 4}},
   {"size": 184, "kind": 4, "operation": 2, "thread_id": 4711, "correlation_id": {"internal": 6, "external": 0}, "start_timestamp": 7000000200000, "end_timestamp": 7000000350000,
    "dispatch_info": {"size": 72, "agent_id": {"handle": 12345678901234567890}, "queue_id": {"handle": 1}, "kernel_id": 2, "grid_size": {"x": 4, "y": 1, "z": 1}}, "stream_id": {"handle": 4}}],
  "hip_api": [
   {"size": 1, "kind": 1, "operation": 2, "correlation_id": {"internal": 3, "external": 0}, "start_timestamp": 7000000003000, "end_timestamp": 7000000009000, "thread_id": 4711, "args": [1]},
   {"size": 1, "kind": 1, "operation": 1, "correlation_id": {"internal": 4, "external": 0}, "start_timestamp": 7000000010000, "end_timestamp": 7000000015000, "thread_id": 4711},
   {"size": 1, "kind": 1, "operation": 3, "correlation_id": {"internal": 6, "external": 0}, "start_timestamp": 7000000020000, "end_timestamp": 7000000022000, "thread_id": 4711},
   {"size": 1, "kind": 1, "operation": 0, "correlation_id": {"internal": 7, "external": 0}, "start_timestamp": 7000000024000, "end_timestamp": 7000000024100, "thread_id": 4711}],
  "hsa_api": [{"size": 1, "kind": 0, "operation": 0, "correlation_id": {"internal": 8}, "start_timestamp": 1, "end_timestamp": 2, "thread_id": 4711}],
  "marker_api": [
   {"size": 1, "kind": 2, "operation": 1, "correlation_id": {"internal": 1, "external": 0}, "start_timestamp": 7000000000000, "end_timestamp": 7000001000000, "thread_id": 4711},
   {"size": 1, "kind": 2, "operation": 1, "correlation_id": {"internal": 2, "external": 0}, "start_timestamp": 7000000001000, "end_timestamp": 7000000400000, "thread_id": 4711}],
  "rccl_api": [{"size": 1, "kind": 5, "operation": 0, "correlation_id": {"internal": 5}, "start_timestamp": 7000000019000, "end_timestamp": 7000000023000, "thread_id": 4711}],
  "memory_copy": [{"size": 1, "kind": 3, "operation": 1, "correlation_id": {"internal": 3}, "thread_id": 4711, "start_timestamp": 7000000005000, "end_timestamp": 7000000025000,
   "dst_agent_id": {"handle": 12345678901234567890}, "src_agent_id": {"handle": 1}, "bytes": 65536, "stream_id": {"handle": 4}}],
  "scratch_memory": [{"size": 1, "kind": 0, "operation": 0}]}
}]})J";
}

/// Allreduces of two communicators, as rank `rank` of two logged them; the one of rank 1 is the shorter one.
inline std::string inspector_log(int rank, int pid) {
  std::string log;
  for (int n = 0; n < 3; ++n) {
    const std::string head =
        R"({"header": {"id": "0x7f8c", "rank": )" + std::to_string(rank) +
        R"(, "n_ranks": 2, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "",)"
        R"( "rec_mechanism": "profiler_plugin", "dump_timestamp_us": )" +
        std::to_string(1748030377748202 + 10000 * n) + R"(, "hostname": "node)" + std::to_string(rank) +
        R"(", "pid": )" + std::to_string(pid) + "}, ";
    const std::string duration = std::to_string(rank == 0 ? 900 : 400);
    log += head + R"("coll_perf": {"coll": "AllReduce", "coll_sn": )" + std::to_string(n) +
           R"(, "coll_msg_size_bytes": 4096, "coll_exec_time_us": )" + duration +
           R"(, "coll_algobw_gbs": 1.5, "coll_busbw_gbs": 1.5}})"
           "\n";
    log +=
        head + R"("coll_perf": {"coll": "AllGather", "coll_sn": )" + std::to_string(n) +
        R"(, "coll_msg_size_bytes": 8192, "coll_exec_time_us": 50.5, "coll_timing_source": "kernel_gpu", "event_trace_ts": {"coll_start_ts": )" +
        std::to_string(1748030377747000 + 10000 * n) +
        R"(, "kernel_events": [{"channel_id": 0}]}}})"
        "\n";
  }
  return log;
}

/// Copies and a kernel as nvprof --print-gpu-trace --csv printed them.
inline std::string nvprof_trace() {
  return R"X(==4242== NVPROF is profiling process 4242, command: ./transpose
==4242== Profiling application: ./transpose
==4242== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"
ms,ms,,,,,,,,KB,KB,MB,GB/s,,,,,,,
207.245,28.462,,,,,,,,,,190.734863,6.544,"Pageable","Device","Tesla P100-SXM2-16GB (0)","1","7","[CUDA memcpy HtoD]",105
236.000,1.900,1024,1024,1,32,8,1,8,0.000000,0.000000,,,,,"Tesla P100-SXM2-16GB (0)","1","7","naiveTransposeKernel(float*, float const *, int) [110]",110
238.000,29.581,,,,,,,,,,190.734863,6.296,"Device","Pageable","Tesla P100-SXM2-16GB (0)","1","7","[CUDA memcpy DtoH]",112
)X";
}

inline std::string horovod_timeline() {
  return R"([
{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1700000000000000}},
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "DistributedOptimizer/grad_1"}},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1000, "pid": 1},
{"ph": "X", "name": "0", "ts": 1000, "pid": 1, "dur": 0},
{"ph": "X", "name": "2", "ts": 1100, "pid": 1, "dur": 0},
{"ph": "X", "name": "1", "ts": 1400, "pid": 1, "dur": 0},
{"ph": "E", "ts": 1401, "pid": 1},
{"ph": "B", "name": "ALLREDUCE", "ts": 1405, "pid": 1},
{"ph": "B", "name": "MPI_ALLREDUCE", "ts": 1410, "pid": 1},
{"ph": "E", "ts": 1600, "pid": 1},
{"ph": "E", "ts": 1610, "pid": 1, "args": {"dtype": "float32", "shape": "[100, 3]"}},
{"ph": "i", "name": "CYCLE_START", "ts": 1700, "s": "g"},
{"ph": "B", "name": "NEGOTIATE_BROADCAST", "ts": 1800, "pid": 1},
{"ph": "X", "name": "1", "ts": 1810, "pid": 1, "dur": 0},
{"ph": "E", "ts": 1830, "pid": 1},
{"ph": "B", "name": "BROADCAST", "ts": 1840, "pid": 1},
{"ph": "E", "ts": 1900, "pid": 1, "args": {"dtype": "int64", "shape": "[]"}}])";
}

/// Steps of 30 ms of two ranks: gradients c and b are fused, a follows; rank 1 is ready with each 20 ms after rank 0.
/// Times are in us. `cached`: from the second step on the response cache answers, and nobody is named.
inline std::string horovod_steps(int steps, bool cached) {
  std::string json = R"([
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a"}},
{"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "b"}},
{"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "c"}})";
  const auto event = [&json](int64_t time, int tensor, const char* phase, const std::string& name,
                             const std::string& args = "") {
    json += ",\n{\"ph\": \"" + std::string(phase) + "\", " + (name.empty() ? "" : "\"name\": \"" + name + "\", ") +
            "\"ts\": " + std::to_string(time) + ", \"pid\": " + std::to_string(tensor) +
            (*phase == 'X' ? ", \"dur\": 0" : "") + (args.empty() ? "" : ", \"args\": " + args) + "}";
  };
  const char* const ends[] = {"", R"({"dtype": "float32", "shape": "[100]"})",
                              R"({"dtype": "float32", "shape": "[5, 10]"})",
                              R"({"dtype": "float32", "shape": "[25]"})"};
  const auto batch = [&](const std::vector<int>& tensors, int64_t time, int64_t length) {
    for (const int tensor : tensors) event(time, tensor, "B", "ALLREDUCE");
    for (const char* activity : {"MEMCPY_IN_FUSION_BUFFER", "MPI_ALLREDUCE"}) {
      time += 10;
      length -= 10;
      for (const int tensor : tensors) event(time, tensor, "B", activity);
      for (const int tensor : tensors) event(time + 5, tensor, "E", "");
    }
    for (const int tensor : tensors) event(time + length, tensor, "E", "", ends[tensor]);
  };
  for (int step = 0; step < steps; ++step) {
    const int64_t begin = 1000 + 30000 * int64_t{step};
    const bool named = step == 0 || !cached;
    for (const int tensor : {3, 2, 1}) {
      const int64_t ready = begin + (tensor == 1 ? 6000 : 5000);
      event(ready, tensor, "B", "NEGOTIATE_ALLREDUCE");
      if (named) event(ready, tensor, "X", "0");
    }
    for (const int tensor : {3, 2, 1}) {
      const int64_t ready = begin + (tensor == 1 ? 26000 : 25000);
      if (tensor == 1) batch({3, 2}, begin + 25100, 400);
      if (named) event(ready, tensor, "X", "1");
      event(ready, tensor, "E", "");
    }
    batch({1}, begin + 26100, 300);
  }
  return json + "]";
}

inline std::string chrome_trace() {
  return R"J({"displayTimeUnit": "ms", "traceEvents": [
{"ph": "M", "name": "process_name", "pid": 7, "tid": 1, "args": {"name": "rank 1 on node3"}},
{"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
{"ph": "B", "name": "step 4", "pid": 7, "tid": 1, "ts": 100.5},
{"ph": "X", "name": "conv1", "cat": "layer", "pid": 7, "tid": 1, "ts": 110, "dur": 50},
{"ph": "X", "name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 7, "tid": 1, "ts": 120, "dur": 5, "args": {"correlation": 3}},
{"ph": "X", "name": "gemm", "cat": "kernel", "pid": 7, "tid": 70, "ts": 130, "dur": 20, "args": {"device": 0, "stream": 7, "correlation": 3}},
{"ph": "X", "name": "Memcpy DtoH (Device -> Pinned)", "cat": "gpu_memcpy", "pid": 7, "tid": 70, "ts": 151, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 0, "bytes": 100}},
{"ph": "X", "name": "MPI_Allreduce", "cat": "mpi", "pid": 7, "tid": 1, "ts": 170, "dur": 30, "args": {"comm": "MPI_COMM_WORLD", "comm_size": 2, "seq": 9, "bytes": 4000}},
{"ph": "X", "name": "MPI_Send", "cat": "mpi", "pid": 7, "tid": 1, "ts": 201, "dur": 1, "args": {"comm": "MPI_COMM_WORLD", "comm_size": 2, "peer": 0, "tag": 3, "bytes": 40}},
{"ph": "E", "pid": 7, "tid": 1, "ts": 220},
{"ph": "X", "name": "MPI_Allreduce", "cat": "mpi", "pid": 6, "tid": 1, "ts": 180, "dur": 20, "args": {"comm": "MPI_COMM_WORLD", "comm_size": 2, "seq": 9, "bytes": 4000}},
{"ph": "C", "name": "memory", "pid": 6, "ts": 180, "args": {"bytes": 5}}
]})J";
}

/// Two stages of two replicas, two steps; replica 1 computes 10 ms longer.
inline std::string what_if_csv() {
  std::string csv = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
  for (const char* step : {"3", "8"})
    for (int replica = 0; replica < 2; ++replica) {
      const std::string d = std::to_string(replica);
      const auto row = [&](int stage, const std::string& rest) {
        csv += d + "," + std::to_string(stage) + "," + std::to_string(stage * 2 + replica) + "," + step + "," + rest +
               "\n";
      };
      row(0, std::string("forward-compute,0.0,0.0") + (replica ? "6" : "5") + ",0,0,0,0");
      row(0, "forward-send,0.1,0.001,0,-1,-1,-1");
      row(1, "forward-recv,0.05,0.051,0,-1,-1,-1");
      row(1, "backward-compute,0.11,0.05,0,0,0,0");
      row(0, "grads-reduce-scatter,0.2" + std::string(replica ? "1" : "0") + ",0." + (replica ? "04" : "05") +
                 ",0,0,-1,-1");
      row(1, "optimizer,0.3,0.01,0,-1,-1,-1");
    }
  return csv;
}

inline std::string layers_csv() {
  return "node,op,fwd_ms,bwd_ms\n1,Input,17.972,0.0\n2,\"Conv2d(3, 64, \"\"same\"\")\",22.307,24.613\n3,ReLU,4.446,5.553\n";
}

/// For a communicator whose ranks launched so many AllReduces, as NCCL 2.28.9 answers: a comma is missing. The last
/// `silent` ranks do not answer.
inline std::string ras_answer(const std::vector<int64_t>& launched, size_t silent, bool comma = false) {
  std::string text =
      "{\n  \"nccl_version\": \"2.28.9\",\n  \"timestamp\": \"2026-01-02 03:04:05\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n";
  const size_t answering = launched.size() - silent;
  text += "    {\n      \"hash\": \"0x9e1a\",\n      \"size\": " + std::to_string(launched.size()) +
          ",\n      \"missing_ranks_count\": " + std::to_string(silent) + (comma ? "," : "") + "\n      \"ranks\": [\n";
  const auto gpu = [](size_t rank) {
    return "\"rank\": " + std::to_string(rank) + ", \"host\": \"10.0.0." + std::to_string(rank / 2) +
           "\", \"pid\": " + std::to_string(700 + rank) + ", \"cuda_dev\": " + std::to_string(rank % 2) + ", ";
  };
  for (size_t r = 0; r < answering; ++r) {
    text +=
        "        {" + gpu(r) +
        "\"status\": {\"init_state\": 0, \"async_error\": 0}, \"collective_counts\": {\"Broadcast\": 2, \"AllReduce\": " +
        std::to_string(launched[r]) + "}}" + (r + 1 < answering ? ",\n" : "\n");
  }
  text += "      ],\n      \"missing_ranks\": [\n";
  for (size_t r = answering; r < launched.size(); ++r)
    text += "        {" + gpu(r) + "\"status\": {\"unresponsive\": true, \"considered_dead\": true}}" +
            (r + 1 < launched.size() ? ",\n" : "\n");
  return text + "      ]\n    }\n  ],\n  \"ras\": {\"collection_time_sec\": 0.01, \"timeouts_count\": 0}\n}\n";
}

/// A hang with all that the text of RAS speaks of: ranks that lag, are silent, finalize, left, or report an error.
inline std::string ras_text_sample(int minor) {
  RasJob job;
  job.gpus = 16;
  std::vector<int64_t> all;
  for (int64_t gpu = 0; gpu < job.gpus; ++gpu) all.push_back(gpu);
  RasJobCommunicator& world = job.add(0x27a079b828ff1a75, all, "AllReduce", 40);
  world.members[3].launched["AllReduce"] = world.members[5].launched["AllReduce"] = 39;
  world.members[11].state = RasState::kSilent;
  RasJobCommunicator& tensor = job.add(0xe9, {0, 1, 2, 3, 4, 5, 6, 7}, "AllGather", 9);
  tensor.members[3].launched["AllGather"] = 0;
  tensor.members[2].state = RasState::kFinalize;
  tensor.members[6].state = RasState::kNoMember;
  tensor.members[1].async_error = true;
  job.add(0xea, {8, 9, 10, 11, 12, 13, 14, 15}, "AllGather", 9).members[3].state = RasState::kSilent;
  return ras_text(job, minor);
}

/// Rank 0 of a hang of two groups, with messages, batches and stacks. `protocol` 0: JSON.
inline std::string flight_recorder_dump(int protocol) {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}, {"7", "mesh_tp", {0, 1}}});
  FlightOp done;
  done.stack = "forward";
  FlightOp open = done;
  open.state = FlightState::kScheduled;
  FlightOp send = open;
  send.name = "send";
  send.peer = 1;
  send.batch = 3;
  for (int i = 0; i < 4; ++i) job.all(0, done);
  job.add(0, send);
  job.all(1, open);
  job.all(0, open);
  const FlightValue dump = flight_dump(job, 0);
  return protocol == 0 ? as_json(dump) : as_pickle(dump, protocol);
}

/// Rank 0 of a Chakra trace: two steps with an operator, a kernel, a collective on either side, and a message.
inline std::string chakra_trace(bool times = true) {
  using reports::Message;
  std::string file;
  const auto add = [&](const Message& message) {
    size_t size = message.encoded().size();
    for (; size >= 128; size >>= 7) file += static_cast<char>(size | 128);
    file += static_cast<char>(size);
    file += message.encoded();
  };
  add(Message().bytes(1, "0.0.4"));
  add(Message()
          .number(1, 99)
          .bytes(2, "## process_group:init ##")
          .number(3, 1)
          .message(8, Message().bytes(1, R"(['[{"pg_name": "3", "ranks": [0, 1]}]'])")));
  uint64_t id = 0;
  const auto node = [&](const char* name, int type, uint64_t start_us, uint64_t duration_us,
                        const std::vector<std::pair<const char*, int64_t>>& attributes) {
    Message m;
    m.number(1, ++id).bytes(2, name).number(3, static_cast<uint64_t>(type));
    if (times) m.number(6, start_us);
    m.number(7, duration_us);
    for (const auto& [key, value] : attributes) m.message(10, Message().bytes(1, key).integer(9, value));
    if (type == 7) m.message(10, Message().bytes(1, "pg_name").bytes(29, "3"));
    add(m);
  };
  for (const uint64_t step : {uint64_t{1}, uint64_t{2}}) {
    const uint64_t t = step * 1000;
    const auto number = static_cast<int64_t>(step);
    node("aten::mm", 4, t, 200, {{"step", number}, {"tid", 7}});
    node("gemm", 4, t + 50, 300, {{"step", number}, {"stream", 7}});
    node("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, t + 350, 100,
         {{"stream", 20}, {"step", number}, {"comm_type", 0}, {"comm_size", 4096}});
    node("MPI_Allreduce", 7, t + 500, 100, {{"step", number}, {"comm_type", 0}, {"comm_size", 8}});
    node("MPI_Send", 5, t + 600, 10,
         {{"step", number}, {"comm_size", 64}, {"comm_src", 0}, {"comm_dst", 0}, {"comm_tag", 5}});
    node("load", 2, t + 700, 10, {});
  }
  return file;
}

inline std::vector<Sample> samples() {
  return {
      {"nccl-ras", "ras.json", ras_answer({5, 5, 4, 5}, 1), ", byte "},
      {"nccl-ras", "ras.txt", ras_text_sample(30), ", byte "},
      {"nccl-ras", "ras24.txt", ras_text_sample(24), ", byte "},
      {"flight-recorder", "nccl_trace_rank_0", flight_recorder_dump(2), ", byte "},
      {"flight-recorder", "nccl_trace_rank_1.json", flight_recorder_dump(0), ", byte "},
      {"nsys", "report.sqlite", nsys_report(), "report.sqlite, "},
      {"rocm", "trace.rpd", rpd_trace(), "trace.rpd, "},
      {"rocm", "results.db", rocpd_trace(3), "results.db, "},
      {"rocm", "results4.sqlite", rocpd_trace(4), "results4.sqlite, "},
      {"rocm", "results.json", rocprofiler_json(), ", byte "},
      {"nvprof", "nvprof.4242.csv", nvprof_trace(), ", byte "},
      {"horovod", "timeline.json", horovod_timeline(), ", byte "},
      {"nccl-inspector", "node0.log", inspector_log(0, 12), ", byte "},
      {"chakra", "job.0.et", chakra_trace(), ", byte "},
      {"chrome", "trace.json", chrome_trace(), ", byte "},
      {"pipedream", "trace.csv", what_if_csv(), ", byte "},
      {"kineto", "worker0.json", R"J({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}],
 "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "nccl_version": "2.17.1", "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]},
 "baseTimeNanoseconds": 1700000000000000000,
 "traceEvents": [
 {"ph": "M", "name": "thread_name", "pid": 9, "tid": 9, "ts": 0, "args": {"name": "python"}},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 1000.125, "dur": 900},
 {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "pid": 9, "tid": 9, "ts": 1001, "dur": 90},
 {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 9, "tid": 9, "ts": 1100, "dur": 300},
 {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 9, "tid": 9, "ts": 1100, "dur": 200, "args": {"Sequence number": 4, "Input Dims": [[8, 16], []], "External id": 3}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1150, "dur": 10, "args": {"cbid": 211, "correlation": 5}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 9, "tid": 9, "ts": 1170, "dur": 10, "args": {"correlation": 6}},
 {"ph": "X", "cat": "kernel", "name": "_Z4gemmIfEvPT_", "pid": 0, "tid": 7, "ts": 1200, "dur": 100, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 5, "grid": [2, 1, 1], "graph node id": 3}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 1310, "dur": 20, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 6, "bytes": 4096}},
 {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 1340, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 0, "bytes": 64}},
 {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 1350, "dur": 2, "args": {"stream": 7, "correlation": 8}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 9, "tid": 9, "ts": 1345, "dur": 10, "args": {"correlation": 8}},
 {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1360, "args": {"Addr": 99, "Device Type": 1, "Device Id": 0, "Bytes": 512, "Total Allocated": 4096, "Total Reserved": 8192}},
 {"ph": "X", "cat": "cuda_profiler_range", "name": "gemm", "pid": 0, "tid": 0, "ts": 1700, "dur": 10, "args": {"sm__inst_executed.sum": 7, "dram__bytes.sum": 1.5e3}},
 {"ph": "X", "cat": "cuda_profiler_range", "name": "gemm", "pid": 0, "tid": 0, "ts": 1720, "dur": 10, "args": {"sm__inst_executed.sum": 8, "dram__bytes.sum": 64}},
 {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1370, "args": {"Device Type": 0, "Device Id": -1, "Bytes": -16}},
 {"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": 9, "tid": 0, "ts": 1360, "dur": 1},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 1400, "dur": 100.5, "args": {"device": 0, "context": 1, "stream": 20, "correlation": 9, "Collective name": "allreduce", "In msg nelems": 1000, "Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}},
 {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 9, "ts": 1500, "dur": 60, "args": {"External id": 7}},
 {"ph": "X", "cat": "user_annotation", "name": "nccl:_all_gather_base", "pid": 9, "tid": 9, "ts": 1510, "dur": 40, "args": {"Input Dims": [[8, 1024], [16]], "Input type": ["float", "c10::Half"]}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 9, "tid": 9, "ts": 1520, "dur": 10, "args": {"correlation": 10}},
 {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", "pid": 0, "tid": 21, "ts": 1600, "dur": 50, "args": {"device": 0, "context": 1, "stream": 21, "correlation": 10}},
 {"ph": "f", "cat": "ac2g", "id": 5, "pid": 0, "tid": 7, "ts": 1200, "name": "ac2g"}
 ], "traceName": "x"})J",
       ", byte "},
  };
}

}  // namespace ddl::test
