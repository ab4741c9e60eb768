// What nvprof printed (CUDA 5 to 12; Nsight Systems took its place): the activities of --print-gpu-trace --csv, or its summary, as CSV or as
// text with the columns Time(%) Time Calls Avg Min Max Name, of which slides leave some out and write others with blanks.
//
// A summary has sums and no moments: its activities are put one behind the other. Their number, sum, shortest and longest are those of the
// summary; where they lie is not known, and a loss says so.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "store/import/csv_rows.h"
#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemark = "==";  // ==1234== Profiling result:
constexpr int64_t kMostCalls = 10'000'000;

std::string without_blanks(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) result += c;
  return result;
}

/// "[ CUDA memcpy DtoH ]" is "[CUDA memcpy DtoH]".
std::string plain_name(std::string name) {
  if (name.starts_with("[ ")) name.erase(1, 1);
  if (name.ends_with(" ]")) name.erase(name.size() - 2, 1);
  return name;
}

/// Decimal places from a unit of time to ns; nothing if it is none.
std::optional<int> places_of(std::string_view unit) {
  if (unit == "s") return kSecondsToNs;
  if (unit == "ms") return kMillisecondsToNs;
  if (unit == "us") return kMicrosecondsToNs;
  if (unit == "ns") return 0;
  return std::nullopt;
}

/// "29.581ms"
std::optional<int64_t> time_with_unit(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.eE+-");
  if (end == std::string_view::npos) return std::nullopt;
  const auto places = places_of(text.substr(end));
  return places ? scaled(text.substr(0, end), *places) : std::nullopt;
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
    const bool is_csv = [&] {
      InputFile file(path_, {});
      for (std::string line; file.line(line);)
        if (!line.empty() && !line.starts_with(kRemark)) return line.starts_with("\"") || line.find(',') != std::string::npos;
      return false;
    }();
    InputFile file(path_, read_);
    is_csv ? read_csv(file) : read_text(file);
    if (summarised_ > 0)
      run_.losses().add({}, "no_times", summarised_,
                        "activities of a summary of nvprof: only their number and times are known, they are put one behind the other");
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

  /// A row of a summary. False: its numbers contradict each other.
  bool add_summary(const std::string& name, int64_t total_ns, int64_t calls, std::optional<int64_t> least_ns,
                   std::optional<int64_t> most_ns) {
    if (calls < 1 || calls > kMostCalls || total_ns < 0 || total_ns > int64_t{1'000'000} * 1'000'000'000) return false;
    std::vector<int64_t> durations;
    int64_t left_ns = total_ns, left = calls;
    const auto take = [&](int64_t duration_ns) {
      durations.push_back(duration_ns);
      left_ns -= duration_ns, --left;
    };
    if (least_ns && most_ns && calls > 1) {
      if (*least_ns < 0 || *most_ns < *least_ns || *most_ns > total_ns) return false;
      take(*least_ns);
      if (left > 1) take(std::min(*most_ns, left_ns));
    }
    while (left > 0) take(left_ns / left);
    for (const int64_t duration_ns : durations) {
      add(name, time_ns_, duration_ns);
      time_ns_ += duration_ns;
    }
    summarised_ += static_cast<uint64_t>(calls);
    return true;
  }

  // ---------------------------------------------------------------- CSV

  void read_csv(InputFile& file) {
    CsvRows rows(file, kRemark);
    try {
      if (rows.has("Start") && rows.has("Duration")) {
        read_trace(rows);
      } else if (rows.has("Calls") && rows.has("Name") && rows.has("Time")) {
        read_summary(rows);
      } else {
        rows.fail("neither a trace (Start, Duration) nor a summary (Time, Calls, Name) of nvprof");
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

  void read_summary(CsvRows& rows) {
    if (!rows.next()) return;
    std::map<std::string, int> places;
    for (const char* column : {"Time", "Min", "Max"})
      if (rows.has(column)) places[column] = unit(rows, column);
    while (rows.next()) {
      if (rows.has("Type") && rows.text("Type").starts_with("API")) continue;  // of the host
      const auto maybe = [&](const char* column) {
        return rows.has(column) ? std::optional(rows.decimal(column, places.at(column))) : std::nullopt;
      };
      if (!add_summary(plain_name(rows.text("Name")), *maybe("Time"), rows.integer("Calls"), maybe("Min"), maybe("Max")))
        rows.fail("numbers that cannot be: calls, shortest, longest and sum");
    }
  }

  void read_trace(CsvRows& rows) {
    if (!rows.has("Device") || !rows.has("Name"))
      rows.fail("a trace without devices: nvprof --print-gpu-trace --csv is wanted, not --print-api-trace");
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
      std::string name = plain_name(rows.text("Name"));
      // "gemm(float*) [123]": its correlation, in versions without a column of it.
      if (const size_t open = name.rfind(" [");
          open != std::string::npos && name.ends_with("]") && whole(name.substr(open + 2, name.size() - open - 3)))
        name.resize(open);
      add(name, rows.decimal("Start", start_places), rows.decimal("Duration", duration_places), activity);
    }
  }

  // ---------------------------------------------------------------- text

  void read_text(InputFile& file) {
    std::vector<std::string> columns;
    bool host = false;
    uint64_t offset = 0;
    for (std::string line; offset = file.offset(), file.line(line);) {
      if (line.starts_with(kRemark)) {
        columns.clear();
        continue;
      }
      if (line.find("Calls") != std::string::npos && line.find("Name") != std::string::npos) {
        // "Time (%)" is one column.
        std::string header = line;
        if (const size_t blank = header.find("Time (%)"); blank != std::string::npos) header.erase(blank + 4, 1);
        std::istringstream stream(header);
        columns.clear();
        for (std::string word; stream >> word;)
          if (word != "Type") columns.push_back(word);
        host = false;
        continue;
      }
      if (without_blanks(line).empty() || columns.empty()) continue;
      if (const size_t colon = line.find("GPU activities:"); colon != std::string::npos) host = false, line.erase(0, colon + 15);
      if (line.find("API calls:") != std::string::npos) host = true;
      if (host) continue;
      read_row(file, offset, columns, line);
    }
    if (summarised_ == 0) file.fail(0, "no summary of nvprof: a line with Time(%), Time, Calls, Avg and Name, and rows below it");
  }

  void read_row(const InputFile& file, uint64_t offset, const std::vector<std::string>& columns, const std::string& line) {
    std::istringstream stream(line);
    std::map<std::string, std::string> values;
    for (const std::string& column : columns) {
      if (column == "Name") {
        std::getline(stream >> std::ws, values[column]);
        break;
      }
      std::string word;
      stream >> word;
      if (word == "%") stream >> word;  // "49.35 %"
      values[column] = word;
    }
    const auto time = [&](const char* column) { return values.contains(column) ? time_with_unit(values[column]) : std::nullopt; };
    const auto total_ns = time("Time"), calls = whole(values["Calls"]);
    std::string name = values["Name"];
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back())) != 0) name.pop_back();
    if (!total_ns || !calls || name.empty()) file.fail(offset, fmt::format("\"{:.60}\" is no row of a summary", line));
    if (!add_summary(plain_name(name), *total_ns, *calls, time("Min"), time("Max")))
      file.fail(offset, "numbers that cannot be: calls, shortest, longest and sum");
  }

  ImportedRun& run_;
  const fs::path& path_;
  const BytesRead& read_;
  size_t process_ = 0;
  int64_t time_ns_ = 0;      ///< where the next activity of a summary is put
  uint64_t summarised_ = 0;  ///< activities that only a summary tells
};

}  // namespace

void read_nvprof(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  for (const fs::path& path : files) NvprofFile(run, path, read).read();
}

}  // namespace ddl::store
