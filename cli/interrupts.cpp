#include "cli/interrupts.h"

#include <signal.h>
#include <sys/time.h>

#include <iterator>

namespace ddl::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t g_came = 0;
struct sigaction g_before[std::size(kSignals)], g_alarm_before;

void alarm_every(suseconds_t time_us) {
  const timeval time = {0, time_us};
  const itimerval timer = {time, time};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

/// The signal may have come just before a call that waits, which it did not interrupt then.
void note(int signal) {
  g_came = signal;
  alarm_every(100'000);
}

void interrupt(int) {}

}  // namespace

Interrupts::Interrupts() {
  g_came = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  struct sigaction on_alarm {};
  on_alarm.sa_handler = interrupt;
  sigaction(SIGALRM, &on_alarm, &g_alarm_before);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup means it
  }
}

Interrupts::~Interrupts() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
  if (g_came != 0) alarm_every(0);
  sigaction(SIGALRM, &g_alarm_before, nullptr);
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
