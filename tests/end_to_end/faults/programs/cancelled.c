/* A thread that is to be cancelled, and holds a lock, does nothing but annotate until it says that it may be cancelled.
 * usage: cancelled first|SECONDS: its first annotation is the first of the process, or it goes on for so long. */
#define _GNU_SOURCE
#include <ddl/annotate.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t has_locked, is_cancelled;
static double seconds;
static int through;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void annotate(const char* name) {
  ddl_layer_begin(name);
  ddl_layer_end();
}

static void* work(void* unused) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_mutex_lock(&mutex);
  sem_post(&has_locked);
  sem_wait(&is_cancelled);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  const double end = now() + seconds;
  do annotate("locked");
  while (now() < end);
  through = 1;
  pthread_mutex_unlock(&mutex);
  pthread_testcancel();
  return unused;
}

int main(int argc, char** argv) {
  pthread_t thread;
  void* result = NULL;
  if (argc < 2) return 2;
  sem_init(&has_locked, 0, 0);
  sem_init(&is_cancelled, 0, 0);
  if (strcmp(argv[1], "first") != 0) {
    seconds = strtod(argv[1], NULL);
    annotate("before");
  }
  pthread_create(&thread, NULL, work, NULL);
  sem_wait(&has_locked);
  pthread_cancel(thread);
  sem_post(&is_cancelled);
  pthread_join(thread, &result);
  printf("%s, %s\n", through ? "unlocked" : "still locked", result == PTHREAD_CANCELED ? "cancelled" : "returned");
  annotate("after");
  return 0;
}
