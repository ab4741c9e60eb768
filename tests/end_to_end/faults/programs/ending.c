/* Communicates a little, then ends in the way that is asked for. usage: ending HOW [RANK] [OTHER PROGRAM ...] Only RANK
 * (-1: all) ends that way, in the middle of the loop; the others go on until the job is ended, or finalize. The calls
 * that returned are in $CALL_LOG.RANK. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "communicate.h"
#include "ddl/annotate.h"

static char** arguments;

static void finalize(void) { CALL(Finalize, 0, ()); }
static void leave_main(void) {}
static void call_exit(void) { exit(3); }
static void call__exit(void) { _exit(3); }
static void call_quick_exit(void) { quick_exit(3); }
static void call_abort(void) { abort(); }
static void die_of_segv(void) { raise(SIGSEGV); }
static void die_of_bus(void) { /* by a fault, of which Open MPI tells where it was */
  *(char*)mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(tmpfile()), 0) = 1;
}
static void die_of_term(void) { raise(SIGTERM); }
static void die_of_kill(void) { raise(SIGKILL); }
static void call_mpi_abort(void) { MPI_Abort(MPI_COMM_WORLD, 42); }
static void become_other(void) { execv(arguments[0], arguments); }
static void init_again(void) { MPI_Init(NULL, NULL); }
static void* exit_here(void* nothing) {
  (void)nothing;
  _exit(3);
}
static void exit_in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, exit_here, NULL);
  pthread_join(thread, NULL);
}

/* Children of a rank leave its record alone, whatever they do and however they end. */
static void forks(void) {
  int status = 0;
  if (fork() == 0) { /* Python's multiprocessing: works, prints nothing, leaves by _exit */
    for (int i = 0; i < 1000; ++i) {
      ddl_layer_begin("child");
      ddl_layer_end();
    }
    _exit(0);
  }
  wait(&status);
  if (status != 0) abort();
  if (fork() == 0) exit(0); /* with exit handlers: they run our destructor in the child */
  wait(&status);
  if (status != 0) abort();
  if (fork() == 0) { /* not legal, yet MPI's own calls that need no messages work, and so must ours */
    int flag, one = 1, two;
    MPI_Initialized(&flag);
    MPI_Allreduce(&one, &two, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    _exit(flag && two == 1 ? 0 : 1);
  }
  wait(&status);
  if (status != 0) abort();
  pid_t (*raw_fork)(void) =
      (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork"); /* glibc 2.34: runs no handlers of pthread_atfork */
  if (raw_fork && raw_fork() == 0) {
    ddl_layer_begin("raw child");
    ddl_layer_end();
    exit(0);
  }
  if (raw_fork) wait(&status);
  if (status != 0) abort();
  if (vfork() == 0) {
    execl("/bin/true", "true", (char*)NULL);
    _exit(127);
  }
  wait(&status);
  if (status != 0) abort();
  communicate(5);
  finalize();
}

static const struct {
  const char* name;
  void (*end)(void);
} kWays[] = {
    {"finalize", finalize},
    {"return", leave_main},
    {"exit", call_exit},
    {"_exit", call__exit},
    {"quick_exit", call_quick_exit},
    {"abort", call_abort},
    {"segv", die_of_segv},
    {"bus", die_of_bus},
    {"term", die_of_term},
    {"kill", die_of_kill},
    {"mpi_abort", call_mpi_abort},
    {"exec", become_other},
    {"init_again", init_again},
    {"thread_exit", exit_in_thread},
    {"forks", forks},
};

int main(int argc, char** argv) {
  const char* how = argv[1];
  const int who = argc > 2 ? atoi(argv[2]) : -1;
  arguments = argv + 3;
  int rank, flag;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  begin_log();
  printf("rank %d is up\n", rank);
  fflush(stdout);
  communicate(40);
  for (unsigned i = 0; i < sizeof kWays / sizeof *kWays; ++i) {
    if (strcmp(kWays[i].name, how) == 0 && (who < 0 || who == rank)) {
      if (who >= 0) usleep(100000); /* the others sit in their next call by then */
      kWays[i].end();
      return 0;
    }
  }
  communicate(1000000000);
  MPI_Finalized(&flag);
  return 0;
}
