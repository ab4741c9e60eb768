#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <clocale>
#include <cstring>
#include <filesystem>

#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/top_setup.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "store/run_directory.h"
#include "tui/spool_source.h"
#include "tui/store_source.h"
#include "tui/top.h"
#ifdef DDL_TERMINAL
#include "tui/terminal.h"
#endif

namespace ddl::cli {
namespace {

constexpr VerbHelp kHelp{
    "top", "[options] [RUN]",
    "Watches a running job: who is late, who waits, where the step goes. Reads the spools of the run directory and nothing else; the\n"
    "job does not notice. ? shows the keys. Without a terminal it prints one frame.",
    "  ddl top run.ddl\n"
    "  ddl-top run.ddl -b -n 1 --size 100x30\n"
    "  ddl-top run.ddl --json -n 3 | jq .headline.sentence\n"
    "  ddl-top --replay run.ddl --speed 10\n"};

tui::Size parse_size(const std::string& text) {
  tui::Size size;
  int used = 0;
  if (std::sscanf(text.c_str(), "%4dx%4d%n", &size.width, &size.height, &used) != 2 ||
      static_cast<size_t>(used) != text.size() || size.width < tui::kSmallest.width ||
      size.height < tui::kSmallest.height || size.width > tui::kLargest.width || size.height > tui::kLargest.height)
    throw Error(fmt::format("invalid size '{}'", text),
                fmt::format("WIDTHxHEIGHT from {}x{} to {}x{}: --size 80x24", tui::kSmallest.width,
                            tui::kSmallest.height, tui::kLargest.width, tui::kLargest.height),
                ExitCode::kUsage);
  return size;
}

tui::Size terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    return {size.ws_col, size.ws_row};
  return {};
}

/// The program has a file per process open.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// Beside the run, whose files stay as the job wrote them.
std::filesystem::path notes_path(const std::filesystem::path& run) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(run, error);
  if (error) path = run;
  if (!path.has_filename()) path = path.parent_path();  // "run.ddl/"
  return path += ".notes";
}

template <class T>
T in_range(T value, T least, T most, const char* what) {
  if (value >= least && value <= most) return value;
  throw Error(fmt::format("{} {} is out of range", what, value), fmt::format("give {} to {}", least, most),
              ExitCode::kUsage);
}

}  // namespace

int run_top(const Arguments& arguments) {
  VerbOptions options(kHelp);
  // clang-format off
  options.add()
      ("delay,d", takes<double>("SECONDS"), "time between two looks (=1)")
      ("frames,n", takes<int>("N"), "end after N frames")
      ("batch,b", "print frames as text, without escape sequences")
      ("json", "one JSON object per frame and line (docs/reference/ddl-top.schema.json)")
      ("size", takes<std::string>("WxH"), "size of text frames (=80x24)")
      ("replay", "replay the run's store, as if it were running")
      ("demo", "replay the run that ships with ddl: a trainer on 4 ranks, one of them slowed")
      ("speed", takes<double>("X", 1.0), "speed of the replay: X seconds of the job in a second")
      ("sort", takes<std::string>("COLUMN"), "sort by rank, node, late, wait, step or gpu (=late)")
      ("filter", takes<std::string>("EXPR"), "show these ranks only: 'late>5 & node~nid004', 'rank=8..15'")
      ("ascii", "use ASCII characters only")
      ("color", takes<std::string>("WHEN", "auto"), "auto (not with NO_COLOR), always or never");
  // clang-format on
  options.one_of("color", {"auto", "always", "never"});
  options.one_of("sort", column_names());
  options.allow_words(1);
  if (!options.parse(arguments)) return 0;

  tui::TopOptions top;
  top.view = load_setup();
  top.save_setup = save_setup;
  top.frames = options.maybe<int>("frames");
  if (top.frames) in_range(*top.frames, 1, 1'000'000'000, "--frames");
  if (const auto delay = options.maybe<double>("delay")) top.view.interval_s = in_range(*delay, 0.1, 3600.0, "--delay");
  const double speed = in_range(options.get<double>("speed"), 0.001, 1e6, "--speed");
  if (const auto sort = options.maybe<std::string>("sort")) top.view.sort = parse_column(*sort);
  if (const auto filter = options.maybe<std::string>("filter")) top.view.filter = tui::Filter(*filter);
  const auto color = options.get<std::string>("color");
  top.json = options.has("json");
  top.replay = options.has("replay") || options.has("demo");
  const bool on_terminal = isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1;
  const bool printed = top.json || options.has("batch") || !on_terminal;
  if (printed && !top.json && !options.has("batch") && !top.frames) top.frames = 1;
  std::setlocale(LC_ALL, "");
  std::setlocale(LC_NUMERIC, "C");
  top.theme.unicode = !options.has("ascii") && std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  const auto size = options.maybe<std::string>("size");
  top.size = size ? parse_size(*size) : terminal_size();

  raise_file_limit();
  const std::string argument = options.words().empty() ? "" : options.words()[0];
  const bool demo = options.has("demo");
  std::optional<Run> stored;
  std::unique_ptr<tui::Source> source;
  const RunDirectory run = find_run(demo               ? std::optional(demo_run(argument))
                                    : argument.empty() ? std::nullopt
                                                       : std::optional(argument));
  top.notes = notes_path(run.directory);
  std::error_code error;
  top.replay |= run.spools().empty() && std::filesystem::exists(run.store, error);  // only its store was kept
  if (top.replay) {
    stored.emplace(demo ? open_demo(argument) : open_run(argument));
    source = std::make_unique<tui::StoreSource>(stored->db, stored->shown, speed, printed ? top.frames : std::nullopt);
  } else {
    source = std::make_unique<tui::SpoolSource>(run, shown_path(run.directory));
  }
  if (printed) return tui::run_batch(*source, top, print_out);
#ifdef DDL_TERMINAL
  const tui::Color when = color == "always"  ? tui::Color::kAlways
                          : color == "never" ? tui::Color::kNever
                                             : tui::Color::kAuto;
  return tui::run_screen(*source, top, when);
#else
  throw Error("this ddl was built without ncurses: it has no screen", "ddl top -b prints frames as text",
              ExitCode::kUsage);
#endif
}

}  // namespace ddl::cli
