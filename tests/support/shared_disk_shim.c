// LD_PRELOAD library for tests: the files of a run directory seem to lie on NFS, and what is written with pwrite or
// pwritev into its *.spool and *.live files also goes to files of the same names in SHARED_DISK. What is stored
// into mapped pages does not: the worst that a network file system may do. Only SHARED_DISK is looked at by the
// reader under test.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/// The base name of what is open as `fd`, if it is a file of a run directory.
static const char* name_of(int fd, char* path, size_t bytes) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, bytes - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  const char* name = strrchr(path, '/');
  const char* ending = strrchr(path, '.');
  if (!name || !ending || (strcmp(ending, ".spool") != 0 && strcmp(ending, ".live") != 0)) return NULL;
  return name + 1;
}

int fstatfs(int fd, struct statfs* status) {
  int (*real)(int, struct statfs*) = (int (*)(int, struct statfs*))dlsym(RTLD_NEXT, "fstatfs");
  char path[4096];
  const int result = real(fd, status);
  if (result == 0 && name_of(fd, path, sizeof path)) status->f_type = 0x6969;
  return result;
}

static const char* copy_of(int fd, char* copy, size_t bytes) {
  char path[4096];
  const char* name = name_of(fd, path, sizeof path);
  const char* folder = getenv("SHARED_DISK");
  if (!name || !folder) return NULL;
  snprintf(copy, bytes, "%s/%s", folder, name);
  return copy;
}

ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t offset) {
  ssize_t (*real)(int, const struct iovec*, int, off_t) =
      (ssize_t(*)(int, const struct iovec*, int, off_t))dlsym(RTLD_NEXT, "pwritev");
  const ssize_t written = real(fd, pieces, count, offset);
  const int saved_errno = errno;
  char copy[8192];
  if (written > 0 && copy_of(fd, copy, sizeof copy)) {
    const int to = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (to < 0 || real(to, pieces, count, offset) != written) abort();
    close(to);
  }
  errno = saved_errno;
  return written;
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  const struct iovec piece = {(void*)bytes, count};
  return pwritev(fd, &piece, 1, offset);
}
