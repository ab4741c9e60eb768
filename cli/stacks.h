// Stacks of hanging processes on this host, from outside: Python's by faulthandler, which python/ddl_hooks
// registers for a signal that is otherwise ignored (docs/decisions/0033); C's by eu-stack or gdb, if installed.
// Stopped processes are left alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/stalls.h"

namespace ddl::cli {

/// The main thread's state in /proc.
struct ThreadState {
  std::string state;       ///< runs, sleeps, in uninterruptible sleep, stopped, gone
  uint64_t cpu_ticks = 0;  ///< since it began, in units of sysconf(_SC_CLK_TCK)
};
ThreadState main_thread_state(pid_t pid);

/// Fills `threads`, `python_why` and `c_why` of the ranks that are `here` and alive. Takes about six seconds at most.
struct StackTarget {
  StalledRank* rank;
  pid_t pid;
};
void take_stacks(const std::vector<StackTarget>& targets);

// The parts, for tests.
/// Parses faulthandler's output; the main thread, which it writes last, comes first.
std::vector<StalledThread> parse_faulthandler(std::string_view text);
/// Frames of the first thread printed by eu-stack or gdb: "clock_nanosleep < main (main.cpp:81)"; empty: none.
std::string parse_c_stack(std::string_view text);

}  // namespace ddl::cli
