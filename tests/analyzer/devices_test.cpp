// GPUs: the partition against a bitmap, idle classes by hand, and small runs whose parts and efficiencies are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "analyzer/facts.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/passes/device_partition.h"
#include "analyzer/passes/device_sweep.h"
#include "core/error.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr size_t kRange = 200;

std::vector<DeviceOperation> random_operations(std::mt19937& random) {
  std::vector<DeviceOperation> operations(random() % 9);
  for (DeviceOperation& o : operations) {
    o.interval.begin_ns = static_cast<int64_t>(random() % (kRange - 1));
    o.interval.end_ns = o.interval.begin_ns + 1 +
                        static_cast<int64_t>(random() % (kRange - static_cast<size_t>(o.interval.begin_ns) - 1));
    o.device_class = static_cast<DeviceClass>(random() % 3);
    o.wait_ns = static_cast<int64_t>(random() % static_cast<size_t>(o.interval.length_ns()));
    if (random() % 3 != 0) o.awaits = {static_cast<int64_t>(random() % kRange), random() % 2 == 0};
    if (random() % 4 != 0) o.launch_ns = static_cast<int64_t>(random() % kRange);
  }
  std::sort(operations.begin(), operations.end(), [](const auto& a, const auto& b) {
    return std::pair(a.interval.begin_ns, -a.interval.end_ns) < std::pair(b.interval.begin_ns, -b.interval.end_ns);
  });
  return operations;
}

TEST(DevicePartition, MatchesABitmapAndAddsUp) {
  std::mt19937 random(5);
  for (int round = 0; round < 5'000; ++round) {
    const std::vector<DeviceOperation> all = random_operations(random);
    const Interval window{static_cast<int64_t>(random() % 50), 50 + static_cast<int64_t>(random() % 150)};
    std::vector<DeviceOperation> operations;
    for (const DeviceOperation& o : all)
      if (o.interval.begin_ns < window.end_ns && o.interval.end_ns > window.begin_ns) operations.push_back(o);
    int64_t compute = 0, comm = 0, xfer = 0, copy = 0, exposed = 0, exposed_xfer = 0, exposed_copy = 0, active = 0,
            active_xfer = 0;
    for (int64_t t = window.begin_ns; t < window.end_ns; ++t) {
      bool k = false, c = false, m = false, x = false;
      for (const DeviceOperation& o : operations) {
        if (t < o.interval.begin_ns || t >= o.interval.end_ns) continue;
        k |= o.device_class == DeviceClass::kCompute;
        m |= o.device_class == DeviceClass::kCopy;
        if (o.device_class != DeviceClass::kCommunication) continue;
        c = true;
        x |= t >= o.interval.begin_ns + *o.wait_ns;
      }
      compute += k;
      comm += c;
      xfer += x;
      copy += m;
      exposed += c && !k;
      exposed_xfer += x && !k;
      exposed_copy += m && !k && !c;
      active += k || c || m;
      active_xfer += k || x || m;
    }
    const DevicePartition p = partition_device(window, operations, nullptr, {});
    ASSERT_EQ(p.compute_ns, compute);
    ASSERT_EQ(p.comm_ns, comm);
    ASSERT_EQ(p.wait_ns, comm - xfer);
    ASSERT_EQ(p.copy_ns, copy);
    ASSERT_EQ(p.exposed_comm_ns, exposed);
    ASSERT_EQ(p.exposed_wait_ns, exposed - exposed_xfer);
    ASSERT_EQ(p.exposed_copy_ns, exposed_copy);
    ASSERT_EQ(p.active_ns, active);
    ASSERT_EQ(p.active_xfer_ns, active_xfer);
    ASSERT_EQ(p.compute_ns + p.exposed_comm_ns + p.exposed_copy_ns + p.idle_ns, window.length_ns());
    ASSERT_EQ(p.idle_input_ns + p.idle_host_ns + p.idle_launch_ns + p.idle_kernel_ns + p.idle_dep_comm_ns +
                  p.idle_dep_copy_ns + p.idle_other_ns,
              p.idle_ns);
  }
}

DeviceOperation kernel(int64_t begin_ns, int64_t end_ns, std::optional<int64_t> launch_ns) {
  return {{begin_ns, end_ns}, DeviceClass::kCompute, launch_ns, {}};
}

TEST(DevicePartition, TellsGapsByWhatEndsThem) {
  const std::vector<DeviceOperation> operations = {
      kernel(100'000, 200'000, 90'000),   // launched while the GPU was idle: 90 us of the host, 10 us of the launch
      kernel(229'000, 300'000, 150'000),  // launched before the gap: 29 us between kernels
      kernel(330'000, 400'000, 150'000),  // likewise, but 30 us: waited for something else
      kernel(500'000, 600'000, 420'000),  // 20 us of the host; 80 us are more than a launch takes
      kernel(650'000, 700'000, std::nullopt),
  };
  const DeviceOperation next = kernel(900'000, 950'000, 790'000);
  const DevicePartition p = partition_device({0, 800'000}, operations, &next, {});
  EXPECT_EQ(p.idle_host_ns, 90'000 + 20'000 + 90'000);
  EXPECT_EQ(p.idle_launch_ns, 10'000 + 10'000);
  EXPECT_EQ(p.idle_kernel_ns, 29'000);
  EXPECT_EQ(p.idle_other_ns, 30'000 + 80'000 + 50'000);
  EXPECT_EQ(p.idle_input_ns, 0);
  const DevicePartition loading =
      partition_device({0, 800'000}, operations, &next, {{-10, 60'000}, {95'000, 120'000}, {290'000, 310'000}});
  EXPECT_EQ(loading.idle_input_ns, 60'000 + 5'000 + 10'000) << "of any gap what the host loaded meanwhile";
  EXPECT_EQ(loading.idle_host_ns, p.idle_host_ns - 60'000);
  EXPECT_EQ(loading.idle_launch_ns, p.idle_launch_ns - 5'000);
  EXPECT_EQ(loading.idle_kernel_ns, p.idle_kernel_ns + 20'000) << "of the gap of 30 us 20 are left";
  EXPECT_EQ(loading.idle_other_ns, p.idle_other_ns - 30'000);
  EXPECT_EQ(loading.idle_ns, p.idle_ns);
  EXPECT_EQ(partition_device({0, 800'000}, operations, nullptr, {}).idle_other_ns, 160'000 + 100'000)
      << "nothing came any more";
}

TEST(DevicePartition, TellsWhatALaunchedOneWaitedFor) {
  DeviceOperation after_copy = kernel(200'000, 210'000, 0), after_collective = kernel(300'000, 310'000, 0),
                  late = kernel(450'000, 460'000, 0), soon = kernel(480'000, 490'000, 0);
  after_copy.awaits = {150'000, true};         // 90 us of the copy, and 50 us that nobody explains
  after_collective.awaits = {295'000, false};  // 85 us, and 5 us from one stream to the other
  late.awaits = {310'000, false};              // was done when the gap began
  soon.awaits = {480'000, true};               // 20 us are no more than lies between two kernels
  const DeviceOperation first = kernel(0, 60'000, 0);
  const DevicePartition p =
      partition_device({0, 490'000}, {first, after_copy, after_collective, late, soon}, nullptr, {{100'000, 110'000}});
  EXPECT_EQ(p.idle_input_ns, 10'000);
  EXPECT_EQ(p.idle_dep_copy_ns, 80'000) << "without what the host loaded meanwhile";
  EXPECT_EQ(p.idle_dep_comm_ns, 85'000);
  EXPECT_EQ(p.idle_kernel_ns, 5'000 + 20'000);
  EXPECT_EQ(p.idle_other_ns, 50'000 + 140'000);
  EXPECT_EQ(p.idle_host_ns + p.idle_launch_ns, 0);
  after_copy.launch_ns = 100'000;
  EXPECT_EQ(partition_device({0, 210'000}, {first, after_copy}, nullptr, {}).idle_dep_copy_ns, 0)
      << "the host came later than the gap";
}

class DevicesTest : public ::testing::Test {
 protected:
  DevicesTest() : run_(2) {
    run_.exec(
        "INSERT OR IGNORE INTO region VALUES (0, NULL, 'none', '', NULL, NULL);"
        " INSERT INTO region VALUES (70, 0, 'layer', 'fc', NULL, 'fc');"
        "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication'),"
        " (3, '[CUDA memcpy HtoD]', 'copy')");
  }
  void event(int64_t rank, int64_t kind, int64_t name, int64_t step, int64_t begin_ns, int64_t end_ns,
             int64_t launch_ns, const std::string& seq = "NULL", int64_t device = 0) {
    run_.exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, start_ns, duration_ns, correlation, comm, seq,"
        " launch_ns) VALUES (" +
        std::to_string(rank + 1) + ", " + std::to_string(kind) + ", " + std::to_string(name) + ", " +
        std::to_string(device) + ", 1, 7, 70, " + std::to_string(step) + ", " + std::to_string(begin_ns) + ", " +
        std::to_string(end_ns - begin_ns) + ", 0, " + (seq == "NULL" ? "NULL" : "1") + ", " + seq + ", " +
        std::to_string(launch_ns) + ")");
  }
  /// Steps of 1 ms: copy 0.1, compute 0.5 (rank 1: 0.7) of which the copy's second half is under it, all-reduce of 0.1
  /// after the last one.
  void steps(int64_t count) {
    for (int64_t s = 0; s < count; ++s) {
      const int64_t t = s * 1'000'000;
      for (int64_t rank : {0, 1}) {
        const int64_t computed = rank == 0 ? 600'000 : 800'000;
        run_.step(rank, s, t, t + 1'000'000, 0);
        event(rank, 2, 3, s, t + 50'000, t + 150'000, t + 45'000);
        event(rank, 1, 1, s, t + 100'000, t + computed, t + 60'000);
        event(rank, 1, 2, s, t + computed, t + 900'000, t + 70'000, std::to_string(s + 1));
      }
    }
  }
  Tables run_;
};

// 0.1 of 1 ms is transfer on both, 0.2 is waiting on one; host threads call no MPI at all.
TEST_F(DevicesTest, ModelsOfAMeanStepTakeTheDevices) {
  steps(2);
  run_.exec("UPDATE process SET init_ns = 0, finalize_ns = 2000000, end_ns = 2000000");
  run_.analyze();
  const models::MeanStep step = models::mean_step(run_.db(), 0);
  EXPECT_TRUE(step.split) << step.why;
  EXPECT_NEAR(step.parts.step_s, 1e-3, 1e-9);
  EXPECT_NEAR(step.parts.transfer_s, 0.1e-3, 1e-9);
  EXPECT_NEAR(step.parts.wait_s, 0.1e-3, 1e-9);
  EXPECT_NEAR(step.parts.compute_s, 0.6e-3, 1e-9);
}

TEST_F(DevicesTest, WaitingInsideKernelsIsSplitOff) {
  steps(2);
  run_.exec("UPDATE process SET init_ns = 0, finalize_ns = 2000000, end_ns = 2000000");
  run_.analyze();
  EXPECT_EQ(run_.integers("SELECT compute_ns FROM v_gpu_part WHERE step = 1 ORDER BY rank"),
            (std::vector<int64_t>{500'000, 700'000}));
  EXPECT_EQ(run_.integers("SELECT comm_ns FROM v_gpu_part WHERE step = 1 ORDER BY rank"),
            (std::vector<int64_t>{300'000, 100'000}));
  EXPECT_EQ(run_.integers("SELECT exposed_wait_ns FROM v_gpu_part WHERE step = 1 ORDER BY rank"),
            (std::vector<int64_t>{200'000, 0}));
  EXPECT_EQ(run_.integers("SELECT exposed_copy_ns FROM v_gpu_part WHERE step = 1 ORDER BY rank"),
            (std::vector<int64_t>{50'000, 50'000}));
  EXPECT_EQ(run_.integers("SELECT idle_ns FROM v_gpu_part WHERE step = 1 ORDER BY rank"),
            (std::vector<int64_t>{150'000, 150'000}));
  EXPECT_EQ(run_.integers("SELECT idle_host_ns FROM v_gpu_part WHERE step = 0 ORDER BY rank"),
            (std::vector<int64_t>{145'000, 145'000}))
      << "the first 45 us, and the end, because what came next was launched in the next step";
  EXPECT_EQ(run_.integers("SELECT compute_ns FROM v_gpu_part WHERE step IS NULL ORDER BY rank"),
            (std::vector<int64_t>{1'000'000, 1'400'000}));
  EXPECT_EQ(
      run_.integers(
          "SELECT compute_ns + comm_ns + copy_ns + exposed_comm_ns FROM v_gpu_layer_part WHERE step = 0 AND layer = 'fc' ORDER BY rank"),
      (std::vector<int64_t>{500'000 + 300'000 + 100'000 + 300'000, 700'000 + 100'000 + 100'000 + 100'000}));
}

/// More than are in memory at a time: every 100 us a kernel of 60 us, every second one with a collective from its 50th
/// to its 75th us, and a copy beside the first 25,500.
TEST_F(DevicesTest, WhatIsCutIntoPiecesAddsUp) {
  constexpr int64_t kKernels = 40'000, kKernelSteps = 4, kCopied = 25'500, kMicrosecond = 1000;
  const auto kernels = [&](const char* name, int64_t from_us, int64_t us, int64_t every) {
    run_.exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, start_ns, duration_ns, correlation, launch_ns)"
        " WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + " +
        std::to_string(every) + " FROM n WHERE i + " + std::to_string(every) + " < 40000) SELECT 1, 1, " + name +
        ", 0, 1, 7, 70, i / 10000, i * 100000 + " + std::to_string(from_us * kMicrosecond) + ", " +
        std::to_string(us * kMicrosecond) + ", 0, i * 100000 - 90000 FROM n");
  };
  event(0, 2, 3, 0, 0, kCopied * 100 * kMicrosecond, -1);
  kernels("1", 0, 60, 1);
  kernels("2", 50, 25, 2);
  for (int64_t s = 0; s < kKernelSteps; ++s) run_.step(0, s, s * 1'000'000'000, (s + 1) * 1'000'000'000, 0);
  run_.exec("UPDATE process SET init_ns = 0, finalize_ns = 4000000000, end_ns = 4000000000");
  run_.analyze();
  // Every pair of kernels computes for 120 us and communicates for 25, 15 of them beside no kernel; 25 and 40 us are
  // left.
  constexpr int64_t kPairs = kKernels / 2, kCopiedPairs = kCopied / 2;
  const auto of_run = [&](const std::string& column) {
    return run_.integer("SELECT " + column + " FROM gpu_part WHERE step IS NULL AND process = 1");
  };
  EXPECT_EQ(of_run("duration_ns"), kKernels * 100 * kMicrosecond);
  EXPECT_EQ(of_run("compute_ns"), kPairs * 120 * kMicrosecond);
  EXPECT_EQ(of_run("comm_ns"), kPairs * 25 * kMicrosecond);
  EXPECT_EQ(of_run("exposed_comm_ns"), kPairs * 15 * kMicrosecond);
  EXPECT_EQ(of_run("copy_ns"), kCopied * 100 * kMicrosecond);
  EXPECT_EQ(of_run("exposed_copy_ns"), kCopiedPairs * 65 * kMicrosecond);
  EXPECT_EQ(of_run("idle_kernel_ns"), (kPairs - kCopiedPairs) * 25 * kMicrosecond);
  EXPECT_EQ(of_run("idle_other_ns"), (kPairs - kCopiedPairs) * 40 * kMicrosecond);
  EXPECT_EQ(of_run("idle_ns"), (kPairs - kCopiedPairs) * 65 * kMicrosecond);
  EXPECT_EQ(run_.integers("SELECT idle_kernel_ns FROM gpu_part WHERE step IS NOT NULL ORDER BY step"),
            (std::vector<int64_t>{0, 0, 2250 * 25 * kMicrosecond, 5000 * 25 * kMicrosecond}));
  EXPECT_EQ(run_.integers("SELECT exposed_copy_ns FROM gpu_part WHERE step IS NOT NULL ORDER BY step"),
            (std::vector<int64_t>{5000 * 65 * kMicrosecond, 5000 * 65 * kMicrosecond, 2750 * 65 * kMicrosecond, 0}));
  EXPECT_EQ(run_.integers("SELECT exposed_ns FROM gpu_axis_part WHERE step IS NOT NULL ORDER BY step"),
            (std::vector<int64_t>(kKernelSteps, 5000 * 15 * kMicrosecond)));
  EXPECT_EQ(run_.integers("SELECT compute_ns + comm_ns + exposed_comm_ns FROM gpu_layer_part ORDER BY step"),
            (std::vector<int64_t>(kKernelSteps, 5000 * (120 + 25 + 15) * kMicrosecond)));
  EXPECT_EQ(run_.integers("SELECT copy_ns FROM gpu_layer_part ORDER BY step"),
            (std::vector<int64_t>{kCopied * 100 * kMicrosecond, 0, 0, 0}));
}

/// Random operations, of which some last for pieces, in windows that overlap: what the pieces add up to, and the
/// partition of each whole window.
TEST(DeviceSweep, SumsOfPiecesAreThoseOfWholeWindows) {
  constexpr int64_t kEvents = 60'000;
  std::mt19937 random(11);
  const auto below = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  std::vector<DeviceEvent> events;
  int64_t begin_ns = 0;
  for (int64_t i = 0; i < kEvents; ++i) {
    if (i % 7 == 0) begin_ns += below(400);  // seven begin together, also where a piece is full
    DeviceEvent e;
    const int64_t length_ns = i % 9'000 == 4'000 ? 1'500'000 : 1 + below(50);
    e.operation.interval = {begin_ns, begin_ns + length_ns};
    e.operation.device_class = static_cast<DeviceClass>(below(3));
    if (e.operation.device_class == DeviceClass::kCommunication) {
      e.operation.wait_ns = below(length_ns);
      e.axis = below(2);
      e.sigma_ns = 1;
    }
    if (below(4) != 0) e.operation.launch_ns = begin_ns - below(100);
    events.push_back(e);
  }
  std::stable_sort(events.begin(), events.end(), [](const DeviceEvent& a, const DeviceEvent& b) {
    return std::pair(a.operation.interval.begin_ns, -a.operation.interval.end_ns) <
           std::pair(b.operation.interval.begin_ns, -b.operation.interval.end_ns);
  });
  std::vector<DeviceWindow> windows;
  for (int64_t step = 0; step < 40; ++step) windows.push_back({step, {step * 40'000, step * 40'000 + 60'000}});
  windows.push_back({std::nullopt, {1'000, begin_ns - 1'000}});
  std::vector<Interval> inputs;
  for (int64_t i = 0; i < 300; ++i) inputs.push_back({i * 5'000, i * 5'000 + below(9'000)});

  DeviceSweep sweep(windows, inputs);
  for (const DeviceEvent& e : events) sweep.add(e);
  sweep.finish();
  int64_t idle_ns = 0, exposed_wait_ns = 0;
  for (size_t w = 0; w < windows.size(); ++w) {
    const Interval& window = windows[w].interval;
    std::vector<DeviceOperation> operations;
    const DeviceOperation* next = nullptr;
    double sigma_ns = 0;
    for (const DeviceEvent& e : events) {
      if (e.operation.interval.begin_ns >= window.end_ns) {
        next = &e.operation;
        break;
      }
      if (e.operation.interval.end_ns <= window.begin_ns) continue;
      operations.push_back(e.operation);
      sigma_ns += e.sigma_ns;
    }
    const DevicePartition whole = partition_device(window, operations, next, inputs);
    const WindowSums& sums = sweep.of_windows()[w];
    const DevicePartition& p = sums.partition;
    ASSERT_EQ(sums.sigma_ns, sigma_ns) << w;
    const auto times = [](const DevicePartition& d) {
      return std::vector<int64_t>{d.duration_ns,      d.compute_ns,      d.comm_ns,         d.wait_ns,
                                  d.copy_ns,          d.exposed_comm_ns, d.exposed_wait_ns, d.exposed_copy_ns,
                                  d.active_ns,        d.active_xfer_ns,  d.idle_ns,         d.idle_input_ns,
                                  d.idle_host_ns,     d.idle_launch_ns,  d.idle_kernel_ns,  d.idle_dep_comm_ns,
                                  d.idle_dep_copy_ns, d.idle_other_ns};
    };
    ASSERT_EQ(times(p), times(whole)) << w;
    idle_ns += p.idle_ns;
    exposed_wait_ns += p.exposed_wait_ns;
  }
  EXPECT_GT(idle_ns, 0);
  EXPECT_GT(exposed_wait_ns, 0);
}

TEST_F(DevicesTest, OneAxisIsAllOfTheCollectives) {
  steps(3);
  run_.exec("UPDATE process SET init_ns = 0, finalize_ns = 3000000, end_ns = 3000000");
  run_.analyze();
  EXPECT_EQ(run_.integer("SELECT count(*) FROM gpu_axis_part"), 2 * (3 + 1)) << "of each step and the whole run";
  EXPECT_EQ(run_.integer(R"(
    SELECT count(*)
    FROM gpu_axis_part a
    JOIN gpu_part g ON g.process = a.process AND g.device = a.device AND g.step IS a.step
    WHERE a.axis = 'all ranks' AND a.comm_ns = g.comm_ns AND a.wait_ns = g.wait_ns AND a.exposed_ns = g.exposed_comm_ns
      AND a.exposed_wait_ns = g.exposed_wait_ns)"),
            8);
}

TEST_F(DevicesTest, AxesRunBesideEachOther) {
  const int64_t tensor = run_.communicator("mesh_tp", {0, 1});
  run_.step(0, 0, 0, 1'000, 0);
  run_.step(1, 0, 0, 1'000, 0);
  for (int64_t rank : {0, 1}) {
    event(rank, 1, 2, 0, 0, 100, 0, "1");
    event(rank, 1, 2, 0, rank == 0 ? 50 : 70, 150, 0, "2");
    run_.exec("UPDATE gpu_event SET comm = " + std::to_string(tensor) + " WHERE seq = 2");
    event(rank, 1, 1, 0, 80, 120, 0);
  }
  run_.analyze();
  const auto of = [&](const char* column, const char* axis) {
    return run_.integers(std::string("SELECT ") + column + " FROM gpu_axis_part WHERE step = 0 AND axis = '" + axis +
                         "' ORDER BY process");
  };
  using Both = std::vector<int64_t>;
  EXPECT_EQ(of("comm_ns", "all ranks"), (Both{100, 100}));
  EXPECT_EQ(of("exposed_ns", "all ranks"), (Both{80, 80}));
  EXPECT_EQ(of("wait_ns", "all ranks"), (Both{0, 0}));
  EXPECT_EQ(of("comm_ns", "tensor"), (Both{100, 80}));
  EXPECT_EQ(of("exposed_ns", "tensor"), (Both{60, 40})) << "50 to 80 and 120 to 150";
  EXPECT_EQ(of("wait_ns", "tensor"), (Both{20, 0})) << "rank 1 comes at 70";
  EXPECT_EQ(of("exposed_wait_ns", "tensor"), (Both{20, 0}));
  EXPECT_EQ(run_.integers("SELECT comm_ns FROM gpu_part WHERE step = 0 ORDER BY process"), (Both{150, 150}))
      << "side by side they count once";
}

TEST_F(DevicesTest, EachRunOfACapturedCollectiveIsAnInstance) {
  steps(3);
  run_.exec("UPDATE gpu_event SET seq = 1, graph_node = 9 + process WHERE name = 2");
  run_.analyze();
  for (const char* step : {"0", "1", "2"}) {
    EXPECT_EQ(
        run_.integers(std::string("SELECT exposed_wait_ns FROM v_gpu_part WHERE step = ") + step + " ORDER BY rank"),
        (std::vector<int64_t>{200'000, 0}));
  }
}

TEST_F(DevicesTest, EfficienciesMultiply) {
  steps(20);
  run_.analyze();
  EXPECT_NEAR(*run_.metric("gpu_parallel_efficiency"), 0.6, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_load_balance"), 600.0 / 700, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_transfer_efficiency"), 700.0 / 850, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_wait_efficiency"), 850.0 / 850, 1e-12) << "the slower GPU waits for nobody";
  EXPECT_NEAR(*run_.metric("gpu_orchestration_efficiency"), 0.85, 1e-12);
  const auto product = [&](std::initializer_list<const char*> factors) {
    double result = 1;
    for (const char* factor : factors) result *= *run_.metric(factor);
    return result;
  };
  EXPECT_NEAR(
      product({"gpu_load_balance", "gpu_transfer_efficiency", "gpu_wait_efficiency", "gpu_orchestration_efficiency"}),
      *run_.metric("gpu_parallel_efficiency"), 1e-9);
  EXPECT_NEAR(product({"gpu_load_balance", "gpu_communication_efficiency", "gpu_orchestration_efficiency"}),
              *run_.metric("gpu_parallel_efficiency"), 1e-9);
  EXPECT_NEAR(*run_.metric("gpu_talp_parallel_efficiency"), 0.8, 1e-12) << "collectives are kernels too";
  EXPECT_NEAR(product({"gpu_talp_load_balance", "gpu_talp_communication_efficiency", "gpu_orchestration_efficiency"}),
              *run_.metric("gpu_talp_parallel_efficiency"), 1e-9);
  EXPECT_NEAR(*run_.metric("gpu_overlap"), 0, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_overlap_xfer"), 0, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_ccr_xfer"), 1200.0 / 200, 1e-12) << "rank 0 waits 200 us of its 300";
  EXPECT_NEAR(*run_.metric("gpu_exposed_comm"), 0.2, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_ccr_raw"), 3, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_idle"), 0.15, 1e-12);
}

/// 12 steps of 1 ms on each of two ranks, one every 2 ms; those of rank 1 begin 250 us later, but for the
/// last two, which begin 100 us earlier. The GPU of rank 0 computes 600 us of each and copies 100 us, that
/// of rank 1 computes 400 us.
void shifted_steps(Tables& run,
                   const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t)>& event) {
  for (int64_t s = 0; s < 12; ++s) {
    for (int64_t rank : {0, 1}) {
      const int64_t t = s * 2'000'000 + (rank == 0 ? 0 : s < 10 ? 250'000 : -100'000);
      run.step(rank, s, t, t + 1'000'000, 0);
      event(rank, 1, 1, s, t + 100'000, t + (rank == 0 ? 700'000 : 500'000));
      if (rank == 0) event(rank, 2, 3, s, t + 800'000, t + 900'000);
    }
  }
}

TEST_F(DevicesTest, TheWindowOfAJobStepIsFromTheFirstBeginToTheLastEnd) {
  const auto add = [&](int64_t rank, int64_t kind, int64_t name, int64_t step, int64_t begin_ns, int64_t end_ns) {
    event(rank, kind, name, step, begin_ns, end_ns, begin_ns - 10'000);
  };
  shifted_steps(run_, add);
  run_.analyze();
  // For 7 steady steps 5 take the job 1.25 ms, 2 take it 1.1 ms. No rank-step is longer than 1 ms.
  EXPECT_EQ(run_.integer("SELECT duration_ns FROM job_window"), 5 * 1'250'000 + 2 * 1'100'000);
  const double windows = 8'450;
  EXPECT_NEAR(*run_.metric("gpu_parallel_efficiency"), 7 * (600 + 400) / 2 / windows, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_orchestration_efficiency"), 7 * 700 / windows, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_talp_parallel_efficiency"), 7 * 500 / windows, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_load_balance") * *run_.metric("gpu_communication_efficiency") *
                  *run_.metric("gpu_orchestration_efficiency"),
              *run_.metric("gpu_parallel_efficiency"), 1e-9);
  EXPECT_NEAR(*run_.metric("step_time"), 1'000'000, 1e-9) << "of a rank";
  EXPECT_EQ(run_.number("SELECT sigma FROM metric WHERE id = 'gpu_parallel_efficiency'"), 0);

  // Without steps: from the begin of the first rank to the end of the last one.
  run_.exec("DELETE FROM step");
  run_.exec("UPDATE process SET init_ns = 1000000, finalize_ns = 24000000 WHERE rank = 0");
  run_.exec("UPDATE process SET init_ns = 500000, finalize_ns = 23000000 WHERE rank = 1");
  run_.exec("UPDATE gpu_event SET step = NULL");
  run_.analyze();
  EXPECT_EQ(run_.integer("SELECT duration_ns FROM job_window"), 23'500'000);
  EXPECT_NEAR(*run_.metric("gpu_orchestration_efficiency"), 11 * 700.0 / 23'500, 1e-12)
      << "the first step was before MPI_Init ended";
}

TEST_F(DevicesTest, TheWindowOfAJobStepNeedsClocks) {
  Tables apart(2, 2);
  std::swap(run_, apart);
  run_.exec(
      "INSERT OR IGNORE INTO region VALUES (0, NULL, 'none', '', NULL, NULL); INSERT INTO region VALUES (70, 0, 'layer', 'fc', NULL, 'fc');"
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (3, '[CUDA memcpy HtoD]', 'copy')");
  const auto add = [&](int64_t rank, int64_t kind, int64_t name, int64_t step, int64_t begin_ns, int64_t end_ns) {
    event(rank, kind, name, step, begin_ns, end_ns, begin_ns - 10'000);
  };
  shifted_steps(run_, add);
  run_.exec("UPDATE host SET sigma_ns = iif(id = 1, 0, 10000)");
  run_.analyze();
  EXPECT_NEAR(run_.number("SELECT sigma_ns FROM job_window"), 7 * 10'000, 1e-6);
  EXPECT_NEAR(*run_.metric("gpu_orchestration_efficiency"), 7 * 700 / 8'450.0, 1e-12);
  EXPECT_NEAR(run_.number("SELECT sigma FROM metric WHERE id = 'gpu_orchestration_efficiency'"),
              4'900.0 * 70 / 8'450 / 8'450, 1e-12);
  run_.exec("UPDATE host SET sigma_ns = 125000 WHERE id = 2");
  run_.analyze();
  for (const char* id : {"gpu_parallel_efficiency", "gpu_orchestration_efficiency", "gpu_talp_parallel_efficiency"})
    EXPECT_EQ(run_.why(id), "CLOCK_UNTRUSTED") << "more than a tenth of the window: " << id;
  EXPECT_NEAR(*run_.metric("gpu_load_balance"), 500.0 / 600, 1e-12) << "compares no clocks";
  run_.exec("UPDATE host SET sigma_ns = NULL, method = 'realtime' WHERE id = 2");
  run_.analyze();
  EXPECT_EQ(run_.why("gpu_parallel_efficiency"), "CLOCK_UNTRUSTED");
  EXPECT_TRUE(run_.is_null("SELECT duration_ns FROM job_window"));
}

TEST_F(DevicesTest, SharesByHand) {
  steps(20);
  run_.analyze();
  EXPECT_NEAR(*run_.metric("gpu_exposed_copy"), 0.05, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_exposed_wait"), 0.1, 1e-12) << "200 us of 1 ms on one of two";
  EXPECT_NEAR(*run_.metric("gpu_exposed_xfer"), 0.1, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_ccr_exposed"), 1200.0 / 400, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_idle_launch"), 0.005, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_idle_host"), (15 * 145.0 - 100) / 15'000, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_idle_other"), 100.0 / 15'000, 1e-12) << "nothing comes after the last step";
  EXPECT_NEAR(*run_.metric("hta_compute"), 19 * 1'200.0 / (2 * 18'850), 1e-12)
      << "from the first copy to the end of the last collective but one: HTA leaves out the last step";
  EXPECT_NEAR(run_.number("SELECT 1.0 * sum(compute_ns) / sum(kernel_time_ns) FROM hta_part WHERE whole = 1"),
              24'000.0 / (2 * 19'850), 1e-12);
  EXPECT_EQ(run_.why("gpu_idle_input"), "NO_DATA") << "no range says that it loads data";
  EXPECT_EQ(run_.text("SELECT value FROM meta WHERE key = 'verdict.text'").find("input"), std::string::npos);

  run_.exec(
      "UPDATE gpu_event SET start_ns = start_ns - 30000, duration_ns = duration_ns + 30000 WHERE kind = 2;"
      "UPDATE gpu_event SET launch_ns = 0");
  run_.exec("INSERT INTO region VALUES (71, 0, 'phase', 'data', 'data', NULL)");
  run_.exec(
      "INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (1, 0, 71, 19, 19950000, 50000, 0)");
  run_.analyze();
  EXPECT_NEAR(*run_.metric("gpu_idle_kernel"), 0.02, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_idle_input"), 50.0 / 30'000, 1e-12);
  EXPECT_NEAR(*run_.metric("gpu_idle_other"), (30 * 100.0 - 50) / 30'000, 1e-12);
}

TEST_F(DevicesTest, WhatNoRuleKnowsComputesAndIsCounted) {
  steps(20);
  run_.analyze();
  EXPECT_EQ(*run_.metric("n_unclassified"), 0) << "all kernels are known";
  EXPECT_EQ(*run_.metric("gpu_unclassified"), 0);
  const double computed = *run_.metric("gpu_parallel_efficiency");
  const std::vector<int64_t> parts = run_.integers("SELECT compute_ns FROM v_gpu_part ORDER BY rank, step");
  const std::vector<int64_t> layers = run_.integers("SELECT compute_ns FROM v_gpu_layer ORDER BY rank");
  // Rank 0's kernels that compute, 500 us of 800 a step, get two names that nobody knows; rank 1's 700 of 800 keep
  // theirs. A kernel that was launched by NCCL communicates whatever its name is.
  run_.exec(
      "INSERT INTO gpu_name VALUES (4, 'mystery', 'unclassified'), (5, 'secret', 'unclassified'), (6, 'odd', 'unclassified');"
      "UPDATE gpu_event SET name = 4 + step % 2 WHERE process = 1 AND name = 1;"
      "UPDATE gpu_event SET name = 6 WHERE name = 2");
  run_.analyze();
  EXPECT_EQ(*run_.metric("n_unclassified"), 2);
  EXPECT_NEAR(*run_.metric("gpu_unclassified"), 500.0 / 1600, 1e-12);
  EXPECT_EQ(run_.integers("SELECT ns FROM kernel_time ORDER BY class"),
            (std::vector<int64_t>{8'000'000, 14'000'000, 10'000'000}));
  EXPECT_EQ(run_.integers("SELECT kernels FROM kernel_time ORDER BY class"), (std::vector<int64_t>{40, 20, 20}));
  EXPECT_EQ(*run_.metric("gpu_parallel_efficiency"), computed);
  EXPECT_EQ(run_.integers("SELECT compute_ns FROM v_gpu_part ORDER BY rank, step"), parts);
  EXPECT_EQ(run_.integers("SELECT compute_ns FROM v_gpu_layer ORDER BY rank"), layers);
}

TEST_F(DevicesTest, WhatTheHostDidForThemAndWhenCollectivesBegan) {
  steps(20);
  run_.exec("UPDATE gpu_event SET launch_duration_ns = 4000");
  run_.exec(
      "INSERT INTO gpu_name VALUES (4, '[CUDA synchronisation: stream]', 'other'),"
      " (5, '[CUDA synchronisation: stream wait for event]', 'other')");
  run_.exec(
      "INSERT INTO gpu_event (process, kind, name, region, step, start_ns, duration_ns, correlation)"
      " SELECT process, 4, 4, 0, step, start_ns, 90000, 0 FROM gpu_event WHERE kind = 2 UNION ALL"
      " SELECT process, 4, 5, 0, step, start_ns, 50000, 0 FROM gpu_event WHERE kind = 2");
  // Another collective, shorter than a hundredth of the step, does not count.
  run_.exec(
      "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, start_ns, duration_ns, correlation, launch_ns,"
      " launch_duration_ns) SELECT process, 1, 2, 0, 1, 7, 70, step, start_ns + duration_ns, 5000, 0, launch_ns, 0 FROM gpu_event"
      " WHERE name = 2");
  run_.analyze();
  EXPECT_NEAR(*run_.metric("host_gpu_time"), 3 * 4'000 + 90'000, 1e-9) << "that a stream waits holds up no host";
  EXPECT_NEAR(run_.number("SELECT value FROM rank_metric WHERE id = 'hta_late_start' AND rank = 0"), 0.6, 1e-9);
  EXPECT_NEAR(run_.number("SELECT value FROM rank_metric WHERE id = 'hta_late_start' AND rank = 1"), 0.8, 1e-9);
  EXPECT_NEAR(*run_.metric("hta_late_start"), 0.8, 1e-9);
}

TEST_F(DevicesTest, ACallThatLaunchesManyKernelsCountsOnce) {
  steps(20);  // 3 operations a step and rank, none with a correlation
  run_.exec("UPDATE gpu_event SET launch_duration_ns = 4000");
  // 16 nodes a step and rank, of one launch of 30 us; the numbers of rank 1 are those of rank 0, and begin
  // again after 10 steps.
  const auto graph = [&](int64_t kind, const char* node, int64_t copies) {
    run_.exec(
        "WITH RECURSIVE k(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM k WHERE k < " + std::to_string(copies) +
        ") INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, start_ns, duration_ns, correlation, graph_node,"
        " launch_ns, launch_duration_ns) SELECT process, " +
        std::to_string(kind) + ", 1, 0, 1, 7, 70, step, start_ns + k * 100, 50, 1 + step % 10, " + node +
        ", launch_ns + 7, 30000 FROM gpu_event, k WHERE kind = 2");
  };
  graph(1, "k", 16);
  run_.analyze();
  EXPECT_NEAR(*run_.metric("host_gpu_time"), 3 * 4'000 + 30'000, 1e-9);
  EXPECT_EQ(run_.integer("SELECT count(*) FROM host_gpu"), 20);
  run_.exec("UPDATE gpu_event SET graph_node = NULL");
  run_.analyze();
  EXPECT_NEAR(*run_.metric("host_gpu_time"), 3 * 4'000 + 30'000, 1e-9) << "a trace that does not tell nodes";
  graph(6, "NULL", 1);
  run_.analyze();
  EXPECT_NEAR(*run_.metric("host_gpu_time"), 3 * 4'000 + 30'000, 1e-9) << "the launch is an event as well";
}

TEST_F(DevicesTest, WithoutAllMembersWaitingIsNotKnown) {
  steps(2);
  run_.exec("UPDATE gpu_event SET seq = NULL WHERE process = 2 AND step = 1");
  run_.analyze();
  EXPECT_EQ(run_.integers("SELECT exposed_comm_ns FROM v_gpu_part WHERE step = 1 ORDER BY rank"),
            (std::vector<int64_t>{300'000, 100'000}));
  EXPECT_EQ(run_.integer("SELECT count(exposed_wait_ns) FROM v_gpu_part WHERE step = 1"), 0);
  EXPECT_EQ(run_.text("SELECT DISTINCT why FROM v_gpu_part WHERE step = 1"), "PARTIAL_RANKS");
  EXPECT_EQ(run_.integer("SELECT count(exposed_wait_ns) FROM v_gpu_part WHERE step = 0"), 2);
  EXPECT_EQ(run_.why("gpu_wait_efficiency"), "PARTIAL_RANKS");
  EXPECT_TRUE(run_.metric("gpu_communication_efficiency")) << "needs no split";
}

TEST_F(DevicesTest, ClocksThatCannotBeComparedTellNoWaiting) {
  Tables apart(2, 2);
  apart.exec("UPDATE host SET sigma_ns = NULL, method = 'realtime' WHERE id = 2");
  std::swap(run_, apart);
  run_.exec(
      "INSERT OR IGNORE INTO region VALUES (0, NULL, 'none', '', NULL, NULL); INSERT INTO region VALUES (70, 0, 'layer', 'fc', NULL, 'fc');"
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication'),"
      " (3, '[CUDA memcpy HtoD]', 'copy')");
  steps(2);
  run_.analyze();
  EXPECT_EQ(run_.text("SELECT DISTINCT why FROM v_gpu_part"), "CLOCK_UNTRUSTED");
}

TEST_F(DevicesTest, EachGpuIsItsOwn) {
  steps(1);
  event(0, 1, 1, 0, 0, 1'000'000, 0, "NULL", 1);
  run_.analyze();
  EXPECT_EQ(run_.integers("SELECT compute_ns FROM v_gpu_part WHERE step = 0 ORDER BY rank, device"),
            (std::vector<int64_t>{500'000, 1'000'000, 700'000}));
  EXPECT_NEAR(*run_.metric("gpu_parallel_efficiency"), 2.2 / 3, 1e-12);
}

TEST_F(DevicesTest, WaitsAreFollowedFromStreamToStream) {
  run_.step(0, 0, 0, 1'000'000, 0);
  const auto operation = [&](int64_t device, int64_t name, int64_t stream, int64_t call, int64_t begin_ns,
                             int64_t end_ns) {
    event(0, name == 3 ? 2 : 1, name, 0, begin_ns, end_ns, 0, "NULL", device);
    run_.exec("UPDATE gpu_event SET context = " + std::to_string(device + 1) + ", stream = " + std::to_string(stream) +
              ", correlation = " + std::to_string(call) + " WHERE id = (SELECT max(id) FROM gpu_event)");
  };
  const auto wait = [&](int64_t stream, int64_t call, int64_t on_context, int64_t on_stream, int64_t on_call) {
    run_.exec("INSERT INTO stream_wait VALUES (1, 1, " + std::to_string(stream) + ", " + std::to_string(call) + ", " +
              std::to_string(on_context) + ", " + std::to_string(on_stream) + ", " + std::to_string(on_call) + ")");
  };
  operation(1, 3, 20, 1, 0, 200'000);        // a copy of GPU 1
  operation(1, 2, 20, 3, 200'000, 400'000);  // a collective behind it, after the event
  operation(1, 1, 21, 4, 0, 700'000);        // computing
  wait(8, 10, 2, 20, 2);                     // for the copy
  operation(0, 1, 8, 11, 200'000, 210'000);
  wait(9, 12, 2, 20, 5);  // another stream of GPU 0 waits for the collective,
  wait(9, 13, 2, 20, 2);  // and for the copy, which is done before,
  wait(8, 15, 1, 9, 14);  // and is waited for in turn
  operation(0, 1, 8, 16, 400'000, 410'000);
  wait(8, 17, 2, 21, 5);  // for what computes: no class of its own
  operation(0, 1, 8, 18, 700'000, 710'000);
  operation(0, 1, 8, 19, 800'000, 1'000'000);  // nobody was told to wait: what the stream waited for before is done
  run_.analyze();
  EXPECT_EQ(run_.integer("SELECT idle_dep_copy_ns FROM v_gpu_part WHERE device = 0 AND step = 0"), 200'000);
  EXPECT_EQ(run_.integer("SELECT idle_dep_comm_ns FROM v_gpu_part WHERE device = 0 AND step = 0"), 190'000);
  EXPECT_EQ(run_.integer("SELECT idle_other_ns FROM v_gpu_part WHERE device = 0 AND step = 0"), 290'000 + 90'000);
  EXPECT_NEAR(*run_.metric("gpu_idle_dep_copy"), 0.1, 1e-12) << "of the steps of both GPUs";
  EXPECT_NEAR(*run_.metric("gpu_idle_dep_comm"), 0.095, 1e-12);
}

TEST_F(DevicesTest, TheVerdictListensToGpus) {
  const auto verdict = [&] {
    run_.analyze();
    return run_.text("SELECT value FROM meta WHERE key = 'verdict'");
  };
  steps(20);
  EXPECT_EQ(verdict(), "host")
      << "launched only 45 us into the step and late for the next one: 14.5 % of it, waiting and transfer 10 % each";
  run_.exec("UPDATE gpu_event SET launch_ns = 0");  // all launched ahead: the gaps are nobody's
  EXPECT_EQ(verdict(), "idling") << "more of the step than waiting and transfer, and no reason is known";
  run_.exec("UPDATE gpu_event SET name = 3, kind = 2, comm = NULL, seq = NULL WHERE name = 2");
  EXPECT_EQ(verdict(), "copy");
  run_.exec("UPDATE gpu_event SET name = 2, kind = 1 WHERE name = 3");
  EXPECT_EQ(verdict(), "undecided") << "nobody knows which collectives these are";
  EXPECT_NE(run_.text("SELECT value FROM meta WHERE key = 'verdict.text'")
                .find("undecided: what is not split may be waiting or transfer: "),
            std::string::npos);
  run_.exec("DELETE FROM gpu_event");
  EXPECT_EQ(verdict(), "compute");
}

/// What a killed process's GPU did last was never handed over: neither that step nor the time up to its end is idling.
TEST_F(DevicesTest, WhatAKilledProcessDidLastIsNotIdling) {
  steps(20);
  run_.exec(
      "UPDATE process SET init_ns = 0, finalize_ns = 20000000, end_ns = 20000000;"
      " UPDATE process SET finalize_ns = NULL WHERE rank = 1; DELETE FROM gpu_event WHERE process = 2 AND step >= 18");
  run_.ended(1, "lost", 20'500'000);
  run_.analyze();
  EXPECT_EQ(run_.integer("SELECT count(*) FROM gpu_part WHERE process = 2 AND step IS NOT NULL"), 17)
      << "the last one seen may have gone on";
  EXPECT_EQ(run_.integer("SELECT duration_ns FROM gpu_part WHERE process = 2 AND step IS NULL"), 17'900'000);
  EXPECT_EQ(run_.integer("SELECT max(step) FROM steady_number"), 16) << "steps that a rank lacks";
  EXPECT_NEAR(*run_.metric("gpu_parallel_efficiency"), 0.6, 1e-12) << "as of a run that nobody killed";
}

/// Collectives of NCCL, and no activity of a GPU: the thread may wait for it wherever it is outside MPI.
TEST_F(DevicesTest, WhatGpusComputeIsNotKnownWhereNobodyRecordedIt) {
  for (int64_t s = 0; s < 20; ++s)
    for (const int64_t rank : {0, 1}) run_.step(rank, s, s * 1'000'000, (s + 1) * 1'000'000, 0);
  run_.exec(
      "INSERT INTO op (id, name, class, nonblocking) VALUES (900, 'ncclAllReduce', 'all_to_all', 1), (901, 'ncclCommInitRank', 'communicator', 0);"
      " INSERT INTO profile (process, region, op, comm, size_class, calls, time_ns, time_estimated)"
      " VALUES (1, 0, 901, 1, 0, 1, 100, 0), (2, 0, 901, 1, 0, 1, 100, 0)");
  run_.analyze();
  EXPECT_TRUE(read_facts(run_.db(), 0).headline.is_known()) << "nothing was ever reduced by NCCL";
  EXPECT_EQ(run_.text("SELECT value FROM meta WHERE key = 'verdict'"), "compute");
  run_.exec(
      "INSERT INTO profile (process, region, op, comm, size_class, calls, time_ns, time_estimated) VALUES (2, 0, 900, 1, 0, 1, 100, 0)");
  run_.analyze();
  const Facts facts = read_facts(run_.db(), 0);
  EXPECT_EQ(facts.resource, Resource::kUnseen);
  EXPECT_FALSE(facts.headline.is_known());
  ASSERT_EQ(facts.ranks.size(), 2U);
  EXPECT_EQ(facts.ranks[0].compute_ns, 1'000'000);
  EXPECT_FALSE(facts.ranks[1].compute_ns);
  EXPECT_EQ(facts.ranks[1].why, "NO_DATA");
  EXPECT_EQ(facts.step.p50_ns, 1'000'000) << "how long a step takes is known";
  EXPECT_EQ(run_.text("SELECT value FROM meta WHERE key = 'verdict'"), "n/a");
  EXPECT_THROW(models::mean_step(run_.db(), 0), Error);
}

TEST_F(DevicesTest, WithoutGpusTheirMetricsDoNotApply) {
  run_.step(0, 0, 0, 100, 0);
  run_.step(1, 0, 0, 100, 0);
  run_.analyze();
  for (const char* id :
       {"gpu_parallel_efficiency", "host_gpu_time", "hta_late_start", "n_unclassified", "gpu_unclassified"})
    EXPECT_EQ(run_.why(id), "NOT_APPLICABLE") << id;
  EXPECT_EQ(run_.integer("SELECT count(*) FROM gpu_part"), 0);
}

}  // namespace
}  // namespace ddl::test
