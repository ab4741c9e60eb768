/* A job of $WORLD_SIZE ranks against the mock of Gloo, as PyTorch calls it: rank 1 is 20 ms late in each of 20 steps. Options are laid out as Gloo's. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddl/annotate.h"

struct context {
  void* table;
  int rank, size, base;
  char more[64];
};
struct buffer {
  void *table, *address;
  uint64_t size;
};

void _ZN4gloo10rendezvous7ContextC1Eiii(struct context* self, int rank, int size, int base);
void _ZN4gloo9allreduceERKNS_16AllreduceOptionsE(void* options);
void _ZN4gloo9broadcastERNS_16BroadcastOptionsE(void* options);
void _ZN4gloo9allgatherERNS_16AllgatherOptionsE(void* options);
void _ZN4gloo7scatterERNS_14ScatterOptionsE(void* options);
void _ZN4gloo7barrierERNS_14BarrierOptionsE(void* options);
__attribute__((weak)) void ddl_group_begin(const char* name, const int* ranks, int count);
__attribute__((weak)) void ddl_group_end(void);

static char options[192];

static void put(size_t at, const void* value, size_t bytes) { memcpy(options + at, value, bytes); }
static void put_word(size_t at, uint64_t value) { put(at, &value, sizeof value); }
static void put_number(size_t at, int32_t value) { put(at, &value, sizeof value); }
static void begin(const struct context* context) {
  memset(options, 0, sizeof options);
  put(0, &context, sizeof context);
}

int main(void) {
  const int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
  struct context all, pair, unseen = {NULL, rank, ranks, 2, ""};
  _ZN4gloo10rendezvous7ContextC1Eiii(&all, rank, ranks, 2);
  const int members[] = {1, 0};
  if (ddl_group_begin) ddl_group_begin("pair", members, 2);
  _ZN4gloo10rendezvous7ContextC1Eiii(&pair, 1 - rank, 2, 2);
  if (ddl_group_end) ddl_group_end();

  struct buffer sent = {NULL, NULL, 512};
  for (int step = 0; step < 20; ++step) {
    ddl_step_begin((uint64_t)step);
    if (rank == 1) usleep(20000);
    begin(&all);
    put_word(80, 1000);
    put_word(88, 4);
    put_number(128, step);
    _ZN4gloo9allreduceERKNS_16AllreduceOptionsE(options);
    ddl_step_end();
  }
  begin(&pair);
  put_word(32, 30);
  put_word(40, 8);
  put_number(48, 1);
  put_number(52, 0);
  _ZN4gloo9broadcastERNS_16BroadcastOptionsE(options);
  for (int use = 0; use < 12; ++use) {  // always the same tag
    begin(&pair);
    const struct buffer* in = use == 11 ? (const struct buffer*)16 : &sent;  // the last one points to nowhere
    put(16, &in, sizeof in);
    put_number(40, 1);
    _ZN4gloo9allgatherERNS_16AllgatherOptionsE(options);
  }
  begin(&pair);
  const struct buffer* out = &sent;
  put(40, &out, sizeof out);
  put_number(56, 0);
  put_number(60, 2);
  _ZN4gloo7scatterERNS_14ScatterOptionsE(options);
  begin(&unseen);
  _ZN4gloo7barrierERNS_14BarrierOptionsE(options);
  printf("rank %d ends\n", rank);
  return 0;
}
