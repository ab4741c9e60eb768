// ddl query: SQL on a recorded run, read-only.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/open_run.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "reports/csv.h"
#include "reports/json.h"
#include "reports/rows.h"
#include "reports/text.h"

namespace ddl::cli {

int run_query(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "query",
       .usage = "[RUN] SQL [options]",
       .text =
           "Runs one SELECT on the run's SQLite file. The views v_* are stable, tables may change between versions. Times are ns.",
       .example =
           "  ddl query 'SELECT op, sum(calls), sum(bytes) FROM v_call GROUP BY op'\n"
           "  ddl query slow.ddl 'SELECT rank, sum(wait_ns) / 1e6 AS wait_ms FROM v_collective GROUP BY rank' --csv\n"
           "  ddl query --tables"});
  options.add()("timeout", takes<std::string>("TIME", "60s"), "end with an error after this time: 90s, 10m, 2h")(
      "limit", takes<size_t>("N"), "at most N rows; 0: all (default: 1000 on a terminal, else all)")(
      "json", "rows as JSON objects")("csv", "RFC 4180 with a header")(
      "no-header", "text without the line of column names")("tables", "list all views and tables with their columns");
  options.allow_words(2);
  if (!options.parse(arguments)) return 0;
  const std::vector<std::string>& words = options.words();
  const bool tables = options.has("tables");
  if (words.size() > 1 && tables) throw Error("--tables takes no SQL", "ddl query [RUN] --tables", ExitCode::kUsage);
  if (words.empty() && !tables) throw Error("no SQL given", "e.g. ddl query 'SELECT * FROM v_rank'", ExitCode::kUsage);
  if (words.size() == 1 && !tables && looks_like_run(words[0]))
    throw Error(fmt::format("no SQL given for {}", words[0]),
                fmt::format("e.g. ddl query {} 'SELECT * FROM v_rank'", words[0]), ExitCode::kUsage);
  const bool has_run = words.size() == 2 || (tables && words.size() == 1);
  Run run = open_run(has_run ? words[0] : "");
  if (tables) {
    print_out(reports::list_tables(run.db));
    return 0;
  }
  const double timeout_s = parse_duration(options.get<std::string>("timeout"));
  if (!(timeout_s > 0)) throw Error("--timeout must be above 0", "e.g. --timeout 10m", ExitCode::kUsage);
  reports::Rows rows(run.db, words.back());
  if (const auto parameter = rows.parameter())
    throw Error(fmt::format("SQL: {} has no value", *parameter), "write the value itself: world = 0", ExitCode::kUsage);
  rows.limit_time(timeout_s);
  constexpr size_t kMostOnTerminal = 1000;
  const size_t most = options.maybe<size_t>("limit").value_or(isatty(STDOUT_FILENO) == 1 ? kMostOnTerminal : 0);
  if (most > 0) rows.limit_rows(most);
  const auto tell_of_cut = [&] {
    if (rows.cut()) print_note(fmt::format("only the first {} rows are shown: --limit 0 shows all", most));
  };
  if (options.has("csv")) {
    reports::write_csv(rows, print_out);
    tell_of_cut();
    return 0;
  }
  const reports::Table table = reports::to_table(rows);
  std::string text = options.has("json") ? reports::render_json(table) : reports::render_table(table, output_options());
  if (options.has("no-header") && !options.has("json")) text.erase(0, text.find('\n') + 1);
  print_out(text);
  tell_of_cut();
  return 0;
}

}  // namespace ddl::cli
