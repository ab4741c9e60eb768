/* Files, all ranks together: explicit offsets, own pointers, the shared pointer in the order of the ranks; with a view
 * that interleaves them. conformance: ranks=3/2 threads=yes */
#include "support/files.h"

static void transfers(const char* name, int striped) {
  MPI_Status status;
  MPI_Datatype stripes;
  const int sizes[1] = {size * 4}, parts[1] = {4}, starts[1] = {4 * me};
  const MPI_Offset unit = striped ? 1 : (MPI_Offset)sizeof(int);
  note("== %s", name);
  open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
  if (striped) {
    PMPI_Type_create_subarray(1, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &stripes);
    PMPI_Type_commit(&stripes);
    CALL(MPI_File_set_view, file, 0, MPI_INT, stripes, "native", MPI_INFO_NULL);
    PMPI_Type_free(&stripes);
  }
  prepare(1 + striped);
  poison_statuses(&status, 1);
  CALLC(MPI_File_write_at_all, file, striped ? 0 : me * N * unit, data, N, MPI_INT, &status);
  note_transfer(&status);
  CALL(MPI_File_sync, file);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_at_all, file, striped ? 2 : (me + 1) % size * N * unit, got, N - 2, MPI_INT, &status);
  note_transfer(&status);
  CALLC(MPI_File_read_at_all, file, 0, got, 1, MPI_INT, MPI_STATUS_IGNORE);
  PMPI_File_seek(file, (striped ? N : (size + me) * N) * unit, MPI_SEEK_SET);
  poison_statuses(&status, 1);
  CALLC(MPI_File_write_all, file, data, N, MPI_INT, &status);
  note_transfer(&status);
  /* What lies in holes is undefined. */
  CALLC(MPI_File_write_all, file, data, !striped && me == size - 1 ? 3 : 0, MPI_INT, MPI_STATUS_IGNORE);
  CALL(MPI_File_sync, file);
  note_position("written");
  PMPI_File_seek(file, 0, MPI_SEEK_SET);
  prepare(3);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_all, file, got, 2 * N, MPI_INT, &status);
  note_transfer(&status);
  PMPI_File_seek(file, 1, MPI_SEEK_SET);
  CALLC(MPI_File_read_all, file, got, N, MPI_INT, MPI_STATUS_IGNORE);
  note_transfer(&status);
  note_position("read");
  close_file();
}

static void ordered(void) {
  MPI_Status status;
  note("== ordered");
  open_file("ordered", MPI_MODE_CREATE | MPI_MODE_RDWR);
  prepare(5);
  poison_statuses(&status, 1);
  CALLC(MPI_File_write_ordered, file, data, N + me, MPI_INT, &status);
  note_transfer(&status);
  note_position("written");
  CALLC(MPI_File_write_ordered, file, data, me, MPI_INT, MPI_STATUS_IGNORE);
  note_position("written");
  CALL(MPI_File_sync, file);
  CALL(MPI_File_seek_shared, file, 0, MPI_SEEK_SET);
  poison_statuses(&status, 1);
  CALLC(MPI_File_read_ordered, file, got, N - me, MPI_INT, &status);
  note_transfer(&status);
  CALLC(MPI_File_read_ordered, file, got, 1, MPI_INT, MPI_STATUS_IGNORE);
  note_transfer(&status);
  note_position("read");
  close_file();
}

static void body(void) {
  transfers("plain", 0);
  transfers("striped", 1);
  ordered();
}

int main(int argc, char** argv) {
  one_after_the_other = 1; /* OMPIO of Open MPI 4.1.4 fails on two threads at once, whatever the files */
  return conformance(&argc, &argv, body);
}
