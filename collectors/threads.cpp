// When the training thread computed, of jobs whose MPI calls all come from a background thread (Horovod, DDP over MPI):
// the thread that trains is in no call of ours then, and what it does must be asked of the kernel.
//
// Sampled, not traced: where collectives of the background thread begin, where its calls end, and where the training
// thread ends its ranges, at most every half millisecond. Communication is between two such samples, so what the
// training thread did meanwhile is known as exactly as the kernel's account of it. Rejected: wrappers of everything
// that blocks (condition variables, futexes, semaphores), which are versioned symbols or inlined system calls and would
// cost every program; and samples by the clock alone, which would have to be as dense all the time.
//
// Horovod's synchronize() does not block: it polls, with sched_yield between. To the kernel that is computing.
// So sched_yield is ours: it does what it does, and the training thread's time in it, and between one and the
// next, is counted.
//
// The training thread is the one that opens steps; else the process's first, which runs main() or the interpreter.
// While it makes MPI calls itself nothing is sampled but once a second whether it still does. Once it does not, the
// next collective of another thread begins the samples, however often the training thread itself has looked since.
//
// A thread that did next to nothing for a second is asked once a second which system call it sleeps in: of a job that
// hangs this is the answer.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collectors/collectors.h"
#include "collectors/thread_account.h"
#include "core/names.h"
#include "core/recorder.h"
#include "interpose/process.h"

namespace ddl {

namespace {

constexpr uint64_t kSamplesPerSecond = 2000;
constexpr uint64_t kFirstLooksPerSecond = 100;
constexpr uint64_t kSleeperShare = 20;        ///< of a second: who ran for less than this part of it sleeps
constexpr uint64_t kYieldsPerSecond = 20000;  ///< that are this close are one wait: a poll lies between them, no work

__thread uint32_t t_tid __attribute__((tls_model("initial-exec"))) = 0;
uint32_t g_told_tid = 0;  // the last that the spool was told of
uint64_t g_training_calls = 0;
uint64_t g_look_ticks = 0;
uint64_t g_spun_ticks = 0;
uint64_t g_last_yield_ticks = 0;
uint64_t g_state_ticks = 0;   // when it was looked at whether the training thread sleeps, and ...
uint64_t g_state_cpu_ns = 0;  // ... how long it had run then
uint32_t g_busy = 0;

uint32_t own_tid() {
  if (t_tid == 0) t_tid = static_cast<uint32_t>(syscall(SYS_gettid));
  return t_tid;
}

/// Clocks of other threads have no name in the headers: the kernel's CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED.
clockid_t cpu_clock_of(uint32_t tid) { return static_cast<clockid_t>(~tid << 3 | 6); }

/// For the text that a macro SYS_name expands to: -1 on an architecture that has no such call, as the macro then
/// stays what it is.
constexpr long call_number(const char* text) {
  if (*text < '0' || *text > '9') return -1;
  long number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) number = number * 10 + (*text - '0');
  return number;
}

constexpr struct {
  uint32_t code;
  long number;
} kCallNumbers[] = {
#define DDL_TEXT_OF(macro) #macro
#define DDL_EXPANDED(macro) DDL_TEXT_OF(macro)
#define DDL_NUMBERED(code, name) {code, call_number(DDL_EXPANDED(SYS_##name))},
    DDL_BLOCKING_CALLS(DDL_NUMBERED)
#undef DDL_NUMBERED
#undef DDL_EXPANDED
#undef DDL_TEXT_OF
};

/// The system call in which the thread sleeps, as a code of kBlockingCalls; 0: it is in none of them.
uint32_t sleeps_in(uint32_t tid) {
  char text[96];
  if (!read_of_thread(tid, "syscall", text, sizeof text)) return 0;
  const long number = call_number(text);  // else "running", or "-1": in no system call
  for (const auto& call : kCallNumbers)
    if (call.number >= 0 && call.number == number) return call.code;
  return 0;
}

bool write_sample_of(uint32_t tid, Thread* writer, uint64_t now_ticks) {
  timespec cpu;
  if (clock_gettime(cpu_clock_of(tid), &cpu) != 0) return false;  // it has ended
  const uint64_t cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1000000000 + static_cast<uint64_t>(cpu.tv_nsec);
  uint32_t call = 0;
  if (now_ticks - g_state_ticks >= second_ticks()) {
    if (cpu_ns - g_state_cpu_ns < 1000000000 / kSleeperShare) call = sleeps_in(tid);
    g_state_ticks = now_ticks;
    g_state_cpu_ns = cpu_ns;
  }
  Record record = {};
  record.start_ticks = now_ticks;
  record.word = record_word(RecordKind::kThreadSample, call, 0);
  ThreadAccount account;
  const uint64_t ready_ns = read_account(tid, account) ? account.ready_ns : kUnknownTime;
  put_thread_times(record, {cpu_ns, ready_ns, __atomic_load_n(&g_spun_ticks, __ATOMIC_RELAXED)});
  write_record(writer, keep(false, kNoSequence, now_ticks), record);
  return true;
}

void tell(uint32_t tid) {
  if (g_told_tid == tid) return;
  g_told_tid = tid;
  char text[16];
  snprintf(text, sizeof text, "%u", tid);
  write_fact("training_thread", text);
}

/// Returns how long to wait for the next look.
uint64_t look(Thread* caller, uint64_t now_ticks) {
  const uint64_t second = second_ticks();
  const uint32_t marking = step_thread();
  const uint32_t training = marking ? marking : static_cast<uint32_t>(getpid());
  const uint64_t calls = ticks_in_calls(training);
  const bool communicates = calls != g_training_calls;
  g_training_calls = calls;
  const bool sampling = __atomic_load_n(&g_process.training_tid, __ATOMIC_RELAXED) == training;
  if (communicates || (caller->tid == training && !sampling)) {
    __atomic_store_n(&g_process.training_tid, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&g_process.watched_tid, communicates ? 0 : training, __ATOMIC_RELAXED);
    const uint64_t wait = g_look_ticks;
    g_look_ticks = g_look_ticks * 2 < second ? g_look_ticks * 2 : second;
    return wait;
  }
  g_look_ticks = second / kFirstLooksPerSecond;
  tell(training);
  const bool alive = write_sample_of(training, caller, now_ticks);
  __atomic_store_n(&g_process.training_tid, alive ? training : 0, __ATOMIC_RELAXED);
  __atomic_store_n(&g_process.watched_tid, alive ? training : 0, __ATOMIC_RELAXED);
  return alive ? second / kSamplesPerSecond : second;
}

uint64_t on_sample(Thread* caller, uint64_t now_ticks) {
  uint32_t idle = 0;
  // another one is at it
  if (!__atomic_compare_exchange_n(&g_busy, &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return now_ticks;
  const uint64_t wait = look(caller, now_ticks);
  __atomic_store_n(&g_busy, 0, __ATOMIC_RELEASE);
  return now_ticks + wait;
}

}  // namespace

void start_thread_samples() {
  // a thread that waits for this one reads it: sched_yield()
  __atomic_store_n(&g_process.training_tid, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&g_process.watched_tid, 0, __ATOMIC_RELAXED);
  g_told_tid = g_busy = t_tid = 0;
  g_training_calls = g_spun_ticks = g_last_yield_ticks = 0;
  g_state_ticks = g_state_cpu_ns = 0;
  g_look_ticks = second_ticks() / kFirstLooksPerSecond;
  if (collector_wanted("threads"))
    sample_threads(on_sample);
  else
    write_fact("threads.off", "1");
}

bool is_background_thread() {
  const uint32_t training = __atomic_load_n(&g_process.training_tid, __ATOMIC_RELAXED);
  return training != 0 && own_tid() != training;
}

}  // namespace ddl

namespace {

/// The system call, which cannot fail. By itself where that is known: pollers call it often.
DDL_HOT int yield() {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(static_cast<long>(SYS_sched_yield)) : "rcx", "r11", "memory");
  return static_cast<int>(result);
#else
  return static_cast<int>(syscall(SYS_sched_yield));
#endif
}

/// For a process whose training thread is sampled.
__attribute__((noinline)) int yield_and_count(uint32_t training) {
  if (!ddl::g_process.active || ddl::own_tid() != training) return yield();
  const uint64_t before = ddl::ticks();
  const int result = yield();
  const uint64_t after = ddl::ticks();
  const uint64_t since_last = before - ddl::g_last_yield_ticks;
  const uint64_t spun = after - before + (since_last < ddl::second_ticks() / ddl::kYieldsPerSecond ? since_last : 0);
  ddl::g_last_yield_ticks = after;
  __atomic_store_n(&ddl::g_spun_ticks, ddl::g_spun_ticks + spun, __ATOMIC_RELAXED);
  return result;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int sched_yield() {
  const uint32_t training = __atomic_load_n(&ddl::g_process.training_tid, __ATOMIC_RELAXED);
  return __builtin_expect(training == 0, 1) ? yield() : yield_and_count(training);
}
