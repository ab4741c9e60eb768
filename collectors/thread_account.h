// What the kernel tells of a thread in /proc. Injected code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

/// Reads the beginning of a file of the thread, as text; false: there is none. Opened each time: a descriptor of ours
/// that stayed open would move the job's.
bool read_of_thread(uint32_t tid, const char* name, char* text, size_t bytes);

/// Since the thread began.
struct ThreadAccount {
  uint64_t on_cpu_ns;
  uint64_t ready_ns;  ///< ready to run, without a CPU
};

/// Its schedstat. False: the kernel does not tell, as one that was built without CONFIG_SCHED_INFO, or a sandbox's.
bool read_account(uint32_t tid, ThreadAccount& account);

}  // namespace ddl
