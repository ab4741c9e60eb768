/* Every way to complete a request, on 2 ranks, with sizes that tell the ways apart. Prints nothing; exit code 0 if
 * all data arrived. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
  if (!(condition)) MPI_Abort(MPI_COMM_WORLD, __LINE__)

static char out[1 << 16], in[1 << 16];
static int rank, other;

static void post(int n, int bytes, int tag, MPI_Request* requests) {
  for (int i = 0; i < n; ++i) {
    MPI_Irecv(in, 1 << 12, MPI_BYTE, MPI_ANY_SOURCE, tag + i, MPI_COMM_WORLD, &requests[2 * i]);
    MPI_Isend(out, bytes, MPI_BYTE, other, tag + i, MPI_COMM_WORLD, &requests[2 * i + 1]);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  other = 1 - rank;
  MPI_Request r[200];
  MPI_Status s[200], one;
  int index, flag = 0, indices[200], done, total;

  post(1, 100, 0, r);  // Wait, with and without a status
  MPI_Wait(&r[0], &one);
  CHECK(one.MPI_SOURCE == other && one.MPI_TAG == 0);
  MPI_Wait(&r[1], MPI_STATUS_IGNORE);
  CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);

  post(3, 200, 10, r);  // Waitall
  MPI_Waitall(6, r, MPI_STATUSES_IGNORE);
  post(50, 20, 20, r);  // ... of more than fit on a stack
  MPI_Waitall(100, r, s);
  for (int i = 0; i < 100; i += 2) CHECK(s[i].MPI_SOURCE == other);

  post(2, 300, 100, r);  // Waitany
  for (int i = 0; i < 4; ++i) MPI_Waitany(4, r, &index, MPI_STATUS_IGNORE);
  post(2, 400, 110, r);  // Waitsome
  for (total = 0; total < 4; total += done) MPI_Waitsome(4, r, &done, indices, MPI_STATUSES_IGNORE);

  post(1, 500, 120, r);  // Test
  for (int i = 0; i < 2; ++i) {
    for (flag = 0; !flag;) MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
  }
  post(2, 600, 130, r);  // Testall
  for (flag = 0; !flag;) MPI_Testall(4, r, &flag, MPI_STATUSES_IGNORE);
  post(2, 700, 140, r);  // Testany
  for (total = 0; total < 4;) {
    MPI_Testany(4, r, &index, &flag, MPI_STATUS_IGNORE);
    total += flag && index != MPI_UNDEFINED;
  }
  post(2, 800, 150, r);  // Testsome
  for (total = 0; total < 4;) {
    MPI_Testsome(4, r, &done, indices, MPI_STATUSES_IGNORE);
    if (done != MPI_UNDEFINED) total += done;
  }

  MPI_Recv_init(in, 4096, MPI_BYTE, other, 200, MPI_COMM_WORLD, &r[0]);  // persistent, three rounds
  MPI_Send_init(out, 1000, MPI_BYTE, other, 200, MPI_COMM_WORLD, &r[1]);
  for (int i = 0; i < 3; ++i) {
    MPI_Startall(2, r);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
  }
  MPI_Start(&r[0]);
  MPI_Start(&r[1]);
  MPI_Wait(&r[0], MPI_STATUS_IGNORE);
  MPI_Wait(&r[1], MPI_STATUS_IGNORE);
  MPI_Request_free(&r[0]);
  MPI_Request_free(&r[1]);

  MPI_Irecv(in, 4096, MPI_BYTE, other, 300, MPI_COMM_WORLD, &r[0]);  // cancelled
  MPI_Cancel(&r[0]);
  MPI_Wait(&r[0], &one);
  MPI_Test_cancelled(&one, &flag);
  CHECK(flag);

  MPI_Irecv(in, 10, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[0]);  // nobody
  MPI_Isend(out, 10, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[1]);
  MPI_Waitall(2, r, MPI_STATUSES_IGNORE);

  char small[16] = {0};  // both ways at once; what the ranks send differs
  MPI_Sendrecv(out, 1100 + rank, MPI_BYTE, other, 400 + rank, in, 4096, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv_replace(small, 8, MPI_BYTE, other, 410 + rank, other, 411 - rank, MPI_COMM_WORLD, &one);
  CHECK(one.MPI_SOURCE == other && one.MPI_TAG == 411 - rank);
  MPI_Sendrecv(out, 10, MPI_BYTE, MPI_PROC_NULL, 0, in, 10, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);

  MPI_Message message;  // probes that do not say what they look for
  for (int way = 0; way < 4; ++way) {
    MPI_Isend(out, 1200 + way, MPI_BYTE, other, 420 + way, MPI_COMM_WORLD, &r[0]);
    flag = 0;
    if (way == 0) MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (way == 1 && !flag) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    if (way == 2) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    while (way == 3 && !flag)
      MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    if (way < 2) MPI_Recv(in, 4096, MPI_BYTE, other, 420 + way, MPI_COMM_WORLD, &one);
    if (way >= 2) MPI_Mrecv(in, 4096, MPI_BYTE, &message, &one);
    CHECK(one.MPI_TAG == 420 + way);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
  }

  float a = 1, b = 0;  // non-blocking collectives in flight together, and a duplicate that appears later
  MPI_Comm copy;
  MPI_Iallreduce(&a, &b, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &r[0]);
  MPI_Ibarrier(MPI_COMM_WORLD, &r[1]);
  MPI_Comm_idup(MPI_COMM_WORLD, &copy, &r[2]);
  MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
  CHECK(b == 2);
  MPI_Allreduce(&a, &b, 1, MPI_FLOAT, MPI_SUM, copy);
  MPI_Comm_free(&copy);
  MPI_Finalize();
  return 0;
}
