// Which commit a job ran: read from the files of the Git repository that it ran in. Git is not run: it may be missing,
// and it executes what a repository's configuration says, which may be somebody else's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ddl::history {

/// The commit that was checked out at that moment (ns since 1970), by the log of HEAD, in the repository that `folder`
/// lies in, or in that of a folder above. Nothing: there is none, or its log does not reach back. Whether files were
/// changed since is not told. Never throws.
std::optional<std::string> commit_at(const std::filesystem::path& folder, int64_t realtime_ns);

/// The one that is checked out now.
std::optional<std::string> commit_now(const std::filesystem::path& folder);

}  // namespace ddl::history
