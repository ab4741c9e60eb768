#include "cli/record_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cli/options.h"
#include "core/error.h"
#include "core/format.h"
#include "core/number.h"

namespace ddl::cli {
namespace {

[[noreturn]] void bad_value(std::string_view option, std::string_view value, std::string_view wants) {
  throw Error(fmt::format("--{} '{}' is not {}", option, value, wants), "see: ddl record --help", ExitCode::kUsage);
}

// "5", "5:", ":9" or "5:9".
bool is_step_range(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view head = text.substr(0, colon), tail = text.substr(std::min(colon + 1, text.size()));
  const auto first = head.empty() ? 0 : number_in<uint64_t>(head),
             last = tail.empty() ? UINT64_MAX : number_in<uint64_t>(tail);
  return !text.empty() && text != ":" && first && last && *first <= *last;
}

// "1%" or "0.05%" up to "100%", or "off".
bool is_share(std::string_view text) {
  if (text == "off") return true;
  const auto percent = take_number<double>(text, std::chars_format::fixed);
  return text == "%" && percent > 0 && percent <= 100;
}

struct Collector {
  std::string_view name, variable;
};
constexpr Collector kCollectors[] = {
#define DDL_COLLECTOR(name, variable, what) {#name, variable},
#include "collectors/collectors.def"
};

std::string collector_names() {
  std::string names;
  for (const Collector& collector : kCollectors)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", collector.name);
  return names;
}

/// `list`, or all, less one.
std::string collectors_without(std::string_view name, const std::optional<std::string>& list) {
  std::string left;
  for (const Collector& collector : kCollectors) {
    const bool listed =
        !list || fmt::format(",{},", *list).find(fmt::format(",{},", collector.name)) != std::string::npos;
    if (collector.name != name && listed) left += fmt::format("{}{}", left.empty() ? "" : ",", collector.name);
  }
  return left.empty() ? "none" : left;
}

bool is_collector_list(std::string_view list) {
  if (list == "none") return true;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    if (std::none_of(std::begin(kCollectors), std::end(kCollectors),
                     [&](const Collector& c) { return c.name == name; }))
      return false;
    begin = end + 1;
  }
  return true;
}

void add_seconds(const VerbOptions& options, const char* name, const char* variable, Settings& window) {
  const auto seconds = options.maybe<double>(name);
  if (!seconds) return;
  if (!std::isfinite(*seconds) || *seconds < 0 || *seconds > 1e9)
    bad_value(name, fmt::format("{}", *seconds), "a number of seconds");
  std::string text = fmt::format("{:.9f}", *seconds);  // the library reads no exponents
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  window.emplace_back(variable, text);
}

}  // namespace

void add_injections(const std::string& library, Settings& settings) {
  // Who leaves a collector out may want its place for another tool: torch's profiler stays away from CUPTI when it
  // sees the variable.
  const auto listed = std::find_if(settings.begin(), settings.end(),
                                   [](const auto& setting) { return setting.first == "DDL_COLLECTORS"; });
  const std::string wanted = listed != settings.end() ? listed->second : "";
  for (const Collector& collector : kCollectors) {
    const std::string variable(collector.variable);
    const bool is_wanted =
        wanted.empty() || fmt::format(",{},", wanted).find(fmt::format(",{},", collector.name)) != std::string::npos;
    if (!variable.empty() && is_wanted && !std::getenv(variable.c_str())) settings.emplace_back(variable, library);
  }
}

RecordOptions parse_record_options(const std::vector<std::string>& arguments) {
  VerbOptions options(
      {.verb = "record",
       .usage = "[options] [--] COMMAND [ARGUMENT...]",
       .text =
           "Runs COMMAND and records where its time goes: MPI, NCCL and GPU calls, steps and layers, into a new directory. The numbers of\n"
           "calls and bytes are exact for the whole run; single events are kept within the window, the cap and the budget. Returns the\n"
           "exit code of COMMAND; 125 if it could not be started.",
       .example = "  ddl record -- mpirun -np 2 ./train --steps 50\n"
                  "  ddl record -o slow.ddl --steps 100:199 -- srun ./train\n"
                  "  ddl report slow.ddl"});
  const std::string known_collectors =
      fmt::format("what to record, separated by commas: {} (default: all), or none: only the job's own annotations",
                  collector_names());
  options.add()("output,o", takes<std::string>("NAME.ddl"), "directory to create (default: program-date-time.ddl)")(
      "mpi", takes<std::string>("NAME"), "openmpi or mpich (default: what the job's program is linked to)");
  options.add("events to keep")("steps", takes<std::string>("A:B"), "events of steps A to B only, both included")(
      "after", takes<double>("SECONDS"), "events from this long after the start")(
      "for", takes<double>("SECONDS"), "... and for this long")("cap", takes<double>("MIB"),
                                                                "at most this much per process, thinned out evenly")(
      "budget", takes<std::string>("SHARE"),
      "thin out events that cost more than this share of the time (default: 1%; off: keep all)");
  options.add("what to record")("collectors", takes<std::string>("LIST"), known_collectors.c_str())(
      "no-cupti",
      "leave CUPTI to the job from the start; by default the job gets it once it asks, as torch.profiler does")(
      "no-python", "set no hooks in the job's torch, which name steps, layers, loading and checkpoints")(
      "horovod-timeline",
      "have Horovod write its timeline into NAME.ddl, with its response cache off (HOROVOD_TIMELINE, HOROVOD_CACHE_CAPACITY=0): "
      "names reductions by their tensors, and shows when each rank had them ready")(
      "counters", takes<std::string>("LIST"),
      "count in every step, phase and layer: PAPI presets and events (PAPI_TOT_INS), page-faults, context-switches, task-clock")(
      "step-names", takes<std::string>("LIST"),
      "more names of NVTX ranges that are steps (always: step, iteration, ProfilerStep, train_step, with or without a number behind)")(
      "clock", takes<std::string>("NAME"), "tsc or monotonic (default: tsc where it is steady)")(
      "clock-sync",
      "compare the clocks of hosts by a few messages in MPI_Init and MPI_Finalize, under ddl on every rank; by default from the job's "
      "collectives");
  options.add("when the job stalls")(
      "stall", takes<std::string>("DURATION"),
      "name the missing ranks, with the stacks of all processes here, when no rank has finished a call or a step for this long (default: 5m; "
      "off)")("on-stall", takes<std::string>("COMMAND"),
              "then run this by sh, with DDL_STALL_SENTENCE, DDL_STALL_RANKS and DDL_STALL_RUN; abort: end the job");

  std::vector<std::string> collector_values = {"none"};
  for (const Collector& collector : kCollectors) collector_values.emplace_back(collector.name);
  options.suggest("collectors", std::move(collector_values), true);
  options.one_of("mpi", {"openmpi", "mpich"});
  options.one_of("clock", {"tsc", "monotonic"});

  RecordOptions result;
  if (!options.parse_with_command(arguments, result.command)) {
    result.help = true;
    return result;
  }
  if (result.command.empty())
    throw Error("no command given", "ddl record -- COMMAND, e.g.: ddl record -- mpirun -np 2 ./train",
                ExitCode::kUsage);
  result.directory = options.maybe<std::string>("output").value_or("");

  if (const auto steps = options.maybe<std::string>("steps")) {
    if (!is_step_range(*steps)) bad_value("steps", *steps, "a range A:B of step numbers");
    result.window.emplace_back("DDL_STEPS", *steps);
  }
  add_seconds(options, "after", "DDL_AFTER", result.window);
  add_seconds(options, "for", "DDL_FOR", result.window);
  if (const auto mib = options.maybe<double>("cap")) {
    if (!(*mib >= 1 && *mib <= 1 << 20))
      bad_value("cap", fmt::format("{}", *mib), "a number of MiB between 1 and 1048576");
    result.window.emplace_back("DDL_CAP", fmt::format("{}", static_cast<uint64_t>(*mib * 1024 * 1024)));
  }
  if (const auto budget = options.maybe<std::string>("budget")) {
    if (!is_share(*budget)) bad_value("budget", *budget, "a share of the time like 1% or 0.5%, or off");
    result.window.emplace_back("DDL_BUDGET", *budget);
  }
  result.python = !options.has("no-python");
  result.horovod_timeline = options.has("horovod-timeline");
  if (result.horovod_timeline && std::getenv("HOROVOD_TIMELINE") != nullptr)
    throw Error("--horovod-timeline: HOROVOD_TIMELINE is set, and Horovod writes one timeline",
                "unset HOROVOD_TIMELINE", ExitCode::kUsage);
  const auto collectors = options.maybe<std::string>("collectors");
  if (collectors && !is_collector_list(*collectors))
    bad_value("collectors", *collectors, fmt::format("a list of: {}; or none", collector_names()));
  if (options.has("no-cupti")) {
    result.window.emplace_back("DDL_COLLECTORS", collectors_without("cuda", collectors));
  } else if (collectors) {
    result.window.emplace_back("DDL_COLLECTORS", *collectors);
  }
  if (const auto counters = options.maybe<std::string>("counters")) {
    const auto commas = static_cast<size_t>(std::count(counters->begin(), counters->end(), ','));
    if (counters->empty() || commas >= kMaxCounters || counters->find("|") != std::string::npos)
      bad_value("counters", *counters, fmt::format("a list of at most {} names", kMaxCounters));
    result.window.emplace_back("DDL_COUNTERS", *counters);
  }
  if (const auto names = options.maybe<std::string>("step-names")) result.window.emplace_back("DDL_STEP_NAMES", *names);
  if (const auto mpi = options.maybe<std::string>("mpi"))
    result.flavour = *mpi == "mpich" ? Flavour::kMpich : Flavour::kOpenMpi;
  if (const auto clock = options.maybe<std::string>("clock")) result.window.emplace_back("DDL_CLOCK", *clock);
  if (const auto stall = options.maybe<std::string>("stall")) result.stall.limit = parse_stall_limit(*stall);
  result.stall.action = options.maybe<std::string>("on-stall").value_or("");
  if (!result.stall.action.empty() && !result.stall.limit)
    throw Error("--on-stall does nothing with --stall off", "give --stall a duration, such as 60s", ExitCode::kUsage);
  if (options.has("clock-sync")) result.window.emplace_back("DDL_CLOCK_SYNC", "1");
  return result;
}

}  // namespace ddl::cli
