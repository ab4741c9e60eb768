// What wrappers and collectors ask about the process that they are in. Injected code.
#pragma once

namespace ddl {

/// Starts the recorder from the environment, once per process. False: it is off, and why was said if it was worth
/// saying.
bool start_recorder(bool from_mpi);
/// The same, for a process that uses NCCL. False also where NCCL is not to be recorded.
bool start_recorder_from_nccl();
/// The same, of Gloo.
bool start_recorder_from_gloo();
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

/// The parts of torch that python/ddl_hooks hooked, in words: a fact of the process once it is recorded.
void tell_hooks(const char* text);

/// What its steps are, in words: a fact of a process that is recorded.
void tell_hooked_steps(const char* text);

/// Facts "cpus", "numa" and "local_rank".
void write_placement();

/// Fact "cpus_at_end" if the main thread may run elsewhere than at the start: some programs bind themselves.
void write_placement_if_moved();

}  // namespace ddl
