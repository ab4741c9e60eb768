// tune.sqlite: every trial of a tuning, as it ends. A search that is started again with the same question reads its answers from here
// first, so that a kill loses one trial; and the report is made of it. Anybody may read the file meanwhile.
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
  std::string why = {};  ///< it has none
  double step_s = 0;
  std::optional<double> samples = {}, noise_scale = {}, wait_s = {}, transfer_s = {};
  double wall_s = 0;
  std::string run = {};    ///< directory of its recording; empty: it was not kept
  std::string hosts = {};  ///< nodes that it was given; empty: it ran where its launcher put it
};

class TrialLog {
 public:
  /// Opens or makes the file. `question`: what must be the same for old trials to count. Throws ddl::Error (kUsage) if the file answers
  /// another one, CannotWrite if it cannot be written.
  TrialLog(const std::filesystem::path& file, const std::map<std::string, std::string>& question);

  /// The next trial of an earlier run of this search; nothing: there is none, or what comes next is another. Once it is another, the rest
  /// of the earlier run is forgotten. This, add() and keep_sweep() throw CannotWrite.
  std::optional<LoggedTrial> replay(size_t round, Stage stage, const std::string& point, const std::string& hosts = {});
  void add(const LoggedTrial& trial);
  /// Removes all trials of earlier runs, of which none can be compared with what is to come. Throws CannotWrite.
  void forget_earlier();

  /// What the sweep of this tuning printed; a file of it might be that of another one.
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
