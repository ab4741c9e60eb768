/* Beginnings and ends of MPI: what is known before and after, callbacks of MPI_Finalize, MPI_Pcontrol, and every way
 * not to end well (by rank 1 alone, while the other waits, so that the launcher always hears it of the same).
 * conformance: ranks=2 unsteady=mpich42
 * cases=plain:0,funneled:0,multiple:0,unfinished:0,code:3,twice:1/0,abort:7,abort_self:9,fatal:6,before:1/1/14,after:1/1/14,no_finalize:1/-,exits_early:4/- */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/transcript.h"

static void flags(const char* when) {
  int initialized = UNTOUCHED, finalized = UNTOUCHED;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  note("%s: initialized %d finalized %d", when, initialized, finalized);
}

static int at_finalize(MPI_Comm comm, int key, void* value, void* extra) {
  int sum = -1, one = 1;
  (void)key, (void)extra;
  note("  attribute %s deleted by MPI_Finalize", (const char*)value);
  flags("in MPI_Finalize");
  CALLC(MPI_Allreduce, &one, &sum, 1, MPI_INT, MPI_SUM, comm); /* still works */
  note("  sum %d", sum);
  return MPI_SUCCESS;
}

static void say_at_exit(void) {
  if (out) flags("at exit");
}

static void controls(void) {
  CALL(MPI_Pcontrol, 0);
  CALL(MPI_Pcontrol, 1);
  CALL(MPI_Pcontrol, 2, "a name", 3);
  CALL(MPI_Pcontrol, 1, "a phase");
  CALL(MPI_Barrier, MPI_COMM_WORLD);
  CALL(MPI_Pcontrol, -1, "a phase");
  CALL(MPI_Pcontrol, -7, NULL);
}

/* Rank 1 is to be the one that ends the job, when rank 0 has written all that it will. Rank 0 then waits for the
 * launcher to end it; where MPI is finalized, MPICH's launcher does not, and it ends when rank 1 has. */
static void only_rank_1_goes_on(void) {
  int end, running = 0, finalized = 0;
  char nothing;
  if (strcmp(rank_text(), "1") == 0) {
    while (open("rank-1-lives", O_WRONLY) < 0) usleep(1000); /* stays open until we end */
    return;
  }
  mkfifo("rank-1-lives", 0600);
  end = open("rank-1-lives", O_RDONLY);
  PMPI_Initialized(&running);
  PMPI_Finalized(&finalized);
#ifndef OPEN_MPI
  if ((!running || finalized) && read(end, &nothing, 1) == 0) _exit(0);
#endif
  (void)end, (void)nothing;
  for (;;) pause();
}

int main(int argc, char** argv) {
  char task[32] = "";
  int provided = UNTOUCHED, keyval, value = 0, level = UNTOUCHED;
  if (argc > 1) snprintf(task, sizeof task, "%s", argv[1]);
  open_transcript(0);
  atexit(say_at_exit);
  flags("before");
  if (strcmp(task, "before") == 0) {
    only_rank_1_goes_on();
    CALL(MPI_Barrier, MPI_COMM_WORLD);
  }
  if (strcmp(task, "funneled") == 0) {
    CALL(MPI_Init_thread, &argc, &argv, MPI_THREAD_FUNNELED, &provided);
  } else if (strcmp(task, "multiple") == 0) {
    CALL(MPI_Init_thread, NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  } else if (strcmp(task, "unfinished") == 0) {
    CALL(MPI_Init, NULL, NULL);
  } else {
    CALL(MPI_Init, &argc, &argv);
  }
  note("  provided %d, %d arguments, the last is %s", provided, argc, argv[argc - 1]);
  PMPI_Query_thread(&level);
  note("  level %d", level);
  PMPI_Comm_rank(MPI_COMM_WORLD, &me);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  flags("running");
  if (strcmp(task, "fatal") != 0) {
    tell_comm_errors(MPI_COMM_WORLD);
    tell_comm_errors(MPI_COMM_SELF);
  }
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &keyval, NULL);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, "on MPI_COMM_SELF");
  CALL(MPI_Barrier, MPI_COMM_WORLD);
  if (strcmp(task, "plain") == 0) controls();
  if (strcmp(task, "unfinished") == 0) { /* requests and communicators that nobody completes or frees */
    MPI_Request requests[2];
    MPI_Comm copy, split;
    CALLC(MPI_Isend, &me, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &requests[0]);
    CALLC(MPI_Irecv, &value, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &requests[1]);
    CALL(MPI_Comm_dup, MPI_COMM_WORLD, &copy);
    CALL(MPI_Comm_split, copy, me, 0, &split);
  }
#ifndef OPEN_MPI
  if (strcmp(task, "twice") == 0) {
    CALL(MPI_Init, &argc, &argv);
    CALL(MPI_Init_thread, &argc, &argv, MPI_THREAD_SINGLE, &provided);
    task[0] = 0;
  }
#endif
  if (strcmp(task, "twice") == 0 || strncmp(task, "abort", 5) == 0 || strcmp(task, "fatal") == 0 ||
      strcmp(task, "exits_early") == 0 || strcmp(task, "no_finalize") == 0) {
    only_rank_1_goes_on();
    if (strcmp(task, "twice") == 0) CALL(MPI_Init, &argc, &argv); /* the end of it with Open MPI */
    if (strcmp(task, "abort") == 0) CALL(MPI_Abort, MPI_COMM_WORLD, 7);
    if (strcmp(task, "abort_self") == 0) CALL(MPI_Abort, MPI_COMM_SELF, 9);
    if (strcmp(task, "fatal") == 0) CALLC(MPI_Send, &value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    if (strcmp(task, "exits_early") == 0) _exit(4);
    return 0;
  }
  count_call("MPI_Finalize");
  returned("MPI_Finalize", MPI_Finalize());
  if (strcmp(task, "after") != 0) write_calls();
  flags("after");
  if (strcmp(task, "after") == 0 || strcmp(task, "code") == 0) only_rank_1_goes_on();
  if (strcmp(task, "after") == 0) CALL(MPI_Barrier, MPI_COMM_WORLD);
  return strcmp(task, "code") == 0 ? 3 : 0;
}
