// Damaged spools through the whole ingest: a store with its promises kept, or an Error; never a crash, never
// memory without bound.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/core/allocation_meter.h"
#include "tests/core/damage.h"
#include "tests/store/store_fixture.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl {
namespace {

constexpr int kCases = 200;
constexpr size_t kMemoryLimit = 64 << 20;  // SQLite's own cache is not counted: it has its own bound

class IngestFuzz : public StoreTest {};

TEST_F(IngestFuzz, DamagedSpoolsGiveAStoreOrAnError) {
  const uint64_t seed = test::fuzz_seed();
  const int cases = test::fuzz_cases(kCases);
  test::run()
      .ranks(3)
      .steps(60)
      .split("tp", 3)
      .names(test::hostile_names())
      .forward("fc1", 1_ms)
      .allreduce(4_MiB, 1_ms)
      .iallreduce(1_KiB, 1_ms)
      .waitall()
      .sendrecv_ring(9, 1_us)
      .value("loss", 1)
      .tsc(2e9)
      .write(folder());
  ingest_again();
  const Rows others =
      rows("SELECT count(*), sum(bytes) FROM event e JOIN process p ON p.id = e.process WHERE p.rank IN (0, 2)");
  const std::string victim_name = text("SELECT spool FROM process WHERE rank = 1");
  const std::string other_spools = "p.spool != '" + victim_name + "'";
  const std::filesystem::path victim = folder() / victim_name;
  std::ifstream file(victim, std::ios::binary);
  const test::Image whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int with_loss = 0, with_victim = 0;
  size_t peak = 0;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ", seed " + std::to_string(seed));
    std::mt19937_64 random(seed * 7919 + static_cast<uint64_t>(i));
    test::Image image = whole;
    test::damage(image, random);
    test::write_bytes(victim, image);
    {
      const test::AllocationLimit limit(kMemoryLimit);
      ingest_again();  // two spools are whole: there is always a store
      peak = std::max(peak, limit.peak_bytes());
    }
    EXPECT_EQ(rows("SELECT count(*), sum(bytes) FROM event e JOIN process p ON p.id = e.process WHERE " + other_spools),
              others)
        << "the others' events";
    for (const char* broken :
         {"event e LEFT JOIN op o ON o.id = e.op WHERE o.id IS NULL",
          "event e LEFT JOIN region r ON r.id = e.region WHERE r.id IS NULL",
          "event e LEFT JOIN communicator c ON c.id = e.comm WHERE e.comm IS NOT NULL AND c.id IS NULL",
          "event e LEFT JOIN site s ON s.id = e.site WHERE e.site IS NOT NULL AND s.id IS NULL",
          "event WHERE duration_ns < 0 OR bytes < 0",
          "region r LEFT JOIN region q ON q.id = r.parent WHERE r.id > 0 AND q.id IS NULL",
          "process WHERE end_ns < start_ns",
          "profile f LEFT JOIN op o ON o.id = f.op WHERE o.id IS NULL OR f.calls < 0 OR f.bytes < 0 OR f.time_ns < 0",
          "open_call x LEFT JOIN op o ON o.id = x.op WHERE o.id IS NULL",
          "(SELECT 1 FROM communicator GROUP BY world, label HAVING count(*) > 1)"}) {
      EXPECT_EQ(number(std::string("SELECT count(*) FROM ") + broken), 0) << broken;
    }
    for (const char* view : {"v_rank", "v_call", "v_step", "v_layer", "v_open_call"})
      rows(std::string("SELECT * FROM ") + view);
    with_loss += number("SELECT count(*) FROM loss") > 0;
    with_victim += number("SELECT count(*) FROM process") == 3;
  }
  std::printf("%d cases, %d with the damaged process, %d with a loss, peak memory %zu KiB\n", cases, with_victim,
              with_loss, peak >> 10);
  EXPECT_GT(with_victim, cases / 2);
  EXPECT_GT(with_loss, cases / 4);
}

/// Launches, what became of them in two clocks, captured graphs.
test::Image gpu_spool() {
  test::SpoolBuilder spool;
  spool.header().begin = spool.header().latest = {1000000, 1000000, 5000000};
  spool.header().rank = 0;
  spool.header().world_size = 1;
  spool.string(1, "fc1");
  spool.string(2, "_Z4gemmIfEvPT_i");
  spool.context({1, 0, static_cast<uint32_t>(ContextKind::kLayer), 1, 0});
  spool.fact("gpu.0.name", "GPU");
  spool.fact("gpu.0.link", "8.0 GT/s x16");
  for (uint64_t i = 0; i < 20; ++i) {
    spool.device_clock({1000000 + i * 1000, 7000000 + i * 999});
    spool.graph_node({100 + i, i == 0 ? 0 : 99 + i, 1, 0, 0, 0});
  }
  const size_t log = spool.add_chunk(ChunkKind::kEvents), device = spool.add_chunk(ChunkKind::kDevice);
  for (uint32_t i = 0; i < 400; ++i) {
    spool.append(log, Record{1000000 + i * 100, record_word(RecordKind::kLaunch, 1, 50), i, 0, 1, 0, -1});
    DeviceRecord r = {};
    r.start = i % 3 == 0 ? 7000000 + i * 100 : 1000000 + i * 100;
    r.end = r.start + 80;
    r.bytes = i;
    r.graph_node = i % 5 == 0 ? 100 + i % 20 : 0;
    r.what = device_what(static_cast<DeviceKind>(1 + i % 7), i % 12, i % 9, i % 8, i % 3 == 0 ? kDeviceTime : 0);
    r.correlation = i;
    r.name = 2;
    r.context = kContextOfLaunch;
    spool.append_device(device, r);
  }
  return spool.image();
}

TEST_F(IngestFuzz, DamagedRecordsOfGpusStayWithinTheirTables) {
  const uint64_t seed = test::fuzz_seed();
  const int cases = test::fuzz_cases(kCases / 4);
  const test::Image whole = gpu_spool();
  std::filesystem::create_directories(folder());
  const std::filesystem::path path = folder() / "n0.1.1.spool";
  int with_events = 0;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ", seed " + std::to_string(seed));
    std::mt19937_64 random(seed * 104729 + static_cast<uint64_t>(i));
    test::Image image = whole;
    if (i > 0) test::damage(image, random);
    test::write_bytes(path, image);
    try {
      const test::AllocationLimit limit(kMemoryLimit);
      ingest_again();
    } catch (const Error&) {
      continue;  // nothing in it could be read
    }
    for (const char* broken :
         {"gpu_event WHERE duration_ns < 0 OR launch_duration_ns < 0 OR bytes < 0",
          "gpu_event g LEFT JOIN region r ON r.id = g.region WHERE r.id IS NULL",
          "gpu_event g LEFT JOIN gpu_name n ON n.id = g.name WHERE n.id IS NULL", "process WHERE end_ns < start_ns"}) {
      EXPECT_EQ(number(std::string("SELECT count(*) FROM ") + broken), 0) << broken;
    }
    for (const char* view : {"v_kernel", "v_memcpy", "v_gpu", "v_link", "v_gpu_layer"})
      rows(std::string("SELECT * FROM ") + view);
    const int64_t events = number("SELECT count(*) FROM gpu_event");
    EXPECT_TRUE(i > 0 || events == 400);
    with_events += events > 0;
  }
  EXPECT_GT(with_events, cases / 2);
}

}  // namespace
}  // namespace ddl
