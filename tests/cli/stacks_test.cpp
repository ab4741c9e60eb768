// Stacks as faulthandler, eu-stack and gdb print them, and how equal ones are told together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>

#include "cli/stacks.h"
#include "cli/stall_helper.h"
#include "core/error.h"
#include "store/stalls.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {
namespace {

using namespace cli;

TEST(Stacks, OfPythonTheMainThreadComesFirst) {
  const auto threads = parse_faulthandler(
      "Thread 0x00007f11 (most recent call first):\n  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n"
      "\nCurrent thread 0x00007f22 (most recent call first):\n  Garbage-collecting\n  File \"/home/a b/train.py\", line 81 in reduce in\n"
      "  File \"train.py\", line 120 in <module>\n");
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].name, "main");
  EXPECT_EQ(threads[0].frames, "garbage collection < reduce in (/home/a b/train.py:81) < <module> (train.py:120)");
  EXPECT_EQ(threads[1].name, "0x00007f11");
  EXPECT_EQ(threads[1].frames, "wait (/usr/lib/python3.11/threading.py:320)");
  EXPECT_TRUE(parse_faulthandler("").empty());
  EXPECT_TRUE(parse_faulthandler("Thread 0x1 (most recent call first):\n  <no Python frame>\n").empty());
}

TEST(Stacks, OfCByEuStackAndByGdb) {
  EXPECT_EQ(
      parse_c_stack(
          "PID 7 - process\nTID 7:\n#0  0x00007f68b2 clock_nanosleep@@GLIBC_2.17\n#1  0x00007f68b3 main\n    /tmp/x.c:12:3\n#2  0x0001\n"),
      "clock_nanosleep < main (/tmp/x.c:12) < ?");
  EXPECT_EQ(
      parse_c_stack(
          "[Thread debugging using libthread_db enabled]\n0x00007f in nanosleep () from /lib/libc.so.6\n#0  0x00007ffff in nanosleep () "
          "from /lib/libc.so.6\n#1  0x0000555 in work (n=3, f=0x1) at deep/train.c:81\n#2  main (argc=1, argv=0x7ff) at "
          "train.c:120\n[Inferior 1 (process 7) detached]\n"),
      "nanosleep < work (deep/train.c:81) < main (train.c:120)");
  EXPECT_EQ(parse_c_stack("ptrace: Operation not permitted.\n"), "");
}

TEST(Stacks, StatesOfProcesses) {
  EXPECT_EQ(main_thread_state(getpid()).state, "runs");
  EXPECT_EQ(main_thread_state(1 << 30).state, "gone");
}

StalledRank rank_with(int64_t number, const std::string& python, const std::string& c, const std::string& state) {
  StalledRank rank;
  rank.rank = number;
  rank.state = state;
  if (!python.empty()) rank.threads.push_back({"python", "main", python});
  if (!c.empty()) rank.threads.push_back({"c", "main", c});
  return rank;
}

TEST(Stacks, EqualOnesAreToldTogether) {
  ToldStall stall;
  const std::string reduce = "reduce (/home/u/train.py:81) < <module> (/home/u/train.py:120)";
  stall.ranks = {rank_with(0, reduce, "poll < progress < PMPI_Allreduce < _PyEval_EvalFrameDefault", "sleeps"),
                 rank_with(1, "next_batch (loader.py:19) < <module> (/home/u/train.py:119)", "", "sleeps"),
                 rank_with(2, reduce, "sched_yield < PMPI_Allreduce < _PyEval_EvalFrameDefault", "runs"),
                 rank_with(3, "", "", "stopped"),
                 rank_with(4, "", "epoll_wait < progress < MPI_Recv < main (a.c:3)", "runs"),
                 rank_with(5, "", "poll < MPI_Recv < main (a.c:3)", "runs")};
  stall.ranks[3].python_why = stall.ranks[3].c_why = "the process is stopped";
  std::vector<std::string> lines;
  for (const StackGroup& group : group_stacks(stall)) lines.push_back(stack_line(group));
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "rank 1 (sleeps): next_batch loader.py:19 <- <module> train.py:119",
                "rank 3 (stopped): stack not known: the process is stopped",
                "ranks 0, 2: reduce train.py:81 <- <module> train.py:120; in C: poll <- progress <- PMPI_Allreduce",
                "ranks 4-5 (runs): MPI_Recv <- main a.c:3"}));
  EXPECT_EQ(short_stack("a (x/f.py:1) < b (f.py:2) < c (f.py:3) < d (f.py:4)", 3),
            "a f.py:1 <- b f.py:2 <- ... <- d f.py:4");
}

TEST(Stalls, ThousandsAndImpossibleRanksAreRead) {
  ScratchFolder folder;
  const auto path = folder.path() / "stalls.jsonl";
  {
    std::ofstream file(path);
    for (int i = 1; i <= 20'000; ++i)  // by all pairs of them it would take minutes
      file << R"({"kind":"stall","number":)" << i
           << R"(,"ranks":[{"rank":9223372036854775807},{"rank":-5},{"rank":3}]})"
           << "\n";
  }
  const std::clock_t begin = std::clock();  // of the processor, which others may be using
  const std::vector<ToldStall> stalls = read_stalls(path);
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
  ASSERT_EQ(stalls.size(), 20'000u);
  ASSERT_EQ(stalls[7].ranks.size(), 3u);
  EXPECT_EQ(stalls[7].ranks[0].rank, -1);
  EXPECT_EQ(stalls[7].ranks[1].rank, -1);
  EXPECT_EQ(stalls[7].ranks[2].rank, 3);
}

TEST(Stalls, ComeBackAsTheyWereWritten) {
  ScratchFolder folder;
  ToldStall stall;
  stall.kind = "stall";
  stall.number = 1;
  stall.told_ns = 42;
  stall.sentence = "rank 1 never came \xff";
  stall.ranks = {rank_with(7, "f (a.py:1)", "", "runs")};
  stall.ranks[0].cpu_ratio = 0.25;
  const auto path = folder.path() / "stalls.jsonl";
  std::ofstream(path) << to_json_line(stall) << "\nno JSON\n"
                      << to_json_line(stall) << "\n"
                      << resumed_json_line(1, 77) << "\n{\"kind\": \"stall\", \"num";
  const auto read = read_stalls(path);
  ASSERT_EQ(read.size(), 1u) << "a number is told once";
  EXPECT_EQ(read[0].told_ns, 42);
  EXPECT_EQ(read[0].resumed_ns, 77);
  EXPECT_EQ(read[0].sentence, "rank 1 never came \xef\xbf\xbd");
  ASSERT_EQ(read[0].ranks.size(), 1u);
  EXPECT_EQ(read[0].ranks[0].cpu_ratio, 0.25);
  EXPECT_EQ(read[0].ranks[0].threads.at(0).frames, "f (a.py:1)");
  EXPECT_TRUE(read_stalls(folder.path() / "none").empty());
}

TEST(Stalls, LimitsAreDurations) {
  using std::chrono::seconds;
  EXPECT_EQ(parse_stall_limit("60s"), seconds(60));
  EXPECT_EQ(parse_stall_limit("90"), seconds(90));
  EXPECT_EQ(parse_stall_limit("1.5m"), seconds(90));
  EXPECT_EQ(parse_stall_limit("2h"), seconds(7200));
  EXPECT_EQ(parse_stall_limit("off"), std::nullopt);
  for (const char* bad : {"", "0", "0.5s", "-5", "5d", "nan", "inf", "1e3", "5 s"})
    EXPECT_THROW(parse_stall_limit(bad), Error) << bad;
}

}  // namespace
}  // namespace ddl::test
