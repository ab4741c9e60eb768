/* Steps and layers in which PAPI's mock counts known numbers, and in which a known number of pages is touched. */
#define _GNU_SOURCE
#include <ddl/annotate.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kPages = 1000, kPageBytes = 4096 };
static void (*count)(int, long long);

static void touch(int pages) {
  char* memory = mmap(NULL, (size_t)pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(3);
  madvise(memory, (size_t)pages * kPageBytes, MADV_NOHUGEPAGE);
  for (int i = 0; i < pages; ++i) memory[(size_t)i * kPageBytes] = 1;
  munmap(memory, (size_t)pages * kPageBytes);
}

static void* helper(void* unused) {
  ddl_layer_begin("helper");
  count(0, 7);
  ddl_layer_end();
  return unused;
}
static void nothing(int event, long long n) { (void)event, (void)n; }

int main(int argc, char** argv) {
  /* Where the real PAPI, or none, is to be found, the mock is not linked to. */
  void* papi = argc > 1 && strcmp(argv[1], "double") == 0 ? dlopen("libpapi.so.7.0", RTLD_LAZY) : NULL;
  count = papi ? (void (*)(int, long long))dlsym(papi, "fake_papi_count") : nothing;
  if (!count) return 2;
  for (int step = 0; step < 3; ++step) {
    ddl_step_begin((uint64_t)step);
    count(0, 1000);
    ddl_layer_begin("outer");
    count(0, 100);
    count(1, 5 + step);
    ddl_layer_begin("inner");
    count(0, 10);
    touch(kPages);
    ddl_layer_end();
    ddl_layer_end();
    pthread_t thread;
    pthread_create(&thread, NULL, helper, NULL);
    pthread_join(thread, NULL);
    ddl_step_end();
  }
  if (papi) {
    int (*sets)(void) = (int (*)(void))dlsym(papi, "fake_papi_sets");
    printf("sets %d\n", sets()); /* one is this thread's */
  }
  return 0;
}
