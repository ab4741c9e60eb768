#include "store/draft.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "core/error.h"
#include "store/seal.h"

namespace ddl::store {

namespace fs = std::filesystem;

Draft::Draft(const fs::path& target) : target_(target), path_(fmt::format("{}.tmp.{}", target.string(), getpid())) {
  std::error_code ignored;
  fs::remove(path_, ignored);  // of an earlier process with our number
  remove_abandoned();
}

Draft::~Draft() {
  std::error_code ignored;
  if (!finished_) fs::remove(path_, ignored);
}

void Draft::finish() {
  seal_store(path_);
  std::error_code error;
  fs::rename(path_, target_, error);
  if (error) throw CannotWrite(fmt::format("cannot write {}: {}", target_.string(), error.message()));
  finished_ = true;
}

/// A live one is written to all the time.
void Draft::remove_abandoned() const {
  const std::string prefix = target_.filename().string() + ".tmp.";
  std::error_code error, ignored;
  for (fs::directory_iterator entry(target_.has_parent_path() ? target_.parent_path() : ".", error), end;
       !error && entry != end; entry.increment(error)) {
    const bool draft = entry->path().filename().string().rfind(prefix, 0) == 0;
    if (draft && fs::file_time_type::clock::now() - entry->last_write_time(ignored) > std::chrono::hours(1))
      fs::remove(entry->path(), ignored);
  }
}

}  // namespace ddl::store
