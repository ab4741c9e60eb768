// Opens regular files only, and makes folders. In a folder that others may write to, a name can be a FIFO, a device, a
// socket or a link, which would block or have effects when opened. Nothing here blocks. Tool side only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace ddl {

/// Who chose the name. A file in a folder (job.json of a run directory) is never reached through a symbolic link. One
/// named by the user may be, and may be a pipe from a shell: <(zcat trace.json.gz), /dev/stdin.
enum class NamedBy { kFolder, kUser };

/// "a FIFO, not a file", "a symbolic link, not a file" and so on; empty: a regular file, or unknown. For pipes named by
/// the user only opening tells.
std::string why_no_file(const std::string& path, NamedBy by);

/// A descriptor for reading. Throws Error (kDataMissing): why_no_file(), no such file, not permitted.
int open_regular_file(const std::string& path, NamedBy by);

/// Its whole content. Throws as open_regular_file(), and if it is longer than `most_bytes`.
std::string read_regular_file(const std::string& path, NamedBy by, size_t most_bytes = size_t{256} << 20);

/// A folder in a folder of ours, such as trials of a tuning. Made if missing, with what is missing above it; an
/// existing folder will do, but not through a symbolic link. Throws CannotWrite with `hint`.
void make_folder(const std::string& path, const std::string& hint, mode_t mode = 0777);

}  // namespace ddl
