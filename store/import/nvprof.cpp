// What nvprof printed (CUDA 5 to 12; Nsight Systems took its place): the activities of --print-gpu-trace --csv.
//
// Its summary is refused: it has sums and no moments, and whatever moments were made up for them, the report would
// draw findings from.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "store/import/csv_rows.h"
#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/unread_events.h"

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

/// Bytes of a unit of sizes, as the second line gives it for a column; 0: there is no such column.
double size_unit(const CsvRows& rows, const char* column) {
  if (!rows.has(column)) return 0;
  const std::string& unit = rows.text(column);
  return unit == "GB" ? 0x1p30 : unit == "MB" ? 0x1p20 : unit == "KB" ? 0x1p10 : 1;
}

constexpr std::string_view kCudaCopy = "[CUDA memcpy ", kUnified = "[Unified Memory ",
                           kUnifiedCopy = "[Unified Memory Memcpy ";

/// A process of its own, with its activities.
class NvprofFile {
 public:
  NvprofFile(ImportedRun& run, UnreadEvents& unread, const fs::path& path, const BytesRead& read)
      : run_(run), unread_(unread), path_(path), read_(read) {}

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
    for (const std::string_view copy : {kCudaCopy, kUnifiedCopy}) {
      if (!name.starts_with(copy) || !name.ends_with("]")) continue;
      activity.kind = DeviceKind::kMemcpy;
      activity.copy = std::string_view(name).substr(copy.size(), name.size() - copy.size() - 1);
    }
    if (name.starts_with("[CUDA memset")) activity.kind = DeviceKind::kMemset;
    run_.gpu(process_, activity);
  }

  void read_csv(InputFile& file) {
    CsvRows rows(file, kRemark);
    try {
      if (rows.has("Start") && rows.has("Duration")) {
        read_trace(rows);
      } else {
        rows.fail(fmt::format("{}: {}",
                              rows.has("Calls") ? "a summary: sums, without the times of single events"
                                                : "not a trace of nvprof: no columns Start and Duration",
                              kWanted));
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
    const double size = size_unit(rows, "Size"), unified_size = size_unit(rows, "Unified Memory");
    constexpr int kSizePlaces = 9;
    while (rows.next()) {
      if (rows.text("Start").empty()) continue;  // remarks of nvprof at the end
      const auto maybe = [&](const char* column) {
        return rows.has(column) && !rows.text(column).empty() ? whole(rows.text(column)) : std::nullopt;
      };
      std::string name = rows.text("Name");
      const bool unified = name.starts_with(kUnified);
      if (unified && !name.starts_with(kUnifiedCopy)) {  // faults and the like: of a processor, or while a kernel runs
        unread_.add(name);
        continue;
      }
      GpuActivity activity;
      activity.context = maybe("Context");
      activity.stream = maybe("Stream");
      activity.correlation = maybe("Correlation_ID").value_or(0);
      const std::string& device = rows.text("Device");  // Tesla K20 (0)
      if (const size_t open = device.rfind('('); open != std::string::npos && device.ends_with(")")) {
        activity.device = whole(std::string_view(device).substr(open + 1, device.size() - open - 2));
        if (activity.device)
          run_.process(process_).gpus[*activity.device] = device.substr(0, device.find_last_not_of(' ', open - 1) + 1);
      }
      const char* const sized = unified ? "Unified Memory" : "Size";
      if (const double unit = unified ? unified_size : size; unit > 0 && !rows.text(sized).empty())
        activity.bytes = std::llround(static_cast<double>(rows.decimal(sized, kSizePlaces)) * 1e-9 * unit);
      // "gemm(float*) [123]": its correlation, in versions without a column of it.
      if (const size_t open = name.rfind(" [");
          open != std::string::npos && name.ends_with("]") && whole(name.substr(open + 2, name.size() - open - 3)))
        name.resize(open);
      add(name, rows.decimal("Start", start_places), rows.decimal("Duration", duration_places), activity);
    }
  }

  ImportedRun& run_;
  UnreadEvents& unread_;
  const fs::path& path_;
  const BytesRead& read_;
  size_t process_ = 0;
};

}  // namespace

void read_nvprof(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  UnreadEvents unread;
  for (const fs::path& path : files) NvprofFile(run, unread, path, read).read();
  unread.write(run.losses(), "rows");
}

}  // namespace ddl::store
