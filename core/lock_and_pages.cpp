#include "core/lock_and_pages.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

namespace ddl {

namespace {

const void* g_lock_owner = nullptr;  // NULL: free. One word, so that a signal handler never finds a lock without its owner
__thread char t_identity __attribute__((tls_model("initial-exec")));  // its address names the thread

}  // namespace

// A thread that is cancelled in a system call would keep the lock for ever.
Lock::Lock() : held_(false) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  const void* free = nullptr;
  while (!__atomic_compare_exchange_n(&g_lock_owner, &free, static_cast<const void*>(&t_identity), false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED)) {
    if (free == &t_identity) return;  // by an outer one, which has disabled it
    free = nullptr;
    sched_yield();
  }
  held_ = true;
}

Lock::~Lock() {
  if (!held_) return;
  __atomic_store_n(&g_lock_owner, static_cast<const void*>(nullptr), __ATOMIC_RELEASE);
  pthread_setcancelstate(cancel_state_, nullptr);
}

void Lock::reset() { g_lock_owner = nullptr; }

void* take_pages(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void give_back_pages(void* pages, size_t bytes) {
  if (pages) munmap(pages, bytes);
}

}  // namespace ddl
