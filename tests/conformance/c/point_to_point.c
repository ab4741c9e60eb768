/* Messages: every mode of sending, blocking and not, to every rank and to oneself, wildcards, MPI_PROC_NULL, nothing,
 * too much, statuses asked for and not. conformance: ranks=3/2 threads=yes */
#include "support/transcript.h"

#define N 10
#define LARGE 50000 /* beyond the eager limit */

enum Mode { kStandard, kBuffered, kSynchronous, kReady, kModes };
static const char* const kModeNames[kModes] = {"standard", "buffered", "synchronous", "ready"};

static __thread int* data;
static __thread int* got;

static void fill(int n) {
  for (int i = 0; i < n; ++i) data[i] = me * 100000 + i;
  memset(got, 0xa5, (size_t)n * sizeof(int));
}

static void blocking_send(enum Mode mode, int n, int to, int tag) {
  switch (mode) {
    case kStandard:
      CALLC(MPI_Send, data, n, MPI_INT, to, tag, world);
      break;
    case kBuffered:
      CALLC(MPI_Bsend, data, n, MPI_INT, to, tag, world);
      break;
    case kSynchronous:
      CALLC(MPI_Ssend, data, n, MPI_INT, to, tag, world);
      break;
    default:
      CALLC(MPI_Rsend, data, n, MPI_INT, to, tag, world);
  }
}

static void immediate_send(enum Mode mode, int n, int to, int tag, MPI_Request* request) {
  switch (mode) {
    case kStandard:
      CALLC(MPI_Isend, data, n, MPI_INT, to, tag, world, request);
      break;
    case kBuffered:
      CALLC(MPI_Ibsend, data, n, MPI_INT, to, tag, world, request);
      break;
    case kSynchronous:
      CALLC(MPI_Issend, data, n, MPI_INT, to, tag, world, request);
      break;
    default:
      CALLC(MPI_Irsend, data, n, MPI_INT, to, tag, world, request);
  }
}

/* Everybody's receive is posted before anybody sends, as the ready mode demands. */
static void around(enum Mode mode, int immediate, int distance, int n, int from, int tag) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status statuses[2];
  const int to = (me + distance) % size;
  fill(n);
  poison_statuses(statuses, 2);
  CALLC(MPI_Irecv, got, n, MPI_INT, from, tag < 0 ? MPI_ANY_TAG : tag, world, &requests[0]);
  CALL(MPI_Barrier, world);
  if (immediate) {
    immediate_send(mode, n, to, 17, &requests[1]);
  } else {
    blocking_send(mode, n, to, 17);
  }
  CALL(MPI_Waitall, 2, requests, statuses);
  note_statuses("status", statuses, 2, MPI_INT);
  note_requests(requests, 2);
  note_bytes("got", got, (size_t)n * sizeof(int));
}

static void modes(void) {
  for (int mode = 0; mode < kModes; ++mode) {
    if (mode == kBuffered && thread) continue; /* the buffer is the process's */
    for (int immediate = 0; immediate < 2; ++immediate) {
      note("== %s%s", immediate ? "immediate " : "", kModeNames[mode]);
      for (int distance = 0; distance < size; ++distance) {
        if (distance == 0 && !immediate && mode == kSynchronous) note("to myself, received already");
        around(mode, immediate, distance, N, (me + size - distance) % size, 17);
      }
      around(mode, immediate, 1, N, MPI_ANY_SOURCE, -1);
      around(mode, immediate, 1, 0, MPI_ANY_SOURCE, 17);
      around(mode, immediate, 1, LARGE, (me + size - 1) % size, -1);
    }
  }
}

/* One sender at a time, blocking receives; the status in each way it can be asked for. */
static void receives(void) {
  MPI_Status status;
  for (int sender = 0; sender < size; ++sender) {
    note("== from %d", sender);
    for (int variant = 0; variant < 4; ++variant) {
      const int n = variant == 3 ? LARGE : N - variant;
      fill(LARGE);
      poison_statuses(&status, 1);
      if (me == sender) {
        for (int to = 0; to < size; ++to) {
          if (to != me) blocking_send(variant == 1 ? kSynchronous : kStandard, n, to, 40 + variant);
        }
      } else if (variant == 0) {
        CALLC(MPI_Recv, got, LARGE, MPI_INT, sender, 40, world, MPI_STATUS_IGNORE);
      } else {
        CALLC(MPI_Recv, got, LARGE, MPI_INT, variant == 1 ? MPI_ANY_SOURCE : sender,
              variant == 2 ? MPI_ANY_TAG : 40 + variant, world, &status);
        note_status("status", &status, MPI_INT);
        note_status("as doubles", &status, MPI_DOUBLE);
      }
      note_bytes("got", got, LARGE * sizeof(int));
      CALL(MPI_Barrier, world);
    }
  }
}

static void sendrecv(void) {
  const int next = (me + 1) % size, previous = (me + size - 1) % size;
  MPI_Status status;
  note("== sendrecv");
  for (int variant = 0; variant < 5; ++variant) {
    const int n = variant == 2 ? LARGE : variant == 3 ? 0 : N;
    fill(LARGE);
    poison_statuses(&status, 1);
    CALLC(MPI_Sendrecv, data, n, MPI_INT, variant == 4 ? MPI_PROC_NULL : next, 5, got, LARGE, MPI_INT,
          variant == 4 ? MPI_PROC_NULL
          : variant    ? MPI_ANY_SOURCE
                       : previous,
          variant ? MPI_ANY_TAG : 5, world, variant == 1 ? MPI_STATUS_IGNORE : &status);
    note_status("status", &status, MPI_INT);
    note_bytes("got", got, LARGE * sizeof(int));
    CALL(MPI_Barrier, world);
    fill(LARGE);
    poison_statuses(&status, 1);
    CALLC(MPI_Sendrecv_replace, data, n, MPI_INT, variant == 4 ? MPI_PROC_NULL : next, 6,
          variant == 4 ? MPI_PROC_NULL : previous, 6, world, variant == 1 ? MPI_STATUS_IGNORE : &status);
    note_status("status", &status, MPI_INT);
    note_bytes("data", data, LARGE * sizeof(int));
    CALL(MPI_Barrier, world);
  }
}

static void nobody(void) {
  MPI_Request requests[2];
  MPI_Status status;
  note("== nobody");
  fill(N);
  for (int mode = 0; mode < kModes; ++mode) {
    blocking_send(mode, N, MPI_PROC_NULL, 1);
    immediate_send(mode, N, MPI_PROC_NULL, 1, &requests[0]);
    wait_and_note(&requests[0], MPI_INT);
  }
  poison_statuses(&status, 1);
  CALLC(MPI_Recv, got, N, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, world, &status);
  note_status("status", &status, MPI_INT);
  CALLC(MPI_Recv, got, N, MPI_INT, MPI_PROC_NULL, 3, world, MPI_STATUS_IGNORE);
  CALLC(MPI_Irecv, got, N, MPI_INT, MPI_PROC_NULL, 3, world, &requests[1]);
  wait_and_note(&requests[1], MPI_INT);
  note_bytes("got", got, N * sizeof(int));
}

/* Messages that are longer than their buffer, in every place where that can be noticed. */
static void too_much(void) {
  MPI_Request requests[3];
  MPI_Status statuses[3];
  const int next = (me + 1) % size, previous = (me + size - 1) % size;
  note("== too much");
  for (int variant = 0; variant < 6; ++variant) {
    /* Open MPI 4.1.4 never returns from MPI_Waitall under MPI_THREAD_MULTIPLE when a request has failed before. */
    if (threads > 1 && (variant == 3 || variant == 4)) continue;
    note("variant %d", variant);
    fill(N);
    poison_statuses(statuses, 3);
    if (variant < 2) {
      /* Blocking: one rank sends, the next receives. */
      if (me == 0) blocking_send(kStandard, N, 1, 7);
      if (me == 1) {
        const int code = CALLC(MPI_Recv, got, N / 2, MPI_INT, 0, 7, world, variant ? MPI_STATUS_IGNORE : statuses);
        if (variant == 0) forget_truncated_count(statuses, code);
      }
      note_status("status", statuses, MPI_INT);
    } else {
      CALLC(MPI_Irecv, got, N / 2, MPI_INT, previous, 7, world, &requests[0]);
      CALLC(MPI_Irecv, got + N / 2, N / 2, MPI_INT, previous, 8, world, &requests[1]);
      CALLC(MPI_Isend, data, N, MPI_INT, next, 7, world, &requests[2]);
      blocking_send(kStandard, N / 2, next, 8);
      /* What MPI_Waitall says about the others when one fails depends on whether they are complete. */
      for (int i = 0, flag = 0; i < 3; i += flag) POLL(MPI_Request_get_status, requests[i], &flag, MPI_STATUS_IGNORE);
      if (variant == 2) {
        for (int i = 0; i < 3; ++i) CALL(MPI_Wait, &requests[i], &statuses[i]);
      } else if (variant < 5) {
        CALL(MPI_Waitall, 3, requests, variant == 4 ? MPI_STATUSES_IGNORE : statuses);
      } else {
        for (int i = 0; i < 3; ++i) CALL(MPI_Wait, &requests[i], MPI_STATUS_IGNORE);
      }
      forget_truncated_count(&statuses[0], MPI_ERR_TRUNCATE);
      note_statuses("status", statuses, 3, MPI_INT);
      note_requests(requests, 3);
    }
    note_bytes("got", got, N / 2 * sizeof(int));
    CALL(MPI_Barrier, world);
  }
  fill(N);
  poison_statuses(statuses, 1);
  const int code = CALLC(MPI_Sendrecv, data, N, MPI_INT, next, 9, got, N / 2, MPI_INT, previous, 9, world, statuses);
  forget_truncated_count(statuses, code);
  note_status("status", statuses, MPI_INT);
}

/* Isendrecv came with MPI 4. Its statuses in MPICH 4.0 are those of anything. */
static void immediate_sendrecv(void) {
#ifdef HAS_MPI4
  const int next = (me + 1) % size, previous = (me + size - 1) % size;
  MPI_Request request;
  note("== immediate sendrecv");
  for (int variant = 0; variant < 2; ++variant) { /* MPICH 4.0 crashes if it is with MPI_PROC_NULL */
    const int n = variant == 1 ? LARGE : N;
    fill(LARGE);
    CALLC(MPI_Isendrecv, data, n, MPI_INT, variant == 2 ? MPI_PROC_NULL : next, 5, got, LARGE, MPI_INT,
          variant == 2 ? MPI_PROC_NULL : previous, 5, world, &request);
    wait_for_collective(&request);
    note_bytes("got", got, LARGE * sizeof(int));
    CALLC(MPI_Isendrecv_replace, data, n, MPI_INT, next, 6, previous, 6, world, &request);
    wait_for_collective(&request);
    note_bytes("data", data, LARGE * sizeof(int));
  }
#endif
}

static void body(void) {
  void* detached = NULL;
  Count bytes = 0;
  const int room = 8 * (LARGE * (int)sizeof(int) + MPI_BSEND_OVERHEAD);
  void* buffer = malloc((size_t)room);
  data = malloc(LARGE * sizeof(int));
  got = malloc(LARGE * sizeof(int));
  if (thread == 0) CALLC(MPI_Buffer_attach, buffer, room);
  modes();
  receives();
  sendrecv();
  if (thread == 0) {
    nobody();
    too_much();
    CALLC(MPI_Buffer_detach, &detached, &bytes);
    note("  detached %s, %lld bytes", detached == buffer ? "what was attached" : "something else", (long long)bytes);
  }
  immediate_sendrecv();
  free(buffer);
  free(data);
  free(got);
}

int main(int argc, char** argv) {
  rounds = 2;
  return conformance(&argc, &argv, body);
}
