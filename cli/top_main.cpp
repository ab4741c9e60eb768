// ddl-top: `ddl top` by its own name.
#include "cli/verbs.h"

int main(int argc, char** argv) {
  ddl::cli::Arguments arguments(argv, argv + argc);
  arguments[0] = "top";
  return ddl::cli::run_ddl(arguments);
}
