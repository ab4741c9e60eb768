#include "autotuner/trial_log.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>

#include "analyzer/query.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "store/database.h"

namespace ddl::tune {
namespace {

constexpr int kLockedMs = 60'000;  ///< how long somebody's reading may keep us from writing

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS question (  -- what is being tuned; trials of another question do not count
  key TEXT PRIMARY KEY,                -- command, tunables, goal, seed
  value TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS trial (  -- in the order in which they were made
  number INTEGER PRIMARY KEY,
  round INTEGER NOT NULL,   -- trials of a round were made one after the other, and are compared with each other
  stage TEXT NOT NULL,      -- calibrate, explore, race, confirm, explain
  point TEXT NOT NULL,      -- values of all tunables
  cost REAL,                -- seconds per sample at equal efficiency, or seconds to the target loss; NULL: failed
  why TEXT NOT NULL,        -- it failed
  step_s REAL NOT NULL,     -- median step of the slowest rank
  samples REAL,             -- of a step, all ranks; NULL: not reported
  noise_scale REAL,         -- samples; NULL: not known
  wait_s REAL,              -- of a step, mean over ranks; NULL: not known
  transfer_s REAL,          -- of a step, mean over ranks; NULL: not known
  wall_s REAL NOT NULL,     -- of the budget
  run TEXT NOT NULL,        -- directory of the recording; empty: not kept
  hosts TEXT NOT NULL DEFAULT ''  -- nodes that it was given (--parallel, --hosts); empty: it ran where its launcher put it
);
CREATE TABLE IF NOT EXISTS sweep (  -- of the algorithms of a collective
  text TEXT NOT NULL                -- as bin/allreduce printed it
);
)";

SQLite::Database open(const std::filesystem::path& file) {
  try {
    SQLite::Database db(checked_database(file, NamedBy::kFolder), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                        kLockedMs);
    db.exec(kSchema);
    bool has_hosts = false;  // logs of older versions
    for (Query row(db, "SELECT name FROM pragma_table_info('trial')"); row.next();)
      has_hosts = has_hosts || row.text(0) == "hosts";
    if (!has_hosts) db.exec("ALTER TABLE trial ADD COLUMN hosts TEXT NOT NULL DEFAULT ''");
    return db;
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", file.string(), error.what()),
                      "is it a log of ddl tune, and may you write it?");
  }
}

}  // namespace

TrialLog::TrialLog(const std::filesystem::path& file, const std::map<std::string, std::string>& question)
    : file_(file), db_(open(file)) {
  std::map<std::string, std::string> before;
  for (Query row(db_, "SELECT key, value FROM question"); row.next();) before[row.text(0)] = row.text(1);
  for (const auto& [key, value] : question) {
    if (before.empty() || before[key] == value) continue;
    throw Error(fmt::format("{} holds the trials of another tuning: its {} was {}", file.string(), key,
                            before[key].empty() ? "empty" : before[key]),
                "tune into another directory (-o), or remove that file", ExitCode::kUsage);
  }
  write("BEGIN");
  for (const auto& [key, value] : question) write("INSERT OR REPLACE INTO question VALUES (?1, ?2)", key, value);
  write("COMMIT");
  Query row(
      db_,
      "SELECT round, stage, point, cost, why, step_s, samples, noise_scale, wait_s, transfer_s, wall_s, run, hosts FROM trial ORDER BY number");
  while (row.next())
    earlier_.push_back({static_cast<size_t>(row.integer(0)), row.text(1), row.text(2), row.maybe_real(3), row.text(4),
                        row.real(5), row.maybe_real(6), row.maybe_real(7), row.maybe_real(8), row.maybe_real(9),
                        row.real(10), row.text(11), row.text(12)});
}

template <typename... Values>
void TrialLog::write(const char* sql, const Values&... values) {
  try {
    Query(db_, sql).run(values...);
  } catch (const Error&) {
    throw CannotWrite(fmt::format("cannot write {}: {}", file_.string(), db_.getErrorMsg()),
                      "fix that and repeat the command: it continues where this one stopped");
  }
}

std::optional<LoggedTrial> TrialLog::replay(size_t round, Stage stage, const std::string& point,
                                            const std::string& hosts) {
  if (replayed_ == earlier_.size()) return std::nullopt;
  const LoggedTrial& next = earlier_[replayed_];
  if (next.round == round && next.stage == name_of(stage) && next.point == point && next.hosts == hosts)
    return earlier_[replayed_++];
  write("DELETE FROM trial WHERE number > ?1", static_cast<int64_t>(replayed_));
  earlier_.resize(replayed_);
  return std::nullopt;
}

void TrialLog::forget_earlier() {
  write("DELETE FROM trial");
  earlier_.clear();
  replayed_ = 0;
}

void TrialLog::add(const LoggedTrial& trial) {
  write(
      "INSERT INTO trial VALUES ((SELECT coalesce(max(number), 0) + 1 FROM trial), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
      static_cast<int64_t>(trial.round), trial.stage, trial.point, trial.cost, trial.why, trial.step_s, trial.samples,
      trial.noise_scale, trial.wait_s, trial.transfer_s, trial.wall_s, trial.run, trial.hosts);
}

std::optional<std::string> TrialLog::sweep() {
  Query row(db_, "SELECT text FROM sweep");
  return row.next() ? std::optional(row.text(0)) : std::nullopt;
}

void TrialLog::keep_sweep(const std::string& text) { write("INSERT INTO sweep VALUES (?1)", text); }

}  // namespace ddl::tune
