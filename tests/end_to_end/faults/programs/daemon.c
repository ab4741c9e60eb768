/* A program without MPI that behaves like a daemon in the middle of its work: closes every descriptor, opens a file of
 * its own, goes on. What is recorded may not go into that file, and must go on. usage: daemon OWN_FILE */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ddl/annotate.h"

static void work(int layers) {
  for (int i = 0; i < layers; ++i) {
    ddl_layer_begin("work");
    ddl_value("i", i);
    ddl_layer_end();
  }
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  work(100);
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 0u, ~0u, 0u) != 0)
#endif
    for (int fd = 0; fd < 1024; ++fd) close(fd);
  int first = open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
  for (int fd = first + 1; fd < 20; ++fd) {
    if (dup(first) != fd) return 8;
  }
  work(20000);
  struct stat status;
  return fstat(first, &status) == 0 && status.st_size == 0 && lseek(first, 0, SEEK_CUR) == 0 ? 0 : 9;
}
