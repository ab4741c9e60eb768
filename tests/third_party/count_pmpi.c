/*
 * count_pmpi.so: calls and bytes of an MPI job per operation and communicator, counted by the tests' own means. The independent truth for
 * view v_call.
 *
 * Preloaded after libddl.so, so it sees what libddl.so forwards. At the end each rank that called MPI_Finalize appends lines "rank op where
 * calls bytes" to $COUNT_PMPI_OUT in one write. Shares nothing with interpose/ on purpose: its own list of operations, its own rules for
 * bytes, its own request table, its own idea of what a communicator is. Made for tests, so simple: one world, one thread in MPI at a time.
 * Compiled once against Open MPI's mpi.h and once against MPICH's.
 *
 * Where: the members of the communicator as ranks in MPI_COMM_WORLD ("0,2,1"), so communicators with equal members are one. For an
 * intercommunicator the members on our side ("inter:0,1"); "window:" and "file:" likewise; "-" for calls that have none. A request counts
 * where it was posted; a completing call has no communicator, whatever it completes.
 *
 * Bytes are what this rank sends, and for receives what its status says arrived; those of non-blocking and persistent operations belong to
 * the call that posted or made the request. One-sided operations: what travels to the target, of Get what comes back. MPI_PROC_NULL: 0.
 *
 * Every call is exported as PMPI_X too: Open MPI's Fortran bindings call that. What the MPI library calls for itself inside a call is not
 * counted; what the program calls there is (mpi4py frees a communicator when another is freed).
 *
 * It must not link libmpi: a preloaded libmpi would be global, and would hide that mpi4py's is not (RTLD_NEXT finds nothing there). For the
 * same reason Open MPI's predefined handles, addresses of objects, are looked up, not linked.
 */
#define _GNU_SOURCE
#define MPICH_SKIP_MPICXX
#define OMPI_SKIP_MPICXX
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OPEN_MPI
#define LIBRARY "libmpi.so.40"
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) \
  ((type)symbol_in(RTLD_DEFAULT, #global)) /* a program may hold the copy that all use */
#else
#define LIBRARY "libmpich.so.12"
#endif

/* MPI's own `name`; in processes that loaded libmpi for themselves (mpi4py) only libmpi can be asked. */
static void* symbol_in(void* scope, const char* name) {
  void* symbol = dlsym(scope, name);
  if (!symbol) {
    void* mpi = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    symbol = mpi ? dlsym(mpi, name) : NULL;
  }
  if (!symbol) fprintf(stderr, "count_pmpi: no %s\n", name), abort();
  return symbol;
}
#define REAL(NAME) ((__typeof__(&NAME))symbol_in(RTLD_NEXT, #NAME))

/* ----------------------------------------------------------------------------------------------------------- counts */

struct row {
  const char *op, *where;
  long calls, bytes;
  struct row *next_of_op, *next;
};
struct op {
  const char* name;
  struct row* rows;
};
static struct row* all_rows;

static struct row* row_of(struct op* op, const char* where) {
  for (struct row* each = op->rows; each; each = each->next_of_op)
    if (each->where == where) return each;
  struct row* row = malloc(sizeof *row);
  *row = (struct row){op->name, where, 0, 0, op->rows, all_rows};
  return op->rows = all_rows = row;
}
static struct row* count(struct op* op, const char* where, long bytes) {
  struct row* row = row_of(op, where);
  row->calls++, row->bytes += bytes;
  return row;
}

static int inside; /* a call of the program's */

/* Is it the MPI library that calls us, or a plugin of it? Tools on the way do not matter. */
static int library_calls(void) {
  void* frames[16];
  Dl_info info, own;
  dladdr(&all_rows, &own);
  for (int i = 0, n = backtrace(frames, 16); i < n; ++i) {
    if (!dladdr(frames[i], &info) || info.dli_fbase == own.dli_fbase || strstr(info.dli_fname, "libddl")) continue;
    const char* file = strrchr(info.dli_fname, '/');
    file = file ? file + 1 : info.dli_fname;
    return !strncmp(file, "libmpi", 6) || !strncmp(file, "mca_", 4) || !strncmp(file, "libopen-", 8);
  }
  return 0;
}

/* Both names of a call, and the first lines of its body. */
#define DEFINE(NAME, PARAMETERS, ARGUMENTS)                               \
  extern __typeof__(P##NAME) P##NAME __attribute__((alias(#NAME)));       \
  int NAME PARAMETERS {                                                   \
    static __typeof__(&NAME) real;                                        \
    static struct op op = {.name = #NAME};                                \
    if (!real) real = (__typeof__(&NAME))symbol_in(RTLD_NEXT, "P" #NAME); \
    if (inside && library_calls()) return real ARGUMENTS;
/* Calls the real one. */
#define RESULT(ARGUMENTS)      \
  inside++;                    \
  int result = real ARGUMENTS; \
  inside--

/* ---------------------------------------------------------------------------------------------------- communicators */

static const char nowhere[] = "-";

/* Members of the group as ranks in MPI_COMM_WORLD, with a word in front; the same text is the same address. */
static const char* members(const char* kind, MPI_Group group) {
  static struct name {
    struct name* next;
    char text[];
  } * names;
  static MPI_Group world;
  if (!names) REAL(PMPI_Comm_group)(MPI_COMM_WORLD, &world);
  int size;
  REAL(PMPI_Group_size)(group, &size);
  int* own = malloc((size + 1) * sizeof *own);
  int* ranks = malloc((size + 1) * sizeof *ranks);
  for (int i = 0; i < size; ++i) own[i] = i;
  REAL(PMPI_Group_translate_ranks)(group, size, own, world, ranks);
  struct name* name = malloc(sizeof *name + strlen(kind) + 12 * size + 1);
  char* end = stpcpy(name->text, kind);
  for (int i = 0; i < size; ++i) {
    if (i) *end++ = ',';
    end = ranks[i] == MPI_UNDEFINED ? stpcpy(end, "?") : end + sprintf(end, "%d", ranks[i]);
  }
  REAL(PMPI_Group_free)(&group);
  free(own), free(ranks);
  for (struct name* each = names; each; each = each->next)
    if (!strcmp(each->text, name->text)) return free(name), each->text;
  name->next = names;
  return (names = name)->text;
}

/* What is known by its handle until that is freed. kind: c, w, f. */
static struct known {
  char kind;
  long handle;
  const char* where;
  struct known* next;
} * all_known;

static struct known** find(char kind, long handle) {
  struct known** link = &all_known;
  while (*link && ((*link)->kind != kind || (*link)->handle != handle)) link = &(*link)->next;
  return link;
}
static const char* learn(char kind, long handle, const char* where) {
  struct known* made = malloc(sizeof *made);
  *made = (struct known){kind, handle, where, all_known};
  return (all_known = made)->where;
}
static const char* forgotten(char kind, long handle, const char* where) {
  struct known** link = find(kind, handle);
  struct known* gone = *link;
  *link = gone->next;
  free(gone);
  return where;
}

static const char* on(MPI_Comm comm) {
  struct known* known = *find('c', (long)comm);
  if (known) return known->where;
  MPI_Group group;
  int inter;
  REAL(PMPI_Comm_test_inter)(comm, &inter);
  REAL(PMPI_Comm_group)(comm, &group);
  return learn('c', (long)comm, members(inter ? "inter:" : "", group));
}
static const char* on_window(MPI_Win window) {
  struct known* known = *find('w', (long)window);
  if (known) return known->where;
  MPI_Group group;
  REAL(PMPI_Win_get_group)(window, &group);
  return learn('w', (long)window, members("window:", group));
}
static const char* on_file(MPI_File file) {
  struct known* known = *find('f', (long)file);
  if (known) return known->where;
  MPI_Group group;
  REAL(PMPI_File_get_group)(file, &group);
  return learn('f', (long)file, members("file:", group));
}

/* ------------------------------------------------------------------------------------------------------------ bytes */

static long of(long n, MPI_Datatype type) {
  static __typeof__(&PMPI_Type_size) type_size;
  if (!type_size) type_size = REAL(PMPI_Type_size);
  int size = 0;
  if (n) type_size(type, &size);
  return n * size;
}
static int size_of(MPI_Comm comm) {
  int size;
  REAL(PMPI_Comm_size)(comm, &size);
  return size;
}
static int rank_in(MPI_Comm comm) {
  int rank;
  REAL(PMPI_Comm_rank)(comm, &rank);
  return rank;
}
static int is_inter(MPI_Comm comm) {
  int inter;
  REAL(PMPI_Comm_test_inter)(comm, &inter);
  return inter;
}
/* Whom a collective's counts are for. */
static int peers_of(MPI_Comm comm) {
  int size;
  if (is_inter(comm)) return REAL(PMPI_Comm_remote_size)(comm, &size), size;
  return size_of(comm);
}
/* Whom a neighbourhood collective sends to. */
static int destinations(MPI_Comm comm) {
  int topology, n = 0, from, weighted;
  REAL(PMPI_Topo_test)(comm, &topology);
  if (topology == MPI_CART) return REAL(PMPI_Cartdim_get)(comm, &n), 2 * n;
  if (topology == MPI_GRAPH) return REAL(PMPI_Graph_neighbors_count)(comm, rank_in(comm), &n), n;
  return REAL(PMPI_Dist_graph_neighbors_count)(comm, &from, &n, &weighted), n;
}
static long sum(const int* counts, int n) {
  long total = 0;
  while (n-- > 0) total += counts[n];
  return total;
}
static long of_each(const int* counts, const MPI_Datatype* types, int n) {
  long total = 0;
  while (n-- > 0) total += of(counts[n], types[n]);
  return total;
}
static long to(int peer, long n, MPI_Datatype type) { return peer == MPI_PROC_NULL ? 0 : of(n, type); }
static long was_read(const MPI_Status* status) { /* from a file: says nothing about being cancelled */
  int bytes;
  REAL(PMPI_Get_count)(status, MPI_BYTE, &bytes);
  return bytes;
}
static long arrived(const MPI_Status* status) {
  int cancelled;
  REAL(PMPI_Test_cancelled)(status, &cancelled);
  return cancelled ? 0 : was_read(status);
}

/* --------------------------------------------------------------------------------------------------------- requests */

enum { RECEIVES = -1, READS = -2 };
/* Only requests whose bytes are not known when they are made: receives, and persistent operations. */
static struct tracked {
  MPI_Request handle;
  struct row* row;
  long send_bytes; /* RECEIVES, READS: its status will say */
  int persistent;
} * requests;
static int n_requests, room;

static void track(MPI_Request handle, struct row* row, long send_bytes, int persistent) {
  if (n_requests == room) requests = realloc(requests, (room = 2 * room + 64) * sizeof *requests);
  requests[n_requests++] = (struct tracked){handle, row, send_bytes, persistent};
}
static struct tracked* tracked(MPI_Request handle) {
  for (int i = 0; i < n_requests; ++i)
    if (requests[i].handle == handle) return &requests[i];
  return NULL;
}
static void forget(struct tracked* request) { *request = requests[--n_requests]; }
static void started(MPI_Request handle) {
  struct tracked* request = tracked(handle);
  if (request && request->send_bytes > 0) request->row->bytes += request->send_bytes;
}
static long all_started(int n, const MPI_Request* handles) {
  while (n-- > 0) started(handles[n]);
  return 0;
}
static long freed(MPI_Request handle) {
  struct tracked* request = tracked(handle);
  if (request) forget(request);
  return 0;
}
static void completed(MPI_Request handle, const MPI_Status* status) {
  struct tracked* request = tracked(handle);
  if (!request) return;
  if (request->send_bytes == RECEIVES)
    request->row->bytes += arrived(status); /* 0 for a persistent one that was not started */
  if (request->send_bytes == READS) request->row->bytes += was_read(status);
  if (!request->persistent) forget(request);
}

/* MPI overwrites handles of what completed, and callers may not want statuses: both are kept here during a call. */
static MPI_Request* copies(int n, const MPI_Request* handles) {
  return memcpy(malloc(n * sizeof *handles + 1), handles, n * sizeof *handles);
}
static MPI_Status* room_for(int n, MPI_Status* statuses, MPI_Status** own) {
  *own = calloc(n + 1, sizeof **own);
  return statuses == MPI_STATUSES_IGNORE ? *own : statuses;
}

/* After the call N_DONE requests are complete: with i = 0, 1, ... request number INDEX has status i. */
#define COMPLETING(NAME, PARAMETERS, ARGUMENTS, N, HANDLES, STATUSES, N_DONE, INDEX) \
  DEFINE(NAME, PARAMETERS, ARGUMENTS)                                                \
  MPI_Request* before = copies(N, HANDLES);                                          \
  MPI_Status *own, *filled = room_for(N, STATUSES, &own);                            \
  STATUSES = filled;                                                                 \
  RESULT(ARGUMENTS);                                                                 \
  count(&op, nowhere, 0);                                                            \
  for (int i = 0; i < (N_DONE); ++i) completed(before[INDEX], &filled[i]);           \
  free(before), free(own);                                                           \
  return result;                                                                     \
  }

/* ------------------------------------------------------------------------------------------------------------ calls */

#define CALL(NAME, PARAMETERS, ARGUMENTS, WHERE, BYTES) \
  DEFINE(NAME, PARAMETERS, ARGUMENTS)                   \
  const char* where = WHERE;                            \
  long bytes = BYTES;                                   \
  RESULT(ARGUMENTS);                                    \
  count(&op, where, bytes);                             \
  return result;                                        \
  }
/* The same, blocking and non-blocking. P and A are parameters and arguments in parentheses. */
#define UNPACK(...) __VA_ARGS__
#define BOTH(NAME, INAME, P, A, WHERE, BYTES)      \
  CALL(NAME, (UNPACK P), (UNPACK A), WHERE, BYTES) \
  CALL(INAME, (UNPACK P, MPI_Request * request), (UNPACK A, request), WHERE, BYTES)

/* Its status says how many bytes there were. */
#define RECEIVING(NAME, PARAMETERS, ARGUMENTS, WHERE, BYTES) \
  DEFINE(NAME, PARAMETERS, ARGUMENTS)                        \
  MPI_Status own;                                            \
  if (s == MPI_STATUS_IGNORE) s = &own;                      \
  const char* where = WHERE;                                 \
  RESULT(ARGUMENTS);                                         \
  count(&op, where, result == MPI_SUCCESS ? BYTES(s) : 0);   \
  return result;                                             \
  }
/* Its bytes come later: with the status, or with each start. */
#define MAKING(NAME, PARAMETERS, ARGUMENTS, WHERE, SEND_BYTES, PERSISTENT, COMES_LATER) \
  DEFINE(NAME, PARAMETERS, ARGUMENTS)                                                   \
  struct row* row = count(&op, WHERE, 0);                                               \
  RESULT(ARGUMENTS);                                                                    \
  if (result == MPI_SUCCESS && (COMES_LATER)) track(*r, row, SEND_BYTES, PERSISTENT);   \
  return result;                                                                        \
  }

static int rank = -1; /* known once MPI_Finalize is called */
static long learn_rank(void) {
  rank = rank_in(MPI_COMM_WORLD);
  return 0;
}
/* At the end of the process, because the program's callbacks may call MPI inside MPI_Finalize. */
__attribute__((destructor)) static void write_counts(void) {
  if (rank < 0) return;
  char* text;
  size_t length;
  FILE* lines = open_memstream(&text, &length);
  for (const struct row* row = all_rows; row; row = row->next)
    fprintf(lines, "%d %s %s %ld %ld\n", rank, row->op, row->where, row->calls, row->bytes);
  fclose(lines);
  const char* path = getenv("COUNT_PMPI_OUT");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
  if (file < 0 || write(file, text, length) != (ssize_t)length) perror("count_pmpi: COUNT_PMPI_OUT");
  if (file >= 0) close(file);
}

#include "count_pmpi_calls.def"
