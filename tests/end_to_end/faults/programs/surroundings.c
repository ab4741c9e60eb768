/* Jobs in odd surroundings, which must stay as they are. usage: surroundings WHAT. Prints what the process
 * looks like from inside when it is done: compared with a run without the recorder. Exit code 9: somebody
 * touched what is not his. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "communicate.h"
#include "ddl/annotate.h"

static const char kText[] = "the job's own\n";

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "surroundings: %s\n", what);
  exit(9);
}

static void expect_content(const char* name, size_t bytes) {
  char text[4096];
  const int fd = open(name, O_RDONLY);
  const ssize_t got = read(fd, text, sizeof text);
  close(fd);
  if (got != (ssize_t)bytes) _exit(9);
  for (size_t at = 0; at < bytes; at += sizeof kText - 1) {
    if (memcmp(text + at, kText, sizeof kText - 1) != 0) _exit(9);
  }
}

/* Closed standard streams: the job's own files take their numbers. Nobody may write to them, and nobody may print. */
static void close_streams(void) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  char name[] = "own.0";
  for (int i = 0; i < 3; ++i) {
    name[4] = (char)('0' + i);
    if (open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600) != i || write(i, kText, sizeof kText - 1) < 0)
      _exit(9);
  }
}

static void check_streams(void) {
  char name[] = "own.0";
  for (int i = 0; i < 3; ++i) {
    name[4] = (char)('0' + i);
    expect_content(name, sizeof kText - 1);
  }
}

static void only_close_streams(void) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
}

static void no_umask(void) { umask(0777); }
/* MPI needs what tells it where it is, and nothing more. */
static void no_environment(void) {
  char* kept[64];
  int n = 0;
  for (char** variable = environ; *variable && n < 64; ++variable) {
    if (strncmp(*variable, "PATH=", 5) == 0 || strncmp(*variable, "OMPI_", 5) == 0) kept[n++] = strdup(*variable);
  }
  clearenv();
  while (n > 0) putenv(kept[--n]);
}
static void no_variable(void) { clearenv(); }
static void no_home(void) { unsetenv("HOME"); }
static void go_elsewhere(void) { expect(chdir("/") == 0, "chdir"); }

/* A storm of signals whose handler does harmless work, in the middle of everything. */
static volatile unsigned long alarms, sink;
static void on_alarm(int number) {
  (void)number;
  char buffer[64];
  memset(buffer, (int)alarms, sizeof buffer);
  sink += (unsigned long)buffer[alarms % sizeof buffer];
  ++alarms;
}

static void storm(void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags | SA_RESTART};
  struct itimerval often = {{0, 200}, {0, 200}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
}
static void calm(void) {
  while (alarms < 100) communicate(100);
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
}
static void alarm_storm(void) { storm(on_alarm, 0); }

/* Annotations and MPI calls from a handler: not legal, yet nobody may hang. Only calls that Open MPI answers from
 * its own memory. */
static void on_alarm_call(int number) {
  on_alarm(number);
  int flag;
  ddl_layer_begin("in a handler");
  MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  ddl_layer_end();
}
static void alarm_calls(void) { storm(on_alarm_call, 0); }

/* The handler runs on a stack of its own, as small as stacks may be. What sysconf says is the signal's frame alone:
 * our handler needs some more, and on processors with a small frame (1,776 bytes) it is less than the 2,048 that
 * Linux accepts. */
static void alarm_on_small_stack(void) {
  const long frame = sysconf(_SC_MINSIGSTKSZ);
  const size_t bytes = (size_t)(frame > 1536 ? frame : 1536) + 512;
  stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes};
  expect(sigaltstack(&stack, NULL) == 0, "sigaltstack");
  storm(on_alarm, SA_ONSTACK);
}

/* Legal before MPI_Init and after MPI_Finalize. */
static void ask_mpi(void) {
  int initialized, finalized, version, subversion, length;
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  MPI_Get_version(&version, &subversion);
  MPI_Get_library_version(text, &length);
  printf("initialized %d, finalized %d, version %d.%d, %s\n", initialized, finalized, version, subversion, text);
}

static const struct {
  const char* name;
  void (*before)(void); /* MPI_Init */
  void (*during)(void);
  void (*calm)(void); /* before MPI_Finalize */
  void (*after)(void);
} kCases[] = {
    {"nothing", NULL, NULL, NULL, NULL},
    {"close_streams", close_streams, NULL, NULL, check_streams},
    {"only_close_streams", only_close_streams, NULL, NULL, NULL},
    {"umask", no_umask, NULL, NULL, NULL},
    {"clearenv", no_environment, NULL, NULL, NULL},
    {"clearenv_later", NULL, no_variable, NULL, NULL},
    {"home", no_home, NULL, NULL, NULL},
    {"chdir", NULL, go_elsewhere, NULL, NULL},
    {"alarms", NULL, alarm_storm, calm, NULL},
    {"alarm_calls", NULL, alarm_calls, calm, NULL},
    {"alarm_stack", NULL, alarm_on_small_stack, calm, NULL},
    {"ask", ask_mpi, ask_mpi, ask_mpi, ask_mpi},
};

/* Handlers, mask, descriptors, threads: what a library must leave as it was. */
static void print_process(void) {
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) continue;
    const int handled = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    if (handled || sigismember(&mask, number))
      printf("signal %d: %s%s\n", number, handled ? "handled" : "", sigismember(&mask, number) ? " blocked" : "");
  }
  int descriptors = 0;
  for (int fd = 0; fd < 1024; ++fd) descriptors += fcntl(fd, F_GETFD) >= 0;
  const mode_t mode = umask(0);
  umask(mode);
  printf("%d descriptors, umask %o, cwd changed %d\n", descriptors, (unsigned)mode, access("own.txt", F_OK) != 0);
}

int main(int argc, char** argv) {
  unsigned i = 0;
  while (strcmp(kCases[i].name, argv[1]) != 0) ++i;
  const char* log = getenv("CALL_LOG");
  char log_name[4096] = "";
  if (log) strcpy(log_name, log); /* the environment may go */
  close(open("own.txt", O_CREAT | O_WRONLY, 0600));
  if (kCases[i].before) kCases[i].before();
  MPI_Init(&argc, &argv);
  const mode_t mode = umask(077);
  open_call_log(log ? log_name : NULL, 0);
  umask(mode);
  log_calls("MPI_Init", 1, 0);
  if (kCases[i].during) kCases[i].during();
  communicate(4000);
  if (kCases[i].calm) kCases[i].calm();
  CALL(Finalize, 0, ());
  if (kCases[i].after) kCases[i].after();
  print_process();
  return 0;
}
