#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "cli/job_file.h"
#include "cli/mcp_server.h"
#include "cli/mpirun.h"
#include "cli/record_options.h"
#include "cli/top_setup.h"
#include "core/error.h"
#include "core/secrets.h"
#include "tests/fuzz/target.h"
#include "tests/support/synthetic_run.h"
#include "tui/filter.h"
#include "tui/snapshot.h"

namespace ddl::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

/// A folder with two runs that have been reported, and nothing else.
const fs::path& run_folder() {
  static const fs::path folder = [] {
    fs::path made = scratch() / "words";
    fs::create_directories(made);
    for (const int ranks : {2, 4}) {
      const fs::path run = made / (ranks == 2 ? "job.ddl" : "two.ddl");
      test::run()
          .ranks(ranks)
          .steps(20)
          .forward("fc1", 1_ms)
          .allreduce(1_MiB, 1_ms)
          .value("samples", 32)
          .job_json()
          .write(run);
      verb({"report", run.string()});
    }
    return made;
  }();
  return folder;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// What a job's command becomes in job.json and for a launcher.
void describe(const std::vector<std::string>& command) {
  const char* const environment[] = {"OMP_NUM_THREADS=2", "MY_TOKEN=x", nullptr};
  cli::to_json(cli::describe_job(command, environment));
  cli::program_name(command);
  cli::program_of(command);
  cli::forward_settings(command, {{"LD_PRELOAD", "libddl.so"}, {"DDL_DIR", "/tmp/x"}});
}

}  // namespace

std::vector<std::string> command_lines() {
  return {
      "report\njob.ddl",
      "report\njob.ddl\nranks\n--json",
      "record\n-o\nx.ddl\n--steps\n2:9\n--stall\n5m\n--\nmpirun\n-np\n2\n-x\nA=b\n./train\n--password\nsecret\n--url=https://u:p@h/",
      "diff\njob.ddl\ntwo.ddl\n--fail-over\n500%",
      "goodput\njob.ddl\n--price\n2.5",
      "analyze\njob.ddl",
      "scaling\njob.ddl\ntwo.ddl",
      "export\ncsv\njob.ddl\n--table\nv_rank",
      "export\nchrome-json\njob.ddl\n-o\ntraces",
      "completion\nbash",
      "manual\nddl",
      "model\nallreduce\n--ranks\n16\n--bytes\n100MB\n--alpha-us\n5\n--bandwidth\n12.5\n--reduce\n100",
      "model\nallreduce\n--tiers\n4:80:3,16:12.5:10\n--bytes\n1MB\n--compute-ms\n150\n--learners\n4,16",
      "model\npipeline\n--stages\n4\n--micro-batches\n4,8",
      "model\nlimits\n--ranks\n512\n--global-batch\n256\n--memory\n80GB\n--sample-memory\n1.2GB\n--fixed-memory\n4GB",
      "model\ntrain\n--samples\n1.2e6\n--batch\n32\n--step-ms\n300\n--epochs\n100\n--machines\n4\n--price\n3.06",
      "model\nconsistency\n--compute-ms\n10,10,14\n--transfer-ms\n3\n--bytes\n100MB\n--rules\nsync,ssp:4,gossip",
      "model\ncompression\n--fraction\n0.51\n--speedup\n2,8",
      "model\nwhatif\njob.ddl\n--network\n4\n--healthy\n1"};
}

bool take_command_line(const std::string& input) {
  const std::vector<std::string> words = lines_of(input);
  // Verbs that end by themselves, start no program and write nowhere but here.
  static const std::string_view kTried[] = {"report", "analyze",    "diff",   "goodput", "scaling",
                                            "export", "completion", "manual", "model",   "record"};
  if (std::find(std::begin(kTried), std::end(kTried), words[0]) == std::end(kTried)) return false;
  for (const std::string& word : words)
    if (word.find('\0') != std::string::npos) return false;  // not in a command line
  if (words[0] == "record") {
    try {
      const cli::RecordOptions options = cli::parse_record_options({words.begin() + 1, words.end()});
      if (!options.command.empty()) describe(options.command);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  if (input.find('/') != std::string::npos || input.find("..") != std::string::npos) return false;
  if (words[0] == "export" && words.size() > 1 && words[1] == "prometheus") return false;  // --watch
  const fs::path before = fs::current_path();
  fs::current_path(run_folder());
  const bool taken = verb(words);
  for (const auto& entry : fs::directory_iterator(run_folder()))
    if (entry.path().extension() != ".ddl") fs::remove_all(entry.path());
  fs::current_path(before);
  return taken;
}

std::vector<std::string> setups() {
  return {"# ddl-top\nsort=wait\ninverted=1\nby_node=0\ninterval_s=2\npanels=10101\n"};
}

bool take_setup(const std::string& input) {
  setenv("XDG_CONFIG_HOME", scratch().c_str(), 1);
  fs::create_directories(scratch() / "ddl");
  write(scratch() / "ddl" / "top.conf", input);
  const tui::View view = cli::load_setup();
  if (!(view.interval_s >= 0.1 && view.interval_s <= 3600)) abort();  // what --delay takes
  return true;
}

std::vector<std::string> filters() {
  return {"late>5 & node~nid004", "rank=3,7,8..11", "wait<=0.3 & step>400 & call~Allreduce"};
}

bool take_filter(const std::string& input) {
  try {
    const tui::Filter filter(input);
    tui::RankRow row;
    row.rank = 7;
    filter.matches(row);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> messages() {
  return {
      R"({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})",
      R"({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})",
      R"({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "list_runs", "arguments": {}}})",
      R"({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "report", "arguments": {"run": "job.ddl"}}})",
      R"({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "query", "arguments": {"run": "job.ddl", "sql": "SELECT rank FROM v_rank"}}})",
      R"({"jsonrpc": "2.0", "method": "notifications/initialized"})"};
}

bool take_message(const std::string& input) {
  static cli::McpServer server(run_folder());
  const auto answer = server.answer(input);
  if (answer && answer->find('\n') != std::string::npos) abort();  // one message, one line
  return true;
}

}  // namespace ddl::fuzz
