/* Loads the job with RTLD_LOCAL, or has been linked to the one whose constructor is the job. With TIMES, closes it and
 * its MPI library, takes the place where they lay, and loads them again. usage: late_main [LIBRARY [TIMES]] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char** argv) {
  puts("main");
  if (argc < 2) return 0;
  for (int left = argc > 2 ? atoi(argv[2]) : 1;;) {
    void* job = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*run_job)(void) = job ? (int (*)(void))dlsym(job, "run_job") : NULL;
    const int result = run_job ? run_job() : 3;
    if (result != 0 || --left == 0) return result;
    if (dlclose(job) != 0) return 4;
    for (int i = 0; i < 512; ++i) mmap(NULL, i < 64 ? 1 << 20 : 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    puts("again");
  }
}
