#include <fcntl.h>

#include <fstream>

#include "cli/job_file.h"
#include "core/error.h"
#include "core/reader.h"
#include "store/ingest.h"
#include "store/job.h"
#include "store/stalls.h"
#include "tests/core/sample_spools.h"
#include "tests/fuzz/target.h"
#include "tui/draw.h"
#include "tui/observer.h"
#include "tui/spool_source.h"

namespace ddl::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

void read_all(const SpoolReader& reader) {
  std::vector<Record> records;
  std::vector<ProfileEntry> entries;
  std::vector<DeviceRecord> device;
  std::vector<Skip> skips;
  MetaVisitor visitor;
  for (const ChunkKind kind : {ChunkKind::kEvents, ChunkKind::kRing})
    for (const SpoolChunk& chunk : reader.chunks(kind)) reader.read_records(chunk, records, &skips);
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) reader.read_profile(chunk, entries, &skips);
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kDevice)) reader.read_device(chunk, device, &skips);
  reader.read_meta(visitor, &skips);
}

/// As ddl-top does: the newest records first, then what has come since.
void follow_all(const SpoolReader& reader) {
  std::vector<Record> records;
  std::vector<DeviceRecord> device;
  MetaVisitor visitor;
  for (const SpoolChunk& chunk : reader.all_chunks()) {
    FollowPosition position;
    switch (static_cast<ChunkKind>(chunk.header.kind)) {
      case ChunkKind::kEvents:
        reader.follow_from_end(chunk, position, 10);
        [[fallthrough]];
      case ChunkKind::kRing:
        reader.follow_records(chunk, position, records);
        reader.follow_records(chunk, position, records);
        break;
      case ChunkKind::kDevice:
        reader.follow_device(chunk, position, device);
        break;
      case ChunkKind::kMeta:
        reader.follow_meta(chunk, position, visitor);
        break;
      default:
        break;
    }
  }
}

fs::path run_directory() {
  const fs::path run = scratch() / "job.ddl";
  fs::create_directories(run);
  fs::remove(run / "run.sqlite");
  return run;
}

}  // namespace

std::vector<std::string> spools() {
  std::vector<std::string> seeds;
  const auto add = [&](const test::SyntheticRun& run) {
    const test::ScratchFolder folder;
    run.write(folder.path());
    for (const test::Image& image : test::load_spools(folder.path())) seeds.emplace_back(image.begin(), image.end());
  };
  add(test::run()
          .ranks(1)
          .steps(6)
          .names(test::hostile_names())
          .forward("fc1", 1_ms)
          .allreduce(4_MiB, 1_ms)
          .value("loss", 0.5));
  add(test::run()
          .ranks(1)
          .steps(8)
          .window(3, 5)
          .split("dp", 1)
          .compute(1_ms)
          .bcast(8_KiB, 1_ms)
          .polls(10, 500_ns)
          .tsc(2.5e9));
  test::SpoolBuilder gpu;
  gpu.header().begin = gpu.header().latest = {1000000, 1000000, 5000000};
  gpu.header().rank = 0;
  gpu.header().world_size = 1;
  gpu.string(1, "fc1");
  gpu.string(2, "_Z4gemmIfEvPT_i");
  gpu.context({1, 0, static_cast<uint32_t>(ContextKind::kLayer), 1, 0});
  gpu.fact("gpu.0.name", "GPU");
  gpu.device_clock({1000000, 7000000});
  gpu.graph_node({100, 0, 1, 0, 0, 0});
  const size_t log = gpu.add_chunk(ChunkKind::kEvents), device = gpu.add_chunk(ChunkKind::kDevice);
  for (uint32_t i = 0; i < 20; ++i) {
    gpu.append(log, Record{1000000 + i * 100, record_word(RecordKind::kLaunch, 1, 50), i, 0, 1, 0, -1});
    gpu.append_device(device, {1000000 + i * 100, 1000080 + i * 100, i, 0,
                               device_what(static_cast<DeviceKind>(1 + i % 7), i % 12, 1, 1, 0), 0, 1, i, 2, 0,
                               kContextOfLaunch, 0, 0});
  }
  const test::Image image = gpu.image();
  seeds.emplace_back(image.begin(), image.end());
  return seeds;
}

bool take_spool(const std::string& input) {
  const std::string path = write(scratch() / "n0.1.1.spool", input);
  try {
    SpoolReader reader(path);
    read_all(reader);
    follow_all(reader);
    // Half of it was not there yet.
    if (truncate(path.c_str(), static_cast<off_t>(input.size() / 2)) == 0) reader.refresh();
    read_all(reader);
    write(path, input);
    reader.refresh();
    read_all(reader);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool take_recording(const std::string& input) {
  const fs::path run = run_directory();
  write(run / "n0.1.1.spool", input);
  if (is_one_of(16, input)) return verb({"report", run.string()});
  try {
    return ingest(find_run(run.string())).processes > 0;
  } catch (const Error&) {
    return false;
  }
}

bool take_live(const std::string& input) {
  const fs::path run = run_directory();
  write(run / "n0.1.1.spool", input);
  write(run / "n1.1.1.live", input);
  try {
    tui::SpoolSource source(find_run(run.string()), "job.ddl");
    tui::Job job;
    tui::Observer observer;
    tui::View view;
    for (int look = 0; look < 2; ++look) {
      source.poll(job, 1);
      const tui::Snapshot snapshot = observer.look(job, false);
      for (const int columns : {40, 120}) tui::draw(snapshot, {columns, 30}, {}, view);
    }
    return !job.ranks.empty();
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> jobs() {
  cli::JobFile job;
  job.command = {"mpirun", "-np", "2", "./train"};
  job.started_realtime_ns = 1'700'000'000'000'000'000;
  job.ended_realtime_ns = 1'700'000'001'000'000'000;
  job.exit_code = 3;
  job.launcher = "mpirun";
  job.job_id = "77";
  job.env = {{"OMP_NUM_THREADS", "2"}};
  job.host = "node1";
  job.cwd = "/home/u";
  return {cli::to_json(job)};
}

bool take_job(const std::string& input) { return read_job(write(scratch() / "job.json", input)).problem.empty(); }

std::vector<std::string> stall_logs() {
  ToldStall stall;
  stall.kind = "stall";
  stall.number = 1;
  stall.told_ns = 42;
  stall.sentence = "rank 1 never came";
  stall.ranks.resize(2);
  stall.ranks[0].rank = 7;
  stall.ranks[0].cpu_ratio = 0.25;
  stall.ranks[0].threads = {{"python", "main", "f (a.py:1) < main (a.py:9)"},
                            {"c", "main", "poll < MPI_Recv < main (a.c:3)"}};
  stall.ranks[1].python_why = "the process is stopped";
  return {to_json_line(stall) + "\n" + resumed_json_line(1, 77) + "\n"};
}

bool take_stall_log(const std::string& input) {
  try {
    const auto stalls = read_stalls(write(scratch() / "stalls.jsonl", input));
    for (const ToldStall& stall : stalls)
      for (const StackGroup& group : group_stacks(stall)) stack_line(group);
    return !stalls.empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ddl::fuzz
