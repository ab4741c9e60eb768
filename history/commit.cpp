#include "history/commit.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"

namespace fs = std::filesystem;

namespace ddl::history {
namespace {

constexpr size_t kMostLogBytes = size_t{64} << 20, kMostFileBytes = size_t{16} << 20;

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text;
}

std::string file_text(const fs::path& path, size_t most_bytes = kMostFileBytes) {
  try {
    return read_regular_file(path.string(), NamedBy::kFolder, most_bytes);
  } catch (const Error&) {
    return "";
  }
}

/// 40 hexadecimal digits, or 64 of SHA-256; not all of them 0, which is no commit yet.
std::optional<std::string> commit_in(const std::string& text) {
  const bool digits = std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!digits || (text.size() != 40 && text.size() != 64) || text.find_first_not_of('0') == std::string::npos)
    return std::nullopt;
  return text;
}

/// Where HEAD lies: .git, or of a work tree that was added or is a submodule what .git says.
std::optional<fs::path> head_folder(fs::path folder) {
  std::error_code error;
  if (!folder.is_absolute()) return std::nullopt;
  for (;; folder = folder.parent_path()) {
    const fs::path git = folder / ".git";
    if (fs::is_directory(git, error)) return git;
    if (fs::is_regular_file(git, error)) {
      const std::string text = trimmed(file_text(git));
      return text.starts_with("gitdir: ") ? std::optional(folder / text.substr(8)) : std::nullopt;
    }
    if (folder == folder.parent_path()) return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> commit_at(const fs::path& folder, int64_t realtime_ns) {
  const auto git = head_folder(folder);
  if (!git) return std::nullopt;
  // OLD NEW Name <address> SECONDS ZONE\tWHY
  std::istringstream lines(file_text(*git / "logs" / "HEAD", kMostLogBytes));
  std::optional<std::string> commit;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(' '), second = line.find(' ', first + 1), address = line.rfind('>', line.find('\t'));
    if (second == std::string::npos || address == std::string::npos || address + 2 > line.size()) continue;
    std::string_view time = std::string_view(line).substr(address + 2);
    const auto seconds = take_number<int64_t>(time);
    if (seconds && *seconds <= realtime_ns / 1'000'000'000)
      commit = commit_in(line.substr(first + 1, second - first - 1));
  }
  return commit;
}

std::optional<std::string> commit_now(const fs::path& folder) {
  const auto git = head_folder(folder);
  if (!git) return std::nullopt;
  const std::string head = trimmed(file_text(*git / "HEAD"));
  if (!head.starts_with("ref: ")) return commit_in(head);
  const std::string reference = head.substr(5);
  if (reference.find("..") != std::string::npos || reference.starts_with('/')) return std::nullopt;
  const std::string shared = trimmed(file_text(*git / "commondir"));
  const fs::path common = shared.empty() ? *git : *git / shared;
  for (const fs::path& place : {*git, common})
    if (const auto commit = commit_in(trimmed(file_text(place / reference)))) return commit;
  std::istringstream lines(file_text(common / "packed-refs"));
  for (std::string line; std::getline(lines, line);)
    if (line.size() > 41 && line.ends_with(" " + reference)) return commit_in(line.substr(0, line.find(' ')));
  return std::nullopt;
}

}  // namespace ddl::history
