// The program ddl.
#include "cli/verbs.h"

int main(int argc, char** argv) { return ddl::cli::run_ddl({argv + 1, argv + argc}); }
