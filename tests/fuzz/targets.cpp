#include "tests/fuzz/target.h"

#include <stdlib.h>

#include <fstream>
#include <functional>

#include "cli/verbs.h"
#include "core/error.h"
#include "tests/fuzz/traces.h"
#include "tests/support/synthetic_run.h"

namespace ddl::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"spool", "a spool, by its reader: whole, and as it grows", spools, take_spool, damage_spool},
    {"recording", "a spool, by ddl report: ingest, analysis, text", spools, take_recording, damage_spool},
    {"live", "a live file and a spool, by ddl-top", spools, take_live, damage_spool},
    {"job", "job.json of a run directory", jobs, take_job},
    {"stalls", "stalls.jsonl of a run directory", stall_logs, take_stall_log},
    {"chrome", "traces, by ddl import chrome", traces<Format::kChrome>, take_trace<Format::kChrome>},
    {"kineto", "traces of PyTorch's profiler", traces<Format::kKineto>, take_trace<Format::kKineto>},
    {"horovod", "timelines of Horovod", traces<Format::kHorovod>, take_trace<Format::kHorovod>},
    {"nsys", "reports of Nsight Systems: SQLite", traces<Format::kNsys>, take_trace<Format::kNsys>, damage_database},
    {"nvprof", "CSV of nvprof", traces<Format::kNvprof>, take_trace<Format::kNvprof>},
    {"nccl-inspector", "JSON lines of NCCL's Inspector", traces<Format::kNcclInspector>,
     take_trace<Format::kNcclInspector>},
    {"chakra", "Chakra execution traces", traces<Format::kChakra>, take_trace<Format::kChakra>},
    {"nccl-ras", "the answer of NCCL's RAS", traces<Format::kNcclRas>, take_trace<Format::kNcclRas>},
    {"flight-recorder", "dumps of PyTorch's flight recorder: pickles and JSON", traces<Format::kFlightRecorder>,
     take_trace<Format::kFlightRecorder>},
    {"pipedream", "CSV of PipeDream's profiler and of what-if analyses", traces<Format::kPipedream>,
     take_trace<Format::kPipedream>},
    {"rocm", "databases of rocprofv3 and RPD, JSON of rocprofv3", traces<Format::kRocm>, take_trace<Format::kRocm>,
     damage_database},
    {"topology", "--links of ddl model: CSV, hwloc, nvidia-smi, Slurm", topologies, take_topology},
    {"sweep", "times of allreduces: of bin/allreduce, and CSV", sweeps, take_sweep},
    {"profile", "other tables of ddl model: layers, tensors, traffic, kernels, epochs, errors", profiles, take_profile},
    {"scaling", "tables of ddl scaling", scaling_tables, take_scaling_table},
    {"trial-log", "tune.sqlite", trial_logs, take_trial_log, damage_database},
    {"manifest", "manifest.json of a tuning", manifests, take_manifest},
    {"rules", "rules for Open MPI's allreduce", rule_files, take_rule_file},
    {"probe", "counts of the probe for Open MPI", probe_files, take_probe_file},
    {"command-line", "words of ddl, one a line", command_lines, take_command_line},
    {"top-conf", "top.conf", setups, take_setup},
    {"filter", "--filter of ddl-top", filters, take_filter},
    {"mcp", "messages to ddl mcp", messages, take_message},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

bool verb(const std::vector<std::string>& words) {
  try {
    for (const cli::Verb& verb : cli::verbs())
      if (words.at(0) == verb.name) return verb.run({words.begin() + 1, words.end()}) == 0;
  } catch (const Error&) {
  }
  return false;
}

bool is_one_of(size_t n, const std::string& input) {
  static const bool fuzzing = getenv("DDL_FUZZ_TARGET") != nullptr && getenv("DDL_FUZZ_SEEDS") == nullptr;
  return !fuzzing || std::hash<std::string>()(input) % n == 0;
}

const std::filesystem::path& scratch() {
  if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 0);
  static const test::ScratchFolder folder;
  return folder.path();
}

std::string write(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
  return path.string();
}

std::string damage_spool(std::string input, std::mt19937_64& random) {
  test::Image image(input.begin(), input.end());
  test::damage(image, random);
  return {image.begin(), image.end()};
}

std::string damage_database(std::string input, std::mt19937_64& random) {
  return input.starts_with("SQLite format 3") && random() % 2 == 0 ? test::damage_cells(input, random)
                                                                   : test::damage_text(std::move(input), random);
}

}  // namespace ddl::fuzz
