/* Threads that share communicators and requests: posted by one and completed by another, many at once on one
 * communicator, short-lived ones. conformance: ranks=2 */
#include "support/transcript.h"

#define CREW 4
#define N 16

static MPI_Comm own[CREW]; /* a communicator for each */
static pthread_barrier_t step;
static MPI_Request handed[CREW][N];
static int data[CREW][N], got[CREW][N];
static int my_rank; /* what `me` is in every thread */

/* All threads of this process are here. */
static void meet(void) { pthread_barrier_wait(&step); }

/* Each posts for its neighbour, who completes. */
static void handed_over(int way) {
  const int i = thread, next = (thread + 1) % CREW, other = 1 - me;
  MPI_Status statuses[N];
  int flag = 0, index, done, indices[N];
  meet();
  for (int k = 0; k < N; ++k) {
    data[i][k] = 1000 * me + 100 * i + k;
    got[i][k] = -1;
  }
  for (int k = 0; k < N / 2; ++k) {
    CALLC(MPI_Irecv, &got[i][k], 1, MPI_INT, k % 2 ? other : MPI_ANY_SOURCE, 100 * i + k, MPI_COMM_WORLD,
          &handed[i][k]);
    CALLC(MPI_Isend, &data[i][k], 1, MPI_INT, other, 100 * i + k, MPI_COMM_WORLD, &handed[i][N / 2 + k]);
  }
  meet();
  note("way %d, those of thread %d", way, next);
  poison_statuses(statuses, N);
  switch (way) {
    case 0:
      CALL(MPI_Waitall, N, handed[next], statuses);
      break;
    case 1:
      for (int k = N - 1; k >= 0; --k) CALL(MPI_Wait, &handed[next][k], &statuses[k]);
      break;
    case 2:
      while (!flag) POLL(MPI_Testall, N, handed[next], &flag, statuses);
      break;
    case 3:
      for (int k = 0; k < N; ++k) {
        MPI_Status one;
        poison_statuses(&one, 1);
        POLL(MPI_Waitany, N, handed[next], &index, &one);
        statuses[index] = one;
      }
      break;
    case 4:
      for (int total = 0; total < N; total += done) {
        MPI_Status some[N];
        poison_statuses(some, N);
        POLL(MPI_Waitsome, N, handed[next], &done, indices, some);
        for (int k = 0; k < done; ++k) statuses[indices[k]] = some[k];
      }
      break;
    default:
      for (int k = 0; k < N; k += flag) POLL(MPI_Test, &handed[next][k], &flag, &statuses[k]);
  }
  note_statuses("status", statuses, N / 2, MPI_INT);
  note_requests(handed[next], N);
  note_ints("got", got[next], N / 2);
  meet();
}

/* Persistent requests that one makes, another starts, a third completes and a fourth frees. */
static void passed_around(void) {
  const int i = thread, other = 1 - me;
  MPI_Status status;
  for (int k = 0; k < 2; ++k) data[i][k] = 10 * i + me;
  CALLC(MPI_Send_init, data[i], 1, MPI_INT, other, 900 + i, own[i], &handed[i][0]);
  CALLC(MPI_Recv_init, got[i], 1, MPI_INT, other, 900 + i, own[i], &handed[i][1]);
  for (int again = 0; again < 3; ++again) {
    meet();
    CALL(MPI_Startall, 2, handed[(i + 1) % CREW]);
    meet();
    poison_statuses(&status, 1);
    CALL(MPI_Wait, &handed[(i + 2) % CREW][1], &status);
    note_status("status", &status, MPI_INT);
    CALL(MPI_Wait, &handed[(i + 2) % CREW][0], MPI_STATUS_IGNORE);
    note_ints("got", got[(i + 2) % CREW], 1);
  }
  meet();
  for (int k = 0; k < 2; ++k) CALL(MPI_Request_free, &handed[(i + 3) % CREW][k]);
}

/* Everything at once on the communicator of each, and messages of all on one. */
static void at_once(void) {
  MPI_Comm copy;
  MPI_Request requests[3];
  int value = me + thread, sum = 0, all[2] = {0, 0};
  meet();
  for (int round = 0; round < 20; ++round) {
    POLLC(MPI_Allreduce, &value, &sum, 1, MPI_INT, MPI_SUM, own[thread]);
    POLLC(MPI_Bcast, &value, 1, MPI_INT, round % 2, own[thread]);
    POLLC(MPI_Sendrecv, &value, 1, MPI_INT, 1 - me, 50 + thread, &all[0], 1, MPI_INT, 1 - me, 50 + thread,
          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    POLLC(MPI_Iallreduce, &value, &sum, 1, MPI_INT, MPI_MAX, own[thread], &requests[0]);
    POLL(MPI_Ibarrier, own[thread], &requests[1]);
    POLLC(MPI_Iallgather, &value, 1, MPI_INT, all, 1, MPI_INT, own[thread], &requests[2]);
    POLL(MPI_Waitall, 3, requests, MPI_STATUSES_IGNORE);
    value = (sum * 3 + all[1]) % 1009;
  }
  note("at once: %d", value);
  /* One after the other: Open MPI 4.1.4 may hang when two threads make communicators. */
  for (int turn = 0; turn < CREW; ++turn) {
    meet();
    if (turn != thread) continue;
    CALL(MPI_Comm_dup, own[thread], &copy);
    CALL(MPI_Comm_free, &copy);
  }
  meet();
}

/* A collective on the communicator of all, posted by one thread and completed by another. */
static void collectives_handed_over(void) {
  MPI_Status status;
  int* const sum = got[0];
  for (int turn = 0; turn < CREW; ++turn) {
    meet();
    if (thread == turn) {
      data[0][0] = me + turn;
      CALLC(MPI_Iallreduce, data[0], sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &handed[0][0]);
      CALL(MPI_Ibarrier, MPI_COMM_WORLD, &handed[0][1]);
    }
    meet();
    if (thread == (turn + 1) % CREW) {
      poison_statuses(&status, 1);
      CALL(MPI_Wait, &handed[0][0], &status);
      note_collective_status("status", &status);
      note("  sum %d", *sum);
    }
    if (thread == (turn + 2) % CREW) CALL(MPI_Wait, &handed[0][1], MPI_STATUS_IGNORE);
  }
  meet();
}

static void* crew(void* number) {
  open_transcript((int)(intptr_t)number);
  me = my_rank;
  world = own[thread];
  for (int way = 0; way < 6; ++way) handed_over(way);
  passed_around();
  at_once();
  collectives_handed_over();
  fclose(out);
  out = NULL;
  return NULL;
}

/* Comes, makes a few calls and goes. */
static void* short_lived(void* number) {
  const int tag = 2000 + (int)(intptr_t)number;
  int value = my_rank, from = -1;
  MPI_Request request;
  me = my_rank;
  POLLC(MPI_Irecv, &from, 1, MPI_INT, 1 - me, tag, MPI_COMM_WORLD, &request);
  POLLC(MPI_Send, &value, 1, MPI_INT, 1 - me, tag, MPI_COMM_WORLD);
  POLL(MPI_Wait, &request, MPI_STATUS_IGNORE);
  return (void*)(intptr_t)(from != 1 - me);
}

static void run(void* (*task)(void*), int first) {
  pthread_t threads_[CREW];
  void* wrong;
  for (int i = 0; i < CREW; ++i) pthread_create(&threads_[i], NULL, task, (void*)(intptr_t)(first + i));
  for (int i = 0; i < CREW; ++i) {
    pthread_join(threads_[i], &wrong);
    if (wrong) fprintf(stderr, "a short-lived thread got something else\n");
  }
}

int main(int argc, char** argv) {
  int provided = 0;
  POLL(MPI_Init_thread, &argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) return fprintf(stderr, "no MPI_THREAD_MULTIPLE here\n"), 77;
  PMPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  for (int i = 0; i < CREW; ++i) POLL(MPI_Comm_dup, MPI_COMM_WORLD, &own[i]);
  pthread_barrier_init(&step, NULL, CREW);
  run(crew, 0);
  for (int again = 0; again < 10; ++again) run(short_lived, CREW * again);
  for (int i = 0; i < CREW; ++i) POLL(MPI_Comm_free, &own[i]);
  count_call("MPI_Finalize");
  write_calls();
  return MPI_Finalize();
}
