// The program of libFuzzer: DDL_FUZZ_TARGET names what it fuzzes (tools/fuzz). With DDL_FUZZ_SEEDS it writes the seeds
// into that folder and ends; DDL_FUZZ_SECONDS is how much processor time it takes.
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

const ddl::fuzz::Target* target = nullptr;

/// libFuzzer's own limit is of elapsed time, in which a busy machine may have let it try little.
void end_after(long seconds) {
  signal(SIGPROF, [](int) { raise(SIGUSR1); });  // at which libFuzzer ends by itself
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = getenv("DDL_FUZZ_TARGET");
  for (const ddl::fuzz::Target& one : ddl::fuzz::targets()) {
    if (name == nullptr) std::printf("%-16s %s\n", one.name, one.what);
    if (name != nullptr && std::string_view(name) == one.name) target = &one;
  }
  if (name == nullptr) std::exit(0);
  if (target == nullptr) {
    std::fprintf(stderr, "fuzz: error: there is no target '%s'\n", name);
    std::exit(2);
  }
  if (const char* const folder = getenv("DDL_FUZZ_SEEDS")) {
    int number = 0;
    for (const std::string& seed : target->seeds()) {
      if (!target->take(seed)) {
        std::fprintf(stderr, "fuzz: error: seed %d of %s is refused\n", number, name);
        std::exit(1);
      }
      ddl::fuzz::write(std::filesystem::path(folder) / ("seed-" + std::to_string(number++)), seed);
    }
    std::exit(0);
  }
  if (const char* const seconds = getenv("DDL_FUZZ_SECONDS")) end_after(std::atol(seconds));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target->take({reinterpret_cast<const char*>(data), size});
  return 0;
}

/// What libFuzzer changes in turns with what is known to hurt this kind of input.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937_64 random(seed);
  if (random() % 3 != 0) return LLVMFuzzerMutate(data, size, most);
  const std::string damaged = target->damage({reinterpret_cast<const char*>(data), size}, random);
  const size_t length = damaged.size() < most ? damaged.size() : most;
  std::copy_n(damaged.begin(), length, reinterpret_cast<char*>(data));
  return length;
}
