/* A session that has ended while another one goes on, as of a library that had a look, and then communicators in the
 * other: everybody's, and one of each rank alone. */
#include <mpi.h>

int main(void) {
  MPI_Session first, second;
  MPI_Group everybody, alone;
  MPI_Comm together, own;
  int one = 1, sum;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &first);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &second);
  MPI_Session_finalize(&first);
  MPI_Group_from_session_pset(second, "mpi://WORLD", &everybody);
  MPI_Group_from_session_pset(second, "mpi://SELF", &alone);
  MPI_Comm_create_from_group(everybody, "together", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &together);
  MPI_Comm_create_from_group(alone, "own", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &own);
  for (int i = 0; i < 3; ++i) {
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, own);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, together);
  }
  MPI_Comm_free(&together);
  MPI_Comm_free(&own);
  MPI_Group_free(&everybody);
  MPI_Group_free(&alone);
  MPI_Session_finalize(&second);
  return 0;
}
