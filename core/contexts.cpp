// Interned strings and contexts (ranges and call sites). Looked up without a lock; inserted under it; never removed.
#include <string.h>

#include "core/recorder_internal.h"

namespace ddl {
namespace internal {

namespace {

constexpr uint32_t kMaxStrings = 1u << 15;
constexpr uint32_t kMaxContexts = 1u << 16;
constexpr size_t kArenaBytes = 256 * 1024;

struct String {
  const char* text;
  uint32_t length;
};

struct Context {
  uint32_t parent;
  uint32_t kind;
  uint32_t name;
  uint64_t site;
};

// Zero pages until used. Hash tables hold ids, 0 = free; twice as many slots as ids.
String g_strings[kMaxStrings];
uint32_t g_string_table[2 * kMaxStrings];
uint32_t g_string_count = 0;  // ids 1 .. count
Context g_contexts[kMaxContexts];
uint32_t g_context_table[2 * kMaxContexts];
uint32_t g_context_count = 0;
char* g_arena = nullptr;
size_t g_arena_left = 0;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return hash ^ hash >> 31;
}

struct Probed {
  uint32_t* slot;
  uint32_t id;  ///< 0: there is none yet, and the slot is where it belongs
};

/// Probes `table` for an id for which `same(id)` holds. What is in the slot later may be another thread's, of another
/// name.
template <class Same>
Probed probe(uint32_t* table, uint32_t slots, uint64_t hash, Same same) {
  for (uint32_t i = static_cast<uint32_t>(hash) & (slots - 1);; i = (i + 1) & (slots - 1)) {
    const uint32_t id = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
    if (id == 0 || same(id)) return {&table[i], id};
  }
}

const char* copy(const char* text, size_t length) {
  if (g_arena_left < length + 1) {
    char* pages = static_cast<char*>(take_pages(kArenaBytes));
    if (!pages) return nullptr;
    g_arena = pages;
    g_arena_left = kArenaBytes;
  }
  char* to = g_arena;
  memcpy(to, text, length);
  to[length] = 0;
  g_arena += length + 1;
  g_arena_left -= length + 1;
  return to;
}

}  // namespace

void reset_contexts() {
  if (g_string_count == 0 && g_context_count == 0) return;
  memset(g_string_table, 0, sizeof g_string_table);
  memset(g_context_table, 0, sizeof g_context_table);
  g_string_count = g_context_count = 0;
}

uint32_t intern_string(const char* text, size_t length, const char** ours) {
  uint64_t hash = 0x9e3779b97f4a7c15ull;
  for (size_t i = 0; i < length; ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * 1099511628211ull;
  hash = mix(hash, length);
  const auto same = [&](uint32_t id) {
    return g_strings[id].length == length && memcmp(g_strings[id].text, text, length) == 0;
  };
  uint32_t id = probe(g_string_table, 2 * kMaxStrings, hash, same).id;
  if (id == 0) {
    const Lock lock;
    if (!lock) return 0;
    const Probed free = probe(g_string_table, 2 * kMaxStrings, hash, same);
    id = free.id;
    if (id == 0) {
      const char* mine = g_string_count + 1 < kMaxStrings ? copy(text, length) : nullptr;
      if (!mine) {
        count_loss(kLossContexts);
        return 0;
      }
      id = ++g_string_count;
      g_strings[id] = {mine, static_cast<uint32_t>(length)};
      const StringMeta meta = {id, static_cast<uint32_t>(length)};
      const Bytes parts[] = {{&meta, sizeof meta}, {mine, length}};
      write_meta(MetaKind::kString, parts, 2);
      __atomic_store_n(free.slot, id, __ATOMIC_RELEASE);
    }
  }
  if (ours) *ours = g_strings[id].text;
  return id;
}

uint32_t intern_context(uint32_t parent, ContextKind kind, uint32_t name, uint64_t site) {
  const uint64_t hash = mix(mix(mix(parent, static_cast<uint64_t>(kind)), name), site);
  const auto same = [&](uint32_t id) {
    const Context& c = g_contexts[id];
    return c.parent == parent && c.kind == static_cast<uint32_t>(kind) && c.name == name && c.site == site;
  };
  uint32_t id = probe(g_context_table, 2 * kMaxContexts, hash, same).id;
  if (id != 0) return id;
  const Lock lock;
  if (!lock) return parent;
  const Probed free = probe(g_context_table, 2 * kMaxContexts, hash, same);
  if (free.id != 0) return free.id;
  if (g_context_count + 1 >= kMaxContexts) {
    count_loss(kLossContexts);
    return parent;
  }
  id = ++g_context_count;
  g_contexts[id] = {parent, static_cast<uint32_t>(kind), name, site};
  const ContextMeta meta = {id, parent, static_cast<uint32_t>(kind), name, site};
  const Bytes parts[] = {{&meta, sizeof meta}};
  write_meta(MetaKind::kContext, parts, 1);
  __atomic_store_n(free.slot, id, __ATOMIC_RELEASE);
  return id;
}

ContextNode context_node(uint32_t context) {
  const Context& c = g_contexts[context < kMaxContexts ? context : 0];
  return {c.parent, c.kind, c.name};
}

}  // namespace internal

uint32_t intern_name(const char* text, size_t length) { return internal::intern_string(text, length, nullptr); }

uint32_t range_context(uint32_t outer, ContextKind kind, uint32_t name) {
  return internal::intern_context(outer, kind, name, 0);
}

RangePath range_path(uint32_t context) {
  RangePath path = {};
  bool named = false;
  while (context != 0) {
    const internal::ContextNode node = internal::context_node(context);
    const auto kind = static_cast<ContextKind>(node.kind);
    if (kind == ContextKind::kStep) path.step = true;
    if (kind == ContextKind::kPhase && path.phase == 0) path.phase = node.name;
    if (kind == ContextKind::kOperator && !named) path.layer = node.name;
    if (kind == ContextKind::kLayer && !named) {
      path.layer = node.name;
      named = true;
    }
    context = node.parent;
  }
  return path;
}

CallSlot* fill_call_slot(Thread* thread, CallSlot* slot, const void* site, uint32_t comm, uint32_t op, PayloadKey key,
                         uint64_t payload) {
  const uint32_t outer = thread->context;
  const uint32_t context = internal::intern_context(outer, ContextKind::kSite, 0, reinterpret_cast<uintptr_t>(site));
  ProfileEntry* entry = profile_entry(thread, context, comm, op, payload == kAskLater ? 0 : payload_bytes(payload));
  const bool own = entry->context == context && entry->comm == comm;
  // Without an entry of its own it asks every time: that is counted.
  *slot = {own ? caller_of(site, op) | (payload == kAskLater ? kAsksLater : 0) : 0,
           key,
           payload,
           comm,
           context,
           entry,
           outer,
           __atomic_load_n(&g_process.handles, __ATOMIC_RELAXED)};
  return slot;
}

}  // namespace ddl
