// What wrappers and collectors ask about the process that they are in. Defined in interpose/process.cpp. Injected code.
#pragma once

namespace ddl {

/// Starts the recorder from the environment, once per process. False: it is off, and why was said if it was worth saying.
bool start_recorder(bool from_mpi);
/// The same, for a process that uses NCCL. False also where NCCL is not to be recorded.
bool start_recorder_from_nccl();
/// DDL_COLLECTORS names it, or is not set. Names: collectors/collectors.def.
bool collector_wanted(const char* name);
/// An environment variable, also of a process that has cleared its environment; NULL: not set or empty.
const char* setting(const char* name);
/// Set, and not to 0.
bool is_on(const char* name);
/// One line on stderr from one process of the job.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// A child of a recorded process that has not become a process of MPI itself.
bool is_forked_child();

/// Says of every collector that finds us by an environment variable whether somebody else has it. Defined in collectors/environment.cpp.
void write_collector_facts();
/// Finds the counters that DDL_COUNTERS names. Defined in collectors/papi.cpp.
void start_counters();
/// Samples of the node's health, if this process is to take them: from now on, and a last one. Defined in collectors/node_health.cpp.
void start_node_health();
void end_node_health();
/// Takes what CUPTI has ready, where a process may soon end without its exit handlers. Nothing where nobody uses a GPU. Defined in
/// collectors/cupti.cpp.
void flush_devices();
/// NCCL tells of its calls with NVTX, where nobody else does. Defined in collectors/nccl_nvtx.cpp.
void listen_to_nccl();
/// CUPTI tells when kernels run: NCCL need not. Likewise.
bool are_devices_traced();

}  // namespace ddl
