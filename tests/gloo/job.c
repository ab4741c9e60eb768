/* A job of $WORLD_SIZE ranks against the mock of Gloo, as PyTorch calls it: rank 1 is 40 ms late in each of 20 steps.
 * Options are laid out as Gloo's. With an argument another thread carries out the collectives, as DDP's do: the one
 * that trains computes for 20 ms, hands over, and prints how long it then had nothing to do; rank 1 hands over 40 ms
 * after rank 0, however long that took. With "seldom" it hands over in every eighth of 160 steps of 3 ms, ends a range
 * twice a millisecond, and prints nothing. With "tells" the thread that trains has a barrier of its own in each step.
 * With "messages" a pipeline's messages are told as python/ddl_hooks tells them: in each of 20 steps rank 0 receives
 * what rank 1 sends 40 ms late, and rank 1 waits 20 ms for what it posted a receive for. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
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
__attribute__((weak)) uint32_t ddl_group_end(void);
__attribute__((weak)) void ddl_told_begin(const char* name, uint32_t group, int peer, uint32_t number, uint64_t bytes);
__attribute__((weak)) void ddl_told_end(int peer, void* posted);

static char options[192];

static void put(size_t at, const void* value, size_t bytes) { memcpy(options + at, value, bytes); }
static void put_word(size_t at, uint64_t value) { put(at, &value, sizeof value); }
static void put_number(size_t at, int32_t value) { put(at, &value, sizeof value); }
static void begin(const struct context* context) {
  memset(options, 0, sizeof options);
  put(0, &context, sizeof context);
}

static void reduce(const struct context* context, int step) {
  begin(context);
  put_word(80, 1000);
  put_word(88, 4);
  put_number(128, step);
  _ZN4gloo9allreduceERKNS_16AllreduceOptionsE(options);
}

static int64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void compute(int64_t ns) {
  for (const int64_t until_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns; now_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns;) {
  }
}

static struct context trains_in;
static sem_t handed_over, reduced;

static void* reduce_all(void* unused) {
  (void)unused;
  for (int step = 0; step < 20; ++step) {
    sem_wait(&handed_over);
    reduce(&trains_in, step);
    sem_post(&reduced);
  }
  return NULL;
}

static void train_seldom(void) {
  for (int step = 0; step < 160; ++step) {
    ddl_step_begin((uint64_t)step);
    for (int layer = 0; layer < 6; ++layer) {
      ddl_layer_begin("layer");
      compute(500000);
      ddl_layer_end();
    }
    if (step % 8 == 7) {
      sem_post(&handed_over);
      sem_wait(&reduced);
    }
    ddl_step_end();
  }
}

static int train(int rank, int ranks, int seldom, int tells) {
  const int members[] = {0, 1};
  if (ddl_group_begin) ddl_group_begin("all", members, 2);
  _ZN4gloo10rendezvous7ContextC1Eiii(&trains_in, rank, ranks, 2);
  const uint32_t group = ddl_group_end ? ddl_group_end() : 0;
  sem_init(&handed_over, 0, 0);
  sem_init(&reduced, 0, 0);
  const uint64_t* entered =
      mmap(NULL, 4096, PROT_READ, MAP_SHARED, open(getenv("FAKE_GLOO"), O_RDONLY), 0); /* the mock's, of both ranks */
  if (entered == MAP_FAILED) return 1;
  pthread_t worker;
  if (pthread_create(&worker, NULL, reduce_all, NULL) != 0) return 1;
  for (int step = 0; !seldom && step < 20; ++step) {
    ddl_step_begin((uint64_t)step);
    compute(20000000);
    if (rank == 1) {
      while (__atomic_load_n(entered, __ATOMIC_SEQ_CST) == 2 * (uint64_t)step) usleep(100);
      usleep(40000);
    }
    const int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    sem_post(&handed_over);
    sem_wait(&reduced);
    if (tells && ddl_told_begin) ddl_told_begin("monitored_barrier", group, -1, (uint32_t)step + 1, 0);
    if (tells && ddl_told_end) ddl_told_end(-1, NULL);
    printf("rank %d step %d blocked %lld\n", rank, step, (long long)(now_ns(CLOCK_MONOTONIC) - begin_ns));
    ddl_step_end();
  }
  if (seldom) train_seldom();
  pthread_join(worker, NULL);
  return 0;
}

/* Messages with 2 ranks: a counter of those sent by each, in the file that the mock shares; a send is over once its
 * message is taken, as Gloo's are. */
static void wait_for(const uint64_t* counter, uint64_t count) {
  while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < count) usleep(100);
}

static int exchange(int rank) {
  struct context pipe;
  const int members[] = {0, 1};
  if (ddl_group_begin) ddl_group_begin("pipe", members, 2);
  _ZN4gloo10rendezvous7ContextC1Eiii(&pipe, rank, 2, 2);
  const uint32_t group = ddl_group_end ? ddl_group_end() : 0;
  uint64_t* counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(getenv("FAKE_GLOO"), O_RDWR), 0);
  if (counters == MAP_FAILED) return 1;
  uint64_t* const sent = counters + 16;  /* of each rank */
  uint64_t* const taken = counters + 32; /* of each rank */
  const int other = 1 - rank;
  for (uint64_t step = 0; step < 20; ++step) {
    uint64_t posted[6] = {0};
    if (ddl_told_begin) ddl_told_begin("monitored_barrier", group, -1, (uint32_t)step + 1, 0);
    __atomic_add_fetch(&counters[48], 1, __ATOMIC_SEQ_CST);
    wait_for(&counters[48], 2 * (step + 1));
    if (ddl_told_end) ddl_told_end(-1, NULL);
    ddl_step_begin(step);
    if (rank == 1) {
      if (ddl_told_begin) ddl_told_begin("irecv", group, other, 7, 2000);
      if (ddl_told_end) ddl_told_end(-1, posted);
      usleep(40000);
      if (ddl_told_begin) ddl_told_begin("send", group, other, 3, 1000);
      __atomic_add_fetch(&sent[rank], 1, __ATOMIC_SEQ_CST);
      wait_for(&taken[other], step + 1);
      if (ddl_told_end) ddl_told_end(-1, NULL);
      if (ddl_told_begin) ddl_told_begin("wait", group, other, 0, 0);
      wait_for(&sent[other], step + 1);
      __atomic_add_fetch(&taken[rank], 1, __ATOMIC_SEQ_CST);
      if (ddl_told_end) ddl_told_end(-1, posted);
    } else {
      if (ddl_told_begin) ddl_told_begin("recv", group, -1, 3, 1000); /* from any rank */
      wait_for(&sent[other], step + 1);
      __atomic_add_fetch(&taken[rank], 1, __ATOMIC_SEQ_CST);
      if (ddl_told_end) ddl_told_end(other, NULL);
      usleep(20000);
      if (ddl_told_begin) ddl_told_begin("isend", group, other, 7, 2000);
      __atomic_add_fetch(&sent[rank], 1, __ATOMIC_SEQ_CST);
      if (ddl_told_end) ddl_told_end(-1, posted);
      if (ddl_told_begin) ddl_told_begin("wait", group, other, 0, 0);
      wait_for(&taken[other], step + 1);
      if (ddl_told_end) ddl_told_end(-1, posted);
    }
    ddl_step_end();
  }
  return 0;
}

int main(int argc, char** argv) {
  const int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
  if (argc > 1 && strcmp(argv[1], "messages") == 0) return exchange(rank);
  if (argc > 1) return train(rank, ranks, strcmp(argv[1], "seldom") == 0, strcmp(argv[1], "tells") == 0);
  struct context all, pair, unseen = {NULL, rank, ranks, 2, ""};
  _ZN4gloo10rendezvous7ContextC1Eiii(&all, rank, ranks, 2);
  const int members[] = {1, 0};
  if (ddl_group_begin) ddl_group_begin("pair", members, 2);
  _ZN4gloo10rendezvous7ContextC1Eiii(&pair, 1 - rank, 2, 2);
  if (ddl_group_end) ddl_group_end();

  struct buffer sent = {NULL, NULL, 512};
  for (int step = 0; step < 20; ++step) {
    ddl_step_begin((uint64_t)step);
    if (rank == 1) usleep(40000);
    reduce(&all, step);
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
