// stalls.jsonl of a run directory: reports of `ddl record`'s watch while the job ran (docs/how-to/hangs.md). One JSON
// object per line, appended, so that ddl-top and an ingest can read it at any time; an incomplete line is ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

inline constexpr std::string_view kWorkerThread =
    "worker ";  ///< name of the main thread of a process that the rank started: its number follows

/// One thread of a process, as found.
struct StalledThread {
  std::string language;  ///< python or c
  std::string name;      ///< main, the number that Python gives it, or kWorkerThread with a process id
  std::string frames;    ///< function (file:line), innermost first, with < between
};

struct StalledRank {
  int64_t rank = -1;
  int64_t pid = 0;
  std::string host;
  std::string role;                    ///< waiting, missing, other
  std::string in_call;                 ///< the call it sits in; empty: none
  std::string state;                   ///< of its main thread: runs, sleeps, stopped, ...; empty: unknown
  std::optional<double> cpu_ratio;     ///< of one core, used by its main thread since the previous look
  std::vector<StalledThread> threads;  ///< the main one of each language first
  std::string python_why, c_why;       ///< why that stack is unknown; empty: it is known
};

struct ToldStall {
  /// stall: no rank finished anything; waiting: some wait for unusually long while others go on
  std::string kind;
  int64_t number = 0;   ///< 1, 2, ... in the run
  int64_t told_ns = 0;  ///< Unix time
  /// Unix time: the last call or step that any rank finished; waiting: when the call was entered
  int64_t since_ns = 0;
  int64_t limit_ns = 0;               ///< --stall
  std::string call;                   ///< that the others wait in: operation, number, group; empty: unknown
  std::string sentence;               ///< as reported
  std::string action;                 ///< of --on-stall: abort or its command; may be empty
  std::optional<int64_t> resumed_ns;  ///< Unix time of the next progress
  std::vector<StalledRank> ranks;
};

/// One line, without its end.
std::string to_json_line(const ToldStall& stall);
std::string resumed_json_line(int64_t number, int64_t resumed_ns);

/// In the order of reporting; empty without the file. Throws Error as read_regular_file().
std::vector<ToldStall> read_stalls(const std::filesystem::path& path);

/// Ranks whose stacks are equal, of one stall.
struct StackGroup {
  std::vector<int64_t> ranks;
  std::string stack;   ///< Python's main thread, else C's; empty: neither is known
  std::string inner;   ///< below Python: the innermost frames in C, of the first rank
  std::string worker;  ///< of a process that it started, of the first rank; empty: none asked
  std::string state;   ///< if equal for all
  std::string why;     ///< why there is no stack
};
/// Most ranks first.
std::vector<StackGroup> group_stacks(const ToldStall& stall);

/// The innermost frames, files without folders, and the outermost one: "all_reduce train.py:81 <- ... <-
/// main train.py:120".
std::string short_stack(const std::string& frames, size_t most = 5);

/// "ranks 0-6: all_reduce train.py:81 <- ...": one line.
std::string stack_line(const StackGroup& group);

}  // namespace ddl
