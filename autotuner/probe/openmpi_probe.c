/* libddl-probe-openmpi.so: which algorithm of MPI_Allreduce Open MPI ran, for LD_PRELOAD. A rules file that the library
 * does not like is dropped silently, and some algorithms give way to others in silence; this counts what ran.
 *
 * Open MPI 4 and 5 built with components as files of their own (Debian is) call the algorithms of coll/base through the
 * PLT, so the definitions here come first. Each forwards its arguments and counts (ranks, elements, bytes, algorithm
 * asked for, algorithm that ran, segment): one algorithm that calls another gave way to it. At exit a file per process
 * goes to $DDL_PROBE_OUT: see autotuner/probe_report.h for the format.
 *
 * Injected code: libc only, no allocation, no lock, no thread, nothing on stdout, errno untouched while the job runs.
 * Without $DDL_PROBE_OUT, or in a process that starts no MPI, nothing happens. A process that ends by a signal or _exit
 * leaves no file, and the reader says so. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dynamic_loading.h"

#define EXPORTED __attribute__((visibility("default")))

enum { kRows = 4096, kMpiSuccess = 0 };

/* Ids of coll_tuned_allreduce_algorithm. */
enum { kBasicLinear = 1, kNonoverlapping, kRecursiveDoubling, kRing, kSegmentedRing, kRabenseifner };

struct row {
  atomic_int
      state; /* 0 free, 1 being written, 2 there; two threads may make two rows of one key, the reader adds them up */
  int ranks, elements, asked, ran, commutes;
  int64_t bytes, segment_bytes;
  atomic_long calls;
};
static struct row rows[kRows];
static atomic_long lost; /* calls for which no row was left */
static char out[PATH_MAX];
static pid_t started_by;

/* What this thread is in: the algorithm that was asked for and the last one that it gave way to. */
static __thread int depth __attribute__((tls_model("initial-exec"))), inner __attribute__((tls_model("initial-exec")));

typedef int (*type_size_t)(void*, int*);
typedef int (*comm_size_t)(void*, int*);
typedef int (*op_commutative_t)(void*, int*);
typedef int (*library_version_t)(char*, int*);

static void* find(const char* name, const void* caller) {
  if (&dlsym == NULL) return NULL;
  void* found = dlsym(RTLD_NEXT, name);
  if (found != NULL) return found;
  /* Python loads libmpi where RTLD_NEXT does not look: ask for it in the scope of who called. */
  Dl_info info;
  if (caller == NULL || dladdr(caller, &info) == 0) return NULL;
  void* object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (object == NULL) return NULL;
  found = dlsym(object, name);
  dlclose(object);
  return found;
}

static struct {
  type_size_t type_size;
  comm_size_t comm_size;
  op_commutative_t op_commutative;
} mpi;
static atomic_int knows_mpi;

static int know_mpi(const void* caller) {
  if (atomic_load_explicit(&knows_mpi, memory_order_acquire)) return 1;
  const type_size_t type_size = (type_size_t)find("PMPI_Type_size", caller);
  const comm_size_t comm_size = (comm_size_t)find("PMPI_Comm_size", caller);
  const op_commutative_t op_commutative = (op_commutative_t)find("PMPI_Op_commutative", caller);
  if (type_size == NULL || comm_size == NULL || op_commutative == NULL) return 0;
  mpi.type_size = type_size;
  mpi.comm_size = comm_size;
  mpi.op_commutative = op_commutative;
  atomic_store_explicit(&knows_mpi, 1, memory_order_release);
  return 1;
}

static int is_key(const struct row* row, const struct row* key) {
  return row->ranks == key->ranks && row->elements == key->elements && row->bytes == key->bytes &&
         row->asked == key->asked && row->ran == key->ran && row->commutes == key->commutes &&
         row->segment_bytes == key->segment_bytes;
}

static void count(const struct row* key) {
  const uint64_t mixed =
      ((uint64_t)key->bytes * 31 + (uint64_t)key->ranks * 8 + (uint64_t)key->ran + (uint64_t)key->segment_bytes) *
      0x9E3779B97F4A7C15u;
  for (int i = 0; i < kRows; ++i) {
    struct row* row = &rows[((mixed >> 52) + (unsigned)i) & (kRows - 1)];
    int state = atomic_load_explicit(&row->state, memory_order_acquire);
    if (state == 0 && atomic_compare_exchange_strong(&row->state, &state, 1)) {
      row->ranks = key->ranks;
      row->elements = key->elements;
      row->bytes = key->bytes;
      row->asked = key->asked;
      row->ran = key->ran;
      row->commutes = key->commutes;
      row->segment_bytes = key->segment_bytes;
      state = 2;
      atomic_store_explicit(&row->state, 2, memory_order_release);
    }
    if (state == 2 && is_key(row, key)) {
      atomic_fetch_add_explicit(&row->calls, 1, memory_order_relaxed);
      return;
    }
  }
  atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
}

static void note(int asked, int ran, int64_t segment, int elements, void* type, void* op, void* comm,
                 const void* caller) {
  const int saved = errno;
  struct row key = {.elements = elements, .asked = asked, .ran = ran, .segment_bytes = segment};
  int type_bytes = 0;
  if (know_mpi(caller) && mpi.type_size(type, &type_bytes) == kMpiSuccess &&
      mpi.comm_size(comm, &key.ranks) == kMpiSuccess && mpi.op_commutative(op, &key.commutes) == kMpiSuccess) {
    key.bytes = (int64_t)elements * type_bytes;
    count(&key);
  } else {
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
  }
  errno = saved;
}

/* `count` is int in Open MPI 4 and 5: passed on as the register that it came in, whatever its upper half. */
#define ARGUMENTS const void *sendbuf, void *recvbuf, long elements, void *type, void *op, void *comm, void *module
#define ALGORITHM(name, id, segment, parameters, ...)                                                \
  EXPORTED int name parameters {                                                                     \
    static int(*_Atomic next) parameters;                                                            \
    int(*real) parameters = atomic_load_explicit(&next, memory_order_relaxed);                       \
    if (real == NULL) {                                                                              \
      const int saved = errno;                                                                       \
      real = (int(*) parameters)find(#name, __builtin_return_address(0));                            \
      atomic_store_explicit(&next, real, memory_order_relaxed);                                      \
      errno = saved;                                                                                 \
      if (real == NULL) return 16; /* MPI_ERR_OTHER; cannot be: whoever called was linked with it */ \
    }                                                                                                \
    inner = id;                                                                                      \
    ++depth;                                                                                         \
    const int result = real(__VA_ARGS__);                                                            \
    if (--depth == 0 && result == kMpiSuccess && out[0] != '\0')                                     \
      note(id, inner, segment, (int)elements, type, op, comm, __builtin_return_address(0));          \
    return result;                                                                                   \
  }
#define PLAIN(name, id) ALGORITHM(name, id, 0, (ARGUMENTS), sendbuf, recvbuf, elements, type, op, comm, module)

PLAIN(ompi_coll_base_allreduce_intra_basic_linear, kBasicLinear)
PLAIN(ompi_coll_base_allreduce_intra_nonoverlapping, kNonoverlapping)
PLAIN(ompi_coll_base_allreduce_intra_recursivedoubling, kRecursiveDoubling)
PLAIN(ompi_coll_base_allreduce_intra_ring, kRing)
PLAIN(ompi_coll_base_allreduce_intra_redscat_allgather, kRabenseifner)
ALGORITHM(ompi_coll_base_allreduce_intra_ring_segmented, kSegmentedRing, segment_bytes,
          (ARGUMENTS, uint32_t segment_bytes), sendbuf, recvbuf, elements, type, op, comm, module, segment_bytes)

__attribute__((constructor)) static void start(void) {
  const int saved = errno;
  const char* directory = getenv("DDL_PROBE_OUT");
  if (directory != NULL && directory[0] == '/' && strlen(directory) + 80 < sizeof out) strcpy(out, directory);
  started_by = getpid();
  errno = saved;
}

static int put(int fd, const char* text, int length) { return length > 0 && write(fd, text, (size_t)length) == length; }

/* As mpirun or srun has numbered this process; -1: neither did. */
static int from_launcher(const char* of_mpirun, const char* of_srun) {
  const char* value = getenv(of_mpirun);
  if (value == NULL) value = getenv(of_srun);
  return value != NULL ? atoi(value) : -1;
}

static int put_report(int fd, const char* version) {
  char text[512];
  int good =
      put(fd, text,
          snprintf(text, sizeof text, "ddl-probe-openmpi 1\nlibrary %.255s\nrank %d of %d\nsymbols %d\nlost %ld\n",
                   version, from_launcher("OMPI_COMM_WORLD_RANK", "SLURM_PROCID"),
                   from_launcher("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"),
                   dlsym(RTLD_NEXT, "ompi_coll_base_allreduce_intra_ring") != NULL, atomic_load(&lost)));
  for (int i = 0; i < kRows && good; ++i) {
    const struct row* row = &rows[i];
    if (atomic_load(&rows[i].state) != 2) continue;
    good = put(
        fd, text,
        snprintf(text, sizeof text, "%d %d %lld %d %d %lld %d %ld\n", row->ranks, row->elements, (long long)row->bytes,
                 row->asked, row->ran, (long long)row->segment_bytes, row->commutes, atomic_load(&rows[i].calls)));
  }
  return good && put(fd, text, snprintf(text, sizeof text, "end\n"));
}

/* A process that has an MPI library in it is one that the reader should hear of, also if nothing was counted. */
__attribute__((destructor)) static void finish(void) {
  if (out[0] == '\0' || getpid() != started_by) return; /* a forked child's counts are its parent's */
  const int saved = errno;
  const library_version_t library_version =
      &dlsym == NULL ? NULL : (library_version_t)dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
  char version[8192] = "";
  int length = 0;
  if (library_version != NULL && library_version(version, &length) == kMpiSuccess) {
    version[strcspn(version, "\r\n")] = '\0';
    char path[PATH_MAX + 80], host[64] = "";
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s.%d.probe", out, host, (int)getpid());
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
      const int good = put_report(fd, version);
      if ((close(fd) != 0) | !good) unlink(path);
    }
  }
  errno = saved;
}
