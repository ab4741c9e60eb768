// What `ddl record` told of stalls, into tables stall, stall_rank and stall_stack.
#include "store/ingest/run_facts.h"

#include <SQLiteCpp/Statement.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "store/insert.h"
#include "store/stalls.h"

namespace ddl::store {
namespace {

struct RankProcess {
  int64_t id, world;
};

std::map<std::pair<std::string, int64_t>, RankProcess> rank_processes(SQLite::Database& db) {
  std::map<std::pair<std::string, int64_t>, RankProcess> processes;
  SQLite::Statement row(
      db, "SELECT h.name, p.pid, p.id, p.world FROM process p JOIN host h ON h.id = p.host WHERE p.rank IS NOT NULL");
  while (row.executeStep())
    processes[{row.getColumn(0).getString(), row.getColumn(1).getInt64()}] = {row.getColumn(2).getInt64(),
                                                                              row.getColumn(3).getInt64()};
  return processes;
}

std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

void write_stalls(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Losses& losses) {
  std::vector<ToldStall> stalls;
  try {
    stalls = read_stalls(run.stalls());
  } catch (const Error& error) {
    losses.add({}, "stall_file", 1, error.what());
  }
  if (stalls.empty()) return;
  const auto processes = rank_processes(db);
  Insert insert(db, "INSERT INTO stall VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_rank(db, "INSERT INTO stall_rank VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_stack(db, "INSERT INTO stall_stack VALUES (?, ?, ?, ?, ?, ?)");
  const auto on_axis = [&](int64_t unix_ns) { return unix_ns - clocks.epoch_realtime_ns; };
  for (const ToldStall& stall : stalls) {
    int64_t world = 0;
    std::set<int64_t> seen;
    for (const StalledRank& rank : stall.ranks) {
      if (!seen.insert(rank.rank).second) continue;
      const auto process = processes.find({rank.host, rank.pid});
      if (process != processes.end()) world = process->second.world;
      insert_rank.row(stall.number, rank.rank,
                      process == processes.end() ? std::nullopt : std::optional(process->second.id), rank.role,
                      text_or_null(rank.in_call), text_or_null(rank.state), rank.cpu_ratio,
                      text_or_null(rank.python_why), text_or_null(rank.c_why));
      std::map<std::string, int64_t> positions;
      for (const StalledThread& thread : rank.threads)
        insert_stack.row(stall.number, rank.rank, thread.language, positions[thread.language]++, thread.name,
                         thread.frames);
    }
    insert.row(stall.number, world, stall.kind, on_axis(stall.told_ns), on_axis(stall.since_ns), stall.limit_ns,
               text_or_null(stall.call), stall.sentence, text_or_null(stall.action),
               stall.resumed_ns ? std::optional(on_axis(*stall.resumed_ns)) : std::nullopt);
  }
}

}  // namespace ddl::store
