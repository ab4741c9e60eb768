/* One-sided communication with active targets: windows of all kinds, fences, post-start-complete-wait and test.
 * conformance: ranks=3/2 threads=yes */
#include "support/windows.h"

static __thread int out_data[SLOTS], in_data[SLOTS];

static void prepare(int seed) {
  for (int i = 0; i < SLOTS; ++i) out_data[i] = seed * 10000 + me * 1000 + i;
  POISON(in_data);
}

/* Each rank writes slots 4 me .. of its target, reads what lies there, and adds to slots 12 .. of everybody. */
static void operate(Window* w, int target) {
  CALLC(MPI_Put, out_data, 4, MPI_INT, target, place(w, target, 4 * me), 4, MPI_INT, w->win);
  CALLC(MPI_Get, in_data, 4, MPI_INT, target, place(w, target, 16), 4, MPI_INT, w->win);
  CALLC(MPI_Accumulate, out_data + 4, 3, MPI_INT, target, place(w, target, 12), 3, MPI_INT, MPI_SUM, w->win);
  CALLC(MPI_Put, out_data, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, w->win);
  CALLC(MPI_Get, in_data + 8, 0, MPI_INT, target, place(w, target, 0), 0, MPI_INT, w->win);
}

static void fences(Window* w) {
  note("-- fences");
  prepare(1);
  CALL(MPI_Win_fence, MPI_MODE_NOPRECEDE, w->win);
  operate(w, (me + 1) % size);
  CALL(MPI_Win_fence, 0, w->win);
  note_bytes("got", in_data, sizeof in_data);
  note_bytes("memory", w->memory, SLOTS * sizeof(int));
  CALL(MPI_Barrier, world); /* the next epoch's operations may come at once */
  for (int target = 0; target < size; ++target)
    CALLC(MPI_Accumulate, out_data, 2, MPI_INT, target, place(w, target, 20), 2, MPI_INT, MPI_SUM, w->win);
  CALL(MPI_Win_fence, MPI_MODE_NOSUCCEED, w->win);
  note_bytes("memory", w->memory, SLOTS * sizeof(int));
}

static void groups(Window* w, MPI_Comm comm, int with_test) {
  MPI_Group all, to, from;
  const int next = (me + 1) % size, previous = (me + size - 1) % size;
  int flag = 0;
  note("-- post, start, complete, %s", with_test ? "test" : "wait");
  prepare(2 + with_test);
  CALL(MPI_Barrier, comm);
  PMPI_Comm_group(comm, &all);
  PMPI_Group_incl(all, 1, &next, &to);
  PMPI_Group_incl(all, 1, &previous, &from);
  CALL(MPI_Win_post, from, 0, w->win);
  CALL(MPI_Win_start, to, 0, w->win);
  operate(w, next);
  CALL(MPI_Win_complete, w->win);
  if (with_test) {
    while (!flag) POLL(MPI_Win_test, w->win, &flag);
  } else {
    CALL(MPI_Win_wait, w->win);
  }
  note_bytes("got", in_data, sizeof in_data);
  note_bytes("memory", w->memory, SLOTS * sizeof(int));
  PMPI_Group_free(&to);
  PMPI_Group_free(&from);
  PMPI_Group_free(&all);
  CALL(MPI_Barrier, comm);
}

static void derived(Window* w) {
  MPI_Datatype every_other;
  note("-- derived");
  prepare(5);
  clear(w);
  PMPI_Type_vector(3, 1, 2, MPI_INT, &every_other);
  PMPI_Type_commit(&every_other);
  CALL(MPI_Win_fence, 0, w->win);
  CALLC(MPI_Put, out_data, 1, every_other, (me + 1) % size, place(w, (me + 1) % size, 1), 1, every_other, w->win);
  CALLC(MPI_Get, in_data, 3, MPI_INT, (me + 2) % size, place(w, (me + 2) % size, 12), 1, every_other, w->win);
  CALL(MPI_Win_fence, 0, w->win);
  note_bytes("got", in_data, sizeof in_data);
  note_bytes("memory", w->memory, SLOTS * sizeof(int));
  PMPI_Type_free(&every_other);
}

/* Attributes, the group, and what freeing calls. */
static int deleted(MPI_Win win, int key, void* value, void* extra) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length;
  (void)key, (void)extra;
  PMPI_Win_get_name(win, name, &length);
  note("  attribute %d deleted from %s", (int)(intptr_t)value, name);
  return MPI_SUCCESS;
}

static void examine(Window* w, int keyval) {
  void* value = NULL;
  int flag = 0, n = -1, *model = NULL;
  MPI_Group group;
  PMPI_Win_set_attr(w->win, keyval, (void*)(intptr_t)(me + 40));
  PMPI_Win_get_attr(w->win, MPI_WIN_SIZE, &value, &flag);
  note("  size %lld", flag ? (long long)*(MPI_Aint*)value : -1);
  PMPI_Win_get_attr(w->win, MPI_WIN_DISP_UNIT, &value, &flag);
  note("  unit %d", flag ? *(int*)value : -1);
  PMPI_Win_get_attr(w->win, MPI_WIN_MODEL, &model, &flag);
  note("  model %s", flag && *model == MPI_WIN_UNIFIED ? "unified" : "separate");
  PMPI_Win_get_group(w->win, &group);
  PMPI_Group_size(group, &n);
  PMPI_Group_free(&group);
  note("  group of %d", n);
}

static void body(void) {
  int keyval;
  PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleted, &keyval, NULL);
  for (int kind = 0; kind < kKinds; ++kind) {
    Window w;
    open_window((enum Kind)kind, world, &w);
    if (kind != kDynamic) examine(&w, keyval);
    fences(&w);
    groups(&w, world, 0);
    groups(&w, world, 1);
    derived(&w);
    close_window((enum Kind)kind, &w);
  }
  PMPI_Win_free_keyval(&keyval);
}

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
