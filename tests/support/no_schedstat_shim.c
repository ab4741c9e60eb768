// LD_PRELOAD library for tests: a kernel that keeps no account of its scheduler. Without NO_SCHEDSTAT_ZEROS there is no
// schedstat to open, with it the file is there and says nothing but 0, as where accounting is off.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static int is_account(const char* path) {
  const size_t length = strlen(path);
  return length > 10 && strcmp(path + length - 10, "/schedstat") == 0;
}

static int account(void) {
  if (!getenv("NO_SCHEDSTAT_ZEROS")) {
    errno = ENOENT;
    return -1;
  }
  const int fd = memfd_create("schedstat", MFD_CLOEXEC);
  if (fd >= 0 && (write(fd, "0 0 0\n", 6) != 6 || lseek(fd, 0, SEEK_SET) != 0)) abort();
  return fd;
}

#define OPEN(name)                                                                       \
  int name(const char* path, int flags, ...) {                                           \
    va_list arguments;                                                                   \
    va_start(arguments, flags);                                                          \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;   \
    va_end(arguments);                                                                   \
    if (is_account(path)) return account();                                              \
    return ((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
