// Spools to damage.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/core/damage.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl::test {

inline std::vector<Image> load_spools(const std::filesystem::path& folder) {
  std::vector<Image> images;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".spool") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    images.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return images;
}

/// Spools with everything in them: several chunks of events, rings that went round, replaced profile tables, all
/// kinds of meta entries.
inline std::vector<Image> sample_spools() {
  std::vector<Image> images;
  const auto add = [&](const SyntheticRun& run) {
    const ScratchFolder folder;
    run.write(folder.path());
    for (Image& image : load_spools(folder.path())) images.push_back(std::move(image));
  };
  add(run()
          .ranks(2)
          .steps(300)
          .names(hostile_names())
          .forward("fc1", 1_ms)
          .allreduce(4_MiB, 1_ms)
          .iallreduce(1_KiB, 1_ms)
          .waitall()
          .value("loss", 0.5));
  add(run()
          .ranks(2)
          .steps(40)
          .window(3, 5)
          .split("dp", 2)
          .compute(1_ms)
          .sendrecv_ring(64_KiB, 1_ms)
          .bcast(8_KiB, 1_ms)
          .polls(10, 500_ns));
  add(run().ranks(2).steps(10).compute(1_ms).allreduce(4_MiB, 1_ms).killed(1, 5).tsc(2.5e9));
  SpoolBuilder tiny;
  tiny.append(tiny.add_chunk(ChunkKind::kEvents), {1, record_word(RecordKind::kCall, 20, 1), 0, 0, 0, 0, -1});
  const size_t device = tiny.add_chunk(ChunkKind::kDevice);
  for (uint32_t i = 0; i < 50; ++i)
    tiny.append_device(device, {i, i + 9, 1, 0, device_what(DeviceKind::kMemcpy, 1, 1, 1, i % 2), 0, 1, 7, i, 0,
                                kContextOfLaunch, 0, 0});
  images.push_back(tiny.image());
  return images;
}

}  // namespace ddl::test
