// Writes the run directories of virtual jobs that tests of the HTML report look at:  html_jobs FOLDER [NAME...]
//   small.ddl     4 ranks, one of them slow
//   ranks64.ddl, ranks1024.ddl   what the size budget is about: noisy, so that the map of lateness is as heavy as it
//                                gets
//   hostile.ddl   layers with names that break naive printers
//   empty.ddl     2 ranks that mark nothing and do nothing
//   gpu.ddl, pipeline.ddl        what only some jobs have
// and, when named, tuning.html, the page of a tuning that was never made, and what tests of exported traces look at:
//   ranks32.ddl   many events, for the memory that an export takes
//   mixed.ddl     sub-communicators, requests in flight, messages, reductions to a root
//   hosts.ddl     the same on two hosts, with polls
//   wreck.ddl     8 ranks: one left nothing, one was killed, one hangs
//   thinned.ddl   2 ranks that kept every other step
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "reports/html/figure.h"
#include "reports/html/page.h"
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

SyntheticRun mixed(int hosts) {
  return job_of(4, 10)
      .split("rows", 2)
      .forward("embed", 2_ms)
      .layer("block")
      .compute(3_ms)
      .iallreduce(4_MiB, 5_ms)
      .iallreduce(1_MiB, 2_ms)
      .compute(1_ms)
      .waitall()
      .end_layer()
      .on_comm("rows")
      .allreduce(64_KiB, 300_us)
      .message(0, 3, 32_KiB, 200_us, true)
      .isendrecv_ring(256_KiB, 400_us)
      .waitall()
      .reduce(1_KiB, 50_us, 2)
      .bcast(2_KiB, 60_us, 1)
      .polls(hosts > 1 ? 5 : 0, 200_ns)
      .barrier()
      .jitter(400_us)
      .slow(2, 4_ms)
      .hosts(hosts)
      .host_clock(hosts - 1, 700_us, 0);
}

void write_job(const std::string& name, const std::filesystem::path& folder) {
  if (name == "small")
    training(4, 40, 400_us).write(folder);
  else if (name == "ranks32")
    training(32, 1000, 12_ms).write(folder);
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
  else if (name == "mixed")
    mixed(1).write(folder);
  else if (name == "hosts")
    mixed(2).write(folder);
  else if (name == "wreck")
    training(8, 12, 400_us).missing(2).killed(3, 9).hang(5, 10).loss(1, ddl::kLossMeta, 3).write(folder);
  else if (name == "thinned")
    training(2, 12, 400_us).keep_level(0, 1, 4).keep_level(1, 1, 4).write(folder);
  else
    throw std::runtime_error("no job " + name);
}

// Costs that fall from stage to stage, a configuration that fails and a name that breaks naive printers.
void write_tuning_page(const std::filesystem::path& file) {
  std::vector<ddl::reports::html::TrialMark> trials;
  const auto add = [&](const char* stage, int batch, double cost_ns) {
    trials.push_back({.stage = stage,
                      .point = batch == 0 ? hostile_names().front() : "batch=" + std::to_string(batch),
                      .cost_ns = cost_ns > 0 ? std::optional(cost_ns) : std::nullopt,
                      .predicted_ns = 8e6 / std::max(batch, 1) + 1e5,
                      .is_default = batch == 8,
                      .is_winner = batch == 64});
  };
  add("calibrate", 8, 1.1e6), add("calibrate", 64, 3.2e5);
  for (int round = 0; round < 12; ++round) add("explore", 8 << (round % 4), 9e6 / (8 << (round % 4)) + 1e4 * round);
  add("explore", 0, 0);
  for (int round = 0; round < 3; ++round) add("race", 8, 1.1e6 + 2e4 * round), add("race", 64, 2.4e5 + 1e4 * round);
  for (int round = 0; round < 4; ++round)
    add("confirm", 8, 1.12e6 - 1e4 * round), add("confirm", 64, 2.3e5 + 5e3 * round);
  ddl::reports::Document document;
  document.headline = {"ddl tune", "4 ranks"};
  document.verdict = "batch=64: +370% over the default";
  std::ofstream(file) << ddl::reports::html::render_page(document,
                                                         ddl::reports::html::tuning_figures(trials, "Per sample"));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fputs("usage: html_jobs FOLDER [NAME...]\n", stderr);
    return 2;
  }
  std::vector<std::string> names(argv + 2, argv + argc);
  if (names.empty()) names = {"small", "ranks64", "ranks1024", "hostile", "empty", "gpu", "pipeline"};
  const std::filesystem::path folder = argv[1];
  for (const std::string& name : names) {
    if (name == "tuning")
      write_tuning_page(folder / "tuning.html");
    else
      write_job(name, folder / (name + ".ddl"));
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "html_jobs: %s\n", error.what());
  return 1;
}
