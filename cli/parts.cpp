#include "cli/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "analyzer/analyze.h"
#include "cli/interrupts.h"
#include "cli/open_run.h"
#include "cli/process.h"
#include "cli/progress_bar.h"
#include "cli/slurm_array.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "core/number.h"
#include "core/own_library.h"
#include "core/regular_file.h"
#include "store/ordered_work.h"
#include "store/parts.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

/// A whole number from 1 to `most`; nothing: it is none.
std::optional<unsigned> number_of(std::string_view text, unsigned most) {
  const auto number = number_in<unsigned>(text);
  return number >= 1U && *number <= most ? number : std::nullopt;
}

PartNumber part_of(const std::string& text) {
  const size_t slash = text.find('/');
  const auto of =
      slash == std::string::npos ? std::nullopt : number_of(std::string_view(text).substr(slash + 1), kMostParts);
  const auto number = of ? number_of(std::string_view(text).substr(0, slash), *of) : std::nullopt;
  if (!number)
    throw Error(fmt::format("--part {}: not a part", text), fmt::format("K/N, such as 3/8; N at most {}", kMostParts),
                ExitCode::kUsage);
  return {*number, *of};
}

struct Place {
  bool slurm;
  unsigned parts;
};

Place place_of(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const auto parts =
      colon == std::string::npos ? std::nullopt : number_of(std::string_view(text).substr(colon + 1), kMostParts);
  if ((name != "local" && name != "slurm") || !parts)
    throw Error(fmt::format("--on {}: not a place", text),
                fmt::format("local:N or slurm:N, N parts, at most {}", kMostParts), ExitCode::kUsage);
  return {name == "slurm", *parts};
}

RunDirectory directory_of(const VerbOptions& options) {
  const RunDirectory run = options.words().empty() ? find_run() : find_run(options.words()[0]);
  return find_run(run.directory.string());
}

void prepare(const RunDirectory& run, unsigned threads) {
  ProgressBar bar;
  IngestOptions options = options_with(bar);
  options.threads = threads;
  prepare_parts(run, options);
}

fs::path log_of(const RunDirectory& run, PartNumber part) { return part_file(run, part).replace_extension(".log"); }

/// What the process said last; empty: nothing.
std::string last_line(const fs::path& log) {
  std::string text;
  try {
    text = read_regular_file(log.string(), NamedBy::kFolder);
  } catch (const Error&) {
  }
  std::string last;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    // The hint follows on the error.
    if (end > begin && text.compare(begin, 10, "ddl: hint:") != 0) last = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return last;
}

[[noreturn]] void throw_missing(const RunDirectory& run, const std::vector<unsigned>& missing, unsigned of) {
  const std::string said = last_line(log_of(run, {missing[0], of}));
  throw Error(fmt::format("{} of {} parts failed: part {}{}", missing.size(), of, missing[0],
                          said.empty() ? ", which ended silently" : fmt::format(", which said: {}", said)),
              fmt::format("repeat the command to make the missing parts; logs are in {}", parts_folder(run).string()),
              ExitCode::kOurs);
}

/// Shows how many parts there are while others make them.
class PartsShown {
 public:
  PartsShown(const RunDirectory& run, unsigned of)
      : thread_([this, run, of](const std::stop_token& stop) { show(run, of, stop); }) {}

 private:
  void show(const RunDirectory& run, unsigned of, const std::stop_token& stop) {
    ProgressBar bar;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; }) &&
           !stop.stop_requested())
      bar.update("parts", static_cast<double>(parts_made(run, of)) / of);
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  ///< last: it ends before what it uses
};

void make_here(const RunDirectory& run, const std::vector<unsigned>& missing, unsigned of, unsigned threads) {
  const std::string self = own_program().string();
  std::vector<std::vector<Launch>> lanes(std::min<size_t>(missing.size(), store::threads_for(0)));
  for (size_t i = 0; i < missing.size(); ++i) {
    lanes[i % lanes.size()].push_back({{self, "analyze", fs::absolute(run.directory).string(), "--part",
                                        fmt::format("{}/{}", missing[i], of), "--threads", fmt::to_string(threads)},
                                       {},
                                       log_of(run, {missing[i], of}).string()});
  }
  bool told_to_end = false;
  {
    const PartsShown shown(run, of);
    for (const std::vector<LaneEnd>& lane : run_lanes(lanes)) {
      for (const LaneEnd& end : lane) told_to_end = told_to_end || end.ended.told_to_end;
    }
  }
  if (told_to_end) throw Error("interrupted", "repeat the command to make the missing parts");
  if (const std::vector<unsigned> failed = missing_parts(run, of); !failed.empty()) throw_missing(run, failed, of);
}

/// Submits what is missing and the merge behind it, and waits for both. What was submitted is cancelled if
/// somebody ends us.
void make_under_slurm(const RunDirectory& run, const std::vector<unsigned>& missing, unsigned of, unsigned threads) {
  SlurmArray jobs(run, missing, of, threads);
  print_note(jobs.sentence());
  {
    ProgressBar bar;
    while (jobs.are_queued(std::chrono::seconds(1))) {
      const unsigned made = parts_made(run, of);
      bar.update(made < of ? "parts" : "merging", static_cast<double>(made) / of);
    }
  }
  std::error_code ignored;
  if (!fs::exists(plan_file(run), ignored)) return;  // the merge removes it last
  if (const std::vector<unsigned> failed = missing_parts(run, of); !failed.empty()) throw_missing(run, failed, of);
  const std::string said = last_line(jobs.merge_log());
  throw Error(fmt::format("the merge failed{}", said.empty() ? " silently" : fmt::format(": {}", said)),
              "repeat the command to merge again", ExitCode::kOurs);
}

}  // namespace

void add_parts_options(VerbOptions& options) {
  options.add()("on", takes<std::string>("PLACE"),
                "divide the reading among N processes here (local:N) or N tasks of a job array (slurm:N)")(
      "prepare", "write the plan of parts into the run")("part", takes<std::string>("K/N"),
                                                         "make part K of N of that plan; 'ddl merge' joins the parts");
  options.suggest("on", {"local:", "slurm:"});
}

bool prepared_or_part_made(const VerbOptions& options) {
  const char* asked = options.has("prepare") ? "prepare"
                      : options.has("part")  ? "part"
                      : options.has("on")    ? "on"
                                             : nullptr;
  if (asked == nullptr) return false;
  for (const char* other : {"prepare", "part", "on", "try", "list", "metric", "world"}) {
    const bool prints =
        std::string_view(asked) == "on" && (std::string_view(other) == "metric" || std::string_view(other) == "world");
    if (std::string_view(other) != asked && options.has(other) && !prints)
      throw Error(fmt::format("--{} and --{} exclude each other", asked, other), "ask for one at a time",
                  ExitCode::kUsage);
  }
  if (options.has("on")) return false;
  if (options.has("prepare")) {
    const RunDirectory run = directory_of(options);
    prepare(run, threads_of(options));
    print_out(fmt::format("planned; now: ddl analyze {0} --part K/N for each K from 1 to N, then ddl merge {0}\n",
                          shown_path(run.directory)));
    return true;
  }
  const PartNumber part = part_of(options.get<std::string>("part"));
  ProgressBar bar;
  IngestOptions with = options_with(bar);
  with.threads = threads_of(options);
  make_part(directory_of(options), part, with);
  return true;
}

void analyze_on_place(const VerbOptions& options) {
  if (!options.has("on")) return;
  const Place place = place_of(options.get<std::string>("on"));
  const RunDirectory run = directory_of(options);
  const unsigned threads = threads_of(options);
  if (!is_prepared(run)) prepare(run, threads);
  const std::vector<unsigned> missing = missing_parts(run, place.parts);
  if (place.slurm) {
    make_under_slurm(run, missing, place.parts, std::max(1U, threads));
  } else {
    if (!missing.empty()) make_here(run, missing, place.parts, std::max(1U, threads));
    merge_run(run, threads);
  }
}

void merge_run(const RunDirectory& run, unsigned threads) {
  {
    ProgressBar bar;
    IngestOptions options = options_with(bar);
    options.finish = analysis_with(bar, threads);
    options.threads = threads;
    merge_parts(run, options);
  }
  remove_parts(run);
}

}  // namespace ddl::cli
