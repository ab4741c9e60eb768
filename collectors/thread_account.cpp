// The scheduler's account of a thread, and the one of the main thread over the run: facts on_cpu_ns and
// run_queue_wait_ns, cpu_account_ns the time that they are over. A rank that had no CPU is late for its next
// collective, and is called late, or slow at transfers, by everything else that is recorded.
//
// Two readings, when the rank begins and when it ends: the scheduler sums up by itself. It is the process's first
// thread, as the one that most programs compute and call MPI on, and the one whose CPUs are recorded (placement.cpp). A
// process that is killed leaves nothing.
#include "collectors/thread_account.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "collectors/collectors.h"
#include "core/lock_and_pages.h"
#include "core/recorder.h"

namespace ddl {

namespace {

/// The number at `at`, which moves behind it and the blank that follows.
uint64_t next_number(const char*& at) {
  uint64_t number = 0;
  for (; *at >= '0' && *at <= '9'; ++at) number = number * 10 + static_cast<uint64_t>(*at - '0');
  if (*at == ' ') ++at;
  return number;
}

struct Reading {
  ThreadAccount account;
  uint64_t at_ns;
};

bool read_main_thread(Reading& reading) {
  const int saved_errno = errno;
  const NoCancel no_cancel;
  timespec now;
  const bool known =
      read_account(static_cast<uint32_t>(getpid()), reading.account) && clock_gettime(CLOCK_MONOTONIC, &now) == 0;
  if (known) reading.at_ns = static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  errno = saved_errno;
  return known;
}

Reading g_begin;
bool g_begun = false;

void write_ns(const char* key, uint64_t ns) {
  char text[24];
  snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(ns));
  write_fact(key, text);
}

}  // namespace

bool read_of_thread(uint32_t tid, const char* name, char* text, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%u/%s", tid, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, text, bytes - 1);
  close(fd);
  text[got > 0 ? got : 0] = 0;
  return got > 0;
}

bool read_account(uint32_t tid, ThreadAccount& account) {
  char text[96];
  if (!read_of_thread(tid, "schedstat", text, sizeof text)) return false;
  const char* at = text;  // "on CPU, ready, time slices"; all 0 where the kernel keeps none
  account.on_cpu_ns = next_number(at);
  account.ready_ns = next_number(at);
  return account.on_cpu_ns > 0;
}

void begin_cpu_account() { g_begun = read_main_thread(g_begin); }

void end_cpu_account() {
  Reading end;
  if (!g_begun || !read_main_thread(end) || end.account.on_cpu_ns < g_begin.account.on_cpu_ns ||
      end.account.ready_ns < g_begin.account.ready_ns)
    return;
  g_begun = false;
  write_ns("on_cpu_ns", end.account.on_cpu_ns - g_begin.account.on_cpu_ns);
  write_ns("run_queue_wait_ns", end.account.ready_ns - g_begin.account.ready_ns);
  write_ns("cpu_account_ns", end.at_ns - g_begin.at_ns);
}

}  // namespace ddl
