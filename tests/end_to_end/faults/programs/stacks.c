/* How deep the stack goes in a thread whose stack is as small as threads may have: annotations (which start the
 * recorder), then MPI calls. Prints the bytes used, "annotations N" and "calls N", to the file named by argv[1]. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>

#include "communicate.h"
#include "ddl/annotate.h"

static size_t stack_bytes;

struct job {
  void (*work)(void);
  char* stack;
};

static void annotate(void) {
  ddl_step_begin(1);
  for (int i = 0; i < 3000; ++i) { /* more than the first chunk holds */
    char name[16];
    snprintf(name, sizeof name, "layer %d", i % 300);
    ddl_layer_begin(name);
    ddl_layer_end();
  }
  ddl_step_end();
}

static void call(void) { communicate_over(MPI_COMM_SELF, 1000); }

static void* run(void* argument) {
  ((struct job*)argument)->work();
  return NULL;
}

/* The stack is filled with a pattern; what is not the pattern any more was used. glibc puts the thread's own
 * data at its top. */
static long used_by(void (*work)(void)) {
  struct job job = {work, mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
  memset(job.stack, 0x5a, stack_bytes);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstack(&attributes, job.stack, stack_bytes) != 0 ||
      pthread_create(&thread, &attributes, run, &job) != 0)
    return -1;
  pthread_join(thread, NULL);
  size_t untouched = 0;
  while (untouched < stack_bytes && job.stack[untouched] == 0x5a) ++untouched;
  return (long)(stack_bytes - untouched);
}

static void nothing(void) {}

int main(int argc, char** argv) {
  stack_bytes = (size_t)sysconf(_SC_THREAD_STACK_MIN);
  FILE* out = fopen(argv[1], "w");
  int provided;
  const long thread_itself = used_by(nothing);
  fprintf(out, "stack %zu\nannotations %ld\n", stack_bytes, used_by(annotate) - thread_itself);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  begin_log();
  fprintf(out, "calls %ld\n", used_by(call) - thread_itself);
  fclose(out);
  CALL(Finalize, 0, ());
  return 0;
}
