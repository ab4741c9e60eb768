// Interface of the collectors to the lifecycle (interpose/) and to each other. Injected code.
#pragma once

namespace ddl {

/// Warns of environment variables by which collectors find us that another tool has set. See environment.cpp.
void write_collector_facts();
/// Finds the counters that DDL_COUNTERS names. See papi.cpp.
void start_counters();
/// Samples of the training thread, where a background thread communicates for it. See threads.cpp.
void start_thread_samples();
/// What the scheduler says of the main thread from here ...
void begin_cpu_account();
/// ... to here, as facts of the process; nothing if that was written, or the kernel does not tell. See
/// thread_account.cpp.
void end_cpu_account();
/// Do background threads communicate for a training thread, and is the caller not that one?
bool is_background_thread();
/// Samples of the node's health, if this process is to take them: from now on, and a last one. See node_health.cpp.
void start_node_health();
void end_node_health();
/// Takes CUPTI's finished records, where a process may soon end without its exit handlers. Nothing where no GPU is
/// used. See cupti.cpp.
void flush_devices();
/// CUPTI tells when kernels run: NCCL need not. Likewise.
bool are_devices_traced();
/// NCCL tells of its calls with NVTX, where no other source does. See nccl_nvtx.cpp.
void listen_to_nccl();

}  // namespace ddl
