#include "core/lock_and_pages.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

namespace ddl {

namespace {

const void* g_lock_owner = nullptr;
__thread char t_identity __attribute__((tls_model("initial-exec")));  // its address names the thread

}  // namespace

NoCancel::NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
NoCancel::~NoCancel() { pthread_setcancelstate(before_, nullptr); }

OwnedLock::OwnedLock(const void** owner) : owner_(owner) {
  const void* free = nullptr;
  while (!__atomic_compare_exchange_n(owner, &free, static_cast<const void*>(&t_identity), false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED)) {
    if (free == &t_identity) return;
    free = nullptr;
    sched_yield();
  }
  held_ = true;
}

OwnedLock::~OwnedLock() {
  if (held_) __atomic_store_n(owner_, static_cast<const void*>(nullptr), __ATOMIC_RELEASE);
}

Lock::Lock() : OwnedLock(&g_lock_owner) {}

void Lock::reset() { g_lock_owner = nullptr; }

void* take_pages(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void give_back_pages(void* pages, size_t bytes) {
  if (pages) munmap(pages, bytes);
}

}  // namespace ddl
