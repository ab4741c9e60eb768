// Opening what should be a file. In a folder that others may write to, the name of a file can be that of a FIFO, a device, a socket or a
// link: opening one waits for ever, or does something. Nothing here waits. Tool side only.
#pragma once

#include <cstddef>
#include <string>

namespace ddl {

/// Who chose the name. A file of a folder (job.json of a run directory) is never reached through a symbolic link. One that the user named may
/// be, and may be a pipe that a shell made: <(zcat trace.json.gz), /dev/stdin.
enum class NamedBy { kFolder, kUser };

/// "a FIFO, not a file", "a symbolic link, not a file" and so on; empty: a regular file, or nothing that can be looked at. For pipes that the
/// user named only opening tells.
std::string why_no_file(const std::string& path, NamedBy by);

/// A descriptor for reading. Throws Error (kDataMissing): why_no_file(), no such file, not permitted.
int open_regular_file(const std::string& path, NamedBy by);

/// Everything that is in it. Throws as open_regular_file(), and where it is longer than `most_bytes`.
std::string read_regular_file(const std::string& path, NamedBy by, size_t most_bytes = size_t{256} << 20);

}  // namespace ddl
