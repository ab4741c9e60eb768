/* A wrapper that annotates and then becomes the job: exec_first PROGRAM ARGUMENT... */
#include <unistd.h>

#include "ddl/annotate.h"

int main(int argc, char** argv) {
  ddl_layer_begin("set-up");
  ddl_layer_end();
  if (argc > 1) execv(argv[1], argv + 1);
  return 127;
}
