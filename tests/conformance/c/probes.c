/* Probes, matched and not, that find and that do not, and the receives of what they matched.
 * conformance: ranks=2 threads=yes */
#include "support/transcript.h"

#define N 12
#define LARGE 40000

static __thread int data[LARGE], got[LARGE];

static void next_message(int n, int tag) {
  for (int i = 0; i < n; ++i) data[i] = me * 1000 + tag * 10 + i;
  POISON(got);
  if (me == 0) CALLC(MPI_Send, data, n, MPI_INT, 1, tag, world);
}

/* Sends nothing more before this one was received: which message a wildcard finds must not depend on time. */
static void received(void) {
  note_bytes("got", got, N * sizeof(int));
  CALL(MPI_Barrier, world);
}

static void probe(int source, int tag, int ignore, int n) {
  MPI_Status status;
  poison_statuses(&status, 1);
  next_message(n, 3);
  if (me == 1) {
    CALL(MPI_Probe, source, tag, world, ignore ? MPI_STATUS_IGNORE : &status);
    note_status("probed", &status, MPI_INT);
    CALL(MPI_Probe, source, tag, world, &status); /* it is still there */
    note_status("probed", &status, MPI_INT);
    CALLC(MPI_Recv, got, LARGE, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, world, MPI_STATUS_IGNORE);
  }
  received();
}

static void iprobe(int source, int tag, int ignore, int n) {
  MPI_Status status;
  int flag = 0;
  poison_statuses(&status, 1);
  next_message(n, 4);
  if (me == 1) {
    while (!flag) POLL(MPI_Iprobe, source, tag, world, &flag, ignore ? MPI_STATUS_IGNORE : &status);
    note_status("probed", &status, MPI_INT);
    CALL(MPI_Iprobe, source, 99, world, &flag, &status);
    note("  flag %d", flag);
    CALLC(MPI_Recv, got, LARGE, MPI_INT, MPI_ANY_SOURCE, 4, world, MPI_STATUS_IGNORE);
  }
  received();
}

static void receive_matched(MPI_Message* message, int room, int immediate, int ignore) {
  MPI_Status status;
  MPI_Request request;
  poison_statuses(&status, 1);
  int code;
  if (immediate) {
    CALLC(MPI_Imrecv, got, room, MPI_INT, message, &request);
    code = CALL(MPI_Wait, &request, ignore ? MPI_STATUS_IGNORE : &status);
    note_requests(&request, 1);
  } else {
    code = CALLC(MPI_Mrecv, got, room, MPI_INT, message, ignore ? MPI_STATUS_IGNORE : &status);
  }
  forget_truncated_count(&status, code);
  note_status("received", &status, MPI_INT);
  note("  message %s", *message == MPI_MESSAGE_NULL ? "null" : *message == MPI_MESSAGE_NO_PROC ? "no proc" : "set");
}

static void mprobe(int source, int tag, int n, int room, int immediate, int ignore) {
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = 0;
  poison_statuses(&status, 1);
  note("matched: %d of %d, immediate %d", n, room, immediate);
  next_message(n, 5);
  if (me == 1) {
    if (immediate) {
      while (!flag) POLL(MPI_Improbe, source, tag, world, &flag, &message, ignore ? MPI_STATUS_IGNORE : &status);
    } else {
      CALL(MPI_Mprobe, source, tag, world, &message, ignore ? MPI_STATUS_IGNORE : &status);
    }
    note_status("probed", &status, MPI_INT);
    CALL(MPI_Iprobe, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, MPI_STATUS_IGNORE); /* it is gone */
    note("  another %d", flag);
    receive_matched(&message, room, immediate, ignore);
  }
  received();
}

static void nobody(void) {
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = 0;
  POISON(got);
  note("nobody");
  poison_statuses(&status, 1);
  CALL(MPI_Probe, MPI_PROC_NULL, 3, world, &status);
  note_status("probed", &status, MPI_INT);
  poison_statuses(&status, 1);
  CALL(MPI_Iprobe, MPI_PROC_NULL, 3, world, &flag, &status);
  note("  flag %d", flag);
  note_status("probed", &status, MPI_INT);
  for (int immediate = 0; immediate < 2; ++immediate) {
    poison_statuses(&status, 1);
    if (immediate) {
      CALL(MPI_Improbe, MPI_PROC_NULL, MPI_ANY_TAG, world, &flag, &message, &status);
    } else {
      CALL(MPI_Mprobe, MPI_PROC_NULL, MPI_ANY_TAG, world, &message, &status);
    }
    note_status("probed", &status, MPI_INT);
    note("  message %s", message == MPI_MESSAGE_NO_PROC ? "no proc" : "another");
    receive_matched(&message, N, immediate, 0);
  }
  /* Nothing is there. */
  CALL(MPI_Barrier, world);
  poison_statuses(&status, 1);
  CALL(MPI_Iprobe, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &status);
  note("  flag %d", flag);
  note_status("untouched", &status, MPI_INT);
  CALL(MPI_Improbe, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &message, &status);
  note("  flag %d", flag);
  note_status("untouched", &status, MPI_INT);
}

static void body(void) {
  for (int ignore = 0; ignore < 2; ++ignore) {
    for (int wild = 0; wild < 2; ++wild) {
      for (int large = 0; large < 2; ++large) {
        const int n = large ? LARGE : N, source = wild ? MPI_ANY_SOURCE : 0;
        note("== ignore %d wildcards %d large %d", ignore, wild, large);
        if (!ignore) probe(source, wild ? MPI_ANY_TAG : 3, ignore, n);
        iprobe(source, wild ? MPI_ANY_TAG : 4, ignore, n);
        for (int immediate = 0; immediate < 2; ++immediate) {
          mprobe(source, wild ? MPI_ANY_TAG : 5, n, LARGE, immediate, ignore);
          mprobe(source, wild ? MPI_ANY_TAG : 5, 0, LARGE, immediate, ignore);
          mprobe(source, wild ? MPI_ANY_TAG : 5, N, N / 2, immediate, ignore); /* too much */
        }
      }
    }
  }
  probe(MPI_ANY_SOURCE, MPI_ANY_TAG, 0, 0);
  nobody();
}

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
