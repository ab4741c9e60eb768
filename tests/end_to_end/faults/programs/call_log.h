/* The job's own account of what it did: calls that have returned, by name, in a mapped file that survives any death of
 * the process. The tests compare it with what was recorded. A call is counted after it returned, so a killed process
 * may be one call behind. */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kLogRows = 64 };

struct log_row {
  char name[48];
  volatile uint64_t calls;
  volatile uint64_t bytes;
};

static struct log_row* call_log;

/* PATH.RANK; no path: nothing is logged. */
static void open_call_log(const char* path, int rank) {
  static struct log_row nowhere[kLogRows];
  char name[4096];
  call_log = nowhere;
  if (!path) return;
  snprintf(name, sizeof name, "%s.%d", path, rank);
  const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof nowhere) != 0) abort();
  call_log = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (call_log == MAP_FAILED) abort();
  close(fd);
}

static inline struct log_row* log_of(const char* name) {
  struct log_row* row = call_log;
  while (row->name[0] && strcmp(row->name, name) != 0) ++row;
  if (!row->name[0]) strcpy(row->name, name);
  return row;
}

static inline void log_calls(const char* name, uint64_t calls, uint64_t bytes) {
  struct log_row* row = log_of(name);
  row->bytes += bytes;
  row->calls += calls;
}

/* CALL(Allreduce, bytes, (arguments)) */
#define CALL(name, bytes, arguments)                  \
  do {                                                \
    if (MPI_##name arguments != MPI_SUCCESS) abort(); \
    log_calls("MPI_" #name, 1, bytes);                \
  } while (0)
