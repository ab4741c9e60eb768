#include "cli/interrupts.h"

#include <signal.h>

#include <iterator>

#include "core/error.h"

namespace ddl::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t g_came = 0;
struct sigaction g_before[std::size(kSignals)];

void note(int signal) { g_came = signal; }

}  // namespace

Interrupts::Interrupts() {
  g_came = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup means it
  }
}

Interrupts::~Interrupts() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
}

void Interrupts::check() {
  if (g_came != 0) throw Error("interrupted");
}

void Interrupts::obey() {
  if (g_came == 0) return;
  signal(g_came, SIG_DFL);
  raise(g_came);
}

}  // namespace ddl::cli
