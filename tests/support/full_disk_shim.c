// LD_PRELOAD library for tests: the disk is full at the FULL_DISK_AT-th call that needs room on it (1, 2, ...), or with
// FULL_DISK_STAYS set from that call on; FULL_DISK_ERROR is the errno instead of ENOSPC. Only files below
// FULL_DISK_UNDER count. At its end a process adds the number of its calls, a line, to FULL_DISK_LOG. Calls of one
// process are counted by themselves.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static long number_of(const char* name) {
  const char* text = getenv(name);
  return text ? atol(text) : 0;
}

static int is_below(const char* path) {
  const char* under = getenv("FULL_DISK_UNDER");
  return under && strncmp(path, under, strlen(under)) == 0;
}

/// True: this call fails.
static int fails(const char* path) {
  if (!is_below(path)) return 0;
  const long call = atomic_fetch_add(&calls, 1) + 1, at = number_of("FULL_DISK_AT");
  if (at <= 0 || (getenv("FULL_DISK_STAYS") ? call < at : call != at)) return 0;
  const long error = number_of("FULL_DISK_ERROR");
  errno = error ? (int)error : ENOSPC;
  return 1;
}

static int fails_at(int folder, const char* path) {
  char whole[2 * PATH_MAX] = "", link[64];
  if (*path == '/') return fails(path);
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t length =
      folder == AT_FDCWD ? readlink("/proc/self/cwd", whole, PATH_MAX) : readlink(link, whole, PATH_MAX);
  if (length < 0) return 0;
  snprintf(whole + length, sizeof whole - (size_t)length, "/%s", path);
  return fails(whole);
}

static int fails_fd(int fd) {
  char link[64], path[PATH_MAX] = "";
  const int before = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  errno = before;
  return length > 0 && fails(path);
}

__attribute__((destructor)) static void tell(void) {
  const char* log = getenv("FULL_DISK_LOG");
  const long count = atomic_load(&calls);
  if (!log || count == 0) return;
  const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  dprintf(fd, "%ld\n", count);
  close(fd);
}

#define REAL(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define BY_FD(result, name, parameters, arguments, ...) \
  result name parameters {                              \
    if (fails_fd(fd)) return -1;                        \
    return REAL(result, name, __VA_ARGS__) arguments;   \
  }

BY_FD(ssize_t, write, (int fd, const void* bytes, size_t count), (fd, bytes, count), int, const void*, size_t)
BY_FD(ssize_t, writev, (int fd, const struct iovec* pieces, int count), (fd, pieces, count), int, const struct iovec*,
      int)
BY_FD(ssize_t, pwrite, (int fd, const void* bytes, size_t count, off_t at), (fd, bytes, count, at), int, const void*,
      size_t, off_t)
BY_FD(ssize_t, pwrite64, (int fd, const void* bytes, size_t count, off64_t at), (fd, bytes, count, at), int,
      const void*, size_t, off64_t)
BY_FD(ssize_t, pwritev, (int fd, const struct iovec* pieces, int count, off_t at), (fd, pieces, count, at), int,
      const struct iovec*, int, off_t)
BY_FD(int, fallocate, (int fd, int mode, off_t at, off_t bytes), (fd, mode, at, bytes), int, int, off_t, off_t)
BY_FD(int, fallocate64, (int fd, int mode, off64_t at, off64_t bytes), (fd, mode, at, bytes), int, int, off64_t,
      off64_t)
BY_FD(int, ftruncate, (int fd, off_t bytes), (fd, bytes), int, off_t)
BY_FD(int, ftruncate64, (int fd, off64_t bytes), (fd, bytes), int, off64_t)
BY_FD(int, fsync, (int fd), (fd), int)
BY_FD(int, fdatasync, (int fd), (fd), int)

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPENS(name)                                                      \
  int name(const char* path, int flags, ...) {                           \
    va_list rest;                                                        \
    va_start(rest, flags);                                               \
    const mode_t mode = mode_of(flags, rest);                            \
    va_end(rest);                                                        \
    if (flags & O_CREAT && fails_at(AT_FDCWD, path)) return -1;          \
    return REAL(int, name, const char*, int, mode_t)(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                \
  int name(int folder, const char* path, int flags, ...) {                            \
    va_list rest;                                                                     \
    va_start(rest, flags);                                                            \
    const mode_t mode = mode_of(flags, rest);                                         \
    va_end(rest);                                                                     \
    if (flags & O_CREAT && fails_at(folder, path)) return -1;                         \
    return REAL(int, name, int, const char*, int, mode_t)(folder, path, flags, mode); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

int mkdir(const char* path, mode_t mode) {
  return fails_at(AT_FDCWD, path) ? -1 : REAL(int, mkdir, const char*, mode_t)(path, mode);
}

int rename(const char* from, const char* to) {
  return fails_at(AT_FDCWD, to) ? -1 : REAL(int, rename, const char*, const char*)(from, to);
}

int link(const char* from, const char* to) {
  return fails_at(AT_FDCWD, to) ? -1 : REAL(int, link, const char*, const char*)(from, to);
}
