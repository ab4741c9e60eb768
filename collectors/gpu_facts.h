// What a process's GPUs are and how they hang on the host, as facts. Injected code.
#pragma once

namespace ddl {

/// Once, after cuInit has returned. Asks the driver and /sys; from our own thread or at exit, never from the job's.
void write_gpu_facts();

}  // namespace ddl
