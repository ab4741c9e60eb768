/* Files, each rank for itself: explicit offsets, own and shared pointers, views, sizes, what is at the end of a file,
 * statuses wanted and not. conformance: ranks=3/2 threads=yes */
#include "support/files.h"

static void explicit_offsets(void) {
  MPI_Status status;
  note("== explicit offsets");
  open_file("offsets", MPI_MODE_CREATE | MPI_MODE_RDWR);
  prepare(1);
  poison_statuses(&status, 1);
  CALLC(MPI_File_write_at, file, (MPI_Offset)(me * N * (int)sizeof(int)), data, N, MPI_INT, &status);
  note_transfer(&status);
  CALLC(MPI_File_write_at, file, (MPI_Offset)((size + me) * N * (int)sizeof(int)), data, N / 2, MPI_INT,
        MPI_STATUS_IGNORE);
  CALL(MPI_File_sync, file);
  CALL(MPI_Barrier, world);
  CALL(MPI_File_sync, file);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_at, file, (MPI_Offset)((me + 1) % size * N * (int)sizeof(int)), got, N, MPI_INT, &status);
  note_transfer(&status);
  prepare(1);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_at, file, (MPI_Offset)(2 * size * N * (int)sizeof(int)), got, N, MPI_INT,
        &status); /* behind the end */
  note_transfer(&status);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_at, file, (MPI_Offset)(((2 * size - 1) * N + N / 2 - 3) * (int)sizeof(int)), got, N, MPI_INT,
        &status); /* across it */
  note_transfer(&status);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_at, file, 0, got, 0, MPI_INT, &status);
  note_transfer(&status);
  note_position("at the end");
  close_file();
}

static void own_pointers(void) {
  MPI_Status status;
  note("== own pointers");
  open_file("own", MPI_MODE_CREATE | MPI_MODE_RDWR);
  prepare(2);
  PMPI_File_seek(file, me * 2 * N * (int)sizeof(int), MPI_SEEK_SET);
  for (int i = 0; i < 2; ++i) {
    poison_statuses(&status, 1);
    CALLC(MPI_File_write, file, data + i * N, N, MPI_INT, i ? &status : MPI_STATUS_IGNORE);
    note_transfer(&status);
  }
  CALL(MPI_File_sync, file);
  note_position("written");
  PMPI_File_seek(file, (me + 1) % size * 2 * N * (int)sizeof(int), MPI_SEEK_SET);
  for (int i = 0; i < 2; ++i) {
    poison_statuses(&status, 1);
    CALLC(MPI_File_read, file, got + i * N, N, MPI_INT, i ? &status : MPI_STATUS_IGNORE);
    note_transfer(&status);
  }
  note_position("read");
  close_file();
}

static void shared_pointer(void) {
  MPI_Status status;
  note("== shared pointer");
  open_file("shared", MPI_MODE_CREATE | MPI_MODE_RDWR);
  prepare(3);
  IN_TURN {
    if (turn != me) continue;
    poison_statuses(&status, 1);
    CALLC(MPI_File_write_shared, file, data, N + me, MPI_INT, &status);
    note_transfer(&status);
    CALLC(MPI_File_write_shared, file, data, 1, MPI_INT, MPI_STATUS_IGNORE);
  }
  CALL(MPI_File_sync, file);
  note_position("written");
  CALL(MPI_File_seek_shared, file, 2 * (MPI_Offset)sizeof(int), MPI_SEEK_SET);
  note_position("sought");
  IN_TURN {
    if (turn != me) continue;
    poison_statuses(&status, 1);
    CALLC(MPI_File_read_shared, file, got, N, MPI_INT, &status);
    note_transfer(&status);
  }
  note_position("read");
  CALL(MPI_File_seek_shared, file, -(MPI_Offset)sizeof(int), MPI_SEEK_END);
  note_position("one before the end");
  close_file();
}

static void views(void) {
  MPI_Datatype stripes, got_type, got_file_type;
  MPI_Offset displacement = UNTOUCHED;
  MPI_Status status;
  char representation[MPI_MAX_DATAREP_STRING] = "";
  const int sizes[1] = {size * 4}, parts[1] = {4}, starts[1] = {4 * me};
  note("== views");
  open_file("views", MPI_MODE_CREATE | MPI_MODE_RDWR);
  PMPI_Type_create_subarray(1, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &stripes);
  PMPI_Type_commit(&stripes);
  CALL(MPI_File_set_view, file, 8, MPI_INT, stripes, "native", MPI_INFO_NULL);
  PMPI_File_get_view(file, &displacement, &got_type, &got_file_type, representation);
  note("  displacement %lld, %s", (long long)displacement, representation);
  if (got_file_type != MPI_INT) PMPI_Type_free(&got_file_type);
  prepare(4);
  poison_statuses(&status, 1);
  CALLC(MPI_File_write, file, data, N, MPI_INT, &status);
  note_transfer(&status);
  CALL(MPI_File_sync, file);
  CALL(MPI_Barrier, world);
  PMPI_File_seek(file, 2, MPI_SEEK_SET);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read, file, got, 6, MPI_INT, &status);
  note_transfer(&status);
  CALL(MPI_File_set_view, file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  note_position("as bytes");
  PMPI_Type_free(&stripes);
  close_file();
}

static void sizes_and_modes(void) {
  int flag = UNTOUCHED, mode = UNTOUCHED;
  note("== sizes");
  open_file("sizes", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN);
  CALL(MPI_File_set_size, file, 1000);
  note_position("set");
  CALL(MPI_File_set_size, file, 20);
  note_position("cut");
  CALL(MPI_File_set_atomicity, file, 1);
  PMPI_File_get_atomicity(file, &flag);
  note("  atomic %d", flag);
  CALL(MPI_File_set_atomicity, file, 0);
  PMPI_File_get_amode(file, &mode);
  note("  mode %d", mode);
  close_file();
  open_file("sizes", MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
  note_position("again");
  CALL(MPI_File_close, &file);
  CALL(MPI_Barrier, world);
  open_file("sizes", MPI_MODE_RDONLY); /* gone */
  note("  file %s", file == MPI_FILE_NULL ? "null" : "set");
  /* In Open MPI 4.1.4 the ranks are out of step after it. */
  open_file("preallocated", MPI_MODE_CREATE | MPI_MODE_RDWR);
  CALL(MPI_File_preallocate, file, 2000);
  close_file();
  note("== removed");
  MPI_Info info;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "access_style", "read_once");
  open_file("info", MPI_MODE_CREATE | MPI_MODE_RDWR);
  CALL(MPI_File_set_info, file, info);
  close_file();
  PMPI_Info_free(&info);
  if (me == 0) {
    CALL(MPI_File_delete, file_name, MPI_INFO_NULL);
    CALL(MPI_File_delete, file_name, MPI_INFO_NULL); /* it is not there any more */
  }
}

static void body(void) {
#ifdef OPEN_MPI /* MPICH 4.0 crashes */
  if (thread == 0) tell_file_errors(MPI_FILE_NULL);
#endif
  CALL(MPI_Barrier, world);
  explicit_offsets();
  own_pointers();
  shared_pointer();
  views();
  sizes_and_modes();
}

int main(int argc, char** argv) {
  one_after_the_other = 1; /* OMPIO of Open MPI 4.1.4 fails on two threads at once, whatever the files */
  return conformance(&argc, &argv, body);
}
