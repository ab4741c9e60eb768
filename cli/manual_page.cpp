// ddl manual: prints a page for man(1), from what --help says.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

struct Entry {
  const char* what;
  const char* text;
};

constexpr Entry kExitCodes[] = {
    {"0", "good"},
    {"1", "an error of ours"},
    {"2", "usage: an unknown verb, option or value"},
    {"3", "data are missing or lost"},
    {"4", "a gate has tripped: ddl diff --fail-over, ddl tune --verify"},
    {"125", "ddl record could not start the command; otherwise it returns the command's own exit code"},
};

// What ddl record sets for the library in the job, and what else is read. A test holds this against the sources.
constexpr Entry kEnvironment[] = {
    {"LD_PRELOAD",
     "with libddl.so in it a job is recorded without ddl record; the variables below then say what its options would"},
    {"DDL_OUT", "the run directory; without it ./ddl-JOB.ddl"},
    {"DDL_STEPS", "keep the events of these steps only: A:B"},
    {"DDL_AFTER", "keep events from so many seconds after the start"},
    {"DDL_FOR", "... and for so many seconds"},
    {"DDL_CAP", "keep at most so many bytes per process"},
    {"DDL_BUDGET", "thin out events that cost more than this share of the time: 1%, or off"},
    {"DDL_COLLECTORS", "what to record, with commas between"},
    {"DDL_COUNTERS", "what to count in steps, phases and layers, with commas between"},
    {"DDL_STEP_NAMES", "more names of NVTX ranges that are steps"},
    {"DDL_CLOCK", "tsc or monotonic"},
    {"DDL_CLOCK_SYNC", "1: read the clocks of other hosts with a few messages"},
    {"DDL_CUPTI", "path of libcupti.so, where it is not found"},
    {"DDL_STACKS",
     "set by ddl record unless --stall is off: Python processes of ranks write their stacks to a file in memory when SIGURG comes"},
    {"DDL_STALL_SENTENCE", "for the command of --on-stall: the sentence that was printed"},
    {"DDL_STALL_RANKS", "likewise: the ranks that others wait for, with commas between"},
    {"DDL_STALL_RUN", "likewise: the run directory"},
    {"DDL_HISTORY", "of ddl history: its database, a file or postgresql://..."},
    {"DDL_TUNE_FILE",
     "set by ddl tune --in-run: where the values of the steps to come are, for ddl_tune() of ddl/annotate.h and tune() of ddl_annotate.py"},
    {"DDL_VERBOSE", "1: every process may complain, not one alone"},
    {"DDL_DISABLE", "1: record nothing"},
    {"DDL_LIBRARY", "of ddl record: path of the libddl.so to use"},
    {"COLUMNS", "width of text, where the terminal is not asked"},
    {"NO_COLOR", "set: no colour"},
    {"TMPDIR", "where a run that cannot be written to is read into"},
};

constexpr Entry kFiles[] = {
    {"NAME.ddl",
     "a run: a spool per process, which survives the process, stalls.jsonl, if the job stalled, last_look, if ddl record was "
     "killed with it, horovod_timeline.json, if it was asked for, and run.sqlite, which the first report makes of them"},
    {"NAME.ddl.notes", "marks made in ddl-top"},
    {"$XDG_CONFIG_HOME/ddl/top.conf", "the setup that F12 saves in ddl-top; without that variable in ~/.config"},
};

constexpr Entry kKeys[] = {
#define DDL_KEY(keys, label, text) {keys, text},
#include "tui/keys.def"
#undef DDL_KEY
};

/// Text of a line: nothing in it is a request or an escape to roff, and what was typed can be copied.
std::string roff(std::string_view text) {
  constexpr std::pair<char, const char*> kEscapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                       {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string out;
  for (const char c : text) {
    const auto escape =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [c](const auto& one) { return one.first == c; });
    out += escape == std::end(kEscapes) ? std::string(1, c) : escape->second;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

/// An argument of a request.
std::string roff_quoted(std::string_view text) {
  std::string out;
  for (const char c : roff(text)) out += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return "\"" + out + "\"";
}

std::string as_typed(std::string_view lines) {
  std::string out = ".EX\n";
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    out += roff(lines.substr(0, end)) + "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out + ".EE\n";
}

/// Paragraphs, and tables: lines that begin with two spaces.
std::string prose(std::string_view text) {
  std::string out, table;
  const auto end_table = [&] {
    if (!table.empty()) out += as_typed(table);
    table.clear();
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("  ")) {
      table += std::string(line) + "\n";
    } else {
      end_table();
      out += line.empty() ? ".PP\n" : roff(line) + "\n";
    }
  }
  end_table();
  while (out.ends_with(".PP\n")) out.erase(out.size() - 4);
  return out;
}

std::string entry(std::string_view what, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff_quoted(what), roff(text));
}

std::string title(std::string_view name) {
  std::string upper;
  for (const char c : name) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".\\\" Written by: ddl manual {}\n.TH {} 1 \"\" \"ddl {}\" \"User Commands\"\n.SH NAME\n", name,
                     roff_quoted(upper), DDL_VERSION);
}

std::string option_entry(const OptionRow& option) {
  std::string what;
  if (!option.letter.empty()) what = fmt::format("\\fB\\-{}\\fR, ", option.letter);
  what += fmt::format("\\fB{}\\fR", roff("--" + option.name));
  if (!option.argument.empty()) what += fmt::format(" \\fI{}\\fR", roff(option.argument));
  std::string text = roff(option.text);
  if (!option.default_value.empty()) text += fmt::format("\n.br\nDefault: {}.", roff(option.default_value));
  return fmt::format(".TP\n{}\n{}\n", what, text);
}

std::string options_of(const CommandTable& table) {
  std::string out;
  for (const OptionRow& option : table.options) {
    if (!option.group.empty()) out += fmt::format(".PP\n{}:\n", roff(option.group));
    out += option_entry(option);
  }
  return out;
}

std::string command_section(const CommandTable& table) {
  return fmt::format(".SS {}\n.B {}\n{}\n.PP\n{}{}.PP\nExample:\n.PP\n{}", roff_quoted("ddl " + table.verb),
                     roff_quoted("ddl " + table.verb), roff(table.usage), prose(table.text), options_of(table),
                     as_typed(table.example));
}

template <size_t N>
std::string entries(const char* heading, const Entry (&rows)[N]) {
  std::string out = fmt::format(".SH {}\n", heading);
  for (const Entry& row : rows) out += entry(row.what, row.text);
  return out;
}

/// One entry for each command.
std::string ddl_manual(const std::vector<CommandTable>& tables) {
  std::string out =
      title("ddl") +
      "ddl \\- where the time of a distributed training job goes\n"
      ".SH SYNOPSIS\n.B ddl\n.I VERB\n[options]\n"
      ".SH DESCRIPTION\n" +
      prose(
          "Records unmodified jobs, splits every collective into waiting and transfer, and names the rank to blame.\n"
          "\n"
          "RUN is a recorded directory, NAME.ddl; where none is named it is the newest *.ddl here.") +
      ".SH VERBS\n";
  for (const Verb& verb : verbs()) out += entry(verb.name, verb.summary);
  out += ".SH COMMANDS\n";
  for (const CommandTable& table : tables) out += command_section(table);
  out += entries("EXIT STATUS", kExitCodes) + entries("ENVIRONMENT", kEnvironment) + entries("FILES", kFiles);
  return out + ".SH SEE ALSO\n.BR ddl\\-top (1)\n";
}

/// Its options and keys.
std::string ddl_top_manual(const CommandTable& top) {
  return title("ddl-top") +
         "ddl\\-top \\- watch a running job: who is late, who waits, where the step goes\n"
         ".SH SYNOPSIS\n.B ddl\\-top\n" +
         roff(top.usage) + "\n.SH DESCRIPTION\n" + prose(top.text) + ".PP\n" + prose("The same as ddl top.") +
         ".SH OPTIONS\n" + options_of(top) + entries("KEYS", kKeys) + ".SH EXAMPLES\n" + as_typed(top.example) +
         entries("FILES", kFiles) + ".SH SEE ALSO\n.BR ddl (1)\n";
}

}  // namespace

int run_manual(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "manual",
       .usage = "[ddl|ddl-top]",
       .text =
           "Prints the manual page of a program, all verbs with their options, as man(1) reads it. cmake --install puts\n"
           "both pages where man finds them.",
       .example = "  ddl manual | man -l -\n"
                  "  ddl manual ddl-top | man -l -"});
  const std::vector<std::string> programs = {"ddl", "ddl-top"};
  options.allow_words(1, WordKind::kName, programs);
  if (!options.parse(arguments)) return 0;
  const std::string program = options.words().empty() ? "ddl" : options.words()[0];
  if (program == "ddl") {
    print_out(ddl_manual(command_tables()));
  } else if (program == "ddl-top") {
    print_out(ddl_top_manual(command_table({"top", "", run_top})));
  } else {
    throw Error(fmt::format("no manual page for '{}'", program), did_you_mean(program, programs, "ddl or ddl-top"),
                ExitCode::kUsage);
  }
  return 0;
}

}  // namespace ddl::cli
