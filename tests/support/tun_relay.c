/* A long, slow cable between two network namespaces (virtual_hosts.py):
 *
 *   tun_relay NAMESPACE_A NAMESPACE_B MICROSECONDS MBIT
 *
 * Makes a TUN device "cable" in each, says "ready", and carries packets from one to the other: each waits until the one
 * before it is out at MBIT, then travels for MICROSECONDS. A queue that is full drops what comes, as a router's does.
 * Ends when it is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { kMost = 512, kBytes = 16384 };

struct packet {
  int64_t due_ns;
  ssize_t bytes;
  char data[kBytes];
};

struct way { /* one direction */
  int from, to;
  int64_t free_ns; /* when the last packet is out */
  unsigned head, count;
  struct packet queue[kMost];
};

static struct way ways[2];

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int cable_in(const char* name_space) {
  const int space = open(name_space, O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
  close(space);
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  strcpy(request.ifr_name, "cable");
  return fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0 ? fd : -1;
}

int main(int argc, char** argv) {
  if (argc != 5) return fprintf(stderr, "usage: tun_relay NAMESPACE_A NAMESPACE_B MICROSECONDS MBIT\n"), 2;
  const int64_t delay_ns = atoll(argv[3]) * 1000;
  const double ns_per_byte = 8000.0 / atof(argv[4]);
  for (int i = 0; i < 2; ++i) {
    const int fd = cable_in(argv[1 + i]);
    if (fd < 0) return fprintf(stderr, "tun_relay: no cable in %s: %s\n", argv[1 + i], strerror(errno)), 1;
    ways[i].from = ways[1 - i].to = fd;
  }
  puts("ready");
  fflush(stdout);
  for (;;) {
    int64_t wake_ns = INT64_MAX;
    for (int i = 0; i < 2; ++i) {
      struct way* way = &ways[i];
      for (; way->count > 0 && way->queue[way->head].due_ns <= now_ns();
           way->head = (way->head + 1) % kMost, --way->count)
        if (write(way->to, way->queue[way->head].data, (size_t)way->queue[way->head].bytes) < 0 && errno == EBADFD)
          return 1;
      if (way->count > 0 && way->queue[way->head].due_ns < wake_ns) wake_ns = way->queue[way->head].due_ns;
    }
    const int64_t left_ns = wake_ns == INT64_MAX ? 1000000000 : wake_ns - now_ns();
    const struct timespec wait = {left_ns > 0 ? left_ns / 1000000000 : 0, left_ns > 0 ? left_ns % 1000000000 : 0};
    struct pollfd ready[2] = {{ways[0].from, POLLIN, 0}, {ways[1].from, POLLIN, 0}};
    if (ppoll(ready, 2, &wait, NULL) <= 0) continue;
    for (int i = 0; i < 2; ++i) {
      struct way* way = &ways[i];
      char dropped[kBytes];
      for (;;) {
        struct packet* packet = way->count < kMost ? &way->queue[(way->head + way->count) % kMost] : NULL;
        const ssize_t got = read(way->from, packet ? packet->data : dropped, kBytes);
        if (got <= 0) break;
        if (!packet) continue;
        const int64_t now = now_ns(), begin = way->free_ns > now ? way->free_ns : now;
        way->free_ns = begin + (int64_t)((double)got * ns_per_byte);
        packet->due_ns = way->free_ns + delay_ns;
        packet->bytes = got;
        ++way->count;
      }
    }
  }
}
