// A small trace of each format with everything in it that the importer reads.
#pragma once

#include <string>
#include <vector>

namespace ddl::test {

struct Sample {
  std::string format, file, contents;
  std::string place;  ///< how an error names a place in the file
};

inline std::vector<Sample> samples() {
  return {
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
 {"ph": "f", "cat": "ac2g", "id": 5, "pid": 0, "tid": 7, "ts": 1200, "name": "ac2g"}
 ], "traceName": "x"})J",
       ", byte "},
  };
}

}  // namespace ddl::test
