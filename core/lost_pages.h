// Pages of the spool that their file system takes away: the run directory lies on NFS and another host removes it,
// somebody truncates the file, a FUSE daemon or a Lustre client is thrown out. Touching one raises SIGBUS, which would
// end the job; here it gets anonymous memory instead, zeros, and the job goes on.
// docs/decisions/0020-a-lost-page-does-not-end-the-job.md. Injected code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

/// Takes SIGBUS, if it is not ours. One that is not about a page of the spool goes to whom it belonged before, and
/// so do all after it.
void guard_against_lost_pages();
/// Gives it back; false: it was not ours. For the time of the real MPI_Init: Open MPI takes it there, if nobody else
/// has.
bool stop_guarding_against_lost_pages();

/// Whatever is mapped from the spool. Who uses it must be content with any contents, zeros too. More than a table holds
/// are not guarded. The caller serialises this and unguard_pages().
void guard_pages(const void* pages, size_t bytes);
/// Before they are given back. Returns how many bytes they were; 0: they were not guarded.
size_t unguard_pages(const void* pages);
/// What the page at `page` is to hold in place of zeros once it is lost: whatever `contents` hold then. There
/// is one such page.
void keep_contents(const void* page, const void* contents, size_t bytes);

/// How many have been replaced in this process.
uint64_t lost_pages();

}  // namespace ddl
