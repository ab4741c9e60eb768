/* Communicators from every constructor: who is in them, what they inherit (attributes with their callbacks, error
 * handlers, names, topologies), what freeing does, and that messages on one are not seen on another. On 2 or 3
 * ranks MPICH 4.0.2 crashes now and then by itself (in 12 of 100 runs; 4 ranks: in none of 50). conformance:
 * ranks=4 threads=yes */
#include "support/transcript.h"

static __thread int keyval = MPI_KEYVAL_INVALID, refusing = MPI_KEYVAL_INVALID;

static int copied(MPI_Comm comm, int key, void* extra, void* in, void* result, int* flag) {
  (void)key;
  char label[MPI_MAX_OBJECT_NAME];
  comm_label(comm, label, sizeof label);
  note("  attribute %d copied from %s", (int)(intptr_t)in, label);
  *(void**)result = (void*)((intptr_t)in + 1);
  *flag = extra == NULL;
  return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void* value, void* extra) {
  (void)key, (void)extra;
  char label[MPI_MAX_OBJECT_NAME];
  comm_label(comm, label, sizeof label);
  note("  attribute %d deleted from %s", (int)(intptr_t)value, label);
  return MPI_SUCCESS;
}

static int refused(MPI_Comm comm, int key, void* extra, void* in, void* result, int* flag) {
  (void)comm, (void)key, (void)extra, (void)in, (void)result, (void)flag;
  note("  refused to copy");
  return MPI_ERR_OTHER;
}

/* All that can be asked, and a collective and a message of its own. */
static void examine(const char* what, MPI_Comm comm) {
  static const char* const kComparisons[] = {"identical", "congruent", "similar", "unequal"};
  if (comm == MPI_COMM_NULL) return note("  %s: none here", what);
  int rank = -1, n = -1, result = -1, length = 0, topology = UNTOUCHED, flag = 0, sum = -1, from = -1;
  char name[MPI_MAX_OBJECT_NAME] = "";
  void* value = NULL;
  MPI_Errhandler handler;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &n);
  PMPI_Comm_compare(comm, world, &result);
  PMPI_Comm_get_name(comm, name, &length);
  PMPI_Topo_test(comm, &topology);
  if (keyval != MPI_KEYVAL_INVALID) PMPI_Comm_get_attr(comm, keyval, &value, &flag);
  PMPI_Comm_get_errhandler(comm, &handler);
  note("  %s: %d of %d, %s, name '%s', topology %s, attribute %d, %s", what, rank, n,
       result == MPI_IDENT       ? kComparisons[0]
       : result == MPI_CONGRUENT ? kComparisons[1]
       : result == MPI_SIMILAR   ? kComparisons[2]
                                 : kComparisons[3],
       name,
       topology == MPI_UNDEFINED ? "none"
       : topology == MPI_CART    ? "cartesian"
                                 : "graph",
       flag ? (int)(intptr_t)value : -1,
       handler == MPI_ERRORS_ARE_FATAL ? "fatal"
       : handler == MPI_ERRORS_RETURN  ? "returns"
                                       : "own handler");
  if (handler != MPI_ERRORS_ARE_FATAL && handler != MPI_ERRORS_RETURN) PMPI_Errhandler_free(&handler);
  CALLC(MPI_Allreduce, &me, &sum, 1, MPI_INT, MPI_SUM, comm);
  CALLC(MPI_Sendrecv, &me, 1, MPI_INT, (rank + 1) % n, 3, &from, 1, MPI_INT, (rank + n - 1) % n, 3, comm,
        MPI_STATUS_IGNORE);
  note("  sum %d, next to %d", sum, from);
}

static void end(MPI_Comm* comm) {
  if (*comm == MPI_COMM_NULL) return;
  CALL(MPI_Comm_free, comm);
  note("  now %s", *comm == MPI_COMM_NULL ? "null" : "set");
}

static void copies(void) {
  MPI_Comm copy, second, third;
  MPI_Request request;
  MPI_Info info;
  int flag = 0;
  char text[MPI_MAX_INFO_VAL + 1] = "";
  note("== copies");
  CALL(MPI_Comm_dup, world, &copy);
  examine("copy", copy);
  CALL(MPI_Comm_set_name, copy, "a copy, named");
  examine("copy", copy);
  CALL(MPI_Comm_dup, copy, &second);
  examine("copy of the copy", second);
  CALL(MPI_Comm_set_name, copy, "");
  examine("copy", copy);
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "conformance", "17");
  CALL(MPI_Comm_dup_with_info, world, info, &third);
  PMPI_Info_free(&info);
  PMPI_Comm_get_info(third, &info);
  PMPI_Info_get(info, "conformance", MPI_MAX_INFO_VAL, text, &flag);
  PMPI_Info_free(&info);
  note("  info %d '%s'", flag, text);
  examine("copy with info", third);
  end(&third);
  CALL(MPI_Comm_idup, copy, &third, &request);
  examine("copied", copy); /* while the copying is under way */
  wait_for_collective(&request);
  examine("idup", third);
  end(&third);
#ifdef HAS_MPI4
  PMPI_Info_create(&info);
  CALL(MPI_Comm_idup_with_info, world, info, &third, &request);
  wait_for_collective(&request);
  PMPI_Info_free(&info);
  examine("idup with info", third);
  end(&third);
#endif
  end(&copy);
  end(&second);
  CALL(MPI_Comm_dup, MPI_COMM_SELF, &copy);
  examine("copy of self", copy);
  CALL(MPI_Comm_disconnect, &copy);
  note("  now %s", copy == MPI_COMM_NULL ? "null" : "set");
}

static void attributes(void) {
  MPI_Comm copy, none = MPI_COMM_NULL;
  MPI_Request request;
  int other;
  note("== attributes");
  PMPI_Comm_create_keyval(copied, deleted, &keyval, NULL);
  PMPI_Comm_set_attr(world, keyval, (void*)10);
  PMPI_Comm_create_keyval(copied, deleted, &other, (void*)1); /* does not want to be copied */
  PMPI_Comm_set_attr(world, other, (void*)50);
  CALL(MPI_Comm_dup, world, &copy);
  examine("copy", copy);
  end(&copy);
  CALL(MPI_Comm_idup, world, &copy, &request);
  wait_for_collective(&request);
  examine("copy", copy);
  end(&copy);
  CALL(MPI_Comm_split, world, 0, 0, &copy); /* inherits nothing */
  examine("split", copy);
  end(&copy);
  PMPI_Comm_create_keyval(refused, deleted, &refusing, NULL);
  PMPI_Comm_set_attr(world, refusing, (void*)70);
  CALL(MPI_Comm_dup, world, &none);
  note("  %s", none == MPI_COMM_NULL ? "none" : "one");
  PMPI_Comm_delete_attr(world, refusing);
  PMPI_Comm_delete_attr(world, other);
  PMPI_Comm_delete_attr(world, keyval);
  PMPI_Comm_free_keyval(&refusing);
  PMPI_Comm_free_keyval(&other);
  PMPI_Comm_free_keyval(&keyval);
}

static void parts(void) {
  static const int kKeys[4] = {1, 0, 1, -5};
  static const int kEven[2] = {2, 0}, kThree[3] = {3, 1, 0};
  MPI_Comm comm;
  MPI_Group all, some;
  note("== parts");
  CALL(MPI_Comm_split, world, me % 2, -me, &comm);
  examine("by parity, backwards", comm);
  MPI_Comm inner;
  CALL(MPI_Comm_split, comm, me / 2, 0, &inner);
  examine("alone", inner);
  end(&inner);
  end(&comm);
  CALL(MPI_Comm_split, world, me == 1 ? MPI_UNDEFINED : 7, kKeys[me], &comm);
  examine("without 1, by key", comm);
  end(&comm);
  CALL(MPI_Comm_split, world, MPI_UNDEFINED, 0, &comm);
  examine("nobody", comm);
  CALL(MPI_Comm_split_type, world, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &comm);
  examine("same host", comm);
  end(&comm);
  CALL(MPI_Comm_split_type, world, me ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm);
  examine("same host without 0", comm);
  end(&comm);

  PMPI_Comm_group(world, &all);
  PMPI_Group_incl(all, 2, kEven, &some);
  CALL(MPI_Comm_create, world, some, &comm);
  examine("even", comm);
  end(&comm);
  PMPI_Group_free(&some);
  CALL(MPI_Comm_create, world, MPI_GROUP_EMPTY, &comm);
  examine("of an empty group", comm);
  PMPI_Group_incl(all, 3, kThree, &some);
  if (me != 2) { /* only they take part */
    for (int tag = 1; tag < 3; ++tag) {
      CALL(MPI_Comm_create_group, world, some, tag, &comm);
      examine("three", comm);
      end(&comm);
    }
  }
  PMPI_Group_free(&some);
  PMPI_Group_free(&all);
}

static void topologies(void) {
  const int dims[2] = {2, 2}, periods[2] = {1, 0}, remain[2] = {1, 0}, none[2] = {0, 0};
  const int index[4] = {1, 2, 3, 4}, edges[4] = {1, 2, 3, 0};
  const int next = (me + 1) % size, previous = (me + size - 1) % size, one = 1;
  int got_dims[2] = {-1, -1}, got_periods[2] = {-1, -1}, coordinates[2] = {-1, -1};
  MPI_Comm grid, line, copy, graph;
  note("== topologies");
  CALL(MPI_Cart_create, world, 2, dims, periods, 0, &grid);
  examine("grid", grid);
  CALL(MPI_Comm_dup, grid, &copy);
  examine("copy of the grid", copy);
  PMPI_Cart_get(copy, 2, got_dims, got_periods, coordinates);
  note_ints("dimensions", got_dims, 2);
  note_ints("periods", got_periods, 2);
  note_ints("at", coordinates, 2);
  CALL(MPI_Cart_sub, copy, remain, &line);
  examine("line", line);
  end(&line);
  CALL(MPI_Cart_sub, copy, none, &line);
  examine("point", line);
  end(&line);
  end(&copy);
  end(&grid);
  CALL(MPI_Graph_create, world, 4, index, edges, 0, &graph);
  examine("graph", graph);
  end(&graph);
  CALL(MPI_Dist_graph_create, world, 1, &me, &one, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  examine("distributed graph", graph);
  end(&graph);
  CALL(MPI_Dist_graph_create_adjacent, world, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
       &graph);
  examine("distributed graph", graph);
  end(&graph);
}

/* A freed communicator lives on until the messages on it have arrived. */
static void freed_early(void) {
  MPI_Comm comm;
  MPI_Request request;
  int value = -1;
  note("== freed early");
  CALL(MPI_Comm_dup, world, &comm);
  CALLC(MPI_Irecv, &value, 1, MPI_INT, (me + 1) % size, 0, comm, &request);
  CALLC(MPI_Send, &me, 1, MPI_INT, (me + size - 1) % size, 0, comm);
  CALL(MPI_Comm_free, &comm);
  wait_and_note(&request, MPI_INT);
  note("  got %d", value);
}

static void many(void) {
  MPI_Comm comms[20];
  int sum = 0;
  note("== many");
  for (int i = 0; i < 20; ++i) POLL(MPI_Comm_split, i ? comms[i - 1] : world, 0, i % 2 ? -me : me, &comms[i]);
  for (int i = 0; i < 20; ++i) {
    int rank, value;
    PMPI_Comm_rank(comms[i], &rank);
    value = rank * i;
    POLLC(MPI_Bcast, &value, 1, MPI_INT, i % size, comms[i]);
    sum += value;
  }
  note("  sum %d", sum);
  for (int i = 19; i >= 0; i -= 2) POLL(MPI_Comm_free, &comms[i]);
  for (int i = 0; i < 20; i += 2) POLL(MPI_Comm_free, &comms[i]);
}

static void body(void) {
  if (thread == 0) examine("MPI_COMM_WORLD", MPI_COMM_WORLD);
  examine("world", world);
  copies();
  if (thread == 0) attributes(); /* keys are numbered by the process, and the order of callbacks follows the numbers */
  parts();
  topologies();
  freed_early();
  many();
}

int main(int argc, char** argv) {
  one_after_the_other =
      1; /* communicators of some ranks made on two threads at once: Open MPI 4.1.4 hangs now and then */
  return conformance(&argc, &argv, body);
}
