// A finished run told again bit by bit: its spools as a reader would have found them while the job ran.
//
//     GrowingRun growing(finished.path(), live.path());
//     growing.grow(0.3);          // a third of each rank's log
//     source.poll(job, 1);
//     growing.grow(1);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/format.h"

namespace ddl::test {

class GrowingRun {
 public:
  /// Nothing is in `to` yet.
  GrowingRun(const std::filesystem::path& from, std::filesystem::path to);

  /// The logs hold the first `share` of their records (of each spool its own share: `shares`, in the order of the file
  /// names). Descriptions are all there. The processes have ended when share is 1.
  void grow(double share) { grow(std::vector<double>(spools_.size(), share)); }
  void grow(const std::vector<double>& shares);
  size_t size() const { return spools_.size(); }

 private:
  struct Spool {
    std::string name;
    std::vector<unsigned char> bytes;
    struct Log {
      uint64_t begin;  ///< of the first record, in the file
      uint64_t records;
    };
    std::vector<Log> logs;
  };
  std::filesystem::path to_;
  std::vector<Spool> spools_;
};

/// Changes the header of a spool file in place.
void change_header(const std::filesystem::path& spool, const std::function<void(FileHeader&)>& change);
/// Changes the headers of its chunks of one kind in place.
void change_chunks(const std::filesystem::path& spool, ChunkKind kind, const std::function<void(ChunkHeader&)>& change);

}  // namespace ddl::test
