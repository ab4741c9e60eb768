// tune.sqlite: every trial of a tuning, written as it ends. A search restarted with the same question reads its answers
// from here first, so that a kill loses one trial; the report is made from it. Others may read the file meanwhile.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotuner/search.h"
#include "autotuner/trial_facts.h"

namespace ddl::tune {

/// A row of table `trial`.
struct LoggedTrial {
  size_t round = 0;
  std::string stage;
  std::string point;  ///< in words: "batch=32 bucket_mb=4"
  std::optional<double> cost = {};
  std::string why = {};  ///< of a failure
  double step_s = 0;
  std::optional<double> samples = {}, noise_scale = {}, wait_s = {}, transfer_s = {};
  double wall_s = 0;
  std::string run = {};    ///< directory of its recording; empty: not kept
  std::string hosts = {};  ///< nodes given to it; empty: placed by its launcher
};

class TrialLog {
 public:
  /// Opens or makes the file. `question`: what must be equal for old trials to count. Throws ddl::Error (kUsage) if the
  /// file answers another question, CannotWrite if it cannot be written.
  TrialLog(const std::filesystem::path& file, const std::map<std::string, std::string>& question);

  /// The next trial of an earlier run of this search; nothing: none is left, or the next one differs, which discards
  /// the rest. This, add() and keep_sweep() throw CannotWrite.
  std::optional<LoggedTrial> replay(size_t round, Stage stage, const std::string& point, const std::string& hosts = {});
  void add(const LoggedTrial& trial);
  /// Removes all trials of earlier runs, which cannot be compared with new ones. Throws CannotWrite.
  void forget_earlier();

  /// The output of this tuning's sweep; a file of it might belong to another tuning.
  std::optional<std::string> sweep();
  void keep_sweep(const std::string& text);

  size_t resumed() const { return replayed_; }  ///< trials read back

 private:
  template <typename... Values>
  void write(const char* sql, const Values&... values);

  std::filesystem::path file_;
  SQLite::Database db_;
  std::vector<LoggedTrial> earlier_;
  size_t replayed_ = 0;
};

}  // namespace ddl::tune
