// ddl mcp: agents and editors ask about runs, over standard input and output.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cli/mcp_server.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

/// Lines of standard input, as they come. A longer one than the server takes is handed over as far as it goes, once.
class Lines {
 public:
  bool next(std::string& line) {
    line.clear();
    while (true) {
      const size_t end = held_.find('\n', looked_at_);
      if (end != std::string::npos) {
        if (line.empty()) line = held_.substr(0, end);
        held_.erase(0, end + 1);
        looked_at_ = 0;
        return true;
      }
      looked_at_ = held_.size();
      if (held_.size() > kMcpMostQuestionBytes) {
        if (line.empty()) line = held_;
        held_.clear();
        looked_at_ = 0;
      }
      if (!read_more()) return false;
    }
  }

 private:
  bool read_more() {
    char bytes[4096];
    ssize_t count;
    do count = read(STDIN_FILENO, bytes, sizeof bytes);
    while (count < 0 && errno == EINTR);
    if (count < 0)
      throw Error(std::string("cannot read standard input: ") + std::strerror(errno), "the client must keep it open");
    held_.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }

  std::string held_;
  size_t looked_at_ = 0;
};

}  // namespace

int run_mcp(const Arguments& arguments) {
  VerbOptions options(
      {.verb = "mcp",
       .usage = "[FOLDER]",
       .text =
           "Answers agents and editors about the runs in FOLDER (here, if none is named) over the Model Context Protocol, on\n"
           "standard input and output: list runs, report, findings, SQL, diff, metrics. It reads only, starts no program, opens\n"
           "no port, and ends with its input.",
       .example = "  ddl mcp ~/runs\n"
                  "  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}' | ddl mcp"});
  options.allow_words(1, WordKind::kFile);
  if (!options.parse(arguments)) return 0;
  McpServer server(options.words().empty() ? "." : options.words()[0]);
  Lines lines;
  for (std::string line; lines.next(line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (const auto answer = server.answer(line)) print_out(*answer + "\n");
  }
  return 0;
}

}  // namespace ddl::cli
