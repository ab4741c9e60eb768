#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "workloads/network/job.h"
#include "workloads/network/split_job.h"
#include "workloads/train/error.h"
#include "workloads/train/mpi.h"

namespace ddl::network {

namespace {

using train::Error;
using train::Mpi;

void print_error(const std::exception& error) { std::fprintf(stderr, "network: error: %s\n", error.what()); }

unsigned long long number(uint64_t value) { return value; }

void print_list() {
  const std::filesystem::path folder = layer_table_folder();
  std::printf("%-20s %7s %12s %14s %20s\n", "network", "layers", "parameters", "gradients/MB", "forward GMAC/sample");
  for (const std::string& name : layer_table_names(folder)) {
    const LayerTable table = find_layer_table(name, folder);
    std::printf("%-20s %7zu %12llu %14.1f %20.4f\n", name.c_str(), table.layers.size(), number(table.parameters()),
                4e-6 * static_cast<double>(table.parameters()), 1e-9 * static_cast<double>(table.macs()));
  }
}

void print_header(const Options& o, const LayerTable& table, int ranks) {
  std::printf("network %s layers %zu parameters %llu ranks %d replicas %zu stages %zu", table.name.c_str(),
              table.layers.size(), number(table.parameters()), ranks,
              static_cast<std::size_t>(ranks) / o.stages / o.split.ranks, o.stages);
  if (o.split.ranks > 1) std::printf(" split %s", o.split_word.c_str());
  if (o.stages > 1) std::printf(" schedule %s", o.schedule == Schedule::kGpipe ? "gpipe" : "1f1b");
  std::printf(" micro-batches %zu batch %zu steps %llu", o.micro_batches, o.batch, number(o.steps));
  if (o.fixed_ms > 0) {
    std::printf(" fixed-ms %g", o.fixed_ms);
  } else {
    std::printf(" scale %g", o.scale);
  }
  std::printf(" bucket-mb %g overlap %s", o.bucket_mib, o.overlap ? "yes" : "no");
  if (o.allreduce.algorithm) std::printf(" allreduce %s", o.allreduce.name().c_str());
  std::printf("\n");
}

/** What each stage does in a step, as its first replica counts it. Collective. */
void print_stages(const Job& job, const LayerTable& table, const Mpi& mpi) {
  const StageCost& own = job.cost();
  const uint64_t mine[] = {own.parameters, own.flops, own.sent_bytes, own.buckets};
  std::vector<uint64_t> all(4 * static_cast<std::size_t>(mpi.size()));
  MPI_Gather(mine, 4, MPI_UINT64_T, all.data(), 4, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (mpi.rank() != 0) return;
  for (std::size_t i = 0; i < job.stages().size(); ++i) {
    const Stage& stage = job.stages()[i];
    const uint64_t* cost = &all[4 * i];
    std::printf(
        "stage %zu from %s to %s: %llu parameters, each step %llu bytes of gradients in %llu buckets, %llu flops, %llu bytes to other "
        "stages\n",
        i, table.layers[stage.begin].name.c_str(), table.layers[stage.end - 1].name.c_str(), number(cost[0]),
        number(sizeof(float) * cost[0]), number(cost[3]), number(cost[1]), number(cost[2]));
  }
  std::fflush(stdout);
}

/** What the layers do among the ranks of a replica. */
void print_split(const SplitJob& job, int rank) {
  if (rank != 0) return;
  for (int form = 0; form <= static_cast<int>(LayerSplit::Form::kReplicated); ++form) {
    const auto layers = std::count_if(job.plan().begin(), job.plan().end(),
                                      [form](const LayerSplit& l) { return static_cast<int>(l.form) == form; });
    if (layers > 0)
      std::printf("layers %s: %td\n", std::string(name_of(static_cast<LayerSplit::Form>(form))).c_str(), layers);
  }
  std::fflush(stdout);
}

/** Known when a step has been done. */
void print_split_cost(const SplitJob& job, int rank) {
  if (rank != 0) return;
  std::printf("rank 0, each step: %llu bytes forward, %llu bytes backward, %llu bytes of gradients\n",
              number(job.cost().forward), number(job.cost().backward), number(job.cost().gradients));
}

/** All steps; the time of the later ones, as the first also pays for page faults and connections. */
template <typename AnyJob>
void run_steps(AnyJob& job, const Options& options, const Mpi& mpi) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  for (uint64_t step = 0; step < options.steps; ++step) {
    job.run_step(step);
    if (step == 0 && options.steps > 1) start = Clock::now();
  }
  if (mpi.rank() != 0) return;
  const uint64_t timed = options.steps > 1 ? options.steps - 1 : 1;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::size_t replicas = static_cast<std::size_t>(mpi.size()) / options.stages / options.split.ranks;
  std::fprintf(stderr, "network: %.1f samples/s, %.3f ms/step, mean of %llu steps\n",
               static_cast<double>(timed * options.batch * replicas) / seconds,
               1e3 * seconds / static_cast<double>(timed), number(timed));
}

/**
 * Runs `part` on this rank. A rank that failed may not just leave: the others would wait for it forever. So all agree,
 * the lowest failing rank speaks for all. Returns the exit code. */
int together(Mpi& mpi, const std::function<void()>& part) {
  std::unique_ptr<Error> error;
  try {
    part();
  } catch (const Error& e) {
    error = std::make_unique<Error>(e);
  } catch (const std::bad_alloc&) {
    error = std::make_unique<Error>("not enough memory for this network and batch");
  } catch (const std::exception& e) {
    error = std::make_unique<Error>(e.what());
  }
  const int speaker = mpi.minimum(error ? mpi.rank() : INT_MAX);
  if (speaker == mpi.rank()) print_error(*error);
  if (speaker == INT_MAX) return 0;
  return error ? error->exit_code() : 1;
}

int run(Mpi& mpi, int argc, char** argv) {
  Options options;
  LayerTable table;
  if (const int code = together(mpi, [&] {
        options = parse_options(argc, argv);
        if (options.help || options.list) return;
        table = find_layer_table(options.table, layer_table_folder());
        check_fit(options, mpi.size(), table.layers.size());
      })) {
    return code;
  }
  if (options.help || options.list) {
    const int code = together(mpi, [&] {
      if (mpi.rank() != 0) return;
      options.help ? static_cast<void>(std::fputs(help_text().c_str(), stdout)) : print_list();
    });
    if (code != 0) return code;
  } else {
    std::unique_ptr<Job> job;
    std::unique_ptr<SplitJob> split_job;
    if (const int code = together(mpi, [&] {
          options.split.ranks > 1 ? static_cast<void>(split_job = std::make_unique<SplitJob>(options, table))
                                  : static_cast<void>(job = std::make_unique<Job>(options, table));
        })) {
      return code;
    }
    if (mpi.rank() == 0) print_header(options, table, mpi.size());
    split_job ? print_split(*split_job, mpi.rank()) : print_stages(*job, table, mpi);
    try {
      split_job ? run_steps(*split_job, options, mpi) : run_steps(*job, options, mpi);
      if (split_job) print_split_cost(*split_job, mpi.rank());
    } catch (const std::exception& error) {  // here: unwinding would free communicators that other ranks still wait in
      print_error(error);
      Mpi::abort(1);
    }
  }
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return 0;
  print_error(Error("stdout: cannot be written"));
  return 1;
}

}  // namespace

}  // namespace ddl::network

int main(int argc, char** argv) {
  ddl::train::Mpi mpi(&argc, &argv);
  try {
    return ddl::network::run(mpi, argc, argv);
  } catch (const std::exception& error) {
    ddl::network::print_error(error);
    ddl::train::Mpi::abort(1);
  }
}
