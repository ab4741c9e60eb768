// Jobs that ddl runs, and signals that come while they end.
#include "cli/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

namespace ddl::cli {
namespace {

using std::chrono::milliseconds;

/// Ctrl-C goes to the whole group: a job that has just been started may be gone before we look.
TEST(Process, ASignalThatEndedTheJobIsTakenThoughTheJobHasEndedBefore) {
  RunningJob job({{"/bin/sh", "-c", "kill -INT $PPID; kill -INT $$"}, {}, ""});
  std::this_thread::sleep_for(milliseconds(300));  // both have happened, or the signal is taken before the end: the answer is the same
  const Ended ended = job.wait();
  EXPECT_EQ(ended.signal, SIGINT);
  EXPECT_EQ(ended.told_to_end, SIGINT);
  EXPECT_TRUE(job.told_to_end());
}

TEST(Process, AJobThatFailsByItselfWasNotTold) {
  RunningJob job({{"/bin/sh", "-c", "exit 7"}, {}, ""});
  std::this_thread::sleep_for(milliseconds(100));
  const Ended ended = job.wait();
  EXPECT_EQ(ended.shell_code(), 7);
  EXPECT_EQ(ended.told_to_end, 0);
}

}  // namespace
}  // namespace ddl::cli
