// The file that becomes the store once complete; removed otherwise. Readers of the target see the old one or
// all of the new one.
#pragma once

#include <filesystem>

namespace ddl::store {

class Draft {
 public:
  /// Removes drafts that killed processes left beside `target`.
  explicit Draft(const std::filesystem::path& target);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Seals the store (store/seal.h), which must be closed, and moves it to the target. Throws CannotWrite.
  void finish();

 private:
  void remove_abandoned() const;

  std::filesystem::path target_;
  std::filesystem::path path_;
  bool finished_ = false;
};

}  // namespace ddl::store
