/* Loads the job with RTLD_LOCAL, or has been linked to the one whose constructor is the job. usage: late_main [LIBRARY] */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  puts("main");
  if (argc < 2) return 0;
  void* job = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*run_job)(void) = job ? (int (*)(void))dlsym(job, "run_job") : NULL;
  return run_job ? run_job() : 3;
}
