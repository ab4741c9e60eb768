/* Topologies and the collectives of neighbours on them: a ring, a grid with edges (MPI_PROC_NULL), a graph, distributed
 * graphs with weights. conformance: ranks=4 threads=yes/no */
#include "support/transcript.h"

#define MAX 8 /* neighbours */
#define EACH 2

static __thread int send[MAX * EACH], recv[MAX * EACH];
static __thread Count send_counts[MAX], recv_counts[MAX];
static __thread Displacement displs[MAX];
static __thread MPI_Aint bytes_displs[MAX];
static __thread MPI_Datatype types[MAX];

/* The blocking collective and the one with a request. A program that defines PERSISTENT makes a persistent
 * operation of both. */
#ifndef PERSISTENT
#define BOTH(NAME, INIT, ...)                   \
  do {                                          \
    MPI_Request request;                        \
    fill();                                     \
    CALLC(MPI_N##NAME, __VA_ARGS__);            \
    DATA(recv);                                 \
    fill();                                     \
    CALLC(MPI_In##NAME, __VA_ARGS__, &request); \
    wait_for_collective(&request);              \
    DATA(recv);                                 \
  } while (0)
#else
#define BOTH(NAME, INIT, ...)                                      \
  do {                                                             \
    MPI_Request request;                                           \
    PERSISTENT(CALLC, INIT, __VA_ARGS__, MPI_INFO_NULL, &request); \
    for (int again = 0; again < 2; ++again) {                      \
      fill();                                                      \
      CALL(MPI_Start, &request);                                   \
      wait_for_collective(&request);                               \
      DATA(recv);                                                  \
    }                                                              \
    CALL(MPI_Request_free, &request);                              \
  } while (0)
#endif

static void fill(void) {
  for (int i = 0; i < MAX * EACH; ++i) send[i] = 1000 * (me + 1) + i;
  POISON(recv);
}

/* Every rank sends EACH elements to each neighbour, or with v and w as many as its own rank modulo EACH + 1 says. */
static void exchange(MPI_Comm comm, int in, int out_degree, const int* sources) {
  int rank;
  PMPI_Comm_rank(comm, &rank);
  note("%d neighbours to hear, %d to tell", in, out_degree);
  note_ints("sources", sources, in);
  for (int i = 0; i < MAX; ++i) {
    send_counts[i] = rank % (EACH + 1);
    recv_counts[i] = i < in && sources[i] >= 0 ? sources[i] % (EACH + 1) : 0;
    displs[i] = i * EACH;
    bytes_displs[i] = i * EACH * (MPI_Aint)sizeof(int);
    types[i] = MPI_INT;
  }
  BOTH(eighbor_allgather, Neighbor_allgather_init, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  BOTH(eighbor_allgatherv, Neighbor_allgatherv_init, send, rank % (EACH + 1), MPI_INT, recv, recv_counts, displs,
       MPI_INT, comm);
  BOTH(eighbor_alltoall, Neighbor_alltoall_init, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  BOTH(eighbor_alltoallv, Neighbor_alltoallv_init, send, send_counts, displs, MPI_INT, recv, recv_counts, displs,
       MPI_INT, comm);
  BOTH(eighbor_alltoallw, Neighbor_alltoallw_init, send, send_counts, bytes_displs, types, recv, recv_counts,
       bytes_displs, types, comm);
}

static void cartesian(int dimensions, const int* dims, const int* periods) {
  MPI_Comm grid, line;
  int sources[MAX], n = 0, remain[2] = {0, 1}, coordinates[2] = {-1, -1};
  note("== cartesian, %d dimensions", dimensions);
  CALL(MPI_Cart_create, world, dimensions, dims, periods, 1, &grid);
  if (grid == MPI_COMM_NULL) return note("  not in it");
  int rank;
  PMPI_Comm_rank(grid, &rank);
  PMPI_Cart_coords(grid, rank, dimensions, coordinates);
  note_ints("at", coordinates, 2);
  for (int d = 0; d < dimensions; ++d) {
    PMPI_Cart_shift(grid, d, 1, &sources[n], &sources[n + 1]);
    n += 2;
  }
  exchange(grid, n, n, sources);
  if (dimensions == 2) {
    CALL(MPI_Cart_sub, grid, remain, &line);
    int sum = -1, line_size = 0;
    PMPI_Comm_size(line, &line_size);
    CALLC(MPI_Allreduce, &rank, &sum, 1, MPI_INT, MPI_SUM, line);
    note("  line of %d, sum %d", line_size, sum);
    CALL(MPI_Comm_free, &line);
  }
  CALL(MPI_Comm_free, &grid);
}

static void graph(void) {
  /* 0 - 1 - 2 - 3 - 0 and 0 - 2 */
  const int index[4] = {3, 5, 8, 10}, edges[10] = {1, 3, 2, 0, 2, 1, 3, 0, 2, 0};
  MPI_Comm comm;
  int n = 0, neighbours[MAX];
  note("== graph");
  CALL(MPI_Graph_create, world, 4, index, edges, 0, &comm);
  PMPI_Graph_neighbors_count(comm, me, &n);
  PMPI_Graph_neighbors(comm, me, n, neighbours);
  exchange(comm, n, n, neighbours);
  CALL(MPI_Comm_free, &comm);
}

static void distributed(int adjacent, int weighted) {
  /* Everybody hears the rank below and rank 0, and rank 0 is heard by all: degrees differ. */
  int sources[MAX], targets[MAX], weights[MAX] = {3, 1, 4, 1, 5, 9, 2, 6}, in = 0, out_degree = 0, is_weighted = -1,
                                  got_in = -1, got_out = -1;
  int heard[MAX], told[MAX], in_weights[MAX], out_weights[MAX];
  MPI_Comm comm;
  note("== distributed graph, adjacent %d weighted %d", adjacent, weighted);
  sources[in++] = (me + size - 1) % size;
  targets[out_degree++] = (me + 1) % size;
  if (me) sources[in++] = 0;
  for (int i = 1; me == 0 && i < size; ++i) targets[out_degree++] = i;
  if (adjacent) {
    CALL(MPI_Dist_graph_create_adjacent, world, in, sources, weighted ? weights : MPI_UNWEIGHTED, out_degree, targets,
         weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
  } else {
    CALL(MPI_Dist_graph_create, world, 1, &me, &out_degree, targets, weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL,
         0, &comm);
  }
  PMPI_Dist_graph_neighbors_count(comm, &got_in, &got_out, &is_weighted);
  note("  in %d out %d weighted %d", got_in, got_out, is_weighted);
  POISON(in_weights);
  POISON(out_weights);
  PMPI_Dist_graph_neighbors(comm, got_in, heard, in_weights, got_out, told, out_weights);
  if (adjacent) note_ints("told", told, got_out);
  if (adjacent && weighted) note_ints("out weights", out_weights, got_out);
  if (adjacent) {
    exchange(comm, got_in, got_out, heard);
  } else {
    /* The order of the neighbours is the library's choice and may depend on who was first. */
    int sum = 0;
    fill();
    CALLC(MPI_Neighbor_allgather, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
    for (int i = 0; i < got_in * EACH; ++i) sum += recv[i];
    note("  sum %d", sum);
  }
  CALL(MPI_Comm_free, &comm);
}

static void body(void) {
  const int ring[1] = {4}, square[2] = {2, 2}, rows[2] = {3, 1}, open_ends[2] = {0, 0}, closed[2] = {1, 1};
  cartesian(1, ring, closed);
  cartesian(1, ring, open_ends);
  cartesian(2, square, closed);
  cartesian(2, square, open_ends);
  cartesian(2, rows, open_ends); /* leaves a rank out */
  graph();
  distributed(1, 0);
  distributed(1, 1);
  distributed(0, 0);
  distributed(0, 1);
}

int main(int argc, char** argv) {
  one_after_the_other =
      1; /* communicators of some ranks made on two threads at once: Open MPI 4.1.4 hangs now and then */
  rounds = 2;
  return conformance(&argc, &argv, body);
}
