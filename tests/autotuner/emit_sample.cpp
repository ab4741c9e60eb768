// Writes the config files of a sample: emit_sample tuned|default|other DIRECTORY, or emit_sample rules DIRECTORY RANKS
// BYTES:ALGORITHM:SEGMENT...
#include <cstdio>
#include <cstring>
#include <string>

#include "autotuner/emit.h"
#include "core/error.h"
#include "tests/autotuner/tuned_samples.h"

namespace {

ddl::tune::Tuned rules(int argc, char** argv) {
  ddl::tune::Tuned tuned = ddl::tune::other_sample();
  tuned.ranks = std::stoll(argv[3]);
  for (int i = 4; i < argc; ++i) {
    ddl::tune::AllreduceRule rule;
    std::sscanf(argv[i], "%ld:%ld:%ld", &rule.from_bytes, &rule.algorithm, &rule.segment_bytes);
    tuned.allreduce_rules.push_back(rule);
  }
  return tuned;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  const std::string which = argv[1];
  ddl::tune::emit(which == "tuned"     ? ddl::tune::tuned_sample()
                  : which == "default" ? ddl::tune::default_sample()
                  : which == "rules"   ? rules(argc, argv)
                                       : ddl::tune::other_sample(),
                  argv[2]);
  return 0;
} catch (const ddl::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
