/* Annotations in a program without MPI, built at a fixed address (-no-pie), where the linker settles weak
 * symbols early. */
#include <unistd.h>

#include "ddl/annotate.h"

int main(void) {
  for (uint64_t step = 0; step < 7; ++step) {
    ddl_step_begin(step);
    ddl_phase_begin("forward");
    ddl_layer_begin("<script>alert(1)</script>\033[31m");
    usleep(1000);
    ddl_layer_end();
    ddl_phase_end();
    ddl_value("samples", 32);
    ddl_step_end();
  }
  ddl_layer_end(); /* one too many: counted, harmless */
  return 0;
}
