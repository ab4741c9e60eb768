#include "cli/terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cli/interrupts.h"
#include "core/error.h"
#include "reports/safe_text.h"

namespace ddl::cli {
namespace {

std::optional<size_t> columns() {
  if (const char* text = std::getenv("COLUMNS")) {
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    if (end != text && *end == '\0' && value > 0 && value < 100'000) return value;
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return std::nullopt;
}

bool color() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      Interrupts::check();  // the reader of a pipe may never read on
      continue;
    }
    if (written < 0 && errno == EPIPE) {  // the reader has seen enough; some parents ignore SIGPIPE for us
      signal(SIGPIPE, SIG_DFL);
      raise(SIGPIPE);
    }
    if (written < 0) throw Error(fmt::format("cannot write the output: {}", std::strerror(errno)), "is the disk full?");
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

reports::TextOptions output_options() { return {.width = columns(), .color = color()}; }

void print_out(std::string_view text) { write_all(STDOUT_FILENO, text); }

void print_note(std::string_view text) {
  try {
    write_all(STDERR_FILENO, fmt::format("ddl: {}\n", reports::printable(text)));
  } catch (const Error&) {
    // Nobody can be told.
  }
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace ddl::cli
