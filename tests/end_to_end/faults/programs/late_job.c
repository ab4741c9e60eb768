/* The job as a library: a program that is not linked to MPI loads it (late_main.c), or its constructor runs before
 * main. */
#include "communicate.h"

int run_job(void);
int run_job(void) {
  MPI_Init(NULL, NULL);
  begin_log();
  communicate(40);
  CALL(Finalize, 0, ());
  return 0;
}

#ifdef IN_CONSTRUCTOR
__attribute__((constructor)) static void before_main(void) { run_job(); }
#endif
