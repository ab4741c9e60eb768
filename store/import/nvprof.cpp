// What nvprof printed (CUDA 5 to 12; Nsight Systems took its place): the activities of --print-gpu-trace --csv.
//
// Its summary is refused: it has sums and no moments, and whatever moments were made up for them, the report would draw findings from.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "store/import/csv_rows.h"
#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemark = "==";  // ==1234== Profiling result:
constexpr const char* kWanted = "nvprof --print-gpu-trace --csv is wanted";

/// Decimal places from a unit of time to ns; nothing if it is none.
std::optional<int> places_of(std::string_view unit) {
  if (unit == "s") return kSecondsToNs;
  if (unit == "ms") return kMillisecondsToNs;
  if (unit == "us") return kMicrosecondsToNs;
  if (unit == "ns") return 0;
  return std::nullopt;
}

/// A process of its own, with its activities.
class NvprofFile {
 public:
  NvprofFile(ImportedRun& run, const fs::path& path, const BytesRead& read) : run_(run), path_(path), read_(read) {}

  void read() {
    ImportedProcess process;
    process.file = path_.filename().string();
    process.file_bytes = file_bytes(path_);
    process.host = "unknown";
    process_ = run_.add_process(std::move(process));
    InputFile file(path_, read_);
    read_csv(file);
  }

 private:
  void add(const std::string& name, int64_t start_ns, int64_t duration_ns, GpuActivity activity = {}) {
    activity.name = name;
    activity.start_ns = start_ns;
    activity.duration_ns = duration_ns;
    constexpr std::string_view kCopy = "[CUDA memcpy ";
    if (name.starts_with(kCopy) && name.ends_with("]")) {
      activity.kind = DeviceKind::kMemcpy;
      activity.copy = std::string_view(name).substr(kCopy.size(), name.size() - kCopy.size() - 1);
    } else if (name.starts_with("[CUDA memset")) {
      activity.kind = DeviceKind::kMemset;
    }
    run_.gpu(process_, activity);
  }

  void read_csv(InputFile& file) {
    CsvRows rows(file, kRemark);
    try {
      if (rows.has("Start") && rows.has("Duration")) {
        read_trace(rows);
      } else {
        rows.fail(
            fmt::format("{}: {}", rows.has("Calls") ? "a summary, which has no moments" : "no trace of nvprof (Start, Duration)", kWanted));
      }
    } catch (const BadRecord& bad) {
      rows.fail(bad.what);
    }
  }

  int unit(const CsvRows& rows, const char* column) const {
    const auto places = places_of(rows.text(column));
    if (!places) rows.fail(fmt::format("the second line gives no unit of time for {}", column));
    return *places;
  }

  void read_trace(CsvRows& rows) {
    if (!rows.has("Device") || !rows.has("Name")) rows.fail(fmt::format("a trace without devices: {}", kWanted));
    if (!rows.next()) return;
    const int start_places = unit(rows, "Start"), duration_places = unit(rows, "Duration");
    const double size_unit = !rows.has("Size")           ? 0
                             : rows.text("Size") == "GB" ? 0x1p30
                             : rows.text("Size") == "MB" ? 0x1p20
                             : rows.text("Size") == "KB" ? 0x1p10
                                                         : 1;
    constexpr int kSizePlaces = 9;
    while (rows.next()) {
      if (rows.text("Start").empty()) continue;  // remarks of nvprof at the end
      const auto maybe = [&](const char* column) {
        return rows.has(column) && !rows.text(column).empty() ? whole(rows.text(column)) : std::nullopt;
      };
      GpuActivity activity;
      activity.context = maybe("Context");
      activity.stream = maybe("Stream");
      activity.correlation = maybe("Correlation_ID").value_or(0);
      const std::string& device = rows.text("Device");  // Tesla K20 (0)
      if (const size_t open = device.rfind('('); open != std::string::npos && device.ends_with(")")) {
        activity.device = whole(std::string_view(device).substr(open + 1, device.size() - open - 2));
        if (activity.device) run_.process(process_).gpus[*activity.device] = device.substr(0, device.find_last_not_of(' ', open - 1) + 1);
      }
      if (size_unit > 0 && !rows.text("Size").empty())
        activity.bytes = std::llround(static_cast<double>(rows.decimal("Size", kSizePlaces)) * 1e-9 * size_unit);
      std::string name = rows.text("Name");
      // "gemm(float*) [123]": its correlation, in versions without a column of it.
      if (const size_t open = name.rfind(" [");
          open != std::string::npos && name.ends_with("]") && whole(name.substr(open + 2, name.size() - open - 3)))
        name.resize(open);
      add(name, rows.decimal("Start", start_places), rows.decimal("Duration", duration_places), activity);
    }
  }

  ImportedRun& run_;
  const fs::path& path_;
  const BytesRead& read_;
  size_t process_ = 0;
};

}  // namespace

void read_nvprof(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  for (const fs::path& path : files) NvprofFile(run, path, read).read();
}

}  // namespace ddl::store
