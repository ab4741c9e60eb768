/* MPI without MPI_Init: sessions, their process sets, communicators and intercommunicators made of groups.
 * conformance: ranks=2 cases=alone:0,beside_the_world:0 */
#include "../support/transcript.h"

static void use(MPI_Comm comm) {
  int rank = -1, n = -1, sum = -1, from = -1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &n);
  CALL(MPI_Allreduce, &rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  CALL(MPI_Sendrecv, &rank, 1, MPI_INT, (rank + 1) % n, 3, &from, 1, MPI_INT, (rank + n - 1) % n, 3, comm,
       MPI_STATUS_IGNORE);
  note("  %d of %d, sum %d, from %d", rank, n, sum, from);
}

static void session(int number) {
  static const char* const kSets[2] = {"mpi://WORLD", "mpi://SELF"};
  MPI_Session opened;
  MPI_Group group, first, second;
  MPI_Comm comm, inter;
  int sets = 0;
  note("== session %d", number);
  CALL(MPI_Session_init, MPI_INFO_NULL, MPI_ERRORS_RETURN, &opened);
  PMPI_Session_get_num_psets(opened, MPI_INFO_NULL, &sets);
  note("  %d sets", sets);
  for (int i = 0; i < 2; ++i) {
    PMPI_Group_from_session_pset(opened, kSets[i], &group);
    CALL(MPI_Comm_create_from_group, group, "conformance", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    use(comm);
    if (i == 0) {
      const int zero = 0, one = 1;
      int rank, sum = -1;
      PMPI_Comm_rank(comm, &rank);
      PMPI_Group_incl(group, 1, &zero, &first);
      PMPI_Group_incl(group, 1, &one, &second);
      CALL(MPI_Intercomm_create_from_groups, rank ? second : first, 0, rank ? first : second, 0, "between",
           MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
      CALL(MPI_Allreduce, &rank, &sum, 1, MPI_INT, MPI_SUM, inter);
      note("  the other is %d", sum);
      CALL(MPI_Comm_free, &inter);
      PMPI_Group_free(&first);
      PMPI_Group_free(&second);
    }
    CALL(MPI_Comm_free, &comm);
    PMPI_Group_free(&group);
  }
  CALL(MPI_Session_finalize, &opened);
  note("  session %s", opened == MPI_SESSION_NULL ? "null" : "set");
}

int main(int argc, char** argv) {
  const int beside = argc > 1 && strcmp(argv[1], "beside_the_world") == 0;
  open_transcript(0);
  if (beside) {
    CALL(MPI_Init, &argc, &argv);
    use(MPI_COMM_WORLD);
  }
  session(1);
  if (beside) { /* MPICH 4.0 crashes in a second one when there is no other */
    session(2);
    use(MPI_COMM_WORLD);
    returned("MPI_Finalize", (count_call("MPI_Finalize"), MPI_Finalize()));
  }
  write_calls();
  return 0;
}
