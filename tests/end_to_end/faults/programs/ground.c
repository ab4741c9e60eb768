/* The ground gives way under a running job. Communicates; does what is asked, in each rank; communicates 4000
 * rounds more; finalizes.
 * usage: ground [shell COMMAND | fsize BYTES | as 0 | nofile 0 | uid NUMBER] */
#include <sys/resource.h>

#include "communicate.h"

static void limit(int resource, rlim_t soft) {
  struct rlimit limit;
  getrlimit(resource, &limit);
  limit.rlim_cur = soft;
  setrlimit(resource, &limit);
}

static void lift(int resource) {
  struct rlimit limit;
  getrlimit(resource, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(resource, &limit);
}

static int spare[1024], spare_count;

/* The limit is above what is open, or poll() would fail: and every number below it is taken. */
static void use_up_descriptors(void) {
  int highest = 0;
  for (int fd = 0; fd < 1000; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) highest = fd;
  }
  limit(RLIMIT_NOFILE, (rlim_t)highest + 1);
  while (spare_count < 1000 && (spare[spare_count] = dup(0)) >= 0) ++spare_count;
}

int main(int argc, char** argv) {
  const char* what = argc > 2 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  begin_log();
  communicate(40);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(what, "shell") == 0 && rank == 0 && system(argv[2]) != 0) return 9;
  if (strcmp(what, "fsize") == 0) limit(RLIMIT_FSIZE, (rlim_t)atol(argv[2]));
  if (strcmp(what, "as") == 0) limit(RLIMIT_AS, 4096); /* less than is in use: nothing more can be mapped */
  if (strcmp(what, "nofile") == 0) use_up_descriptors();
  if (strcmp(what, "uid") == 0 && seteuid((uid_t)atol(argv[2])) != 0) return 9;
  CALL(Barrier, 0, (MPI_COMM_WORLD));
  communicate(4000);
  lift(RLIMIT_FSIZE); /* MPI_Finalize needs them again */
  lift(RLIMIT_AS);
  lift(RLIMIT_NOFILE);
  while (spare_count > 0) close(spare[--spare_count]);
  if (strcmp(what, "uid") == 0 && seteuid(getuid()) != 0) return 9;
  CALL(Finalize, 0, ());
  puts("done");
  return 0;
}
