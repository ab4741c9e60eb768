#include "tests/fuzz/traces.h"

#include <algorithm>

#include "core/error.h"
#include "store/import.h"
#include "tests/fuzz/target.h"
#include "tests/import/samples.h"

namespace ddl::fuzz {
namespace {

constexpr const char* kNames[] = {"chakra",         "chrome",   "kineto",          "horovod",   "nsys", "nvprof",
                                  "nccl-inspector", "nccl-ras", "flight-recorder", "pipedream", "rocm"};

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
  const char* const file = format == Format::kNsys        ? "trace.sqlite"
                           : format == Format::kPipedream ? "trace.csv"
                                                          : "nccl_trace_rank_0";
  const std::filesystem::path run = scratch() / "import.ddl";
  const std::string trace = write(scratch() / file, input);
  std::filesystem::remove_all(run);
  if (is_one_of(16, input))
    return verb({"import", name_of(format), trace, "-o", run.string()}) && verb({"report", run.string()});
  const auto formats = import_formats();
  const auto known = std::find_if(formats.begin(), formats.end(),
                                  [&](const ImportFormat& f) { return f.name == std::string(name_of(format)); });
  std::filesystem::create_directories(run);
  ImportOptions options;
  options.output = run / "run.sqlite";
  try {
    return import_traces(*known, {trace}, options).events > 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ddl::fuzz
