// A finished store of which each page is compared with its seal when SQLite reads it: a report reads an eighth of a
// large one, so comparing all of it costs a tenth of the report. The price: damage is found in the middle of a
// question. SQLite then answers SQLITE_IOERR, as for a disk that cannot be read; damaged_reads() tells, and what was
// computed so far is to be thrown away.
#pragma once

#include <cstdint>

namespace ddl {

/// The name under which SQLite knows it, as the last argument of SQLite::Database. Files that are opened for
/// writing (VACUUM INTO) and those of SQLite itself (sorted rows) are as in the default one. A store without a seal
/// cannot be opened.
const char* sealed_files();

/// How often pages of stores differed from their seals in this process, in any thread.
uint64_t damaged_reads();

}  // namespace ddl
