/* Every way to complete requests, one completion at a time so that it is known which: null, empty, mixed
 * lists, statuses wanted and not; asked for without completing; cancelled; freed; generalized. conformance:
 * ranks=2 threads=yes */
#include "support/transcript.h"

#define N 6

static __thread int data[N], got[N];
static __thread MPI_Request requests[N];
static __thread MPI_Status statuses[N];

static void nothing(void) {
  int index, flag, done, indices[N];
  note("== no requests");
  for (int count = 0; count <= 3; count += 3) {
    note("-- %d null ones", count);
    for (int i = 0; i < N; ++i) requests[i] = MPI_REQUEST_NULL;
    for (int ignore = 0; ignore < 2; ++ignore) {
      MPI_Status* const one = ignore ? MPI_STATUS_IGNORE : statuses;
      MPI_Status* const all = ignore ? MPI_STATUSES_IGNORE : statuses;
      poison_statuses(statuses, N);
      if (count) CALL(MPI_Wait, requests, one);
      note_statuses("wait", statuses, 1, MPI_INT);
      poison_statuses(statuses, N);
      flag = UNTOUCHED;
      if (count) CALL(MPI_Test, requests, &flag, one);
      note("  flag %d", flag);
      note_statuses("test", statuses, 1, MPI_INT);
      poison_statuses(statuses, N);
      flag = UNTOUCHED;
      if (count) CALL(MPI_Request_get_status, requests[0], &flag, one);
      note("  flag %d", flag);
      note_statuses("get status", statuses, 1, MPI_INT);
      poison_statuses(statuses, N);
      index = UNTOUCHED;
      CALL(MPI_Waitany, count, requests, &index, one);
      note("  index %s", index == MPI_UNDEFINED ? "undefined" : "defined");
      note_statuses("waitany", statuses, 1, MPI_INT);
      poison_statuses(statuses, N);
      index = flag = UNTOUCHED;
      CALL(MPI_Testany, count, requests, &index, &flag, one);
      note("  index %s flag %d", index == MPI_UNDEFINED ? "undefined" : "defined", flag);
      note_statuses("testany", statuses, 1, MPI_INT);
      poison_statuses(statuses, N);
      CALL(MPI_Waitall, count, requests, all);
      note_statuses("waitall", statuses, 4, MPI_INT);
      poison_statuses(statuses, N);
      flag = UNTOUCHED;
      CALL(MPI_Testall, count, requests, &flag, all);
      note("  flag %d", flag);
      note_statuses("testall", statuses, 4, MPI_INT);
      poison_statuses(statuses, N);
      done = UNTOUCHED;
      CALL(MPI_Waitsome, count, requests, &done, indices, all);
      note("  outcount %s", done == MPI_UNDEFINED ? "undefined" : "defined");
      note_statuses("waitsome", statuses, 4, MPI_INT);
      done = UNTOUCHED;
      CALL(MPI_Testsome, count, requests, &done, indices, all);
      note("  outcount %s", done == MPI_UNDEFINED ? "undefined" : "defined");
      note_statuses("testsome", statuses, 4, MPI_INT);
    }
  }
}

enum Way { kWait, kTest, kWaitany, kTestany, kWaitsome, kTestsome, kGetStatus, kWays };

/* Rank 1 has receives for tags 0..N-1 posted, without one in the middle; rank 0 sends one of them when it is told
 * to. */
static void one_by_one(enum Way way, int ignore) {
  static const int kOrder[] = {3, 0, 5, 1, 4};
  enum { kHole = 2, kSent = sizeof kOrder / sizeof *kOrder };
  note("== way %d, ignore %d", way, ignore);
  for (int i = 0; i < N; ++i) {
    data[i] = 100 * (i + 1) + way;
    requests[i] = MPI_REQUEST_NULL;
  }
  POISON(got);
  if (me == 0) {
    for (int k = 0; k < kSent; ++k) {
      CALLC(MPI_Recv, NULL, 0, MPI_INT, 1, 50, world, MPI_STATUS_IGNORE);
      CALLC(MPI_Send, &data[kOrder[k]], 1, MPI_INT, 1, kOrder[k], world);
    }
    return;
  }
  for (int i = 0; i < N; ++i) {
    if (i != kHole) CALLC(MPI_Irecv, &got[i], 1, MPI_INT, i % 2 ? 0 : MPI_ANY_SOURCE, i, world, &requests[i]);
  }
  int flag = UNTOUCHED, index = UNTOUCHED, done = UNTOUCHED, indices[N];
  poison_statuses(statuses, N);
  CALL(MPI_Testany, N, requests, &index, &flag, &statuses[0]);
  note("  nothing yet: index %s flag %d", index == MPI_UNDEFINED ? "undefined" : "defined", flag);
  CALL(MPI_Testall, N, requests, &flag, statuses);
  note("  flag %d", flag);
  CALL(MPI_Testsome, N, requests, &done, indices, statuses);
  note("  outcount %d", done);
  CALL(MPI_Test, &requests[0], &flag, &statuses[0]);
  note("  flag %d", flag);
  CALL(MPI_Request_get_status, requests[0], &flag, &statuses[0]);
  note("  flag %d", flag);
  note_statuses("untouched", statuses, 1, MPI_INT);
  for (int k = 0; k < kSent; ++k) {
    MPI_Status* const one = ignore ? MPI_STATUS_IGNORE : &statuses[k];
    MPI_Status* const all = ignore ? MPI_STATUSES_IGNORE : &statuses[k];
    POISON(indices);
    CALLC(MPI_Send, NULL, 0, MPI_INT, 0, 50, world);
    flag = done = 0;
    index = UNTOUCHED;
    switch (way) {
      case kWait:
        CALL(MPI_Wait, &requests[kOrder[k]], one);
        break;
      case kTest:
        while (!flag) POLL(MPI_Test, &requests[kOrder[k]], &flag, one);
        break;
      case kWaitany:
        CALL(MPI_Waitany, N, requests, &index, one);
        break;
      case kTestany:
        while (!flag) POLL(MPI_Testany, N, requests, &index, &flag, one);
        break;
      case kWaitsome:
        CALL(MPI_Waitsome, N, requests, &done, indices, all);
        index = indices[0];
        break;
      case kTestsome:
        while (!done) POLL(MPI_Testsome, N, requests, &done, indices, all);
        index = indices[0];
        break;
      default:
        while (!flag) POLL(MPI_Request_get_status, requests[kOrder[k]], &flag, one);
        note_requests(requests, N); /* it is complete and stays */
        CALL(MPI_Request_get_status, requests[kOrder[k]], &flag, one);
        CALL(MPI_Test, &requests[kOrder[k]], &flag, one);
    }
    note("  flag %d index %d outcount %d", flag, index, done);
    note_requests(requests, N);
  }
  note_statuses("status", statuses, N, MPI_INT);
  DATA(got);
}

static void cancelled_and_freed(void) {
  note("== cancelled");
  POISON(got);
  for (int variant = 0; variant < 3; ++variant) {
    poison_statuses(statuses, N);
    for (int i = 0; i < 3; ++i) CALLC(MPI_Irecv, &got[i], 1, MPI_INT, 1 - me, 70 + i, world, &requests[i]);
    CALL(MPI_Barrier, world);
    CALLC(MPI_Send, &data[1], 1, MPI_INT, 1 - me, 71, world);
    CALL(MPI_Cancel, &requests[0]);
    CALL(MPI_Cancel, &requests[2]);
    if (variant == 0) {
      CALL(MPI_Waitall, 3, requests, statuses);
    } else if (variant == 1) {
      for (int i = 0; i < 3; ++i) CALL(MPI_Wait, &requests[i], &statuses[i]);
    } else {
      CALL(MPI_Waitall, 3, requests, MPI_STATUSES_IGNORE);
    }
    note_statuses("status", statuses, 3, MPI_INT);
    note_requests(requests, 3);
    DATA(got);
    CALL(MPI_Barrier, world);
  }
  note("== freed");
  for (int i = 0; i < N; ++i) {
    data[i] = 1000 * me + i;
    CALLC(MPI_Isend, &data[i], 1, MPI_INT, 1 - me, 80 + i, world, &requests[i]);
    CALL(MPI_Request_free, &requests[i]);
  }
  note_requests(requests, N);
  for (int i = N - 1; i >= 0; --i) CALLC(MPI_Recv, &got[i], 1, MPI_INT, 1 - me, 80 + i, world, MPI_STATUS_IGNORE);
  DATA(got);
}

static int query(void* extra, MPI_Status* status) {
  note("  query %d", *(int*)extra);
  PMPI_Status_set_elements(status, MPI_INT, *(int*)extra);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = *(int*)extra + 1;
  status->MPI_TAG = *(int*)extra + 2;
  return MPI_SUCCESS;
}
static int freed(void* extra) {
  note("  free %d", *(int*)extra);
  return MPI_SUCCESS;
}
static int cancel(void* extra, int complete) {
  note("  cancel %d, complete %d", *(int*)extra, complete);
  return MPI_SUCCESS;
}

static void generalized(void) {
  int extra[N], flag = UNTOUCHED, index, done, indices[N];
  for (int way = 0; way < 8; ++way) {
    note("== generalized, way %d", way);
    poison_statuses(statuses, N);
    for (int i = 0; i < 2; ++i) {
      extra[i] = 10 * (i + 1);
      CALL(MPI_Grequest_start, query, freed, cancel, &extra[i], &requests[i]);
    }
    CALL(MPI_Testall, 2, requests, &flag, statuses);
    note("  flag %d", flag);
    CALL(MPI_Cancel, &requests[0]);
    CALL(MPI_Grequest_complete, requests[1]);
    CALL(MPI_Cancel, &requests[1]);
    if (way == 2) CALL(MPI_Waitany, 2, requests, &index, &statuses[1]);
    if (way == 3) CALL(MPI_Testany, 2, requests, &index, &flag, &statuses[1]);
    if (way == 4) CALL(MPI_Waitsome, 2, requests, &done, indices, &statuses[1]);
    if (way == 5) CALL(MPI_Testsome, 2, requests, &done, indices, &statuses[1]);
    if (way == 6) CALL(MPI_Request_get_status, requests[1], &flag, &statuses[1]);
    note_requests(requests, 2);
    CALL(MPI_Grequest_complete, requests[0]);
    if (way == 0) {
      CALL(MPI_Waitall, 2, requests, statuses);
    } else if (way == 1) {
      CALL(MPI_Testall, 2, requests, &flag, statuses);
    } else if (way == 7) {
      CALL(MPI_Request_free, &requests[0]);
      CALL(MPI_Request_free, &requests[1]);
    } else {
      CALL(MPI_Wait, &requests[0], &statuses[0]);
      CALL(MPI_Test, &requests[1], &flag, way == 6 ? MPI_STATUS_IGNORE : &statuses[2]);
    }
    note_statuses("status", statuses, 3, MPI_INT);
    note_requests(requests, 2);
  }
}

static void body(void) {
  nothing();
  for (int way = 0; way < kWays; ++way) {
    for (int ignore = 0; ignore < 2; ++ignore) one_by_one((enum Way)way, ignore);
  }
  cancelled_and_freed();
  generalized();
}

int main(int argc, char** argv) {
  rounds = 2;
  return conformance(&argc, &argv, body);
}
