/* Files with requests, and split collectives with a begin and an end.
 * conformance: ranks=3/2 threads=yes */
#include "support/files.h"

static void finish(MPI_Request* request, int ignore) {
  MPI_Status status;
  poison_statuses(&status, 1);
  CALL(MPI_Wait, request, ignore ? MPI_STATUS_IGNORE : &status);
  note_amount(&status);
  note_requests(request, 1);
}

static void with_requests(void) {
  const MPI_Offset mine = me * N * (MPI_Offset)sizeof(int), next = (me + 1) % size * N * (MPI_Offset)sizeof(int);
  MPI_Request request, requests[3];
  MPI_Status statuses[3];
  int flag = 0;
  note("== with requests");
  open_file("requests", MPI_MODE_CREATE | MPI_MODE_RDWR);
  prepare(1);
  CALLC(MPI_File_iwrite_at, file, mine, data, N, MPI_INT, &request);
  finish(&request, 0);
  CALL(MPI_File_sync, file);
  CALL(MPI_Barrier, world);
  CALLC(MPI_File_iread_at, file, next, got, N, MPI_INT, &request);
  finish(&request, 0);
  DATA(got);
  PMPI_File_seek(file, size * N * (MPI_Offset)sizeof(int) + mine, MPI_SEEK_SET);
  CALLC(MPI_File_iwrite, file, data + N, N, MPI_INT, &request);
  finish(&request, 1);
  CALL(MPI_File_sync, file);
  note_position("written");
  PMPI_File_seek(file, mine, MPI_SEEK_SET);
  prepare(2);
  CALLC(MPI_File_iread, file, got, N, MPI_INT, &request);
  poison_statuses(statuses, 1);
  while (!flag) POLL(MPI_Test, &request, &flag, &statuses[0]);
  note_transfer(&statuses[0]);
  prepare(2);
  CALLC(MPI_File_iwrite_at_all, file, 2 * size * N * (MPI_Offset)sizeof(int) + mine, data, N, MPI_INT, &request);
  finish(&request, 0);
  CALLC(MPI_File_iread_at_all, file, next, got, N, MPI_INT, &request);
  finish(&request, 0);
  DATA(got);
  PMPI_File_seek(file, 3 * size * N * (MPI_Offset)sizeof(int) + mine, MPI_SEEK_SET);
  CALLC(MPI_File_iwrite_all, file, data, N, MPI_INT, &request);
  finish(&request, 0);
  CALL(MPI_File_sync, file);
  note_position("written");
  PMPI_File_seek(file, 3 * size * N * (MPI_Offset)sizeof(int) + next, MPI_SEEK_SET);
  prepare(3);
  CALLC(MPI_File_iread_all, file, got, N, MPI_INT, &request);
  finish(&request, 0);
  DATA(got);
  /* Several in flight. */
  prepare(4);
  poison_statuses(statuses, 3);
  for (int i = 0; i < 3; ++i)
    CALLC(MPI_File_iread_at, file, (next + i * N * (MPI_Offset)sizeof(int)), got + i * N, N, MPI_INT, &requests[i]);
  CALL(MPI_Waitall, 3, requests, statuses);
  for (int i = 0; i < 3; ++i) note_amount(&statuses[i]);
  DATA(got);
  close_file();
}

static void shared_pointer(void) {
  MPI_Request request;
  note("== shared pointer");
  open_file("shared", MPI_MODE_CREATE | MPI_MODE_RDWR);
  prepare(5);
  IN_TURN {
    if (turn != me) continue;
    CALLC(MPI_File_iwrite_shared, file, data, N + me, MPI_INT, &request);
    finish(&request, 0);
  }
  CALL(MPI_File_sync, file);
  CALL(MPI_File_seek_shared, file, (MPI_Offset)sizeof(int), MPI_SEEK_SET);
  IN_TURN {
    if (turn != me) continue;
    CALLC(MPI_File_iread_shared, file, got, N, MPI_INT, &request);
    finish(&request, 0);
  }
  DATA(got);
  note_position("read");
  close_file();
}

static void split(void) {
  const MPI_Offset mine = me * N * (MPI_Offset)sizeof(int), next = (me + 1) % size * N * (MPI_Offset)sizeof(int);
  MPI_Status status;
  note("== split");
  open_file("split", MPI_MODE_CREATE | MPI_MODE_RDWR);
  for (int ignore = 0; ignore < 2; ++ignore) {
    MPI_Status* const wanted = ignore ? MPI_STATUS_IGNORE : &status;
    prepare(6 + ignore);
    poison_statuses(&status, 1);
    CALLC(MPI_File_write_at_all_begin, file, mine, data, N, MPI_INT);
    CALL(MPI_File_write_at_all_end, file, data, wanted);
    note_transfer(&status);
    CALL(MPI_File_sync, file);
    poison_statuses(&status, 1);
    CALLC(MPI_File_read_at_all_begin, file, next, got, N, MPI_INT);
    CALL(MPI_File_read_at_all_end, file, got, wanted);
    note_transfer(&status);
    PMPI_File_seek(file, size * N * (MPI_Offset)sizeof(int) + mine, MPI_SEEK_SET);
    poison_statuses(&status, 1);
    CALLC(MPI_File_write_all_begin, file, data, N, MPI_INT);
    CALL(MPI_File_write_all_end, file, data, wanted);
    note_transfer(&status);
    CALL(MPI_File_sync, file);
    PMPI_File_seek(file, size * N * (MPI_Offset)sizeof(int) + next, MPI_SEEK_SET);
    poison_statuses(&status, 1);
    CALLC(MPI_File_read_all_begin, file, got, N, MPI_INT);
    CALL(MPI_File_read_all_end, file, got, wanted);
    note_transfer(&status);
    note_position("own");
    CALL(MPI_File_seek_shared, file, 2 * size * N * (MPI_Offset)sizeof(int), MPI_SEEK_SET);
    poison_statuses(&status, 1);
    CALLC(MPI_File_write_ordered_begin, file, data, N - me, MPI_INT);
    CALL(MPI_File_write_ordered_end, file, data, wanted);
    note_transfer(&status);
    CALL(MPI_File_sync, file);
    CALL(MPI_File_seek_shared, file, 0, MPI_SEEK_SET);
    poison_statuses(&status, 1);
    CALLC(MPI_File_read_ordered_begin, file, got, N + me, MPI_INT);
    CALL(MPI_File_read_ordered_end, file, got, wanted);
    note_transfer(&status);
    note_position("shared");
  }
  close_file();
}

static void body(void) {
  with_requests();
  shared_pointer();
  split();
}

int main(int argc, char** argv) {
  one_after_the_other = 1; /* OMPIO of Open MPI 4.1.4 fails on two threads at once, whatever the files */
  return conformance(&argc, &argv, body);
}
