// LD_PRELOAD library for tests: the files of a run directory seem to lie on NFS, and what is written with pwrite into its *.spool and
// *.live files also goes to files of the same names in SHARED_DISK. What is stored into mapped pages does not: the worst that a network
// file system may do. Only SHARED_DISK is looked at by the reader under test.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  ssize_t (*real)(int, const void*, size_t, off_t) = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  const ssize_t written = real(fd, bytes, count, offset);
  const int saved_errno = errno;
  char path[4096], copy[8192];
  const char* name = written > 0 ? name_of(fd, path, sizeof path) : NULL;
  const char* folder = getenv("SHARED_DISK");
  if (name && folder) {
    snprintf(copy, sizeof copy, "%s/%s", folder, name);
    const int to = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (to < 0 || real(to, bytes, (size_t)written, offset) != written) abort();
    close(to);
  }
  errno = saved_errno;
  return written;
}
