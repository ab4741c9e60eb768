#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <deque>
#include <exception>
#include <numeric>
#include <optional>

#include "workloads/train/device.h"
#include "workloads/train/error.h"
#include "workloads/train/marks.h"
#include "workloads/train/ops.h"
#include "workloads/train/trainer.h"

namespace ddl::train {

namespace {

/** Everything a rank needs before its first collective. */
struct SetUp {
  Options options;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Training> trainer;
  StepLog step_log;
};

/** Who makes this rank's MPI calls: this thread, or that of `background`. */
struct Calls {
  Mpi& mpi;
  BackgroundRuntime* background = nullptr;

  int minimum(int value) const {
    int result = 0;
    const auto call = [&] { result = mpi.minimum(value); };
    background ? background->call(call) : call();
    return result;
  }
};

std::unique_ptr<Dataset> make_dataset(const Options& options) {
  if (!options.data_folder.empty()) return open_dataset(options.data_folder);
  return options.model == "transformer" ? make_token_set(options.seed) : make_drawn_set(options.seed);
}

SetUp set_up(const Calls& calls, int argc, char** argv) {
  SetUp result;
  result.options = parse_options(argc, argv);
  if (result.options.help) return result;
  Mpi& mpi = calls.mpi;
  check_ranks(result.options, mpi.size());
  marks::wanted = result.options.marks;
  use_one_blas_thread();
  result.data = make_dataset(result.options);
  result.trainer = make_training(result.options, *result.data, mpi, calls.background);
  const std::string rank = "." + std::to_string(mpi.rank());
  if (!result.options.call_log.empty()) mpi.call_log().open(result.options.call_log + rank);
  if (!result.options.step_log.empty()) result.step_log.open(result.options.step_log + rank);
  return result;
}

void print_error(const std::exception& error) { std::fprintf(stderr, "train: error: %s\n", error.what()); }

void print_header(const SetUp& job, int ranks) {
  const Options& o = job.options;
  std::printf(
      "train model %s width %zu parameters %zu ranks %d batch %zu steps %llu lr %g momentum %g seed %llu data %s samples %zu ",
      o.model.c_str(), o.width, job.trainer->parameters(), ranks, o.batch, static_cast<unsigned long long>(o.steps),
      o.rate, o.momentum, static_cast<unsigned long long>(o.seed), job.data->name(), job.data->size());
  std::printf("bucket-mb %g buckets %zu overlap %s", o.bucket_mib, job.trainer->buckets(), o.overlap ? "yes" : "no");
  if (o.allreduce.algorithm) std::printf(" allreduce %s", o.allreduce.name().c_str());
  if (o.allreduce.segment_bytes > 0) std::printf(" segment-kb %zu", o.allreduce.segment_bytes / 1024);
  if (o.compress != "none") std::printf(" compress %s", o.compress.c_str());
  if (o.consistency.kind != ConsistencyRule::Kind::kSynchronous)
    std::printf(" consistency %s", o.consistency_word.c_str());
  if (o.runtime == "background") {
    std::printf(" runtime background cycle-ms %g cache %s fusion-mb %g", o.background.cycle_ms,
                o.background.cache ? "yes" : "no", static_cast<double>(o.background.fusion_bytes) / (1024.0 * 1024.0));
  }
  std::printf("\n");
}

void print_loss(const Options& options, uint64_t step, const StepResult& result) {
  if (options.print_every == 0 || step % options.print_every != 0) return;
  std::printf("step %llu loss %.9g\n", static_cast<unsigned long long>(step), result.loss);
  std::fflush(stdout);  // a job that hangs or is killed has shown how far it came
}

/** All steps; rank 0 prints. */
void train(SetUp& job, const Mpi& mpi) {
  constexpr std::size_t kLastBatches = 10;
  const bool prints = mpi.rank() == 0;
  if (prints) print_header(job, mpi.size());
  job.trainer->start();

  const Options& options = job.options;
  StepResult result;
  std::deque<double> accuracies;
  auto start = std::chrono::steady_clock::now();
  uint64_t timed = 0;
  for (uint64_t step = 0; step < options.steps; ++step) {
    result = job.trainer->run_step(step);
    if (const auto times = job.trainer->times()) job.step_log.write(*times);
    accuracies.push_back(result.accuracy);
    if (accuracies.size() > kLastBatches) accuracies.pop_front();
    if (prints && !job.trainer->results()) print_loss(options, step, result);
    if (step == 0 && options.steps > 1) {
      start = std::chrono::steady_clock::now();  // the first step also pays for page faults and connections
    } else {
      ++timed;
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  job.trainer->finish();
  job.step_log.write(mpi.tallies());
  if (!prints) return;
  if (const std::vector<StepResult>* results = job.trainer->results()) {
    accuracies.clear();
    for (std::size_t step = 0; step < results->size(); ++step) {
      print_loss(options, step, (*results)[step]);
      if (step + kLastBatches >= results->size()) accuracies.push_back((*results)[step].accuracy);
    }
    result = results->back();
  }
  const double accuracy =
      std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / static_cast<double>(accuracies.size());
  std::printf("final loss %.9g accuracy %.4f over the last %zu batches\n", result.loss, accuracy, accuracies.size());
  if (const auto sent = job.trainer->sent()) {
    std::printf("gradients of a step: rank 0 sent %llu bytes in %llu messages\n",
                static_cast<unsigned long long>(sent->bytes / options.steps),
                static_cast<unsigned long long>(sent->messages / options.steps));
  }
  if (const auto staleness = job.trainer->staleness()) {
    std::fprintf(stderr, "train: updates of others that an update had missed:");
    for (std::size_t n = 0; n < staleness->size(); ++n) {
      if ((*staleness)[n] > 0)
        std::fprintf(stderr, " %zu: %llu times", n, static_cast<unsigned long long>((*staleness)[n]));
    }
    std::fprintf(stderr, "\n");
  }
  std::fprintf(stderr, "train: %.1f samples/s, %.3f ms/step, mean of %llu steps\n",
               static_cast<double>(timed * job.trainer->global_batch()) / seconds,
               1e3 * seconds / static_cast<double>(timed), static_cast<unsigned long long>(timed));
}

/**
 * Runs the job on this rank; returns the exit code. A rank whose set-up failed may not just leave: the others
 * would wait for it forever. So all agree first, the lowest failing rank speaks for all, and everybody leaves
 * through MPI_Finalize. */
int run(const Calls& calls, int argc, char** argv) {
  Mpi& mpi = calls.mpi;
  SetUp job;
  std::unique_ptr<Error> error;
  try {
    job = set_up(calls, argc, argv);
  } catch (const Error& e) {
    error = std::make_unique<Error>(e);
  } catch (const std::bad_alloc&) {
    error = std::make_unique<Error>("not enough memory for this model and batch");
  } catch (const std::exception& e) {
    error = std::make_unique<Error>(e.what());
  }
  const int speaker = calls.minimum(error ? mpi.rank() : INT_MAX);
  if (speaker == mpi.rank()) print_error(*error);
  if (speaker != INT_MAX) return error ? error->exit_code() : 1;

  if (job.options.help) {
    if (mpi.rank() == 0) std::fputs(help_text().c_str(), stdout);
  } else {
    train(job, mpi);
  }
  // What could not be written has left the job itself intact: everybody still leaves through MPI_Finalize.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) error = std::make_unique<Error>("stdout: cannot be written");
  if (mpi.call_log().failed())
    error = std::make_unique<Error>(job.options.call_log + ": the call log could not be written");
  if (job.step_log.failed())
    error = std::make_unique<Error>(job.options.step_log + ": the log of steps could not be written");
  if (error) print_error(*error);
  return error ? 1 : 0;
}

/** Asked before there is an MPI, which another thread is to begin. Options that are wrong are told later, once
 * for all ranks. */
bool wants_background(int argc, char** argv) {
  try {
    return parse_options(argc, argv).runtime == "background";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

}  // namespace ddl::train

int main(int argc, char** argv) {
  std::optional<ddl::train::BackgroundRuntime> background;
  std::optional<ddl::train::Mpi> own;
  if (ddl::train::wants_background(argc, argv)) {
    background.emplace(&argc, &argv);
  } else {
    own.emplace(&argc, &argv);
  }
  try {
    return background ? ddl::train::run({background->mpi(), &*background}, argc, argv)
                      : ddl::train::run({*own}, argc, argv);
  } catch (const std::exception& error) {
    ddl::train::print_error(error);
    ddl::train::Mpi::abort(1);
  }
}
