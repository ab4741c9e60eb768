#include "tests/fuzz/traces.h"

#include "tests/fuzz/target.h"
#include "tests/import/samples.h"

namespace ddl::fuzz {
namespace {

constexpr const char* kNames[] = {"chrome",         "kineto",   "horovod",         "nsys",     "nvprof",
                                  "nccl-inspector", "nccl-ras", "flight-recorder", "pipedream"};

const char* name_of(Format format) { return kNames[static_cast<int>(format)]; }

}  // namespace

std::vector<std::string> traces_of(Format format) {
  std::vector<std::string> seeds;
  for (const test::Sample& sample : test::samples())
    if (sample.format == name_of(format)) seeds.push_back(sample.contents);
  if (format == Format::kHorovod) seeds.push_back(test::horovod_steps(4, true));
  return seeds;
}

bool take_trace_of(Format format, const std::string& input) {
  const char* const file = format == Format::kNsys ? "trace.sqlite" : format == Format::kPipedream ? "trace.csv" : "nccl_trace_rank_0";
  const std::filesystem::path run = scratch() / "import.ddl";
  const std::string trace = write(scratch() / file, input);
  std::filesystem::remove_all(run);
  return verb({"import", name_of(format), trace, "-o", run.string()}) && verb({"report", run.string()});
}

}  // namespace ddl::fuzz
