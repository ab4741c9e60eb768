/* What a program of the conformance suite sees of MPI, written down completely: every return code, status, result
 * buffer and call of an error handler. Two runs, with and without the library, must write the same; so nothing that
 * depends on time may enter.
 *
 * A program has one body and runs it on one thread, or with CONFORMANCE_THREADS=2 on two at once, each with its own
 * duplicate of MPI_COMM_WORLD (`world`). $CONFORMANCE_OUT/[PREFIX-]RANK.THREAD is the transcript of one of them,
 * RANK.calls says how often each function was called, which is what the recorded profile must say too.
 *
 * Only names with MPI_ that are reached through CALL() are counted. What the transcript itself asks is only of
 * functions that have no row, by PMPI_: a function with a row is recorded under both names. */
#ifndef CONFORMANCE_TRANSCRIPT_H
#define CONFORMANCE_TRANSCRIPT_H

#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 2
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5) /* which says 3 and has most of 4 */
#define HAS_MPI4
#endif

/* ------------------------------------------------------------------------------------------------ state of a thread */

static __thread FILE* out;      /* the transcript */
static __thread MPI_Comm world; /* this thread's own duplicate of MPI_COMM_WORLD */
static __thread int me, size;   /* in it */
static __thread int thread;     /* 0, 1 */
static int threads = 1;         /* that run the body */

/* ----------------------------------------------------------------------------------- the independent count of calls */

static struct {
  const char* name;
  long calls;
} counted[512];
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_call(const char* name) {
  pthread_mutex_lock(&count_lock);
  int i = 0;
  while (counted[i].name && strcmp(counted[i].name, name) != 0) ++i;
  counted[i].name = name;
  ++counted[i].calls;
  pthread_mutex_unlock(&count_lock);
}

/* ------------------------------------------------------------------------------------------ lines of the transcript */

__attribute__((format(printf, 1, 2))) static inline void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(out, format, arguments);
  va_end(arguments);
  fputc('\n', out);
}

/* A code as its class and text. Texts of MPICH name addresses: there the text is that of the class. */
static inline const char* code_text(int code) {
  static __thread char text[MPI_MAX_ERROR_STRING + 64];
  char string[MPI_MAX_ERROR_STRING] = "";
  int class = -1, length = 0;
  if (code == MPI_SUCCESS) return "ok";
  PMPI_Error_class(code, &class);
#ifdef OPEN_MPI
  PMPI_Error_string(code, string, &length);
  snprintf(text, sizeof text, "code %d class %d (%s)", code, class, string);
#else
  PMPI_Error_string(class, string, &length);
  snprintf(text, sizeof text, "class %d (%s)", class, string);
#endif
  return text;
}

static inline int returned(const char* name, int code) {
  if (out) note("%s: %s", name, code_text(code));
  return code;
}

/* The call is counted before it is made: some do not return. */
#define CALL(NAME, ...) (count_call(#NAME), returned(#NAME, NAME(__VA_ARGS__)))
/* The same without a line, for calls that are repeated as often as it takes. */
#define POLL(NAME, ...) (count_call(#NAME), NAME(__VA_ARGS__))

/* Functions of which MPI 4 has a variant with large counts: a program that defines LARGE_COUNT is its neighbour
 * without, with those. */
#ifdef LARGE_COUNT
#define CALLC(NAME, ...) CALL(NAME##_c, __VA_ARGS__)
#define POLLC(NAME, ...) POLL(NAME##_c, __VA_ARGS__)
typedef MPI_Count Count;
typedef MPI_Aint Displacement;
#else
#define CALLC(NAME, ...) CALL(NAME, __VA_ARGS__)
#define POLLC(NAME, ...) POLL(NAME, __VA_ARGS__)
typedef int Count;
typedef int Displacement;
#endif

static inline void note_bytes(const char* label, const void* data, size_t bytes) {
  const unsigned char* p = data;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 0x100000001b3u;
  fprintf(out, "  %s: %zu bytes, hash %016llx", label, bytes, (unsigned long long)hash);
  for (size_t i = 0; i < bytes && i < 32; ++i) fprintf(out, "%s%02x", i % 4 ? "" : " ", p[i]);
  fputc('\n', out);
}

static inline void note_ints(const char* label, const int* values, int n) {
  fprintf(out, "  %s:", label);
  for (int i = 0; i < n; ++i) fprintf(out, " %d", values[i]);
  fputc('\n', out);
}

/* -------------------------------------------------------------------------------------- statuses, requests, buffers */

#define UNTOUCHED (-7777)

/* Every field has a value that nobody writes by chance, so that what MPI leaves alone is seen to be left alone. */
static inline void poison_statuses(MPI_Status* statuses, int n) {
  for (int i = 0; i < n; ++i) {
    memset(&statuses[i], 0, sizeof statuses[i]);
    PMPI_Status_set_elements(&statuses[i], MPI_BYTE, 7777);
    PMPI_Status_set_cancelled(&statuses[i], 0);
    statuses[i].MPI_SOURCE = statuses[i].MPI_TAG = statuses[i].MPI_ERROR = UNTOUCHED;
  }
}

static inline void note_status(const char* label, const MPI_Status* status, MPI_Datatype type) {
  int count = UNTOUCHED, elements = UNTOUCHED, cancelled = UNTOUCHED, bytes = UNTOUCHED;
  PMPI_Test_cancelled(status, &cancelled);
#ifndef OPEN_MPI /* which leaves in the other fields what a request before this one had there */
  if (cancelled) return note("  %s: cancelled", label);
#endif
  PMPI_Get_count(status, type, &count);
  PMPI_Get_elements(status, type, &elements);
  PMPI_Get_count(status, MPI_BYTE, &bytes);
  note("  %s: source %d tag %d error %d count %d elements %d bytes %d cancelled %d", label, status->MPI_SOURCE,
       status->MPI_TAG, status->MPI_ERROR, count, elements, bytes, cancelled);
}

/* For a collective only the error is defined: Open MPI has in the other fields what an earlier request left there. */
static inline void note_collective_status(const char* label, const MPI_Status* status) {
  note("  %s: error %d", label, status->MPI_ERROR);
}

/* `code` is what the receive returned: MPICH counts for a message that was too long what its request object was
 * last used for. */
static inline void forget_truncated_count(MPI_Status* status, int code) {
#ifndef OPEN_MPI
  int class = MPI_SUCCESS;
  PMPI_Error_class(code, &class);
  if (class == MPI_ERR_TRUNCATE && status != MPI_STATUS_IGNORE) PMPI_Status_set_elements(status, MPI_BYTE, 0);
#else
  (void)status;
  (void)code;
#endif
}

static inline void note_statuses(const char* label, const MPI_Status* statuses, int n, MPI_Datatype type) {
  char text[64];
  for (int i = 0; i < n; ++i) {
    snprintf(text, sizeof text, "%s %d", label, i);
    note_status(text, &statuses[i], type);
  }
}

static inline void note_requests(const MPI_Request* requests, int n) {
  fprintf(out, "  requests:");
  for (int i = 0; i < n; ++i) fputs(requests[i] == MPI_REQUEST_NULL ? " null" : " set", out);
  fputc('\n', out);
}

#define POISON(array) memset(array, 0xa5, sizeof(array))
#define DATA(array) note_bytes(#array, array, sizeof(array))

/* MPI_Wait with its status, the common end of a non-blocking call. */
static inline void wait_and_note(MPI_Request* request, MPI_Datatype type) {
  MPI_Status status;
  poison_statuses(&status, 1);
  CALL(MPI_Wait, request, &status);
  note_status("status", &status, type);
  note_requests(request, 1);
}

static inline void wait_for_collective(MPI_Request* request) {
  MPI_Status status;
  poison_statuses(&status, 1);
  CALL(MPI_Wait, request, &status);
  note_collective_status("status", &status);
  note_requests(request, 1);
}

/* ----------------------------------------------------------------------------------------- error handlers that tell */

/* MPICH calls handlers with its lock held: they cannot ask it for a name. */
static inline void comm_label(MPI_Comm comm, char* label, size_t bytes) {
  char name[MPI_MAX_OBJECT_NAME] = "";
#ifdef OPEN_MPI
  int length = 0;
  if (comm != MPI_COMM_NULL) PMPI_Comm_get_name(comm, name, &length);
#endif
  snprintf(label, bytes, "%s",
           comm == MPI_COMM_NULL    ? "MPI_COMM_NULL"
           : comm == MPI_COMM_WORLD ? "MPI_COMM_WORLD"
           : comm == MPI_COMM_SELF  ? "MPI_COMM_SELF"
           : comm == world          ? "world"
           : name[0]                ? name
                                    : "unnamed");
}

/* Open MPI gives handlers the name of the call. */
static inline const char* raised_by(va_list arguments) {
#ifdef OPEN_MPI
  return va_arg(arguments, const char*);
#else
  (void)arguments;
  return "a call";
#endif
}

static inline void on_comm_error(MPI_Comm* comm, int* code, ...) {
  char label[MPI_MAX_OBJECT_NAME];
  va_list arguments;
  va_start(arguments, code);
  comm_label(*comm, label, sizeof label);
  note("  handler of communicator %s, from %s: %s", label, raised_by(arguments), code_text(*code));
  va_end(arguments);
}

static inline void on_win_error(MPI_Win* win, int* code, ...) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  va_list arguments;
  va_start(arguments, code);
#ifdef OPEN_MPI
  int length = 0;
  if (*win != MPI_WIN_NULL) PMPI_Win_get_name(*win, name, &length);
#endif
  note("  handler of window %s, from %s: %s", *win == MPI_WIN_NULL ? "MPI_WIN_NULL" : name, raised_by(arguments),
       code_text(*code));
  va_end(arguments);
}

static inline void on_file_error(MPI_File* file, int* code, ...) {
  va_list arguments;
  va_start(arguments, code);
  note("  handler of file %s, from %s: %s", *file == MPI_FILE_NULL ? "MPI_FILE_NULL" : "open", raised_by(arguments),
       code_text(*code));
  va_end(arguments);
}

static inline void tell_comm_errors(MPI_Comm comm) {
  MPI_Errhandler handler;
  PMPI_Comm_create_errhandler(on_comm_error, &handler);
  PMPI_Comm_set_errhandler(comm, handler);
  PMPI_Errhandler_free(&handler);
}

static inline void tell_win_errors(MPI_Win win) {
  MPI_Errhandler handler;
  PMPI_Win_create_errhandler(on_win_error, &handler);
  PMPI_Win_set_errhandler(win, handler);
  PMPI_Errhandler_free(&handler);
}

static inline void tell_file_errors(MPI_File file) {
  MPI_Errhandler handler;
  PMPI_File_create_errhandler(on_file_error, &handler);
  PMPI_File_set_errhandler(file, handler);
  PMPI_Errhandler_free(&handler);
}

/* ------------------------------------------------------------------------------------------------ running a body */

static const char* transcript_prefix = ""; /* tells the processes of spawned jobs from ours */

static inline FILE* open_output(const char* rank, const char* kind) {
  char path[4096];
  const char* folder = getenv("CONFORMANCE_OUT");
  snprintf(path, sizeof path, "%s/%s%s.%s", folder ? folder : ".", transcript_prefix, rank, kind);
  FILE* file = fopen(path, "w");
  if (!file) perror(path), exit(3);
  setvbuf(file, NULL, _IOLBF, 0); /* a program that is aborted leaves what it had written */
  return file;
}

static inline const char* rank_text(void) {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = getenv("PMI_RANK");
  return rank ? rank : "0";
}

static inline void open_transcript(int number) {
  char kind[16];
  thread = number;
  snprintf(kind, sizeof kind, "%d", number);
  out = open_output(rank_text(), kind);
}

/* To be called when nothing but MPI_Finalize remains to be called, and counts that as well. */
static inline void write_calls(void) {
  FILE* file = open_output(rank_text(), "calls");
  for (int i = 0; i < 512 && counted[i].name; ++i) fprintf(file, "%s %ld\n", counted[i].name, counted[i].calls);
  fclose(file);
}

/* How often the body runs, set by programs. In the second round each call has been made before from the same place,
 * which the library uses. */
static int rounds = 1;
static int one_after_the_other; /* set by programs whose calls MPI cannot make on two threads at once */
static void (*conformance_body)(void);
static MPI_Comm worlds[MAX_THREADS];

static inline void* conformance_thread(void* number) {
  open_transcript((int)(intptr_t)number);
  world = worlds[thread];
  PMPI_Comm_rank(world, &me);
  PMPI_Comm_size(world, &size);
  for (int round = 0; round < rounds; ++round) {
    note("round %d", round);
    conformance_body();
  }
  CALL(MPI_Barrier, world);
  fclose(out);
  out = NULL;
  return NULL;
}

static inline int conformance(int* argc, char*** argv, void (*body)(void)) {
  const char* wanted = getenv("CONFORMANCE_THREADS");
  threads = wanted ? atoi(wanted) : 1;
  pthread_t others[MAX_THREADS];
  int provided = 0;
  conformance_body = body;
  if (threads > 1) {
    POLL(MPI_Init_thread, argc, argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) return fprintf(stderr, "no MPI_THREAD_MULTIPLE here\n"), 77;
  } else {
    POLL(MPI_Init, argc, argv);
  }
  tell_comm_errors(MPI_COMM_WORLD);
  tell_comm_errors(MPI_COMM_SELF);
  for (int i = 0; i < threads; ++i) POLL(MPI_Comm_dup, MPI_COMM_WORLD, &worlds[i]);
  for (int i = 1; i < threads; ++i) {
    pthread_create(&others[i], NULL, conformance_thread, (void*)(intptr_t)i);
    if (one_after_the_other) pthread_join(others[i], NULL);
  }
  conformance_thread((void*)0);
  for (int i = 1; i < threads && !one_after_the_other; ++i) pthread_join(others[i], NULL);
  for (int i = 0; i < threads; ++i) POLL(MPI_Comm_free, &worlds[i]);
  count_call("MPI_Finalize");
  write_calls();
  return MPI_Finalize();
}

#endif
