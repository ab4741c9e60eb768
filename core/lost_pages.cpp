#include "core/lost_pages.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/format.h"

namespace ddl {

namespace {

/// A thread has a chunk of the log, a ring and a few tables.
constexpr uint32_t kMaxGuarded = 16384;
struct Guarded {
  uintptr_t begin;  ///< 0: free. Written after `bytes`
  size_t bytes;
};
Guarded g_guarded[kMaxGuarded];
uint32_t g_guarded_end = 0;  // none is in use from here on
uint64_t g_lost = 0;
pid_t g_owner = 0;
struct sigaction g_first;   // what SIGBUS did before it was ours for the first time
struct sigaction g_before;  // before it was ours the last time
struct {
  uintptr_t page;
  const void* contents;
  size_t bytes;
} g_kept;

bool is_ours(const struct sigaction& action);

bool is_guarded(uintptr_t address) {
  const uint32_t end = __atomic_load_n(&g_guarded_end, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < end; ++i) {
    const uintptr_t begin = __atomic_load_n(&g_guarded[i].begin, __ATOMIC_ACQUIRE);
    const size_t bytes = __atomic_load_n(&g_guarded[i].bytes, __ATOMIC_ACQUIRE);
    const bool same = __atomic_load_n(&g_guarded[i].begin, __ATOMIC_RELAXED) == begin;
    if (begin != 0 && same && address - begin < bytes) return true;
  }
  return false;
}

/// A page of its own for the address. The owner is asked for because a forked child has nothing of ours at these
/// addresses.
bool replace_page(uintptr_t address) {
  if (getpid() != g_owner || !is_guarded(address)) return false;
  void* page = reinterpret_cast<void*>(address & ~uintptr_t{kPageBytes - 1});
  if (mmap(page, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    return false;
  if (g_kept.page == reinterpret_cast<uintptr_t>(page)) memcpy(page, g_kept.contents, g_kept.bytes);
  __atomic_fetch_add(&g_lost, 1, __ATOMIC_RELAXED);
  return true;
}

/// The instruction that was interrupted raises it again by itself.
bool comes_again(int code) {
  return code == BUS_ADRALN || code == BUS_ADRERR || code == BUS_OBJERR || code == BUS_MCEERR_AR || code == SI_KERNEL;
}

void on_sigbus(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const bool is_fault = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  if (!is_fault || !replace_page(reinterpret_cast<uintptr_t>(info->si_addr))) {
    // It comes again, or is sent again, and finds everything as if we had never been there. Where another handler is in
    // force that one has called us, as the one before it: then it means what was there before us.
    struct sigaction now;
    sigaction(signal, nullptr, &now);
    sigaction(signal, is_ours(now) ? &g_before : &g_first, nullptr);
    if (!comes_again(info->si_code)) syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
  }
  errno = saved_errno;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_sigbus;
}

}  // namespace

void guard_against_lost_pages() {
  const int saved_errno = errno;
  if (g_owner != getpid()) {
    __atomic_store_n(&g_guarded_end, 0, __ATOMIC_RELEASE);
    g_lost = 0;
    g_owner = getpid();
  }
  struct sigaction now;
  if (sigaction(SIGBUS, nullptr, &now) == 0 && !is_ours(now)) {
    static bool taken_before = false;
    if (!taken_before) g_first = now;
    taken_before = true;
    g_before = now;
    struct sigaction ours = {};
    ours.sa_sigaction = on_sigbus;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(SIGBUS, &ours, nullptr);
  }
  errno = saved_errno;
}

bool stop_guarding_against_lost_pages() {
  struct sigaction now;
  return sigaction(SIGBUS, nullptr, &now) == 0 && is_ours(now) && sigaction(SIGBUS, &g_before, nullptr) == 0;
}

void guard_pages(const void* pages, size_t bytes) {
  uint32_t i = 0;
  while (i < kMaxGuarded && i < g_guarded_end && g_guarded[i].begin != 0) ++i;
  if (i == kMaxGuarded) return;
  __atomic_store_n(&g_guarded[i].bytes, bytes, __ATOMIC_RELEASE);
  __atomic_store_n(&g_guarded[i].begin, reinterpret_cast<uintptr_t>(pages), __ATOMIC_RELEASE);
  if (i == g_guarded_end) __atomic_store_n(&g_guarded_end, i + 1, __ATOMIC_RELEASE);
}

size_t unguard_pages(const void* pages) {
  for (uint32_t i = 0; i < g_guarded_end; ++i) {
    if (g_guarded[i].begin != reinterpret_cast<uintptr_t>(pages)) continue;
    __atomic_store_n(&g_guarded[i].begin, 0, __ATOMIC_RELEASE);
    return g_guarded[i].bytes;
  }
  return 0;
}

void keep_contents(const void* page, const void* contents, size_t bytes) {
  g_kept.page = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  g_kept.contents = contents;
  g_kept.bytes = bytes;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  g_kept.page = reinterpret_cast<uintptr_t>(page);
}

uint64_t lost_pages() { return __atomic_load_n(&g_lost, __ATOMIC_RELAXED); }

}  // namespace ddl
