// Domains, their categories, and registered strings: few, made while a library starts, never forgotten.
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "collectors/nvtx.h"
#include "core/lock_and_pages.h"

namespace ddl::nvtx {

namespace {

constexpr uint32_t kMaxDomains = 64;
constexpr uint32_t kTextSlots = 16384;  // half of them are used at most
constexpr size_t kPageBytesTaken = 64 * 1024;

DomainState g_default = {"", 1, 0, {}};
DomainState g_beyond = {"(others)", 0, 0, {}};
DomainState g_domains[kMaxDomains];
uint32_t g_domain_count = 0;
uint32_t g_next_owner = 2;

const char* g_texts[kTextSlots];
uint32_t g_text_count = 0;
char* g_page = nullptr;
size_t g_page_left = 0;

/// They tell of themselves, not of the program's layers.
constexpr const char* kLibraries[] = {"NCCL",  "Horovod",  "CCCL",     "cub",   "thrust",   "cuBLAS",
                                      "cuDNN", "cuSOLVER", "cuSPARSE", "cuFFT", "cuTENSOR", "NVSHMEM",
                                      "UCX",   "CUDA",     "libcudf",  "NVML"};

bool is_library(const char* name) {
  for (const char* prefix : kLibraries) {
    if (strncasecmp(name, prefix, strlen(prefix)) == 0) return true;
  }
  return false;
}

const char** find_text(const char* text, size_t length) {
  uint64_t hash = 14695981039346656037ull;
  for (size_t i = 0; i < length; ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * 1099511628211ull;
  for (uint32_t i = static_cast<uint32_t>(hash >> 20) % kTextSlots;; i = (i + 1) % kTextSlots) {
    const char* there = g_texts[i];
    if (!there || (strncmp(there, text, length) == 0 && there[length] == 0)) return &g_texts[i];
  }
}

}  // namespace

DomainState* domain_of(Domain handle) {
  return handle ? static_cast<DomainState*>(const_cast<void*>(handle)) : &g_default;
}

Domain create_domain(const char* name) {
  const int saved_errno = errno;
  DomainState* domain = &g_beyond;
  {
    const Lock lock;
    if (lock) {
      char shown[sizeof g_domains[0].name] = {};
      memcpy(shown, name, strnlen(name, sizeof shown - 1));
      uint32_t i = 0;
      while (i < g_domain_count && strcmp(g_domains[i].name, shown) != 0) ++i;
      if (i < kMaxDomains) domain = &g_domains[i];
      if (i == g_domain_count && i < kMaxDomains) {
        memcpy(domain->name, shown, sizeof shown);
        if (!is_library(shown) && g_next_owner < kHookedRanges) domain->owner = g_next_owner++;
        ++g_domain_count;
      }
    }
  }
  if (domain->owner == 0 && !is_library(domain->name)) count_loss(kLossContexts);
  errno = saved_errno;
  return domain;
}

void name_category(DomainState* domain, uint32_t id, const char* name) {
  const uint32_t kind = kind_of_category(name);
  const Lock lock;
  if (kind == 0 || !lock || domain->category_count == kMaxCategories) return;
  domain->categories[domain->category_count] = {id, kind};
  __atomic_store_n(&domain->category_count, domain->category_count + 1, __ATOMIC_RELEASE);
}

uint32_t kind_of(const DomainState* domain, uint32_t category) {
  for (uint32_t i = __atomic_load_n(&domain->category_count, __ATOMIC_ACQUIRE); i-- > 0;) {
    if (domain->categories[i].id == category) return domain->categories[i].kind;
  }
  return 0;
}

const char* keep_text(const char* text) {
  const size_t length = strnlen(text, kMaxRangeNameBytes);
  const Lock lock;
  if (!lock) return nullptr;
  const char** slot = find_text(text, length);
  if (*slot) return *slot;
  if (g_text_count >= kTextSlots / 2) return nullptr;
  if (g_page_left < length + 1) {
    const int saved_errno = errno;
    g_page = static_cast<char*>(take_pages(kPageBytesTaken));
    errno = saved_errno;
    g_page_left = g_page ? kPageBytesTaken : 0;
    if (!g_page) return nullptr;
  }
  memcpy(g_page, text, length);  // the byte behind it is zero: pages are
  *slot = g_page;
  g_page += length + 1;
  g_page_left -= length + 1;
  ++g_text_count;
  return *slot;
}

}  // namespace ddl::nvtx
