/* One-sided communication with passive targets: locks, flushes, atomic operations, operations with requests.
 * conformance: ranks=3/2 threads=yes */
#include "support/windows.h"

static __thread int out_data[SLOTS], in_data[SLOTS], result[SLOTS];

static void prepare(int seed) {
  for (int i = 0; i < SLOTS; ++i) out_data[i] = seed * 10000 + me * 1000 + i;
  POISON(in_data);
  POISON(result);
}

static void show(const char* what, Window* w) {
  CALL(MPI_Barrier, world);
  CALL(MPI_Win_lock, MPI_LOCK_SHARED, me, 0, w->win);
  note("-- %s", what);
  note_bytes("got", in_data, sizeof in_data);
  note_bytes("result", result, sizeof result);
  note_bytes("memory", w->memory, SLOTS * sizeof(int));
  CALL(MPI_Win_unlock, me, w->win);
  CALL(MPI_Barrier, world);
}

/* One rank after the other: what is fetched depends on who was there before. */
#define IN_TURN for (int turn = 0; turn < size; CALL(MPI_Barrier, world), ++turn)

static void locks(Window* w) {
  prepare(1);
  for (int target = 0; target < size; ++target) {
    CALL(MPI_Win_lock, target % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, w->win);
    CALLC(MPI_Put, out_data + target, 3, MPI_INT, target, place(w, target, 3 * me), 3, MPI_INT, w->win);
    CALL(MPI_Win_unlock, target, w->win);
  }
  show("locks", w);
  IN_TURN {
    if (turn != me) continue;
    CALL(MPI_Win_lock, MPI_LOCK_EXCLUSIVE, 0, MPI_MODE_NOCHECK, w->win);
    CALLC(MPI_Get, in_data, 6, MPI_INT, 0, place(w, 0, 0), 6, MPI_INT, w->win);
    CALL(MPI_Win_flush, 0, w->win);
    note_bytes("flushed", in_data, sizeof in_data);
    CALLC(MPI_Accumulate, out_data, 6, MPI_INT, 0, place(w, 0, 12), 6, MPI_INT, MPI_SUM, w->win);
    CALL(MPI_Win_flush_local, 0, w->win);
    out_data[0] = -1; /* may be used again */
    CALL(MPI_Win_unlock, 0, w->win);
  }
  show("flushes", w);
}

static void atomics(Window* w) {
  const int to = (me + 1) % size;
  prepare(2);
  clear(w);
  CALL(MPI_Barrier, world);
  CALL(MPI_Win_lock_all, 0, w->win);
  IN_TURN {
    if (turn != me) continue;
    CALLC(MPI_Get_accumulate, out_data, 4, MPI_INT, in_data, 4, MPI_INT, 0, place(w, 0, 0), 4, MPI_INT, MPI_SUM,
          w->win);
    CALLC(MPI_Get_accumulate, NULL, 0, MPI_INT, result, 4, MPI_INT, 0, place(w, 0, 4), 4, MPI_INT, MPI_NO_OP, w->win);
    CALL(MPI_Win_flush_all, w->win);
    CALL(MPI_Fetch_and_op, &out_data[6], &in_data[6], MPI_INT, 0, place(w, 0, 8), MPI_REPLACE, w->win);
    CALL(MPI_Win_flush, 0, w->win);
    CALL(MPI_Fetch_and_op, &out_data[7], &in_data[7], MPI_INT, 0, place(w, 0, 8), MPI_MAX, w->win);
    CALL(MPI_Win_flush, 0, w->win);
    int compare = me ? out_data[6] : -8; /* the first one succeeds */
    CALL(MPI_Compare_and_swap, &out_data[8], &compare, &in_data[8], MPI_INT, 0, place(w, 0, 8), w->win);
    CALL(MPI_Win_flush_local_all, w->win);
    CALL(MPI_Win_flush_all, w->win);
    note_bytes("in turn", in_data, sizeof in_data);
  }
  CALLC(MPI_Put, out_data + 12, 2, MPI_INT, to, place(w, to, 20), 2, MPI_INT, w->win);
  CALL(MPI_Win_flush_all, w->win);
  CALL(MPI_Barrier, world);
  CALL(MPI_Win_sync, w->win);
  note_bytes("memory", w->memory + 20, 2 * sizeof(int));
  CALL(MPI_Win_unlock_all, w->win);
  show("atomics", w);
}

static void with_requests(Window* w) {
  const int to = (me + 1) % size;
  MPI_Request requests[4];
  MPI_Status statuses[4];
  prepare(3);
  clear(w);
  CALL(MPI_Barrier, world);
  for (int way = 0; way < 3; ++way) {
    poison_statuses(statuses, 4);
    CALL(MPI_Win_lock_all, 0, w->win);
    CALLC(MPI_Rput, out_data, 2, MPI_INT, to, place(w, to, 0), 2, MPI_INT, w->win, &requests[0]);
    CALLC(MPI_Rget, in_data, 2, MPI_INT, to, place(w, to, 4), 2, MPI_INT, w->win, &requests[1]);
    CALLC(MPI_Raccumulate, out_data, 2, MPI_INT, to, place(w, to, 8), 2, MPI_INT, MPI_SUM, w->win, &requests[2]);
    CALLC(MPI_Rget_accumulate, out_data + 4, 2, MPI_INT, result, 2, MPI_INT, to, place(w, to, 12), 2, MPI_INT, MPI_SUM,
          w->win, &requests[3]);
    if (way == 0) {
      CALL(MPI_Waitall, 4, requests, statuses);
    } else if (way == 1) {
      for (int i = 3; i >= 0; --i) CALL(MPI_Wait, &requests[i], &statuses[i]);
    } else {
      for (int i = 0, flag = 0; i < 4; i += flag) POLL(MPI_Test, &requests[i], &flag, &statuses[i]);
    }
    for (int i = 0; i < 4; ++i) note("  error %d", statuses[i].MPI_ERROR); /* nothing else is defined */
    note_requests(requests, 4);
    CALLC(MPI_Rput, out_data, 2, MPI_INT, MPI_PROC_NULL, 0, 2, MPI_INT, w->win, &requests[0]);
    CALLC(MPI_Rget, in_data, 2, MPI_INT, MPI_PROC_NULL, 0, 2, MPI_INT, w->win, &requests[1]);
    CALL(MPI_Waitall, 2, requests, MPI_STATUSES_IGNORE);
    note_requests(requests, 2);
    CALL(MPI_Win_unlock_all, w->win);
    show("with requests", w);
  }
}

static void body(void) {
  for (int kind = 0; kind < kKinds; ++kind) {
    Window w;
    open_window((enum Kind)kind, world, &w);
    CALL(MPI_Barrier, world);
    locks(&w);
    atomics(&w);
    with_requests(&w);
    close_window((enum Kind)kind, &w);
  }
}

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
