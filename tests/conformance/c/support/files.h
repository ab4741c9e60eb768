/* A file that all ranks of `world` have open, for the programs of I/O. */
#ifndef CONFORMANCE_FILES_H
#define CONFORMANCE_FILES_H

#include "transcript.h"

#define N 12 /* ints that a rank writes at once */

static __thread MPI_File file = MPI_FILE_NULL;
static __thread char file_name[64];
static __thread int data[4 * N], got[4 * N];

static inline void prepare(int seed) {
  for (int i = 0; i < 4 * N; ++i) data[i] = seed * 10000 + me * 1000 + i;
  POISON(got);
}

static inline void open_file(const char* name, int mode) {
  snprintf(file_name, sizeof file_name, "%s.%d", name, thread);
  CALL(MPI_File_open, world, file_name, mode, MPI_INFO_NULL, &file);
  if (file != MPI_FILE_NULL) tell_file_errors(file);
}

static inline void note_position(const char* what) {
  MPI_Offset own = UNTOUCHED, common = UNTOUCHED, bytes = UNTOUCHED;
  CALL(MPI_Barrier, world);
  PMPI_File_get_position(file, &own);
  POLL(MPI_File_get_position_shared, file, &common);
  PMPI_File_get_size(file, &bytes);
  note("  %s: position %lld, shared %lld, size %lld", what, (long long)own, (long long)common, (long long)bytes);
  CALL(MPI_Barrier, world);
}

/* What lies in it, by other means. */
static inline void close_file(void) {
  CALL(MPI_File_close, &file);
  note("  file %s", file == MPI_FILE_NULL ? "null" : "set");
  CALL(MPI_Barrier, world);
  if (me == 0) {
    static __thread char content[1 << 16];
    FILE* plain = fopen(file_name, "rb");
    const size_t bytes = plain ? fread(content, 1, sizeof content, plain) : 0;
    if (plain) fclose(plain);
    note_bytes("content", content, bytes);
  }
  CALL(MPI_Barrier, world);
}

/* For the status only what is defined for files. */
static inline void note_amount(MPI_Status* status) {
  int count = UNTOUCHED;
  PMPI_Get_count(status, MPI_INT, &count);
  note("  count %d error %d", count, status->MPI_ERROR);
}

static inline void note_transfer(MPI_Status* status) {
  note_amount(status);
  DATA(got);
}

/* One rank after the other, where the order of the ranks in the file would depend on time. */
#define IN_TURN for (int turn = 0; turn < size; CALL(MPI_Barrier, world), ++turn)

#endif
