// What bin/allreduce could have printed.
#pragma once

#include <cstdint>
#include <string>

namespace ddl::test {

// 64 bytes: ring twice as fast in every round, though the rounds differ by a factor of ten. 4 KiB: nothing differs. 1
// MiB: faster by less than the default differs from itself.
inline std::string sweep_text() {
  std::string text =
      "# allreduce 1 ranks=4 nodes=2 library=\"Open MPI v4.1.4\" datatype=float op=sum\nalgorithm,segment_bytes,bytes,round,seconds\n";
  for (int round = 0; round < 5; ++round) {
    const double burst = round == 2 ? 10 : 1;
    const auto row = [&](const char* name, int64_t bytes, double seconds) {
      text += std::string(name) + ",0," + std::to_string(bytes) + "," + std::to_string(round) + "," +
              std::to_string(seconds * burst) + "\n";
    };
    row("default", 64, 2e-3), row("default_again", 64, 2e-3), row("openmpi:ring", 64, 1e-3), row("tree", 64, 1e-4);
    row("default", 4096, 4e-3), row("default_again", 4096, 4e-3), row("openmpi:ring", 4096, 4e-3);
    row("default", 1 << 20, 8e-3), row("default_again", 1 << 20, 9e-3), row("openmpi:ring", 1 << 20, 7.7e-3);
  }
  return text;
}

}  // namespace ddl::test
