#include "cli/mcp_runs.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

#include "core/error.h"
#include "store/run_directory.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

constexpr size_t kMostOpen = 4;
/// No text or blob of an answer is longer, whatever a SELECT makes of the rows.
constexpr int kMostValueBytes = 1 << 20;

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

McpRuns::McpRuns(const fs::path& folder) {
  std::error_code error;
  folder_ = fs::canonical(folder, error);
  if (error || !fs::is_directory(folder_)) {
    throw Error(fmt::format("{} is not a folder", folder.string()),
                "name the folder that holds the runs: ddl mcp FOLDER", ExitCode::kUsage);
  }
}

std::vector<fs::path> McpRuns::all() const {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() != ".ddl" || entry.is_symlink(error) || !entry.is_directory(error)) continue;
    found.emplace_back(RunDirectory{entry.path(), entry.path() / "run.sqlite"}.changed_realtime_ns(), entry.path());
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<fs::path> runs;
  for (auto& [changed, path] : found) runs.push_back(std::move(path));
  return runs;
}

Run& McpRuns::open(const std::string& name) {
  fs::path path = folder_ / name;
  if (name.empty()) {
    const std::vector<fs::path> runs = all();
    if (runs.empty())
      throw Error(fmt::format("{} holds no run", folder_.string()), "record one: ddl record -- COMMAND",
                  ExitCode::kDataMissing);
    path = runs.front();
  }
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error || !lies_in(real, folder_)) {
    throw Error(fmt::format("there is no run '{}' in {}", name, folder_.string()), "list_runs lists them",
                ExitCode::kDataMissing);
  }
  const RunDirectory directory = find_run(real.string());
  const int64_t changed_ns = directory.changed_realtime_ns();
  const auto known = std::find_if(opened_.begin(), opened_.end(), [&](const Opened& o) { return o.directory == real; });
  if (known != opened_.end() && known->changed_ns == changed_ns) {
    opened_.splice(opened_.begin(), opened_, known);
    return opened_.front().run;
  }
  if (known != opened_.end()) opened_.erase(known);
  opened_.push_front({real, changed_ns, open_run_without_writing(real.string())});
  if (opened_.size() > kMostOpen) opened_.pop_back();
  Run& run = opened_.front().run;
  sqlite3_limit(run.db.getHandle(), SQLITE_LIMIT_LENGTH, kMostValueBytes);
  return run;
}

}  // namespace ddl::cli
