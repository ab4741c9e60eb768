// Where the process runs: its CPUs, their NUMA nodes, its number on its host. Injected code.
#pragma once

namespace ddl {

/// Facts "cpus", "numa" and "local_rank".
void write_placement();

/// Fact "cpus_at_end" if the main thread may run elsewhere than at the start: some programs bind themselves.
void write_placement_if_moved();

}  // namespace ddl
