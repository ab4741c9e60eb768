// ddl merge: the store of a run from the parts that several processes made.
#include <fmt/format.h>

#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/parts.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace ddl::cli {

int run_merge(const Arguments& arguments) {
  VerbOptions options({.verb = "merge",
                       .usage = "[RUN] [options]",
                       .text =
                           "Joins the parts of a run into its store, computes waiting, metrics and findings, and\n"
                           "removes the parts. Make them by 'ddl analyze RUN --prepare' and then 'ddl analyze RUN\n"
                           "--part K/N' for each K from 1 to N, in any order, on machines that see the folder. The\n"
                           "store is the same as of an analysis in one process.",
                       .example = "  ddl merge big.ddl"});
  add_threads_option(options);
  options.allow_words(1);
  if (!options.parse(arguments)) return 0;
  const RunDirectory run = options.words().empty() ? find_run() : find_run(options.words()[0]);
  merge_run(run, threads_of(options));
  print_out(fmt::format("merged; now: ddl report {}\n", shown_path(run.directory)));
  return 0;
}

}  // namespace ddl::cli
