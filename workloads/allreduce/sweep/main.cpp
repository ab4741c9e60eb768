#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "workloads/allreduce/sweep/candidates.h"
#include "workloads/allreduce/sweep/options.h"
#include "workloads/allreduce/sweep/sweep.h"

namespace ddl::allreduce {

namespace {

/** "Open MPI v4.1.4": what comes before the first comma or line end, blanks for tabs, nothing that would
 * end a quoted text. */
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name;
  for (const char c : std::string(text, static_cast<std::size_t>(length))) {
    if (c == ',' || c == '\n') break;
    if (c != '"') name += c == '\t' ? ' ' : c;
  }
  return name;
}

int run(const Options& options, int rank) {
  const Topology topology = Topology::discover(MPI_COMM_WORLD);
  OpenMpi openmpi;
  std::vector<std::string> comments;
  const std::vector<Candidate> candidates = make_candidates(options, topology, openmpi, comments);
  if (rank == 0) {
    std::printf("# allreduce 1 ranks=%d nodes=%d library=\"%s\" datatype=float op=sum\n", topology.ranks(),
                topology.nodes(), library_name().c_str());
    for (const std::string& comment : comments) std::printf("# %s\n", comment.c_str());
  }
  const std::string wrong = run_sweep(options, candidates);
  if (wrong.size() > 1) std::fprintf(stderr, "allreduce: error: %s\n", wrong.c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fputs("allreduce: error: stdout: cannot be written\n", stderr);
    return 1;
  }
  return wrong.empty() ? 0 : 1;
}

}  // namespace

}  // namespace ddl::allreduce

int main(int argc, char** argv) {
  using namespace ddl::allreduce;
  // Read in MPI_Init: whether Open MPI will look at algorithms that are forced. A choice that the user made stands.
  setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
  MPI_Init(&argc, &argv);
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int exit_code = 0;
  try {
    const Options options = parse_options(argc, argv);
    if (!options.help) {
      exit_code = run(options, rank);
    } else if (rank == 0) {
      std::fputs(help_text().c_str(), stdout);
    }
  } catch (const UsageError& error) {  // all ranks have the same command line
    if (rank == 0) std::fprintf(stderr, "allreduce: error: %s\n", error.what());
    exit_code = 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce: error: rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_T_finalize();
  MPI_Finalize();
  return exit_code;
}
