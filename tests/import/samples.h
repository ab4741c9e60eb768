// A small trace of each format with everything in it that the importer reads.
#pragma once

#include <SQLiteCpp/Database.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/flight_dumps.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {

struct Sample {
  std::string format, file, contents;
  std::string place;  ///< how an error names a place in the file
};

/// A report of Nsight Systems with one process of one rank.
inline std::string nsys_report() {
  const ScratchFolder folder;
  {
    SQLite::Database db(folder / "report.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec(R"J(
      CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL);
      INSERT INTO StringIds VALUES (1, 'void gemm<float>(float*)'), (2, 'MPI_Allreduce'), (3, 'MPI_Send'), (4, 'main thread'), (5, 'step 1');
      CREATE TABLE TARGET_INFO_SYSTEM_ENV(name TEXT, value TEXT); INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7');
      CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER); INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
      CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100');
      CREATE TABLE MPI_RANKS(globalPid INTEGER, rank INTEGER); INSERT INTO MPI_RANKS VALUES (281475000000000 / 16777216 * 16777216, 1);
      CREATE TABLE ThreadNames(globalTid INTEGER, nameId INTEGER); INSERT INTO ThreadNames VALUES (281475000000000 / 16777216 * 16777216 + 77, 4);
      CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);
      INSERT INTO NVTX_EVENTS SELECT 1000, 900000, 59, globalTid, NULL, 5 FROM ThreadNames;
      INSERT INTO NVTX_EVENTS SELECT 2000, 300000, 59, globalTid, 'forward', NULL FROM ThreadNames;
      INSERT INTO NVTX_EVENTS SELECT 3000, 200000, 60, globalTid, 'conv1', NULL FROM ThreadNames;
      CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 4000, 9000, globalTid, 11, 1 FROM ThreadNames UNION ALL SELECT 10000, 12000, globalTid, 12, 1 FROM ThreadNames;
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 20000, 120000, 0, 1, 7, 11, globalPid, 1, 1, NULL FROM MPI_RANKS;
      CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT 130000, 150000, 0, 1, 7, 12, globalPid, 65536, 1, 1, 2 FROM MPI_RANKS;
      CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER, memKind INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET SELECT 150000, 151000, 0, 1, 7, 0, globalPid, 64, 2 FROM MPI_RANKS;
      CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER);
      INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SELECT 160000, 170000, 0, 1, 7, 13, globalPid FROM MPI_RANKS;
      CREATE TABLE MPI_COLLECTIVES_EVENTS(start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER, size INTEGER);
      INSERT INTO MPI_COLLECTIVES_EVENTS SELECT 400000, 500000, globalTid, 2, 4096 FROM ThreadNames;
      CREATE TABLE MPI_P2P_EVENTS(start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER, size INTEGER, tag INTEGER, remoteRank INTEGER);
      INSERT INTO MPI_P2P_EVENTS SELECT 600000, 610000, globalTid, 3, 128, 5, 0 FROM ThreadNames;
    )J");
  }
  std::ifstream file(folder / "report.sqlite", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Allreduces of two communicators, as rank `rank` of two logged them; the one of rank 1 is the shorter one.
inline std::string inspector_log(int rank, int pid) {
  std::string log;
  for (int n = 0; n < 3; ++n) {
    const std::string head = R"({"header": {"id": "0x7f8c", "rank": )" + std::to_string(rank) +
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

/// Steps of 30 ms of two ranks: gradients c and b are fused, a follows; rank 1 is ready with each 20 ms after rank 0. Times are in us. `cached`: from
/// the second step on the response cache answers, and nobody is named.
inline std::string horovod_steps(int steps, bool cached) {
  std::string json = R"([
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a"}},
{"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "b"}},
{"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "c"}})";
  const auto event = [&json](int64_t time, int tensor, const char* phase, const std::string& name, const std::string& args = "") {
    json += ",\n{\"ph\": \"" + std::string(phase) + "\", " + (name.empty() ? "" : "\"name\": \"" + name + "\", ") +
            "\"ts\": " + std::to_string(time) + ", \"pid\": " + std::to_string(tensor) + (*phase == 'X' ? ", \"dur\": 0" : "") +
            (args.empty() ? "" : ", \"args\": " + args) + "}";
  };
  const char* const ends[] = {"", R"({"dtype": "float32", "shape": "[100]"})", R"({"dtype": "float32", "shape": "[5, 10]"})",
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
        csv += d + "," + std::to_string(stage) + "," + std::to_string(stage * 2 + replica) + "," + step + "," + rest + "\n";
      };
      row(0, std::string("forward-compute,0.0,0.0") + (replica ? "6" : "5") + ",0,0,0,0");
      row(0, "forward-send,0.1,0.001,0,-1,-1,-1");
      row(1, "forward-recv,0.05,0.051,0,-1,-1,-1");
      row(1, "backward-compute,0.11,0.05,0,0,0,0");
      row(0, "grads-reduce-scatter,0.2" + std::string(replica ? "1" : "0") + ",0." + (replica ? "04" : "05") + ",0,0,-1,-1");
      row(1, "optimizer,0.3,0.01,0,-1,-1,-1");
    }
  return csv;
}

inline std::string layers_csv() {
  return "node,op,fwd_ms,bwd_ms\n1,Input,17.972,0.0\n2,\"Conv2d(3, 64, \"\"same\"\")\",22.307,24.613\n3,ReLU,4.446,5.553\n";
}

/// For a communicator whose ranks launched so many AllReduces, as NCCL 2.28.9 answers: a comma is missing. The last `silent` ranks do not answer.
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
    text += "        {" + gpu(r) +
            "\"status\": {\"init_state\": 0, \"async_error\": 0}, \"collective_counts\": {\"Broadcast\": 2, \"AllReduce\": " +
            std::to_string(launched[r]) + "}}" + (r + 1 < answering ? ",\n" : "\n");
  }
  text += "      ],\n      \"missing_ranks\": [\n";
  for (size_t r = answering; r < launched.size(); ++r)
    text += "        {" + gpu(r) + "\"status\": {\"unresponsive\": true, \"considered_dead\": true}}" +
            (r + 1 < launched.size() ? ",\n" : "\n");
  return text + "      ]\n    }\n  ],\n  \"ras\": {\"collection_time_sec\": 0.01, \"timeouts_count\": 0}\n}\n";
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

inline std::vector<Sample> samples() {
  return {
      {"nccl-ras", "ras.json", ras_answer({5, 5, 4, 5}, 1), ", byte "},
      {"flight-recorder", "nccl_trace_rank_0", flight_recorder_dump(2), ", byte "},
      {"flight-recorder", "nccl_trace_rank_1.json", flight_recorder_dump(0), ", byte "},
      {"nsys", "report.sqlite", nsys_report(), "report.sqlite, "},
      {"nvprof", "nvprof.4242.csv", nvprof_trace(), ", byte "},
      {"horovod", "timeline.json", horovod_timeline(), ", byte "},
      {"nccl-inspector", "node0.log", inspector_log(0, 12), ", byte "},
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
