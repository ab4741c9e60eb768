/* Processes that come later: spawned, spawned as several programs, connected by a port, joined by a socket. Errors of
 * each. conformance: ranks=2 threads=no cases=spawn:0,multiple:0/0/-,connect:0,join:0 unsteady=openmpi */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/transcript.h"

/* What both sides do on the intercommunicator that they got. */
static void talk(const char* what, MPI_Comm inter) {
  if (inter == MPI_COMM_NULL) return note("  no communicator"); /* not every MPICH can do it */
  int local, local_size, remote_size, sum = -1, got = -1, merged_rank, merged_size, value = me + 1, is_inter = 0;
  MPI_Status status;
  MPI_Comm merged;
  PMPI_Comm_test_inter(inter, &is_inter);
  PMPI_Comm_rank(inter, &local);
  PMPI_Comm_size(inter, &local_size);
  PMPI_Comm_remote_size(inter, &remote_size);
  note("  %s: %d of %d, remote %d, inter %d", what, local, local_size, remote_size, is_inter);
  tell_comm_errors(inter);
  CALL(MPI_Comm_set_name, inter, what);
  CALLC(MPI_Allreduce, &value, &sum, 1, MPI_INT, MPI_SUM, inter);
  note("  sum of the others %d", sum);
  if (local == 0) {
    poison_statuses(&status, 1);
    CALLC(MPI_Sendrecv, &value, 1, MPI_INT, 0, 8, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status);
    note_status("status", &status, MPI_INT);
    note("  got %d", got);
  }
  CALL(MPI_Intercomm_merge, inter, strcmp(transcript_prefix, "") != 0, &merged);
  PMPI_Comm_rank(merged, &merged_rank);
  PMPI_Comm_size(merged, &merged_size);
  CALLC(MPI_Allreduce, &merged_rank, &sum, 1, MPI_INT, MPI_SUM, merged);
  note("  merged: %d of %d, sum %d", merged_rank, merged_size, sum);
  CALL(MPI_Comm_free, &merged);
}

static void leave(MPI_Comm* inter) {
  if (*inter == MPI_COMM_NULL) return;
  CALL(MPI_Comm_disconnect, inter);
  note("  now %s", *inter == MPI_COMM_NULL ? "null" : "set");
}

static void spawn(char* program) {
  char* arguments[] = {"child", "with an argument", NULL};
  MPI_Comm inter = MPI_COMM_NULL, parent;
  int codes[2] = {UNTOUCHED, UNTOUCHED};
  CALL(MPI_Comm_get_parent, &parent);
  note("  parent %s", parent == MPI_COMM_NULL ? "null" : "set");
  CALL(MPI_Comm_spawn, program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
  note_ints("codes", codes, 2);
  talk("spawned", inter);
  leave(&inter);
}

static void multiple(char* program) {
  char* commands[] = {program, program};
  char* first[] = {"one", NULL};
  char* second[] = {"other", NULL};
  char** arguments[] = {first, second};
  const int counts[] = {1, 1};
  const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm inter = MPI_COMM_NULL;
  CALL(MPI_Comm_spawn_multiple, 2, commands, arguments, counts, infos, 1, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
  talk("spawned as two programs", inter);
  leave(&inter);
}

static void connect_worlds(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm inter = MPI_COMM_NULL;
  for (int again = 0; again < 2; ++again) {
    if (me == 0) PMPI_Open_port(MPI_INFO_NULL, port);
    CALLC(MPI_Bcast, port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (me == 0) {
      CALL(MPI_Comm_accept, port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    } else {
      CALL(MPI_Comm_connect, port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
      transcript_prefix = "connecting-"; /* merges as the higher one */
    }
    talk("connected", inter);
    leave(&inter);
    transcript_prefix = "";
    if (port[0] == 0) return;
    if (me == 0) PMPI_Close_port(port);
  }
}

static void join(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "joined.socket"};
  MPI_Comm inter = MPI_COMM_NULL;
  int ends, listener = -1;
  if (me == 0) {
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr*)&address, sizeof address) != 0 || listen(listener, 1) != 0)
      perror("joined.socket");
  }
  CALL(MPI_Barrier, MPI_COMM_WORLD);
  if (me == 0) {
    ends = accept(listener, NULL, NULL);
    close(listener);
  } else {
    ends = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(ends, (struct sockaddr*)&address, sizeof address) != 0) perror("joined.socket");
    transcript_prefix = "joining-";
  }
  CALL(MPI_Comm_join, ends, &inter);
  close(ends);
  talk("joined", inter);
  leave(&inter);
  transcript_prefix = "";
}

int main(int argc, char** argv) {
  const char* task = argc > 1 ? argv[1] : "";
  const int is_child = strcmp(task, "child") == 0 || strcmp(task, "one") == 0 || strcmp(task, "other") == 0;
  if (is_child) transcript_prefix = task[0] == 'c' ? "child-" : task[1] == 'n' ? "one-" : "other-";
  open_transcript(0);
  CALL(MPI_Init, &argc, &argv);
  PMPI_Comm_rank(MPI_COMM_WORLD, &me);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  tell_comm_errors(MPI_COMM_WORLD);
  note("%d of %d", me, size);
  if (is_child) {
    MPI_Comm parent;
    for (int i = 1; i < argc; ++i) note("  argument '%s'", argv[i]);
    CALL(MPI_Comm_get_parent, &parent);
    talk("parent", parent);
    leave(&parent);
  } else if (strcmp(task, "spawn") == 0) {
    spawn(argv[0]);
  } else if (strcmp(task, "multiple") == 0) {
    multiple(argv[0]);
  } else if (strcmp(task, "connect") == 0) {
    connect_worlds();
  } else {
    join();
  }
  count_call("MPI_Finalize");
  write_calls();
  return returned("MPI_Finalize", MPI_Finalize());
}
