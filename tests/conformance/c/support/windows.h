/* Windows of every kind, for the programs of one-sided communication. */
#ifndef CONFORMANCE_WINDOWS_H
#define CONFORMANCE_WINDOWS_H

#include "transcript.h"

#define SLOTS 24 /* ints of each rank's window */

enum Kind { kCreated, kAllocated, kShared, kDynamic, kKinds };

typedef struct Window {
  MPI_Win win;
  int* memory;       /* ours */
  MPI_Aint bases[8]; /* what a rank's slot 0 is called by others: 0, or its address */
} Window;

static inline MPI_Aint place(const Window* w, int rank, int slot) {
  return w->bases[rank] + (w->bases[rank] ? slot * (MPI_Aint)sizeof(int) : slot);
}

static inline void clear(Window* w) {
  for (int i = 0; i < SLOTS; ++i) w->memory[i] = -(me * 100 + i);
}

static inline void open_window(enum Kind kind, MPI_Comm comm, Window* w) {
  static const char* const kNames[kKinds] = {"created", "allocated", "shared", "dynamic"};
  const MPI_Aint bytes = SLOTS * sizeof(int);
  int n;
  PMPI_Comm_size(comm, &n);
  memset(w, 0, sizeof *w);
  switch (kind) {
    case kCreated:
      w->memory = malloc((size_t)bytes);
      CALLC(MPI_Win_create, w->memory, bytes, sizeof(int), MPI_INFO_NULL, comm, &w->win);
      break;
    case kAllocated:
      CALLC(MPI_Win_allocate, bytes, sizeof(int), MPI_INFO_NULL, comm, &w->memory, &w->win);
      break;
    case kShared:
      CALLC(MPI_Win_allocate_shared, bytes, sizeof(int), MPI_INFO_NULL, comm, &w->memory, &w->win);
      break;
    default:
      CALL(MPI_Win_create_dynamic, MPI_INFO_NULL, comm, &w->win);
      w->memory = malloc((size_t)bytes);
      CALL(MPI_Win_attach, w->win, w->memory, bytes);
      PMPI_Get_address(w->memory, &w->bases[me]);
      POLL(MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, w->bases, 1, MPI_AINT, comm);
  }
  CALL(MPI_Win_set_name, w->win, kNames[kind]);
  tell_win_errors(w->win);
  note("== %s, %d ranks", kNames[kind], n);
  clear(w);
}

static inline void close_window(enum Kind kind, Window* w) {
  if (kind == kDynamic) CALL(MPI_Win_detach, w->win, w->memory);
  CALL(MPI_Win_free, &w->win);
  note("  window %s", w->win == MPI_WIN_NULL ? "null" : "set");
  if (kind == kCreated || kind == kDynamic) free(w->memory);
}

#endif
