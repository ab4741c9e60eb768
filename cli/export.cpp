// ddl export: the run, or a part of it, for other programs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cli/export_prometheus.h"
#include "cli/interrupts.h"
#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress_bar.h"
#include "cli/share.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "core/number.h"
#include "reports/csv.h"
#include "reports/folded.h"
#include "reports/trace/selection.h"
#include "reports/trace/traces.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

struct Request {
  Run& run;
  const VerbOptions& options;
  std::optional<std::string> output;  ///< -o
  Readers readers;
};

struct ExportFormat {
  const char* name;
  const char* sentence;
  std::vector<std::string> options;  ///< that it takes besides -o
  void (*write)(const Request& request);
  /// Instead, of a format that also takes a run that is not finished: gets its name.
  void (*write_live)(const std::string& run, const VerbOptions& options) = nullptr;
};

constexpr int64_t kOpenEnd = std::numeric_limits<int64_t>::max();

std::optional<int64_t> whole_number(std::string_view digits) {
  const auto value = number_in<int64_t>(digits);
  return value >= 0 ? value : std::nullopt;
}

/// "A:B" with `separator` :, both included; "A:" and ":B" are open; "A" is A alone.
std::optional<reports::TraceRequest::Steps> range(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) {
    const auto only = whole_number(text);
    return only ? std::optional(reports::TraceRequest::Steps{*only, *only}) : std::nullopt;
  }
  const std::string_view head = text.substr(0, at), tail = text.substr(at + 1);
  if (head.empty() && tail.empty()) return std::nullopt;
  const auto first = head.empty() ? std::optional<int64_t>(0) : whole_number(head),
             last = tail.empty() ? std::optional(kOpenEnd) : whole_number(tail);
  if (!first || !last || *first > *last) return std::nullopt;
  return reports::TraceRequest::Steps{*first, *last};
}

std::vector<int64_t> ranks_of(std::string_view text) {
  constexpr int64_t kMostRanks = 1 << 20;
  std::vector<int64_t> ranks;
  const auto refuse = [&] {
    return Error(fmt::format("--ranks: invalid list of ranks '{}'", text), "e.g. --ranks 0-3,8", ExitCode::kUsage);
  };
  for (std::string_view rest = text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    const auto from_to = part.starts_with('-') || part.ends_with('-') ? std::nullopt : range(part, '-');
    if (!from_to || from_to->last >= kMostRanks) throw refuse();
    for (int64_t rank = from_to->first; rank <= from_to->last; ++rank) ranks.push_back(rank);
    if (ranks.size() > kMostRanks) throw refuse();
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

/// What --steps A:B and --ranks LIST choose, everything where they are not given. Throws ddl::Error (usage).
reports::TraceRequest trace_request(const VerbOptions& options) {
  reports::TraceRequest request;
  if (const auto steps = options.maybe<std::string>("steps")) {
    request.steps = range(*steps, ':');
    if (!request.steps)
      throw Error(fmt::format("--steps: invalid range '{}'", *steps), "e.g. --steps 100:109", ExitCode::kUsage);
  }
  if (const auto ranks = options.maybe<std::string>("ranks")) request.ranks = ranks_of(*ranks);
  return request;
}

/// For what is written piece by piece.
reports::Sink into(OutputFile& file) {
  return [&file](std::string_view piece) {
    Interrupts::check();
    file.write(piece);
  };
}

void export_csv(const Request& request) {
  if (const auto table = request.options.maybe<std::string>("table")) {
    OutputFile file(request.output.value_or("-"), request.readers);
    reports::write_csv(request.run.db, *table, into(file));
    return file.finish();
  }
  if (!request.output)
    throw Error("no table given", "--table NAME, e.g. --table v_step; or -o DIR for a file of each view",
                ExitCode::kUsage);
  OutputFolder folder(*request.output, request.readers);
  for (const std::string& view : reports::stable_views())
    reports::write_csv(request.run.db, view, into(folder.add(view + ".csv")));
  folder.finish();
}

void export_perfetto(const Request& request) {
  const std::string path = request.output.value_or("-");
  if (path == "-" && isatty(STDOUT_FILENO))
    throw Error("a trace is binary: it is not written to a terminal",
                "name a file with -o FILE, or pipe it into a program that reads it", ExitCode::kUsage);
  const reports::TraceRequest wanted = trace_request(request.options);
  const reports::RunView view(request.run.db, request.options.maybe<int64_t>("world"));
  OutputFile file(path, request.readers);
  ProgressBar bar;
  reports::write_perfetto(view, wanted, into(file), [&](double done) { bar.update("exporting", done); });
  file.finish();
}

void export_chrome_json(const Request& request) {
  const reports::TraceRequest wanted = trace_request(request.options);
  const reports::RunView view(request.run.db, request.options.maybe<int64_t>("world"));
  const reports::KinetoTraces traces(view, wanted);
  // One rank may go anywhere; several need a folder.
  std::error_code error;
  const bool several =
      request.output && *request.output != "-" &&
      (traces.size() > 1 || request.output->ends_with('/') || fs::is_directory(*request.output, error));
  if (traces.size() > 1 && !several)
    throw Error(fmt::format("{} ranks need a file each", traces.size()),
                "name a folder for them with -o DIR, or one rank with --ranks N", ExitCode::kUsage);
  if (!several) {
    OutputFile file(request.output.value_or("-"), request.readers);
    if (traces.size() > 0) traces.write(0, into(file));
    return file.finish();
  }
  OutputFolder folder(*request.output, request.readers);
  ProgressBar bar;
  for (size_t i = 0; i < traces.size(); ++i) {
    traces.write(i, into(folder.add(traces.file_name(i))));
    bar.update("exporting", static_cast<double>(i + 1) / static_cast<double>(traces.size()));
  }
  folder.finish();
}

void export_chakra(const Request& request) {
  if (!request.output || *request.output == "-")
    throw Error("a file for each rank needs a folder", "name one with -o DIR", ExitCode::kUsage);
  const reports::RunView view(request.run.db, request.options.maybe<int64_t>("world"));
  reports::ChakraTraces traces(view, trace_request(request.options));
  OutputFolder folder(*request.output, request.readers);
  ProgressBar bar;
  for (size_t i = 0; i < traces.size(); ++i) {
    traces.write(i, into(folder.add(traces.file_name(i))));
    bar.update("exporting", static_cast<double>(i + 1) / static_cast<double>(traces.size()));
  }
  folder.add("communicators.json").write(traces.communicators());
  folder.finish();
  for (const std::string& note : traces.notes()) print_note(note);
}

void export_folded(const Request& request) {
  const reports::RunView view(request.run.db, request.options.maybe<int64_t>("world"));
  OutputFile file(request.output.value_or("-"), request.readers);
  const reports::FoldedSummary summary = reports::write_folded(view, into(file));
  file.finish();
  if (summary.left_out > 0)
    print_note(fmt::format("{} of {} steps are left out: their events were not kept", summary.left_out,
                           summary.left_out + summary.steps));
}

void export_prometheus_numbers(const std::string& run, const VerbOptions& options) {
  PrometheusRequest request{
      .run = run, .output = options.maybe<std::string>("output"), .textfile = options.maybe<std::string>("textfile")};
  if (const auto watch = options.maybe<std::string>("watch")) request.watch_s = parse_duration(*watch);
  if (const auto ranks = options.maybe<size_t>("top")) request.ranks = *ranks;
  export_prometheus(request);
}

void export_otlp_numbers(const std::string& run, const VerbOptions& options) {
  PrometheusRequest request{.run = run, .output = options.maybe<std::string>("output")};
  request.otlp = true;
  if (const auto ranks = options.maybe<size_t>("top")) request.ranks = *ranks;
  export_prometheus(request);
}

const ExportFormat kFormats[] = {
    {"csv",
     "one view or table (--table), or every view v_* as a file of its own (-o DIR)",
     {"table", "share", "anonymous"},
     export_csv},
    {"perfetto",
     "a trace for ui.perfetto.dev: ranks, steps, layers, waiting and transfer of collectives",
     {"steps", "ranks", "world", "share", "anonymous"},
     export_perfetto},
    {"chrome-json",
     "traces in the JSON of PyTorch's profiler, one a rank, for HTA and others (-o DIR)",
     {"steps", "ranks", "world", "share", "anonymous"},
     export_chrome_json},
    {"chakra",
     "Chakra execution traces, a file a rank, for ASTRA-sim and others (-o DIR): one steady step, or --steps",
     {"steps", "world", "share", "anonymous"},
     export_chakra},
    {"folded",
     "stacks for flame graphs: rank, phase, layer, call, waiting; ns",
     {"world", "share", "anonymous"},
     export_folded},
    {"prometheus",
     "a job's numbers for a monitoring system, also while it runs",
     {"textfile", "watch", "top"},
     nullptr,
     export_prometheus_numbers},
    {"otlp", "the same numbers as OpenTelemetry's metrics: OTLP's JSON", {"top"}, nullptr, export_otlp_numbers},
};

std::string formats_text() {
  std::string text = "Writes a run in a format that other programs read (docs/how-to/export.md).\n\nFORMAT is one of\n";
  for (const ExportFormat& format : kFormats) text += fmt::format("  {:<12} {}\n", format.name, format.sentence);
  return text;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ExportFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

const ExportFormat& known_format(const std::string& name) {
  for (const ExportFormat& format : kFormats)
    if (format.name == name) return format;
  throw Error(fmt::format("unknown format '{}'", name), did_you_mean(name, format_names(), "see: ddl export --help"),
              ExitCode::kUsage);
}

/// An option that the format would pass over in silence is an error.
void refuse_other_options(const ExportFormat& format, const VerbOptions& options) {
  for (const ExportFormat& other : kFormats)
    for (const std::string& option : other.options)
      if (options.has(option.c_str()) &&
          std::find(format.options.begin(), format.options.end(), option) == format.options.end())
        throw Error(fmt::format("{} takes no --{}", format.name, option), "see: ddl export --help", ExitCode::kUsage);
}

}  // namespace

int run_export(const Arguments& arguments) {
  const std::string text = formats_text();
  VerbOptions options({.verb = "export",
                       .usage = "FORMAT [RUN] [options]",
                       .text = text,
                       .example =
                           "  ddl export csv slow.ddl --table v_collective > collectives.csv\n"
                           "  ddl export csv slow.ddl -o slow-csv\n"
                           "  ddl export perfetto slow.ddl --steps 100:109 -o slow.pftrace\n"
                           "  ddl export chrome-json slow.ddl --steps 100:109 -o slow-traces\n"
                           "  ddl export chakra slow.ddl -o slow-et\n"
                           "  ddl export folded slow.ddl | flamegraph.pl --countname ns > slow.svg\n"
                           "  ddl export prometheus run.ddl --textfile /var/lib/prometheus/node-exporter --watch 30s"});
  options.add()("output,o", takes<std::string>("FILE"),
                "file to write; - is standard output; a folder for several files");
  options.add("csv")("table", takes<std::string>("NAME"), "a view or table of the store, e.g. v_collective");
  options.add("traces (perfetto, chrome-json, chakra) and folded")(
      "steps", takes<std::string>("A:B"), "traces: steps A to B only, both included; A is one step")(
      "ranks", takes<std::string>("LIST"), "perfetto, chrome-json: these ranks only, e.g. 0-3,8")(
      "world", takes<int64_t>("N"), "which MPI_COMM_WORLD, if there are several");
  options.add("prometheus, otlp")("textfile", takes<std::string>("DIR"),
                                  "prometheus: into a file in DIR, the textfile folder of node_exporter")(
      "watch", takes<std::string>("TIME"), "prometheus: again every TIME, at least 30s, until the job ends")(
      "top", takes<size_t>("N"), "rows for the N latest ranks (=16)");
  add_share_options(options);
  options.suggest("table", reports::stable_views());
  options.allow_words(2, WordKind::kRun, format_names());
  if (!options.parse(arguments)) return 0;
  const std::vector<std::string>& words = options.words();
  if (words.empty()) throw Error("no format given", "e.g. ddl export csv --table v_step", ExitCode::kUsage);
  const ExportFormat& format = known_format(words[0]);
  refuse_other_options(format, options);
  const std::string name = words.size() > 1 ? words[1] : "";
  if (format.write_live != nullptr) {
    format.write_live(name, options);
    return 0;
  }
  const Readers who = readers(options);
  Run run = open_run(name);
  share(run, options);
  interruptible([&] { format.write({run, options, options.maybe<std::string>("output"), who}); });
  return 0;
}

}  // namespace ddl::cli
