// Jobs that ddl runs, and signals that come while they end.
#include "cli/process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ddl::cli {
namespace {

using std::chrono::milliseconds;

/// Ctrl-C goes to the whole group: a job that has just been started may be gone before we look.
TEST(Process, ASignalThatEndedTheJobIsTakenThoughTheJobHasEndedBefore) {
  RunningJob job({{"/bin/sh", "-c", "kill -INT $PPID; kill -INT $$"}, {}, ""});
  // both have happened, or the signal is taken before the end: the answer is the same
  std::this_thread::sleep_for(milliseconds(300));
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

/// Processes whose command line has the word.
size_t count_running(const std::string& word) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string command;
    for (std::string argument; std::getline(file, argument, '\0');) command += argument + " ";
    count += command.find(word) != std::string::npos;
  }
  return count;
}

/// Arguments of a process that ignores SIGTERM, in a group of its own, as mpirun starts ranks; `word` tells it from
/// others.
std::string deaf(const std::string& word) {
  return fmt::format("setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' {}", word);
}

std::vector<std::string> shell(const std::string& text) { return {"/bin/sh", "-c", text}; }

bool comes(const std::function<bool()>& condition) {
  for (int i = 0; i < 250; ++i, std::this_thread::sleep_for(milliseconds(20)))
    if (condition()) return true;
  return false;
}

TEST(Process, AJobThatIgnoresSigtermIsKilledWithAllThatItHasStarted) {
  const std::string word = fmt::format("deaf{}", getpid());
  RunningJob job({.command = shell("trap '' TERM; " + deaf(word) + " & while :; do sleep 0.1; done"),
                  .settings = {},
                  .output = "",
                  .grace = milliseconds(100)});
  ASSERT_TRUE(comes([&] { return count_running(word) >= 2; }));
  const auto began = std::chrono::steady_clock::now();
  const Ended ended = job.end();
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_FALSE(ended.told_to_end);
  EXPECT_TRUE(comes([&] { return count_running(word) == 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(3));
}

/// A shell ends at once, and what it waited for goes on without it.
TEST(Process, WhatAScriptThatEndedHadStartedIsEndedToo) {
  const std::string word = fmt::format("left{}", getpid());
  RunningJob job({.command = shell(deaf(word) + "; true"), .settings = {}, .output = "", .grace = milliseconds(100)});
  ASSERT_TRUE(comes([&] { return count_running(word) >= 2; }));
  EXPECT_EQ(job.end().signal, SIGTERM);
  EXPECT_TRUE(comes([&] { return count_running(word) == 0; }));
}

TEST(Process, AJobThatEndsWhenItIsToldHasItsTimeForThat) {
  RunningJob job({.command = shell("trap 'sleep 0.3; exit 5' TERM; echo; while :; do sleep 0.05; done"),
                  .settings = {},
                  .output = "",
                  .grace = std::chrono::seconds(5)});
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(job.end().shell_code(), 5);
}

TEST(Process, ALaneGoesOnBehindAJobThatIgnoresSigterm) {
  const std::string word = fmt::format("lane{}", getpid());
  const Launch stuck{.command = shell("trap '' TERM; " + deaf(word) + "; while :; do sleep 0.1; done"),
                     .settings = {},
                     .output = "",
                     .most_s = [] { return 0.3; },
                     .grace = milliseconds(100)};
  const Launch next{.command = shell("exit 3"), .settings = {}, .output = ""};
  const auto ends = run_lanes({{stuck, next}});
  ASSERT_EQ(ends.at(0).size(), 2U);
  EXPECT_EQ(ends[0][0].ended_after_s, 0.3);
  EXPECT_EQ(ends[0][0].ended.signal, SIGKILL);
  EXPECT_EQ(ends[0][1].ended.shell_code(), 3);
  EXPECT_TRUE(comes([&] { return count_running(word) == 0; }));
}

TEST(Process, AVariableOfOursCanBeLeftOut) {
  setenv("DDL_TEST_UNSET", "ours", 1);
  const std::string asks = "exit ${DDL_TEST_UNSET:+7}";
  EXPECT_EQ(run_job({.command = shell(asks), .settings = {}, .output = ""}).shell_code(), 7);
  EXPECT_EQ(run_job({.command = shell(asks), .settings = {}, .output = "", .unset = {"DDL_TEST_UNSET"}}).shell_code(),
            0);
  unsetenv("DDL_TEST_UNSET");
}

}  // namespace
}  // namespace ddl::cli
