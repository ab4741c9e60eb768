// Writes the run directories of virtual jobs that tests of the HTML report look at:  html_jobs FOLDER [NAME...]
//   small.ddl     4 ranks, one of them slow
//   ranks64.ddl, ranks1024.ddl   what the size budget is about: noisy, so that the map of lateness is as heavy as it gets
//   hostile.ddl   layers with names that break naive printers
//   empty.ddl     2 ranks that mark nothing and do nothing
//   gpu.ddl, pipeline.ddl        what only some jobs have
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

using namespace ddl::test;

namespace {

SyntheticRun job_of(int ranks, uint64_t steps) {
  return run()
      .ranks(ranks)
      .steps(steps)
      .job_json()
      .command({"mpirun", "-np", std::to_string(ranks), "./train", "--model", "gpt"})
      .value("samples", 32);
}

SyntheticRun training(int ranks, uint64_t steps, int64_t jitter_ns) {
  return job_of(ranks, steps)
      .forward("embed", 2_ms)
      .forward("block 0", 10_ms)
      .forward("block 1", 11_ms)
      .backward("block 1", 19_ms)
      .allreduce(64_KiB, 300_us)
      .backward("block 0", 20_ms)
      .allreduce(1_MiB, 1_ms)
      .allreduce(16_MiB, 9_ms)
      .allreduce(256_MiB, 130_ms)
      .jitter(jitter_ns)
      .slow(ranks / 2 + 1, 30_ms, steps / 3)
      .hosts(ranks > 8 ? ranks / 8 : 1);
}

void write_job(const std::string& name, const std::filesystem::path& folder) {
  if (name == "small")
    training(4, 40, 400_us).write(folder);
  else if (name == "ranks64")
    training(64, 1000, 12_ms).write(folder);
  else if (name == "ranks1024")
    training(1024, 60, 12_ms).write(folder);
  else if (name == "hostile")
    job_of(2, 12).names(hostile_names()).compute(5_ms).allreduce(1_MiB, 1_ms).write(folder);
  else if (name == "empty")
    run().ranks(2).steps(1).no_steps().compute(1_ms).write(folder);
  else if (name == "gpu")
    write_training_job(draw_training_job(7, {Fault::kHostBound}), folder);
  else if (name == "pipeline")
    write_training_job(draw_training_job(3, {Fault::kBubble}), folder);
  else
    throw std::runtime_error("no job " + name);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fputs("usage: html_jobs FOLDER [NAME...]\n", stderr);
    return 2;
  }
  std::vector<std::string> names(argv + 2, argv + argc);
  if (names.empty()) names = {"small", "ranks64", "ranks1024", "hostile", "empty", "gpu", "pipeline"};
  for (const std::string& name : names) write_job(name, std::filesystem::path(argv[1]) / (name + ".ddl"));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "html_jobs: %s\n", error.what());
  return 1;
}
