// prove RULES PROBE_DIRECTORY RANKS: what prove_openmpi() says, as text; and every row with what the port of the
// rules expects of it.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "autotuner/probe_report.h"
#include "core/error.h"

int main(int argc, char** argv) try {
  if (argc != 4) return 2;
  std::ostringstream rules;
  rules << std::ifstream(argv[1]).rdbuf();
  const ddl::tune::Proof proof =
      ddl::tune::prove_openmpi(ddl::tune::read_probe_files(argv[2]), rules.str(), std::stoll(argv[3]));
  constexpr const char* kVerdicts[] = {"in force", "not in force", "cannot tell"};
  constexpr const char* kMatches[] = {"as ruled", "same as default", "not ruled", "otherwise"};
  std::printf("%s\n%s\n", kVerdicts[static_cast<int>(proof.verdict)], proof.sentence.c_str());
  for (const std::string& note : proof.notes) std::printf("note: %s\n", note.c_str());
  for (const ddl::tune::ProofRow& row : proof.rows)
    std::printf("row|%ld|%ld|%ld|%s|%s|%s\n", row.calls.ranks, row.calls.bytes, row.calls.calls,
                kMatches[static_cast<int>(row.match)], row.expected.c_str(), row.ran.c_str());
  return 0;
} catch (const ddl::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
