#include "tests/core/allocation_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> g_live{0};
std::atomic<int64_t> g_peak{0};
std::atomic<int64_t> g_limit{INT64_MAX};

void* allocate(size_t bytes) {
  const int64_t live = g_live.load(std::memory_order_relaxed);
  if (bytes > static_cast<size_t>(INT64_MAX) ||
      live + static_cast<int64_t>(bytes) > g_limit.load(std::memory_order_relaxed))
    throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  const int64_t now = g_live.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed) +
                      static_cast<int64_t>(bytes);
  if (now > g_peak.load(std::memory_order_relaxed)) g_peak.store(now, std::memory_order_relaxed);
  return memory;
}

void release(void* memory) noexcept {
  if (!memory) return;
  g_live.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

int64_t g_begin = 0;

}  // namespace

// All forms that the tests use: a sanitizer's own nothrow form would not fit our delete.
void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t bytes, const std::nothrow_t& nothrow) noexcept { return operator new(bytes, nothrow); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

namespace ddl::test {

AllocationLimit::AllocationLimit(size_t limit_bytes) {
  g_begin = g_live.load();
  g_peak = g_begin;
  g_limit = g_begin + static_cast<int64_t>(limit_bytes);
}

AllocationLimit::~AllocationLimit() { g_limit = INT64_MAX; }

size_t AllocationLimit::peak_bytes() const {
  return static_cast<size_t>(std::max<int64_t>(g_peak.load() - g_begin, 0));
}

}  // namespace ddl::test
