/* Partitioned messages: parts made ready singly, in ranges and lists, in any order; asked for one by one.
 * conformance: ranks=2 */
#include "../support/transcript.h"

#define PARTS 6
#define EACH 5

static int data[PARTS * EACH], got[PARTS * EACH];

static void fill(int round) {
  for (int i = 0; i < PARTS * EACH; ++i) data[i] = 1000 * round + i;
  POISON(got);
}

static void make_ready(int round, MPI_Request request) {
  int list[3] = {5, 0, 2};
  switch (round) {
    case 0:
      for (int i = PARTS - 1; i >= 0; --i) CALL(MPI_Pready, i, request);
      break;
    case 1:
      CALL(MPI_Pready_range, 0, PARTS - 1, request);
      break;
    default:
      CALL(MPI_Pready_list, 3, list, request);
      CALL(MPI_Pready, 1, request);
      CALL(MPI_Pready_range, 3, 4, request);
  }
}

static void body(void) {
  MPI_Request request;
  MPI_Status status;
  int flag = 0;
  for (int sender = 0; sender < 2; ++sender) {
    note("== %d sends", sender);
    if (me == sender) {
      CALL(MPI_Psend_init, data, PARTS, EACH, MPI_INT, 1 - me, 3, world, MPI_INFO_NULL, &request);
    } else {
      CALL(MPI_Precv_init, got, PARTS, EACH, MPI_INT, sender, 3, world, MPI_INFO_NULL, &request);
    }
    for (int round = 0; round < 3; ++round) {
      fill(round);
      poison_statuses(&status, 1);
      CALL(MPI_Start, &request);
      if (me == sender) {
        make_ready(round, request);
      } else {
        for (int i = 0; i < PARTS; i += flag != 0) POLL(MPI_Parrived, request, i, &flag);
        DATA(got);
      }
      CALL(MPI_Wait, &request, &status);
      note("  error %d", status.MPI_ERROR);
    }
    CALL(MPI_Request_free, &request);
    note_requests(&request, 1);
  }
#ifndef OPEN_MPI /* which does not look before it uses them */
  note("== refused");
  CALL(MPI_Psend_init, data, PARTS, EACH, MPI_INT, 99, 3, world, MPI_INFO_NULL, &request);
  CALL(MPI_Precv_init, got, PARTS, EACH, MPI_INT, 0, 3, MPI_COMM_NULL, MPI_INFO_NULL, &request);
#endif
}

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
